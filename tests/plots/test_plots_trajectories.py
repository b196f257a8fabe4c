"""Neurons that descend: the values against loops, the descent against its promises, and what is drawn of it."""

import itertools
import math

import numpy as np
import pytest
import torch

import hypersphere as hs
from hypersphere.plots import _style
from hypersphere.plots._trajectories import LONGEST, REGULARIZERS, descend, start


def value(kind, w, s=2.0, beta=None):
    """Written from the definitions, in loops."""
    n = len(w)
    if kind == "orthonormal":
        return sum((float(w[i] @ w[j]) - (i == j)) ** 2 for i in range(n) for j in range(n)) / (2 * n)
    points = [b * x for b, x in zip(beta if beta is not None else [1.0] * n, w, strict=True)]
    if kind == "half_space_mhe":
        points += [-x for x in points]
    pairs = itertools.permutations(range(len(points)), 2)
    return sum(float(np.linalg.norm(points[i] - points[j])) ** -s for i, j in pairs) / (2 * n)


@pytest.mark.parametrize("kind", REGULARIZERS)
@pytest.mark.parametrize("dim", [2, 3])
def test_the_value_falls_on_the_sphere_in_short_steps(kind, dim):
    found = descend(kind, start(5, dim, 1), steps=40)
    points = found.points.numpy()
    assert points.shape == (41, 5, dim)
    np.testing.assert_allclose(np.linalg.norm(points, axis=2), 1, atol=1e-12)
    for step in (0, 7, 40):
        assert float(found.values[step]) == pytest.approx(value(kind, points[step]), rel=1e-9)
    assert (found.values.diff() <= 0).all()
    assert found.values[-1] < found.values[0]
    assert np.linalg.norm(np.diff(points, axis=0), axis=2).max() <= LONGEST + 1e-9


def test_a_step_follows_the_gradient_of_the_loop():
    """The first step against central differences of the value along the sphere."""
    begin = start(4, 3, 0)
    moved = descend("mhe", begin, steps=1, lr=1e-4).points[1].numpy()
    w, gradient = begin.numpy(), np.zeros((4, 3))
    for i, d in itertools.product(range(4), range(3)):
        ends = []
        for sign in (1, -1):
            shifted = w.copy()
            shifted[i, d] += sign * 1e-6
            ends.append(value("mhe", shifted / np.linalg.norm(shifted, axis=1, keepdims=True)))
        gradient[i, d] = (ends[0] - ends[1]) / 2e-6
    expected = w - 1e-4 * gradient
    np.testing.assert_allclose(moved, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-8)


def test_known_minima_are_found():
    """Four neurons become a tetrahedron under MHE, three a frame under the other two."""
    end = descend("mhe", start(4, 3, 0), steps=80).points[-1]
    np.testing.assert_allclose((end @ end.T).numpy(), np.full((4, 4), -1 / 3) + np.eye(4) * 4 / 3, atol=1e-3)
    for kind in ("half_space_mhe", "orthonormal"):
        end = descend(kind, start(3, 3, 0), steps=120).points[-1]
        np.testing.assert_allclose((end @ end.T).numpy(), np.eye(3), atol=1e-3)


def test_weights_hold_neurons_in_place_as_in_figure_d1():
    ways = []
    for beta in (1.0, 2.0, 10.0):
        weights = torch.ones(10, dtype=torch.float64)
        weights[0] = beta
        found = descend("mhe", start(10, 3, 0), steps=60, weights=weights)
        assert float(found.values[0]) == pytest.approx(value("mhe", found.points[0].numpy(), beta=weights.tolist()))
        ways.append(float(found.points[:, 0].diff(dim=0).norm(dim=1).sum()))
    assert ways[0] > ways[1] > ways[2]


def scatters(axes):
    return {c.get_label(): c for c in axes.collections if not c.get_label().startswith("_")}


def offsets(scatter):
    return np.array(scatter._offsets3d).T if hasattr(scatter, "_offsets3d") else np.asarray(scatter.get_offsets())


