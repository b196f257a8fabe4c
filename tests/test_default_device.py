"""What lives on the host stays there under ``torch.set_default_device``.

A GPU is emulated: a CPU generator that is handed to a factory without a device is refused, as CUDA refuses it. Tensors
made on the meta device hold no numbers, so that a metric which makes one for its own use fails.
"""

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors

import hypersphere as hs

R = hs.regularizers


class Elsewhere(TorchFunctionMode):
    """As if another device were the default: factories that get a generator must say where."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in _device_constructors() and kwargs.get("generator") is not None and kwargs.get("device") is None:
            raise RuntimeError(f"{func.__name__} got a CPU generator and makes a tensor elsewhere")
        return func(*args, **kwargs)


def net():
    return nn.Sequential(nn.Linear(12, 9), nn.ReLU(), nn.Linear(9, 3))


def few_shot():
    labels = torch.arange(5).repeat_interleave(12)
    return hs.metrics.few_shot(torch.randn(60, 4), labels, ways=3, shots=2, queries=3, episodes=2)


DRAWS = {
    "MHE": lambda: R.MHE(net(), sample=3)(),
    "CoMHE": lambda: R.CoMHE(net(), dim=3)(),
    "groups": lambda: R.CoMHE(net(), projection="group", group=2, stochastic=True)(),
    "hadamard": lambda: R.CoMHE(net(), dim=3, matrix="hadamard")(),
    "count_sketch": lambda: R.CoMHE(net(), dim=3, matrix="count_sketch")(),
    "SRIP": lambda: R.SRIP(net())(),
    "Polarization": lambda: R.Polarization(net())(),
    "low_rank": lambda: R.low_rank(nn.Linear(12, 9), rank=2),
    "refine": lambda: hs.functional.refine(torch.randn(6, 3), steps=3),
    "energy": lambda: hs.energy(net()),
    "attach": lambda: hs.orthogonal.attach(net(), generator=torch.Generator()),
    "covering_radius": lambda: hs.metrics.covering_radius(torch.randn(6, 3), samples=10),
    "few_shot": few_shot,
    "make_pairs": lambda: hs.data.make_pairs(torch.arange(40) % 10, folds=2, each=8),
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_of_a_host_generator_say_where_they_are(name):
    with Elsewhere():
        DRAWS[name]()


SAME = torch.tensor([1, 0] * 10)
SCORES = torch.linspace(0, 1, 20)
FEATURES = torch.randn(20, 4, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(20) % 5
PIXELS = torch.zeros(2, 3, 4, 4, dtype=torch.uint8)
METRICS = {
    "verification": lambda: hs.metrics.verification(SCORES, SAME, folds=2).accuracy,
    "lists": lambda: hs.metrics.verification(SCORES.tolist(), SAME.tolist(), folds=2).roc.tar_at(0.1),
    "arrays": lambda: hs.metrics.verification(SCORES.numpy(), SAME.numpy(), folds=2).roc.tar_at([0.1, 0.2]),
    "retrieval": lambda: hs.metrics.retrieval(FEATURES, LABELS).map,
    "names": lambda: hs.metrics.retrieval(FEATURES, [f"n{i}" for i in LABELS.tolist()]).map,
    "identification": lambda: hs.metrics.identification(FEATURES, LABELS, FEATURES, LABELS).rank(1),
    "few_shot": lambda: hs.metrics.few_shot(FEATURES, LABELS, ways=2, shots=1, queries=2, episodes=2).accuracy,
    "symmetric": lambda: hs.data.normalize(PIXELS, "symmetric"),
    "unit": lambda: hs.data.normalize(PIXELS, "unit"),
    "standard": lambda: hs.data.normalize(PIXELS, "standard", mean=(0.5,), std=(0.5,)),
}


@pytest.mark.parametrize("name", METRICS)
def test_metrics_of_host_tensors_stay_on_the_host(name):
    expected = METRICS[name]()
    with torch.device("meta"):
        found = METRICS[name]()
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("method", ["cayley", "householder", "cholesky", "nonlinear"])
def test_attach_draws_beside_its_generator(method):
    model = net()
    with torch.device("meta"):
        hs.orthogonal.attach(model, method, generator=torch.Generator().manual_seed(0))
    assert {tensor.device.type for tensor in model.parameters()} == {"cpu"}


@pytest.mark.parametrize("build", [R.MHE, R.CoMHE, R.SRIP, R.Polarization, R.Orthonormal])
def test_regularizers_are_built_under_the_meta_device(build):
    options = {"dim": 3} if build is R.CoMHE else {}
    with torch.device("meta"):
        model = net()
        reg = build(model, **options)
    assert reg.seed == 0
    assert reg.steps == 0
