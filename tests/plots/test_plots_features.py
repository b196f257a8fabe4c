"""Features and angles: what is drawn where, checked against plain NumPy."""

import math

import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgba

import hypersphere as hs
from hypersphere.plots import _style
from hypersphere.plots._sphere import BEHIND


def scatters(axes):
    return {c.get_label(): c for c in axes.collections if not c.get_label().startswith("_")}


def legend_texts(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_features_2d_holds_each_class_with_its_colour_and_marker(dtype):
    x, y = torch.randn(30, 2).to(dtype), torch.arange(30) % 3
    figure = hs.plots.features_2d(x, y, classes=["cat", "dog", "owl"])
    (axes,) = figure.axes
    found = scatters(axes)
    assert list(found) == ["cat", "dog", "owl"] == legend_texts(axes)
    for index, scatter in enumerate(found.values()):
        np.testing.assert_array_equal(np.asarray(scatter.get_offsets()), x[y == index].double().numpy())
        assert to_rgba(scatter.get_facecolor()[0], 1) == to_rgba(_style.PALETTE[index])
    shapes = {tuple(map(tuple, scatter.get_paths()[0].vertices.round(3))) for scatter in found.values()}
    assert len(shapes) == 3
    assert axes.get_aspect() == 1.0
    assert axes.get_xlabel()
    assert axes.get_ylabel()


def test_features_2d_accepts_arrays_lists_and_gradients():
    x, y = np.random.default_rng(0).normal(size=(9, 2)), [0, 1, 2] * 3
    first = scatters(hs.plots.features_2d(x, y).axes[0])["1"].get_offsets()
    second = scatters(hs.plots.features_2d(torch.tensor(x, requires_grad=True), torch.tensor(y)).axes[0])["1"]
    np.testing.assert_array_equal(first, second.get_offsets())


def test_features_2d_draws_class_vectors_as_rays_of_one_length():
    x, y = torch.randn(200, 2) * 3, torch.arange(200) % 4
    vectors = torch.tensor([[2.0, 0.0], [0.0, 5.0], [-1e-3, 0.0], [1.0, -1.0]])
    (axes,) = hs.plots.features_2d(x, y, vectors).axes
    rays = [line for line in axes.lines if line.get_label().startswith("_vector")]
    length = np.quantile(np.linalg.norm(x.double().numpy(), axis=1), 0.98)
    for ray, vector in zip(rays, vectors.double().numpy(), strict=True):
        ends = np.array(ray.get_data()).T
        np.testing.assert_array_equal(ends[0], [0, 0])
        np.testing.assert_allclose(ends[1], vector / np.linalg.norm(vector) * length, rtol=1e-6)
    assert [text.get_text() for text in axes.texts] == ["0", "1", "2", "3"]


def test_more_than_eight_classes_have_colours_of_their_own():
    x, y = torch.randn(40, 2), torch.arange(40) % 10
    found = list(scatters(hs.plots.features_2d(x, y).axes[0]).values())
    assert [to_rgba(s.get_facecolor()[0], 1) for s in found] == [to_rgba(c) for c in _style.colours(10)]


def test_absent_classes_have_no_entry_but_keep_the_colours_of_the_others():
    (axes,) = hs.plots.features_2d(torch.randn(6, 2), [0, 0, 0, 2, 2, 2]).axes
    assert legend_texts(axes) == ["0", "2"]
    assert to_rgba(scatters(axes)["2"].get_facecolor()[0], 1) == to_rgba(_style.PALETTE[2])


def test_one_class_is_drawn():
    assert legend_texts(hs.plots.features_2d(torch.randn(5, 2), [0] * 5).axes[0]) == ["0"]


def test_features_3d_lie_on_the_sphere_and_fade_behind_it():
    x, y = torch.randn(50, 3) * 7, torch.arange(50) % 2
    view = (30.0, 60.0)
    (axes,) = hs.plots.features_3d(x, y, torch.randn(2, 3), view=view).axes
    towards = np.array(
        [math.cos(math.radians(30)) * math.cos(math.radians(60)),
         math.cos(math.radians(30)) * math.sin(math.radians(60)), math.sin(math.radians(30))]
    )  # fmt: skip
    for index, scatter in enumerate(scatters(axes).values()):
        own = x[y == index].double().numpy()
        own /= np.linalg.norm(own, axis=1, keepdims=True)
        np.testing.assert_allclose(np.array(scatter._offsets3d).T, own, atol=1e-7)
        front = own @ towards >= 0
        faces = np.array(scatter._facecolors if hasattr(scatter, "_facecolors") else scatter.get_facecolor())
        np.testing.assert_allclose(faces[:, 3], np.where(front, 0.8, 0.8 * BEHIND), atol=1e-6)
        assert 0 < front.sum() < len(front)
    assert axes.elev == 30.0
    assert axes.azim == 60.0
    assert list(axes.get_box_aspect() / axes.get_box_aspect()[0]) == [1, 1, 1]
    rays = [line for line in axes.lines if line.get_label() == "_vector"]
    assert len(rays) == 2
    for ray in rays:
        ends = np.array(ray.get_data_3d()).T
        assert np.linalg.norm(ends[0]) == 0
        assert np.linalg.norm(ends[1]) == pytest.approx(1, abs=1e-6)


def test_a_zero_feature_has_no_direction_and_lies_at_the_centre():
    x = torch.tensor([[0.0, 0.0, 0.0], [0.0, 0.0, 2.0]])
    (axes,) = hs.plots.features_3d(x, [0, 0]).axes
    np.testing.assert_array_equal(np.array(scatters(axes)["0"]._offsets3d).T, [[0, 0, 0], [0, 0, 1]])


def outlines(axes):
    return [p for p in axes.patches if not p.get_label().startswith("_")]


def reference_angles(x, y):
    """Every pair, in a loop."""
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    positive, negative = [], []
    for i in range(len(x)):
        for j in range(i):
            angle = math.degrees(math.acos(max(-1.0, min(1.0, float(unit[i] @ unit[j])))))
            (positive if y[i] == y[j] else negative).append(angle)
    return positive, negative


@pytest.mark.parametrize("limit", [None, 10_000])
def test_angle_distributions_of_all_pairs(limit, monkeypatch):
    monkeypatch.setattr("hypersphere.plots.angles._ROWS", 16)  # several blocks
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(60, 5)), rng.integers(0, 4, 60) * 3  # class numbers need not be consecutive
    figure = hs.plots.angle_distributions(torch.tensor(x), torch.tensor(y), bins=36, max_pairs=limit)
    (axes,) = figure.axes
    for stairs, angles in zip(outlines(axes), reference_angles(x, y), strict=True):
        density, edges = np.histogram(angles, bins=36, range=(0, 180), density=True)
        np.testing.assert_allclose(stairs.get_data().values, density, atol=1e-12)
        np.testing.assert_allclose(stairs.get_data().edges, edges)
        assert f"mean {np.mean(angles):.1f}°" in stairs.get_label()
        assert "sampled" not in stairs.get_label()
    means = [line.get_xdata()[0] for line in axes.lines if line.get_label() == "_mean"]
    np.testing.assert_allclose(means, [np.mean(a) for a in reference_angles(x, y)])
    colours = [to_rgba(stairs.get_edgecolor()) for stairs in outlines(axes)]
    assert colours == [to_rgba(_style.PALETTE[0]), to_rgba(_style.PALETTE[1])]
    assert "degrees" in axes.get_xlabel()


