"""Small real runs to report on, trained once, and copies of them that a test may damage."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from hypersphere import recipes, train


@pytest.fixture(scope="session")
def trained(tmp_path_factory) -> Path:
    """A folder with four runs: ``plain`` of two seeds, ``learned`` k in 3-D, ``radius`` ρ, and ``flat`` in 2-D."""
    folder = tmp_path_factory.mktemp("runs")
    for name, values in {
        "plain": {"run.seeds": (0, 1)},
        "learned": {
            "model.conv": "sphere",
            "model.angular": "sigmoid",
            "model.learnable_k": True,
            "model.feature_dim": 3,
        },
        "radius": {"model.conv": "decoupled", "model.magnitude": "tanh", "loss.name": "am_softmax"},
        "flat": {"model.feature_dim": 2},
    }.items():
        config = recipes.get("digits.cnn")
        config = replace(config, model=replace(config.model, widths="6,6,6", feature_dim=8))
        quick = {"schedule.steps": 30, "run.eval_every": 10, "run.log_every": 5, "run.checkpoint_every": 15}
        quiet = {"run.folder": str(folder), "run.name": name, "run.progress": "off", "run.tensorboard": False}
        train.run(train.with_values(config, quick | quiet | values))
    return folder


@pytest.fixture
def runs(trained, tmp_path) -> Path:
    """The same runs, to do with as one likes."""
    return Path(shutil.copytree(trained, tmp_path / "runs"))
