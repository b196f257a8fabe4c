"""Trained on some classes, evaluated by episodes of others."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from tiny import tiny

import hypersphere as hs
from hypersphere import data
from hypersphere.evaluation import evaluate
from hypersphere.metrics import few_shot
from hypersphere.train import EvaluationConfig, LossConfig, Run, run

EPISODES = {"ways": 5, "shots": (1, 3), "queries": 4, "episodes": 20}


def settings(folder, method="baseline++", **parts):
    loss = LossConfig("s_softmax", scale=10.0) if method == "baseline++" else LossConfig("softmax", bias=True)
    config = tiny(folder, method, 60, loss=loss)
    model = replace(config.model, widths="8,8,8", feature_dim=32)
    evaluation = EvaluationConfig(protocol="few_shot", method=method, **EPISODES)
    schedule = replace(config.schedule, milestones=())
    config = replace(config, model=model, schedule=schedule, evaluation=evaluation)
    config = replace(config, data=replace(config.data, name="omniglot", pad=0))
    return replace(config, run=replace(config.run, eval_every=60), **parts)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["baseline", "baseline++"])
def test_the_measure_is_that_of_the_metric_and_beats_chance(characters, tmp_path, method):
    result = run(settings(tmp_path, method))["seeds"][0]
    images = (characters.test.images.float() - 127.5) / 128
    with torch.no_grad():
        features = hs.load(tmp_path / method).features(images)
    direct = [
        few_shot(features, characters.test.labels, ways=5, shots=shots, queries=4, episodes=20, method=method)
        for shots in (1, 3)
    ]
    found = result["metrics"]
    assert found["few_shot_1_accuracy"] == pytest.approx(100 * direct[0].accuracy, abs=0.5)
    assert found["few_shot_3_accuracy"] == pytest.approx(100 * direct[1].accuracy, abs=0.5)
    assert found["few_shot_3_interval"] == pytest.approx(100 * direct[1].interval, abs=0.2)
    assert result["final_accuracy"] == found["accuracy"] == found["few_shot_3_accuracy"]
    assert found["few_shot_1_accuracy"] > 55  # chance is 20
    again = evaluate(Run(tmp_path / method), parts=["few_shot"])["few_shot"]
    assert again["few_shot_3_accuracy"] == pytest.approx(found["few_shot_3_accuracy"], abs=0.5)
    assert found["few_shot_3_accuracy"] > 75


def test_folders_of_base_and_new_classes(tmp_path):
    """An image tree whose test classes are others: read, trained on, evaluated."""
    generator = np.random.default_rng(0)
    for part, names in (("train", "abc"), ("test", "xy")):
        for name in names:
            folder = tmp_path / "miniimagenet" / part / name
            folder.mkdir(parents=True)
            colour = generator.integers(0, 200, 3)
            for number in range(6):
                pixels = colour + generator.integers(0, 56, (12, 12, 3))
                Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number}.png")
    tree = data.load("miniimagenet", tmp_path)
    assert (tree.train.classes, tree.test.classes) == (("a", "b", "c"), ("x", "y"))
    assert data.available("miniimagenet", tmp_path / "miniimagenet")
    config = settings(tmp_path / "runs")
    folders = replace(
        config.data, name="miniimagenet", root=str(tmp_path), image_size=8, resize=10, workers=0, batch_size=6
    )
    rules = replace(config.evaluation, ways=2, shots=(2,), queries=4, episodes=10)
    result = run(replace(config, data=folders, evaluation=rules, schedule=replace(config.schedule, steps=6)))
    assert result["seeds"][0]["metrics"]["few_shot_2_accuracy"] > 70


def test_classes_that_are_not_new_and_missing_folders_are_named(tmp_path):
    for part in ("train", "test"):
        folder = tmp_path / "cub" / part / "robin"
        folder.mkdir(parents=True)
        Image.new("RGB", (4, 4)).save(folder / "0.png")
    with pytest.raises(ValueError, match="class robin in train and in test"):
        data.load("cub", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"folder:  .*/miniimagenet\n  holding: train/<class>"):
        data.load("miniimagenet", tmp_path)


def test_too_few_drawings_and_bad_settings_are_refused(characters, tmp_path):
    config = settings(tmp_path)
    with pytest.raises(ValueError, match="take fewer ways, shots or queries"):
        run(
            replace(
                config, evaluation=replace(config.evaluation, queries=9), schedule=replace(config.schedule, steps=1)
            )
        )
    with pytest.raises(ValueError, match=r"evaluation\.shots is empty"):
        EvaluationConfig(shots=())
    with pytest.raises(ValueError, match=r"evaluation\.method='maml' is unknown"):
        EvaluationConfig(method="maml")
    with pytest.raises(ValueError, match="verification or few_shot"):
        run(replace(config, recipe="closed", evaluation=EvaluationConfig()))