def test_single_precision_gives_the_same_picture_and_copies_have_angle_zero():
    x, y = torch.randn(40, 64), torch.arange(40) % 2
    x[2] = x[0]
    x[1] = -x[0]
    single, double = (outlines(hs.plots.angle_distributions(z, y, bins=18).axes[0]) for z in (x, x.double()))
    for one, other in zip(single, double, strict=True):
        np.testing.assert_allclose(one.get_data().values, other.get_data().values, atol=1e-3)
    pairs = (20 * 19, 20 * 20)
    assert single[0].get_data().values[0] * 10 * pairs[0] == pytest.approx(1)  # the copy, at 0°
    assert single[1].get_data().values[-1] * 10 * pairs[1] == pytest.approx(2)  # the opposites, at 180°


def test_angle_distributions_of_sampled_pairs_are_close_and_depend_on_the_seed_alone():
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(150, 3)), np.repeat([0, 1, 2], [100, 45, 5])
    exact = reference_angles(x, y)

    def draw(seed):
        return outlines(hs.plots.angle_distributions(x, y, bins=12, max_pairs=2000, seed=seed).axes[0])

    first, again, other = draw(0), draw(0), draw(1)
    for stairs, same, different, angles in zip(first, again, other, exact, strict=True):
        np.testing.assert_array_equal(stairs.get_data().values, same.get_data().values)
        assert (stairs.get_data().values != different.get_data().values).any()
        density, _ = np.histogram(angles, bins=12, range=(0, 180), density=True)
        share = density * 15  # of each bin
        error = np.sqrt(share * (1 - share) / 2000) / 15
        assert (np.abs(stairs.get_data().values - density) <= 5 * error + 1e-12).all()
        assert "2,000 sampled" in stairs.get_label()


