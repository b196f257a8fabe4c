"""The losses of the authors' public code, against sums written out."""

import importlib.util
import math
from pathlib import Path

import pytest
import torch

spec = importlib.util.spec_from_file_location("released", Path(__file__).parents[2] / "tools" / "released.py")
released = importlib.util.module_from_spec(spec)
spec.loader.exec_module(released)


def written_out(logits, labels):
    total = 0.0
    for row, label in zip(logits.double().tolist(), labels.tolist(), strict=True):
        largest = max(row)
        weights = [math.exp(value - largest) for value in row]
        for j, weight in enumerate(weights):
            target = 0.99 * (j == label) + 0.01 / len(row)
            total -= target * math.log(weight / sum(weights) + 1e-4)
    return total / len(labels)


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


def test_the_floored_loss():
    features, labels = 3 * torch.randn(5, 8), torch.arange(5)
    head = released.Floored(8, 6)
    assert head(features, labels).item() == pytest.approx(written_out(features @ head.weight.T, labels), rel=1e-5)
    sure = torch.full((1, 6), -50.0).index_fill(1, torch.tensor([2]), 50.0).requires_grad_()
    loss = released.floored(sure, torch.tensor([1]))
    loss.backward()
    assert loss.item() == pytest.approx(-math.log(1e-4), rel=0.01)
    assert sure.grad.abs().max() < 1e-6  # sure and wrong: nothing is learned


@pytest.mark.parametrize("angular", ["linear", "cosine"])
@pytest.mark.parametrize("annealing", [None, "sphereface"])
def test_the_floored_loss_with_a_margin(angular, annealing):
    features, labels = torch.randn(5, 8), torch.arange(5)
    head = released.FlooredMargin(8, 6, 4, angular=angular, annealing=annealing)
    share = 1.0 if annealing is None else 1 / (1 + 1000.0)
    expected = written_out(margin_logits(features, head.weight, labels, 4, angular == "cosine", share), labels)
    assert head(features, labels).item() == pytest.approx(expected, rel=1e-4)
