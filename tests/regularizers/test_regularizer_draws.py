"""Draws and counters that live in tensors: regularizers compile once, and draw without the host."""

import copy
import itertools

import pytest
import torch
from test_regularizer_comhe import build, network
from torch import nn

from hypersphere.regularizers import MHE, SRIP, CoMHE, Orthonormal, Polarization
from hypersphere.regularizers._draws import DeviceDraws, key_of

MAKERS = {
    "MHE": MHE,
    "MHE, sampled": lambda model: MHE(model, sample=4),
    "MHE, weighted": lambda model: MHE(model, sample=4, weights={next(iter(MHE(model).layers())): torch.ones(8)}),
    "SRIP": SRIP,
    "Orthonormal": Orthonormal,
    "Polarization": Polarization,
    "CoMHE": lambda model: build(model, refresh=2),
    "CoMHE, max": lambda model: build(model, aggregate="max"),
    "CoMHE, count sketch": lambda model: build(model, matrix="count_sketch", refresh=2),
    "CoMHE, groups": lambda model: build(model, projection="group", stochastic=True, refresh=2),
    "CoMHE, learned": lambda model: build(model, projection="angle_preserving", inner_every=2, refresh=2),
    "CoMHE, adversarial": lambda model: build(model, projection="adversarial"),
    "CoMHE, bilateral": lambda model: build(model, projection="bilateral"),
}


def draws(seed=3, purpose="a", index=5):
    return DeviceDraws(key_of(torch.tensor(seed), purpose, torch.tensor(index)))


def test_normal_numbers():
    x = draws().normal(500, 400)
    assert abs(x.mean().item()) < 0.01
    assert abs(x.std().item() - 1) < 0.01
    assert abs((x**4).mean().item() - 3) < 0.05
    assert x.abs().max() < 7
    assert torch.isfinite(x).all()
    rows = torch.corrcoef(torch.stack([draws(index=i).normal(2000) for i in range(20)])).fill_diagonal_(0)
    assert rows.abs().max() < 0.12
    fourier = torch.fft.rfft(x.flatten()).abs().square()[1:]
    assert fourier.max() < 25 * fourier.mean()  # no period


def test_permutations_and_integers_are_uniform():
    source = draws()
    first, second = source.permutations([50, 70])
    assert torch.equal(first.sort().values, torch.arange(50))
    assert torch.equal(second.sort().values, torch.arange(70))
    assert not torch.equal(source.permutation(50), first)
    counts = source.integers(5, 5000).bincount(minlength=5)
    assert len(counts) == 5
    assert (counts > 850).all()


def test_draws_depend_on_seed_purpose_and_index_alone():
    first = draws().normal(9)
    torch.manual_seed(1)
    assert torch.equal(draws().normal(9), first)
    for change in ({"seed": 4}, {"seed": 3 + 2**32}, {"purpose": "b"}, {"index": 6}):
        assert not torch.isclose(draws(**change).normal(9), first).any()


@pytest.fixture
def without_host(monkeypatch):
    """As on a GPU, where the count cannot be read."""
    for kind in (MHE, SRIP, CoMHE, Orthonormal, Polarization):
        monkeypatch.setattr(kind, "_on_host", lambda self: False)


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.usefixtures("without_host")
def test_resumes_exactly_without_the_host(name):
    model = network()
    first = MAKERS[name](model)
    kept = [buffer for _, buffer in first.named_buffers()]
    values = []
    for _ in range(6):
        value = first() + 0
        value.backward()
        values.append(value.item())
    assert all(old is new for old, (_, new) in zip(kept, first.named_buffers(), strict=True))  # a graph would see them
    second = MAKERS[name](model)
    for _ in range(3):
        second()
    third = MAKERS[name](model)
    third.load_state_dict(second.state_dict())
    assert [third().item() for _ in range(3)] == values[3:]
    assert third.steps == 6


@pytest.mark.usefixtures("without_host")
def test_redraws_when_due_and_two_calls_before_one_backward():
    model = network()
    reg = build(model, refresh=3)
    seen = []
    for _ in range(7):
        reg()
        seen.append(reg.basis_72.clone())
    same = [torch.equal(a, b) for a, b in itertools.pairwise(seen)]
    assert same == [True, True, False, True, True, False]
    assert seen[-1].std().item() == pytest.approx(5**-0.5, rel=0.1)
    (reg() + reg() + reg() + reg()).backward()


class Counted(nn.Module):
    def forward(self, weight):
        self.times = getattr(self, "times", 0) + 1
        return weight


@pytest.mark.parametrize("host", [True, False])
@pytest.mark.parametrize("name", MAKERS)
def test_a_call_computes_parametrized_weights_once(name, host, monkeypatch):
    model = network()
    counted = [layer for layer in model if hasattr(layer, "weight")]
    for layer in counted:
        nn.utils.parametrize.register_parametrization(layer, "weight", Counted())
    reg = MAKERS[name](model)
    monkeypatch.setattr(type(reg), "_on_host", lambda self: host)
    reg()
    reg()
    for layer in counted:
        layer.parametrizations.weight[0].times = 0
    reg().backward()  # at the third call bases are drawn again
    assert max(layer.parametrizations.weight[0].times for layer in counted) == 1


@pytest.mark.parametrize("name", MAKERS)
def test_a_model_from_the_meta_device(name):
    """Its weights come later; what the regularizer draws does not wait for them."""

    def model(device):
        return nn.Sequential(nn.Conv2d(2, 8, 3), nn.Conv2d(8, 6, 3)).to(device)

    built = model("meta")
    reg = MAKERS[name](built)
    assert reg.eval()().is_meta
    built.to_empty(device="cpu").load_state_dict((twin := model("cpu")).state_dict())
    torch.testing.assert_close(reg.train()(), MAKERS[name](twin)())


@pytest.mark.parametrize("name", MAKERS)
def test_a_training_call_on_the_meta_device_keeps_what_was_drawn(name):
    """As an estimate of memory makes it, before the weights are there."""
    model = nn.Sequential(nn.Conv2d(2, 8, 3), nn.Conv2d(8, 6, 3))
    built = copy.deepcopy(model).to("meta")
    reg = MAKERS[name](built)
    drawn = {key: buffer.clone() for key, buffer in reg.named_buffers() if key != "_counter"}
    assert reg().is_meta
    assert all(torch.equal(reg.get_buffer(key), buffer) for key, buffer in drawn.items())
    built.to_empty(device="cpu").load_state_dict(model.state_dict())
    assert reg().isfinite()


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKERS)
def test_a_call_compiles_once(name):
    """Traced once; two of them also through the tracing of their gradients, which takes longest."""
    backend = "aot_eager" if name in ("MHE, sampled", "CoMHE") else "eager"
    layers = [nn.Conv2d(2, 8, 3), nn.Conv2d(8, 6, 3)]
    torch.manual_seed(0)
    model = nn.Sequential(*layers[: 2 if name in ("MHE, sampled", "CoMHE, groups") else 1])
    reg = MAKERS[name](model)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(lambda: reg() * 2, backend=backend, fullgraph=True)
    for _ in range(4):
        compiled().backward()
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    assert reg.steps == 4
    weights = [p for p in model.parameters() if p.dim() > 1]
    assert all(torch.isfinite(p.grad).all() for p in weights)
