"""tools/feature_pictures.py: pictures of features from runs, or from what was kept of them."""

import importlib
import math
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from hypersphere.data import Dataset, Split
from hypersphere.recipes import tables
from hypersphere.train import run, with_values

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("feature_pictures")


def program(tool, monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["feature_pictures", *map(str, words)])
    return tool.main()


def test_angles_are_those_of_samples_and_mean_directions(tool):
    x, labels = torch.randn(40, 3, dtype=torch.float64), torch.arange(40) % 4 + 3
    directions = [row / row.norm() for row in x]
    centres = {k: sum(d for d, y in zip(directions, labels.tolist(), strict=True) if y == k) for k in (3, 4, 5, 6)}
    centres = {k: c / c.norm() for k, c in centres.items()}
    within = [math.acos(float(d @ centres[y])) for d, y in zip(directions, labels.tolist(), strict=True)]
    between = [math.acos(float(centres[a] @ centres[b])) for a in centres for b in centres if a < b]
    found = tool.angles(x, labels)
    assert found == pytest.approx((math.degrees(sum(within) / 40), math.degrees(min(between))))


def test_runs_are_kept_and_drawn_elsewhere(tool, tmp_path, monkeypatch, capsys):
    """Two cells of Figure 2.10, of which one has not been trained: a network as trained, its bytes as in training."""
    bytes_ = torch.randint(256, (200, 1, 28, 28), dtype=torch.uint8)
    split = Split(bytes_, torch.arange(200) % 10, tuple("0123456789"))
    monkeypatch.setattr("hypersphere.data.registry.load", lambda *_, **__: Dataset("mnist", split, split))
    monkeypatch.setattr(tool.hs.data, "load", lambda *_, **__: Dataset("mnist", split, split))
    table = tables()["thesis.figure2.10"]
    values = {
        "schedule.steps": 2,
        "schedule.milestones": (),
        "data.batch_size": 20,
        "run.folder": str(tmp_path / "runs"),
    }
    values |= {"model.name": "cnn3", "model.widths": "2,2,2"}
    values |= {"run.device": "cpu", "run.tensorboard": False, "run.progress": "off"}
    config = next(cell for cell in table.cells if cell.name == "m4").config(table.name)
    run(with_values(config, values))
    assert program(tool, monkeypatch, tmp_path / "runs", table.name, "--keep", tmp_path / "kept") == 0
    with np.load(tmp_path / "kept" / "thesis.figure2.10.m4.npz") as kept:
        assert kept["features"].shape == (200, 3)
        assert kept["weight"].shape == (10, 3)
        assert kept["labels"].tolist() == split.labels.tolist()
    assert program(tool, monkeypatch, tmp_path / "kept", table.name, "--out", tmp_path) == 0
    assert (tmp_path / "features_thesis.figure2.10.png").read_bytes().startswith(b"\x89PNG")
    assert program(tool, monkeypatch, tmp_path / "kept", "thesis.figureA.1", "--out", tmp_path) == 0
    assert "thesis.figureA.1: no runs in" in capsys.readouterr().err
    shutil.copy(tmp_path / "kept" / "thesis.figure2.10.m4.npz", tmp_path / "kept" / "thesis.figureA.3.mnist.npz")
    assert program(tool, monkeypatch, tmp_path / "kept", "thesis.figureA.3", "--out", tmp_path) == 0
    assert (tmp_path / "features_thesis.figureA.3.png").exists()  # of a network that another figure trains
    with pytest.raises(SystemExit):
        program(tool, monkeypatch, tmp_path, "thesis.table5.1")
