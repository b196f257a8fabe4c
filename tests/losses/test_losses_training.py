"""Training from scratch on real digits with two-dimensional features: thesis Figure 2.2, through the example."""

import importlib.util
from pathlib import Path

import pytest
import torch

pytest.importorskip("sklearn")
PATH = Path(__file__).parents[2] / "examples" / "margin_features.py"


@pytest.mark.slow
def test_l_softmax_converges_and_the_classes_move_apart_with_m():
    spec = importlib.util.spec_from_file_location("margin_features", PATH)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    images, labels = example.digits()
    found = []
    for margin in (1, 4):
        network, head = example.train(margin, steps=700)
        assert head.annealing.step.item() == 700
        assert head.annealing.lam.item() == pytest.approx(0.406, abs=0.01)
        with torch.no_grad():
            found.append(example.measure(network(images), labels, head))
    assert all(f["accuracy"] > 0.98 for f in found)
    between = [f["smallest_angle_between"] for f in found]
    widths = [f["width"] for f in found]
    assert between == sorted(between)
    assert between[-1] > between[0] + 2
    assert widths == sorted(widths, reverse=True)
