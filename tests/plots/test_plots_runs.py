"""Learning and energy curves: means and bands over seeds, from every form a run may have."""

import json

import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgba

import hypersphere as hs
from hypersphere.plots import _style

STEPS = [10, 20, 30]
SEEDS = np.array([[20.0, 50.0, 80.0], [40.0, 50.0, 60.0], [30.0, 20.0, 70.0]])


def logs():
    """Three logs in which lines of loss and of accuracy alternate, as training writes them."""
    return [
        [line for step, value in zip(STEPS, seed, strict=True) for line in _lines(step, float(value))] for seed in SEEDS
    ]


def _lines(step, value):
    return {"step": step, "loss": 101 - value, "lr": 0.1}, {"step": step, "accuracy": value, "test_loss": 2 - value}


def band(axes):
    """Lower and upper end by step, from the polygon that is drawn."""
    (polygon,) = [c for c in axes.collections if c.get_label().endswith("band")]
    points = polygon.get_paths()[0].vertices
    steps = sorted(set(points[:, 0]))
    return np.array([[points[points[:, 0] == s, 1].min(), points[points[:, 0] == s, 1].max()] for s in steps])


@pytest.mark.parametrize("kind", ["range", "std"])
def test_mean_and_band_over_seeds(kind):
    figure = hs.plots.learning_curves({"net": logs()}, band=kind)
    (axes,) = figure.axes
    (line,) = axes.lines
    np.testing.assert_array_equal(line.get_xdata(), STEPS)
    np.testing.assert_allclose(line.get_ydata(), SEEDS.mean(0))
    mean, std = SEEDS.mean(0), SEEDS.std(0, ddof=1)
    low, high = (SEEDS.min(0), SEEDS.max(0)) if kind == "range" else (mean - std, mean + std)
    np.testing.assert_allclose(band(axes), np.stack([low, high], 1))
    assert line.get_label() == "net (3 seeds)"
    assert axes.get_ylabel() == "test accuracy (%)"
    assert axes.get_xlabel() == "training step"


def test_other_keys_have_labels_of_their_own():
    (axes,) = hs.plots.learning_curves({"net": logs()}, key="loss").axes
    np.testing.assert_allclose(axes.lines[0].get_ydata(), 101 - SEEDS.mean(0))
    assert axes.get_ylabel() == "training loss"
    (axes,) = hs.plots.learning_curves({"net": logs()}, key="loss", label="bits", log_scale=True).axes
    assert axes.get_ylabel() == "bits"
    assert axes.get_yscale() == "log"


def folder(path, seeds=(0, 1, 2)):
    config = hs.train.to_dict(hs.train.Config(recipe="digits"))
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(config))
    for seed in seeds:
        (path / f"seed-{seed}").mkdir()
        lines = "".join(json.dumps(record) + "\n" for record in logs()[seed])
        (path / f"seed-{seed}" / "log.jsonl").write_text(lines)
    return path


def test_every_form_of_a_run_draws_the_same(tmp_path):
    path = folder(tmp_path / "net")
    pairs = [(torch.tensor(STEPS), torch.tensor(seed)) for seed in SEEDS]
    forms = [
        {"net": logs()}, {"net": pairs}, {"net": [(STEPS, list(seed)) for seed in SEEDS]}, {"net": path},
        {"net": str(path)}, {"net": hs.train.Run(path)}, path, str(path), [path], [hs.train.Run(path)],
    ]  # fmt: skip
    for runs in forms:
        (axes,) = hs.plots.learning_curves(runs).axes
        np.testing.assert_allclose(axes.lines[0].get_ydata(), SEEDS.mean(0))
        assert axes.get_legend().get_texts()[0].get_text() == "net (3 seeds)"
    for runs in ({"net": logs()[0]}, {"net": pairs[0]}, {"net": path / "seed-0"}):  # one seed: no band
        (axes,) = hs.plots.learning_curves(runs).axes
        np.testing.assert_allclose(axes.lines[0].get_ydata(), SEEDS[0])
        assert axes.lines[0].get_label() == "net"
        assert not axes.collections


def test_two_seeds_of_two_values_each_are_pairs_not_one_pair():
    (axes,) = hs.plots.learning_curves({"a": [([1, 2], [0.1, 0.3]), ([1, 2], [0.3, 0.5])]}).axes
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [0.2, 0.4])


def test_several_runs_have_colours_and_line_styles_of_their_own():
    (axes,) = hs.plots.learning_curves({"a": logs(), "b": logs()[:2]}).axes
    first, second = axes.lines
    assert [first.get_color(), second.get_color()] == list(_style.PALETTE[:2])
    assert first.get_linestyle() != second.get_linestyle()
    assert to_rgba(axes.collections[1].get_facecolor()[0], 1) == to_rgba(_style.PALETTE[1])
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a (3 seeds)", "b (2 seeds)"]