def test_sampled_pairs_are_of_the_right_kind_and_every_pair_can_come():
    from hypersphere.plots.angles import _negative_pairs, _positive_pairs

    y = torch.tensor([0, 1, 0, 2, 1, 0])
    sizes = torch.tensor([3, 2, 1])
    for draw, wanted in ((_positive_pairs, True), (_negative_pairs, False)):
        i, j = draw(y, sizes, 6000, torch.Generator().manual_seed(0))
        assert (i != j).all()
        assert ((y[i] == y[j]) == wanted).all()
        pairs = {(a, b) for a in range(6) for b in range(6) if a != b and (y[a] == y[b]) == wanted}
        counts = dict.fromkeys(pairs, 0)
        for pair in zip(i.tolist(), j.tolist(), strict=True):
            counts[pair] += 1
        expected = 6000 / len(pairs)
        assert all(abs(count - expected) < 5 * math.sqrt(expected) for count in counts.values())


def test_angle_distributions_of_scores():
    scores = torch.tensor([1.0, 0.25, -0.125, -0.625, -1.0], dtype=torch.bfloat16)
    same = torch.tensor([True, True, False, False, False])
    positive, negative = outlines(hs.plots.angle_distributions(scores=scores, same=same, bins=6).axes[0])
    np.testing.assert_allclose(positive.get_data().values * 30 * 2, [1, 0, 1, 0, 0, 0])  # 0° and 76°
    np.testing.assert_allclose(negative.get_data().values * 30 * 3, [0, 0, 0, 1, 1, 1])  # 97°, 129° and 180°


X, Y = torch.randn(6, 2), torch.tensor([0, 1, 0, 1, 0, 1])


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: hs.plots.features_2d(torch.empty(0, 2), []), "features is empty"),
        (lambda: hs.plots.features_2d(X * math.nan, Y), "12 NaN or infinite values"),
        (lambda: hs.plots.features_2d(torch.randn(6, 3), Y), "3 dimensions: features_2d draws 2"),
        (lambda: hs.plots.features_3d(X, Y), "features_3d draws 3"),
        (lambda: hs.plots.features_2d(X, Y[:5]), "labels has shape \\(5,\\): pass 6"),
        (lambda: hs.plots.features_2d(X, Y - 1), "holds -1"),
        (lambda: hs.plots.features_2d(X, Y, torch.randn(1, 2)), "class_vectors has shape \\(1, 2\\)"),
        (lambda: hs.plots.features_2d(X, Y, torch.randn(2, 2) / 0), "class_vectors holds 4 NaN"),
        (lambda: hs.plots.features_2d(X, Y, classes=["one"]), "classes names 1"),
        (lambda: hs.plots.angle_distributions(X, torch.zeros(6).long()), "all samples are of one class"),
        (lambda: hs.plots.angle_distributions(X, torch.arange(6)), "no class has two samples"),
        (lambda: hs.plots.angle_distributions(X / 0, Y), "NaN or infinite"),
        (lambda: hs.plots.angle_distributions(X), "exactly one of the two ways"),
        (lambda: hs.plots.angle_distributions(X, Y, scores=X[:, 0], same=Y), "exactly one"),
        (lambda: hs.plots.angle_distributions(scores=[2.0, 0.0], same=[True, False]), "must be cosines"),
        (lambda: hs.plots.angle_distributions(scores=[0.5, 0.0], same=[True, True]), "one kind only"),
        (lambda: hs.plots.angle_distributions(scores=[0.5, 0.0], same=[0.1, 0.9]), "pass 2 booleans"),
        (lambda: hs.plots.angle_distributions(X, Y, max_pairs=0), "max_pairs"),
    ],
)
def test_bad_input(call, match):
    with pytest.raises(ValueError, match=match):
        call()


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: hs.plots.features_2d(X, Y.double()), "integer class indices"),
        (lambda: hs.plots.features_2d("abc", Y), "features is not a tensor"),
        (lambda: hs.plots.features_2d(X.to(torch.complex64), Y), "complex"),
    ],
)
def test_wrong_types(call, match):
    with pytest.raises(TypeError, match=match):
        call()
