"""Lengths, biases and perturbations: the points that are drawn are those of the definition."""

import math

import pytest
import torch

import hypersphere as hs
from sharing import Later

stats = Later("scipy.stats")


def test_lengths_of_class_vectors_stand_over_the_counts():
    weight = torch.tensor([[3.0, 4.0], [0.0, 1.0], [0.0, 2.0], [0.0, 2.0]])
    counts = [40, 10, 30, 20]
    figure = hs.plots.class_norms(weight, counts)
    (axes,) = figure.axes
    points = axes.collections[0].get_offsets().data
    assert points.tolist() == [[40.0, 5.0], [10.0, 1.0], [30.0, 2.0], [20.0, 2.0]]
    expected = stats.spearmanr(counts, [5, 1, 2, 2]).statistic
    assert axes.texts[0].get_text() == f"rank correlation {expected:+.2f}"
    assert hs.plots.class_norms(torch.ones(3, 2), [1, 2, 3]).axes[0].texts[0].get_text().endswith("+0.00")
    with pytest.raises(ValueError, match="counts has 2 numbers for 4 class vectors"):
        hs.plots.class_norms(weight, [1, 2])
    with pytest.raises(ValueError, match="counts holds -1"):
        hs.plots.class_norms(weight, [1, 2, 3, -1])


def test_biases_are_sorted_and_counted():
    left, right = hs.plots.class_biases([0.3, -0.2, 0.1], bins=4).axes
    assert left.lines[0].get_ydata().tolist() == pytest.approx([-0.2, 0.1, 0.3])
    assert sum(bar.get_height() for bar in right.patches) == 3


def test_perturbations_are_in_order_of_size_with_their_median():
    figure = hs.plots.perturbation_sizes({"a": [3.0, 1.0, 2.0], "b": torch.tensor([0.5])}, norm="ℓ∞ norm")
    (axes,) = figure.axes
    assert axes.lines[0].get_ydata().tolist() == [1.0, 2.0, 3.0]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a (median 2)", "b (median 0.5)"]
    assert "ℓ∞" in axes.get_ylabel()
    for wrong, message in (({}, "must map"), ({"a": [-1.0]}, "must not be negative"), ({"a": [math.nan]}, "NaN")):
        with pytest.raises(ValueError, match=message):
            hs.plots.perturbation_sizes(wrong)


def test_a_sphere_on_axes_of_yours_leaves_the_size_of_the_figure():
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.0))
    axes = figure.add_subplot(projection="3d")
    with pytest.raises(ValueError, match="in the plane"):
        hs.plots.class_biases([0.1, 0.2], ax=[axes, axes])
    hs.plots.features_3d(torch.randn(6, 3), torch.arange(6) % 2, ax=axes)
    assert figure.get_size_inches().tolist() == [9.0, 3.0]