def test_panels_hold_starts_ways_and_ends():
    figure = hs.plots.neuron_trajectories(neurons=4, steps=12, seed=2)
    assert len(figure.axes) == 3
    begin = start(4, 3, 2)
    for axes, kind in zip(figure.axes, REGULARIZERS, strict=True):
        found = descend(kind, begin, steps=12)
        drawn = scatters(axes)
        np.testing.assert_allclose(offsets(drawn["start"]), begin.numpy())
        np.testing.assert_allclose(offsets(drawn["neurons ŵ"]), found.points[-1].numpy())
        ways = [np.array(line.get_data_3d()).T for line in axes.lines if line.get_label() == "_way"]
        front, behind = ways[0], ways[1]  # of the first neuron; NaN where the other part is
        np.testing.assert_allclose(np.where(np.isnan(front), behind, front), found.points[:, 0].numpy())
        end = found.points[-1].numpy()
        cosines = end @ end.T
        pairs = cosines[~np.eye(4, dtype=bool)]
        closest = np.abs(pairs).max() if kind == "half_space_mhe" else pairs.max()
        assert f"smallest angle {math.degrees(math.acos(closest)):.1f}°" in axes.get_title()
        assert ("virtual neurons −ŵ" in drawn) == (kind == "half_space_mhe")
        if "virtual neurons −ŵ" in drawn:
            np.testing.assert_allclose(offsets(drawn["virtual neurons −ŵ"]), -end)
    (legend,) = figure.legends
    assert [t.get_text() for t in legend.get_texts()] == ["start", "neurons ŵ", "virtual neurons −ŵ"]
    assert [axes.get_title().split("\n")[0] for axes in figure.axes] == ["orthonormal", "MHE", "half-space MHE"]


def test_the_circle():
    figure = hs.plots.neuron_trajectories(("mhe",), neurons=3, dim=2, steps=150)
    (axes,) = figure.axes
    ends = offsets(scatters(axes)["neurons ŵ"])
    np.testing.assert_allclose(ends @ ends.T, np.full((3, 3), -0.5) + 1.5 * np.eye(3), atol=1e-3)
    assert axes.get_aspect() == 1.0
    assert len(figure.legends[0].get_texts()) == 2


def test_weighted_panels():
    figure = hs.plots.weighted_neuron_trajectories((1.0, 4.0), weighted=2, neurons=5, steps=10, seed=1)
    assert len(figure.axes) == 2
    for axes, beta in zip(figure.axes, (1.0, 4.0), strict=True):
        weights = torch.tensor([beta, beta, 1, 1, 1], dtype=torch.float64)
        found = descend("mhe", start(5, 3, 1), steps=10, weights=weights)
        drawn = scatters(axes)
        np.testing.assert_allclose(offsets(drawn["w₁, weight β"])[0], found.points[-1, 0].numpy())
        np.testing.assert_allclose(offsets(drawn["w₂, weight β"])[0], found.points[-1, 1].numpy())
        np.testing.assert_allclose(offsets(drawn["neurons of weight 1"]), found.points[-1, 2:].numpy())
        radii = [np.array(line.get_data_3d()).T[1] for line in axes.lines if line.get_label() == "_radius"]
        np.testing.assert_allclose(radii, found.points[-1, :2].numpy())
        chords = found.points[:, 0].diff(dim=0).norm(dim=1).numpy()
        assert f"way of w₁ {np.degrees(2 * np.arcsin(chords / 2).sum()):.0f}°" in axes.get_title()
    assert [h.get_markerfacecolor() for h in figure.legends[0].get_lines()] == [
        _style.PALETTE[0], _style.PALETTE[2], _style.PALETTE[1],
    ]  # fmt: skip


def test_the_same_seed_gives_the_same_picture():
    first, second = (hs.plots.neuron_trajectories(("mhe",), neurons=4, steps=3, seed=7) for _ in range(2))
    other = hs.plots.neuron_trajectories(("mhe",), neurons=4, steps=3, seed=8)
    ends = [offsets(scatters(f.axes[0])["neurons ŵ"]) for f in (first, second, other)]
    np.testing.assert_array_equal(ends[0], ends[1])
    assert (ends[0] != ends[2]).any()


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: hs.plots.neuron_trajectories(()), "must be a list of one or more"),
        (lambda: hs.plots.neuron_trajectories("mhe"), "must be a list"),
        (lambda: hs.plots.neuron_trajectories(("thompson",)), "regularizer='thompson'"),
        (lambda: hs.plots.neuron_trajectories(dim=4), "dim=4 cannot be drawn"),
        (lambda: hs.plots.neuron_trajectories(neurons=1), "neurons=1"),
        (lambda: hs.plots.neuron_trajectories(steps=0), "steps=0"),
        (lambda: hs.plots.neuron_trajectories(lr=-1.0), "lr=-1.0"),
        (lambda: hs.plots.weighted_neuron_trajectories(()), "betas is empty"),
        (lambda: hs.plots.weighted_neuron_trajectories((0.0,)), "betas=0.0"),
        (lambda: hs.plots.weighted_neuron_trajectories(weighted=4), "weighted=4"),
        (lambda: descend("orthonormal", start(3, 3, 0), weights=torch.ones(3)), "the orthonormal penalty has none"),
    ],
)
def test_bad_input(call, match):
    with pytest.raises(ValueError, match=match):
        call()
