"""A damaged checkpoint is set aside and training goes on from the one before it, to the same end."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from recover import STEPS, stop_training
from tiny import everything

import programs
from hypersphere.runs import SeedFolder
from hypersphere.runs.files import read_json, write_json
from hypersphere.train import run, with_values
from hypersphere.train.training import Training

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A training to its end, and one that stopped after checkpoints at steps 4 and 8."""
    root = tmp_path_factory.mktemp("trained")
    run(everything(root, "straight", STEPS))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Training, "_log", stop_training)
        with pytest.raises(RuntimeError, match="stopped"):
            run(everything(root, "stopped", STEPS))
    return root


@pytest.fixture
def stopped(trained, tmp_path):
    shutil.copytree(trained / "stopped", tmp_path / "stopped")
    return SeedFolder(tmp_path / "stopped", 0)


def lose_tensor(checkpoint):
    content = read_json(checkpoint / "state.json")
    write_json(checkpoint / "state.json", {**content, "state": {"pairs": [["penalty", {"tensor": "elsewhere"}]]}})


DAMAGES = {
    "empty state": lambda path: (path / "state.json").write_bytes(b""),
    "no state": lambda path: (path / "state.json").unlink(),
    "list": lambda path: (path / "state.json").write_text("[1]"),
    "nothing in it": lambda path: (path / "state.json").write_text('{"step": 8, "state": null}'),
    "lost tensor": lose_tensor,
    "torn weights": lambda path: os.truncate(path / "model.safetensors", 500),
    "no weights": lambda path: (path / "model.safetensors").unlink(),
    "no tensors": lambda path: (path / "state.safetensors").unlink(),
}


def weights(folder: SeedFolder) -> bytes:
    return (folder.path / "model.safetensors").read_bytes()


def log(folder: SeedFolder) -> list:
    return [{**json.loads(line), "rate": 0} for line in folder.log_path.read_text().splitlines()]


@pytest.mark.parametrize("damage", DAMAGES)
def test_an_older_checkpoint_stands_in_for_a_damaged_one(trained, stopped, damage, capsys):
    newest = stopped.checkpoints / "step-00000008"
    DAMAGES[damage](newest)
    left = sorted(path.name for path in newest.iterdir())
    run(with_values(everything(stopped.path.parents[1], "stopped", STEPS), {"run.progress": "plain"}))
    said = capsys.readouterr().out
    assert f"{newest} is damaged" in said
    assert f"continuing from step 4 ({stopped.checkpoints / 'step-00000004'})" in said
    aside = stopped.checkpoints / "damaged-step-00000008"
    assert str(aside) in said
    assert sorted(path.name for path in aside.iterdir()) == left
    straight = SeedFolder(trained / "straight", 0)
    assert weights(stopped) == weights(straight)
    assert log(stopped) == log(straight)


def test_without_a_complete_checkpoint_training_stops_and_changes_nothing(stopped):
    before = stopped.log_path.read_bytes()
    for checkpoint in stopped.checkpoints.iterdir():
        (checkpoint / "state.json").write_bytes(b"")
    with pytest.raises(
        ValueError, match=r"step-00000008 is damaged \(.*no earlier checkpoint is complete: remove .*seed-0"
    ):
        run(everything(stopped.path.parents[1], "stopped", STEPS))
    assert sorted(path.name for path in stopped.checkpoints.iterdir()) == ["step-00000004", "step-00000008"]
    assert stopped.log_path.read_bytes() == before


def test_what_must_not_be_read_is_not_damaged(stopped, monkeypatch):
    def refuse(self, *args, **kwargs):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(PermissionError):
        run(everything(stopped.path.parents[1], "stopped", STEPS))
    assert sorted(path.name for path in stopped.checkpoints.iterdir()) == ["step-00000004", "step-00000008"]


def test_damaged_twice(trained, stopped):
    for _ in range(2):
        shutil.copytree(
            trained / "stopped" / "seed-0" / "checkpoints" / "step-00000008", stopped.checkpoints / "step-00000009"
        )
        DAMAGES["empty state"](stopped.checkpoints / "step-00000009")
        (found,) = stopped.set_aside()
        assert "step-00000009 is damaged" in found
    assert stopped.latest() == stopped.checkpoints / "step-00000008"
    assert (stopped.path / "latest").read_text() == "step-00000008"


def test_copies_of_checkpoints_are_not_taken_for_checkpoints(stopped):
    shutil.copytree(stopped.checkpoints / "step-00000004", stopped.checkpoints / "step-00000008 (copy)")
    assert stopped.latest() == stopped.checkpoints / "step-00000008"
    assert stopped.set_aside() == []


@pytest.mark.slow
def test_two_processes_go_back_to_the_same_checkpoint(tmp_path):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
    done = programs.run([HERE / "recover.py", tmp_path], env=env, timeout=120)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["same"]
    assert "step-00000008 is damaged" in report["said"][0]
    assert "continuing from step 4" in report["said"][0]
    assert report["said"][1] == ""
    assert "damaged-step-00000008" in report["checkpoints"]
    (line,) = (line for line in report["lost"][0].splitlines() if "rank" in line)
    assert re.match(r"the process of rank 1 \(process \d+\) ended, one of 2\. .* give the same torchrun command", line)
    assert report["left"] == []