def test_seeds_of_other_steps_are_joined_by_straight_lines_within_their_range():
    """Seed 0 at 0, 10, 20; seed 1 at 5, 15 only: it counts from 5 to 15."""
    runs = {"a": [([0, 10, 20], [0.0, 0.4, 0.4]), ([5, 15], [0.6, 0.8])]}
    (axes,) = hs.plots.learning_curves(runs, key="x").axes
    np.testing.assert_array_equal(axes.lines[0].get_xdata(), [0, 5, 10, 15, 20])
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [0, (0.2 + 0.6) / 2, (0.4 + 0.7) / 2, (0.4 + 0.8) / 2, 0.4])
    np.testing.assert_allclose(band(axes), [[0, 0], [0.2, 0.6], [0.4, 0.7], [0.4, 0.8], [0.4, 0.4]])


def test_a_resumed_run_counts_its_last_value_of_a_step():
    log = [{"step": 1, "accuracy": 0.1}, {"step": 2, "accuracy": 0.2}, {"step": 1, "accuracy": 0.5}]
    (axes,) = hs.plots.learning_curves({"a": log}).axes
    np.testing.assert_allclose(axes.lines[0].get_data(), [[1, 2], [0.5, 0.2]])


def test_energy_curves_total_and_by_layer():
    with_layers = [
        [{"step": s, "energy": 1 / s + seed, "energy/conv1": 2 / s + seed, "energy/fc": 3 / s} for s in STEPS]
        for seed in (0, 1)
    ]
    without = [{"step": s, "energy": 4 / s} for s in STEPS]
    figure = hs.plots.energy_curves({"mhe": with_layers, "plain": without})
    total, layers = figure.axes  # "plain" logged no layers
    steps = np.array(STEPS)
    np.testing.assert_allclose(total.lines[0].get_ydata(), 1 / steps + 0.5)
    np.testing.assert_allclose(total.lines[1].get_ydata(), 4 / steps)
    assert [line.get_label() for line in layers.lines] == ["conv1", "fc"]
    np.testing.assert_allclose(layers.lines[0].get_ydata(), 2 / steps + 0.5)
    np.testing.assert_allclose(layers.lines[1].get_ydata(), 3 / steps)
    assert "mhe" in layers.get_title()
    two = hs.plots.energy_curves({"a": with_layers, "b": with_layers})
    assert two.axes[1].get_ylim() == two.axes[2].get_ylim()


def test_layers_keep_their_order_and_short_names_and_many_share_a_legend():
    names = [f"body.conv{i}.0.op.weight" for i in range(1, 21)]
    log = [{"step": s, "energy": 1.0, **{f"energy/{name}": i / s for i, name in enumerate(names)}} for s in STEPS]
    axes = hs.plots.energy_curves({"deep": log}).axes[1]
    assert [line.get_label() for line in axes.lines] == [f"body.conv{i}.0" for i in range(1, 21)]
    texts = [t.get_text() for t in axes.get_legend().get_texts()]
    assert texts == [f"body.conv{i}.0" for i in range(1, 21, 3)]
    gates = [{"step": 1, "energy": 1.0, "energy/a.weight": 1.0, "energy/a.op.weight": 2.0}]
    labels = [line.get_label() for line in hs.plots.energy_curves({"x": gates}).axes[1].lines]
    assert labels == ["a.weight", "a.op.weight"]  # short names would be the same


def test_energy_curves_of_a_run_without_layers_are_one_panel():
    assert len(hs.plots.energy_curves({"a": [{"step": 1, "energy": 2.0}]}).axes) == 1


@pytest.mark.parametrize(
    ("runs", "match"),
    [
        ({}, "runs is empty"),
        ({"a": []}, "runs\\['a'\\] is not a run folder"),
        ({"a": [{"step": 1, "loss": 1.0}]}, "never logged 'accuracy': its keys are loss"),
        ({"a": [{"accuracy": 1.0}]}, "has no 'step'"),
        ({"a": ([1, 2], [0.1, float("nan")])}, "1 NaN or infinite"),
        ({"a": ([1, 2], [0.1])}, "2 steps and 1 values"),
        ({"a": ([2, 1], [0.1, 0.2])}, "do not rise"),
        ({"a": [([1], [1.0]), 3]}, "a seed 1 is neither a log"),
        ("/nowhere/at/all", "/nowhere/at/all"),
        (["/x/same", "/y/same"], "two runs named 'same'"),
    ],
)
def test_bad_input(runs, match):
    with pytest.raises(ValueError, match=match):
        hs.plots.learning_curves(runs)


def test_steps_beyond_float32_and_names_with_an_underscore():
    figure = hs.plots.learning_curves({"_mine": ([2**24 + 1.0, 2**24 + 2.0], [1.0, 2.0]), "b": ([1], [1.0])})
    assert figure.axes[0].lines[0].get_xdata().tolist() == [2**24 + 1, 2**24 + 2]
    assert [text.get_text().strip() for text in figure.axes[0].get_legend().get_texts()] == ["_mine", "b"]


def test_wrong_type_and_settings():
    with pytest.raises(TypeError, match="runs is int"):
        hs.plots.learning_curves(3)
    with pytest.raises(ValueError, match="band='iqr'"):
        hs.plots.learning_curves({"a": logs()}, band="iqr")
    with pytest.raises(ValueError, match="logarithmic"):
        hs.plots.learning_curves({"a": ([1, 2], [0.0, 1.0])}, log_scale=True)
    with pytest.raises(ValueError, match="never logged 'energy'"):
        hs.plots.energy_curves({"a": logs()})
