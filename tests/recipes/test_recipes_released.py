"""The authors' public code: its losses against sums written out, and what its recipes change in those of the text."""

import importlib.util
import math
from pathlib import Path

import pytest
import torch

import hypersphere as hs
from hypersphere import recipes
from hypersphere.config import changed
from hypersphere.losses.floored import FlooredSoftmax, floored

spec = importlib.util.spec_from_file_location("released", Path(__file__).parents[2] / "tools" / "released.py")
released = importlib.util.module_from_spec(spec)
spec.loader.exec_module(released)

CODE = {
    "data.normalize": "symmetric",
    "data.pad_mode": "symmetric",
    "loss.name": "floored_softmax",
    "model.extra": {"fc_norm": False, "bias": False, "norm_momentum": 0.001},
    "model.norm_eps": 1e-3,
    "optim.decay": "all",
}
LONG = {"schedule.steps": 75_000, "schedule.milestones": (30_000, 50_000, 65_000)}


@pytest.mark.parametrize(
    ("name", "text", "besides"),
    [
        ("released.mhe.baseline", "thesis.table5.1.baseline.cifar100", {"optim.weight_decay": 5e-4}),
        (
            "released.mhe.half-mhe",
            "thesis.table5.1.half-mhe.s2.cifar100",
            {"optim.weight_decay": 5e-4, "regularizer.output": 10.0},
        ),
        (
            "released.comhe.rp-comhe",
            "thesis.table6.2.rp-comhe.dim40",
            {"optim.weight_decay": 5e-4, "regularizer.output": 10.0, "regularizer.refresh": 1, **LONG},
        ),
        ("released.opt.gs", "thesis.table7.4.gs.cnn6", LONG),
        ("released.opt.cp", "thesis.table7.4.cp.cnn6", {**LONG, "orthogonal.init": "literal"}),
    ],
)
def test_recipes_of_the_public_code_change_this_alone(name, text, besides):
    (one, first), (other, second) = recipes.find(name), recipes.find(text)
    found = changed(recipes.get(text), recipes.get(name))
    assert {key: after for key, (_, after) in found.items() if key != "recipe"} == {**CODE, **besides}
    assert one.cells[first].published == other.cells[second].published


def written_out(logits, labels):
    losses = []
    for row, label in zip(logits.double().tolist(), labels.tolist(), strict=True):
        largest = max(row)
        weights = [math.exp(value - largest) for value in row]
        targets = [0.99 * (j == label) + 0.01 / len(row) for j in range(len(row))]
        losses.append(-sum(t * math.log(w / sum(weights) + 1e-4) for t, w in zip(targets, weights, strict=True)))
    return losses


def margin_logits(features, weight, labels, margin, cosine, share):
    rows = []
    for x, label in zip(features.double(), labels.tolist(), strict=True):
        row = []
        for j, w in enumerate(weight.detach().double()):
            theta = math.acos(float(x @ w / (x.norm() * w.norm())))
            plain = math.cos(theta) if cosine else 1 - 2 * theta / math.pi
            fold = math.floor(margin * theta / math.pi)
            own = (-1) ** fold * math.cos(margin * theta) - 2 * fold if cosine else 1 - 2 * margin * theta / math.pi
            row.append(float(x.norm()) * (plain + share * (own - plain) if j == label else plain))
        rows.append(row)
    return torch.tensor(rows)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_the_floored_loss(dtype):
    features, labels = (3 * torch.randn(5, 8)).to(dtype), torch.tensor([0, 1, 2, 3, -100])
    head = FlooredSoftmax(8, 6)
    expected = written_out(features.double()[:4] @ head.weight.double().T, labels[:4])
    assert head(features, labels).item() == pytest.approx(sum(expected) / 4, rel=1e-5)
    each = FlooredSoftmax(8, 6, reduction="none")
    each.load_state_dict(head.state_dict())
    assert each(features, labels).tolist() == pytest.approx([*expected, 0.0], rel=1e-5)
    with torch.autocast("cpu", torch.bfloat16):  # as without
        assert head(features, labels).item() == pytest.approx(sum(expected) / 4, rel=1e-5)
    with pytest.raises(ValueError, match="the batch is empty"):
        head(features[:0], labels[:0])


def test_gradients_of_the_floored_loss():
    logits = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: floored(z, torch.arange(4)), logits)
    sure = torch.full((1, 6), -50.0).index_fill(1, torch.tensor([2]), 50.0).requires_grad_()
    loss = floored(sure, torch.tensor([1])).sum()
    loss.backward()
    assert loss.item() == pytest.approx(-math.log(1e-4), rel=0.01)
    assert sure.grad.abs().max() < 1e-6  # sure and wrong: nothing is learned


def test_the_floored_loss_is_not_split_over_processes():
    with pytest.raises(TypeError, match="FlooredSoftmax needs the logits of all classes at once: it cannot be split"):
        hs.losses.shard(FlooredSoftmax(4, 5), None)


@pytest.mark.parametrize("angular", ["linear", "cosine"])
@pytest.mark.parametrize("annealing", [None, "sphereface"])
def test_the_floored_loss_with_a_margin(angular, annealing):
    features, labels = torch.randn(5, 8), torch.arange(5)
    head = released.FlooredMargin(8, 6, 4, angular=angular, annealing=annealing)
    share = 1.0 if annealing is None else 1 / (1 + 1000.0)
    expected = written_out(margin_logits(features, head.weight, labels, 4, angular == "cosine", share), labels)
    assert head(features, labels).item() == pytest.approx(sum(expected) / 5, rel=1e-4)
