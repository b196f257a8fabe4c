"""The parts of the GPU benchmarks that need no GPU: powers of growth, turns, batched networks, what is printed."""

import copy
import importlib.util
from pathlib import Path

import pytest
import torch
from torch import nn

import hypersphere as hs
import programs

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
PROGRAM = """
import fcntl, json, sys, tempfile, threading
from pathlib import Path
import gpu, harness

assert harness.exponents([1, 10, 100], [2.0, 20.0, 2000.0]) == [1.0, 2.0]
folder = Path(tempfile.mkdtemp())
tempfile.tempdir = str(folder)
order = []
def measure():
    with harness.alone():
        order.append("alone")
with harness.preparing():
    with harness.preparing():  # several may prepare
        waiting = threading.Thread(target=measure)
        waiting.start()
        waiting.join(0.2)
        order.append("prepared")
waiting.join()
assert order == ["prepared", "alone"], order
(folder / "gpu_energy_cuda.json").write_text(json.dumps({"growth": {"N": [1, 2], "ms": [2.01]}}))
gpu.show_growth(folder)
assert set(gpu.PARTS) == {path.stem[4:] for path in Path(gpu.__file__).parent.glob("gpu_*.py")} - {"networks"}
assert not gpu.finished(["-c", "raise SystemExit(3)"], 60.0)
"""


def test_without_a_gpu():
    done = programs.run(["-c", PROGRAM], cwd=BENCHMARKS)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "time grows as N², memory as N" in done.stdout
    assert "[2.01]" in done.stdout


spec = importlib.util.spec_from_file_location("batched", BENCHMARKS / "batched.py")
batched = importlib.util.module_from_spec(spec)
spec.loader.exec_module(batched)

SEEDS, SIZE, IMAGE = 3, 12, (3, 16, 16)
SMALL = {"num_classes": 10, "widths": (2, 3, 4), "feature_dim": 5, "image_size": IMAGE[1:], "norm_eps": 1e-3}


def cnn9s(dtype, angular="sigmoid"):
    """Small CNN-9s of several seeds, whose running statistics differ."""
    made = []
    for seed in range(SEEDS):
        torch.manual_seed(seed)
        made.append(hs.models.create("cnn9", conv="sphere", angular=angular, **SMALL).to(dtype))
        made[-1](torch.randn(SIZE, *IMAGE, dtype=dtype))
    return made


def flat(tensors, count=None):
    """All numbers in a row; of a batched network in a row for each of its ``count`` networks."""
    return torch.cat([t.detach().reshape(*([] if count is None else [count]), -1) for t in tensors], -1)


def statistics(network):
    return [value for name, value in network.named_buffers() if "running" in name]


OPTIMIZERS = {
    "adam": lambda p: torch.optim.Adam(p, 1e-3, weight_decay=5e-4),
    "sgd": lambda p: torch.optim.SGD(p, 5e-4, momentum=0.9, nesterov=True, weight_decay=5e-4),
}


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-11), (torch.float32, 1e-3)])
@pytest.mark.parametrize(("optimizer", "angular"), [("adam", "sigmoid"), ("sgd", "sigmoid"), ("adam", "linear")])
def test_a_batched_network_trains_every_seed_as_it_trains_alone(optimizer, angular, dtype, tolerance):
    """Outputs, losses, gradients, weights and running statistics of each seed, in each of four steps."""

    def close(found, expected):
        expected = torch.stack([flat(one) for one in expected])
        assert bool(((flat(found, SEEDS) - expected).norm(dim=1) < tolerance * expected.norm(dim=1)).all())

    alone = cnn9s(dtype, angular)
    together = batched.Batched(alone)
    start = flat(together.parameters(), SEEDS)
    turns = [OPTIMIZERS[optimizer](network.parameters()) for network in (*alone, together)]
    for images, labels in batched.patterns(SEEDS, SIZE, 4, IMAGE):
        logits = together(batched.side_by_side(images.to(dtype)))
        losses = batched.losses(logits, labels)
        losses.sum().backward()
        expected = [network(x) for network, x in zip(alone, images.to(dtype), strict=True)]
        means = [nn.functional.cross_entropy(out, y) for out, y in zip(expected, labels, strict=True)]
        for loss in means:
            loss.backward()
        close([logits], [[out] for out in expected])
        close([losses], [[loss] for loss in means])
        close((p.grad for p in together.parameters()), [[p.grad for p in one.parameters()] for one in alone])
        for turn in turns:
            turn.step()
            turn.zero_grad()
        close(together.parameters(), [one.parameters() for one in alone])
        close(statistics(together), [statistics(one) for one in alone])
    assert float((flat(together.parameters(), SEEDS) - start).norm(dim=1).min()) > 0.01  # every seed has learned


def test_a_seed_of_a_batched_network_sees_no_other():
    together = batched.Batched(cnn9s(torch.float64))
    ((images, _),) = batched.patterns(SEEDS, SIZE, 1, IMAGE)
    before = together(batched.side_by_side(images.double()))
    images[1] *= -1
    after = together(batched.side_by_side(images.double()))
    assert torch.equal(before[0], after[0])
    assert torch.equal(before[2], after[2])
    assert not torch.allclose(before[1], after[1])


def test_what_the_benchmark_says_of_a_batched_network():
    """Rounding parts it from the networks alone about as far as a last bit does, and far less than seeds are apart."""
    networks = cnn9s(torch.float32)
    start = [copy.deepcopy(network.state_dict()) for network in networks]
    found = batched.agreement(networks, batched.patterns(SEEDS, SIZE, 12, IMAGE))
    assert found["steps"] == 12
    assert list(found["loss"]) == [1, 2, 4, 8]
    for name in ("", "last_bit_", "seeds_"):
        found |= {f"{name}loss": max(found[f"{name}loss"].values())}
    for what in ("loss", "weights"):
        assert found[what] < 100 * found[f"last_bit_{what}"]
        assert found[what] < 1e-3 * found[f"seeds_{what}"]
    for network, state in zip(networks, start, strict=True):
        assert all(torch.equal(value, state[name]) for name, value in network.state_dict().items())


def test_what_has_no_batched_form_is_refused():
    learned = hs.angular.Sigmoid(learnable=True)
    for options in ({"conv": "plain"}, {"conv": "sphere", "angular": learned}):
        with pytest.raises(TypeError, match=r"no batched form|fixed k"):
            batched.Batched([hs.models.create("cnn9", **SMALL, **options)] * 2)


def test_layers_that_cannot_be_joined_are_refused_and_strides_are_kept():
    strided = [hs.nn.SphereConv2d(3, 4, 3, stride=2, padding=1, padding_mode="reflect") for _ in range(2)]
    x = torch.randn(5, 6, 9, 9)
    each = torch.cat([conv(part) for conv, part in zip(strided, x.chunk(2, 1), strict=True)], 1)
    torch.testing.assert_close(batched._joined(strided, (3, 9, 9))(x), each)
    for options in ({"groups": 3}, {"affine": True}, {"bias": True}):
        with pytest.raises(TypeError, match="not joined here"):
            batched._joined([hs.nn.SphereConv2d(3, 6, 3, **options) for _ in range(2)], (3, 9, 9))
