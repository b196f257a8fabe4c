"""Damage and mix-ups are noticed when a file is read: single bits, other runs, other shapes."""

import json
import math
import os
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from folders import make_run
from tiny import tiny

import hypersphere as hs
from hypersphere.cli import main
from hypersphere.runs import SeedFolder
from hypersphere.runs.files import join, json_text, read_json, split, write_json
from hypersphere.runs.manifest import Foreign, add_file, check_shapes
from hypersphere.train import ModelConfig, run
from hypersphere.train.training import Training

SMALL = ModelConfig(name="cnn3", widths="4,4,4", feature_dim=8)


def flip(path, generator):
    content = bytearray(path.read_bytes())
    place = generator.randrange(len(content))
    content[place] ^= 1 << generator.randrange(8)
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("name", ["model.safetensors", "state.safetensors", "state.json"])
def test_a_flipped_bit_anywhere_in_a_checkpoint_is_noticed(name, tmp_path):
    path, _ = make_run(tmp_path, model=SMALL, finished=False)
    folder, generator = SeedFolder(path, 0), random.Random(name)
    checkpoint = folder.latest()
    whole = (checkpoint / name).read_bytes()
    for _ in range(40):
        flip(checkpoint / name, generator)
        with pytest.raises(ValueError, match="damaged"):
            folder.load(checkpoint)
        (checkpoint / name).write_bytes(whole)
    folder.load(checkpoint)


def test_a_flipped_bit_in_the_trained_network_is_noticed_by_everything_that_reads_it(tmp_path, capsys):
    path, _ = make_run(tmp_path, model=SMALL)
    hs.load(path)
    flip(path / "seed-0" / "model.safetensors", random.Random(0))
    with pytest.raises(ValueError, match=r"model\.safetensors is not what was written"):
        hs.load(path)
    for command in ("evaluate", "report", "export", "energy"):
        assert main([command, str(path)]) == 2
        said = capsys.readouterr().err
        assert "model.safetensors is not what was written" in said
        assert said.count("\n") == 1


def test_files_of_before_have_no_manifest_and_are_read(tmp_path):
    path, _ = make_run(tmp_path, model=SMALL)
    (path / "seed-0" / "manifest.json").unlink(missing_ok=True)
    assert hs.load(path) is not None


def interrupt(self, now, line, genuine=Training._log):
    genuine(self, now, line)
    if now == 10:
        raise RuntimeError("stopped")


@pytest.fixture
def stopped(tmp_path, monkeypatch):
    """Settings, and the folder of a training with checkpoints at steps 4 and 8."""
    config = tiny(tmp_path, "stopped", 14)
    with monkeypatch.context() as patch:
        patch.setattr(Training, "_log", interrupt)
        with pytest.raises(RuntimeError, match="stopped"):
            run(config)
    return config, tmp_path / "stopped" / "seed-0"


def test_the_checkpoint_of_another_run_is_refused_by_what_differs(stopped, tmp_path):
    config, folder = stopped
    other = tmp_path / "other"
    shutil.copytree(folder.parent, other)
    changed = replace(config, recipe="other", optim=replace(config.optim, lr=0.5))
    shutil.rmtree(tmp_path / "other" / "seed-0" / "checkpoints" / "step-00000004")
    (other / "config.json").unlink()
    with pytest.raises(Foreign, match=r"belongs to another run: recipe \('stopped', here 'other'\), optim.lr"):
        run(changed)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("optimizers", None, r"step-00000008 has no 'optimizers' in its state: it belongs to another training or v"),
        ("meters", None, "step-00000008 has no 'meters' in its state"),
        ("optimizers", [[1]], r"step-00000008 has a state that does not fit \("),
        ("seconds", "long", r"step-00000008 has a state that does not fit \(could not convert string to float"),
    ],
)
def test_a_state_without_what_training_needs_is_a_message(stopped, name, value, message):
    """Whole by its hashes, as another version would write it."""
    config, folder = stopped
    checkpoint = folder / "checkpoints" / "step-00000008"
    content = read_json(checkpoint / "state.json")
    pairs = [[key, kept] for key, kept in content["state"]["pairs"] if key != name]
    pairs += [] if value is None else [[name, value]]
    digest = write_json(checkpoint / "state.json", {**content, "state": {"pairs": pairs}})
    add_file(checkpoint, "state.json", digest)
    with pytest.raises(Foreign, match=message):
        run(config)
    assert checkpoint.exists()


def test_a_manifest_says_whose_the_checkpoint_is(stopped):
    config, folder = stopped
    content = read_json(folder / "checkpoints" / "step-00000008" / "manifest.json")
    assert content["version"] == hs.__version__
    assert content["recipe"] == config.recipe
    assert content["settings"]["model"]["name"] == "cnn3"
    assert content["settings"]["optim"]["name"] == "adam"
    assert content["shapes"]["model.body.conv1.0.op.weight"] == [4, 1, 3, 3]
    assert set(content["files"]) == {"model.safetensors", "state.safetensors", "state.json"}


def test_a_damaged_checkpoint_is_set_aside_and_the_one_before_it_used(stopped, capsys):
    config, folder = stopped
    flip(folder / "checkpoints" / "step-00000008" / "state.safetensors", random.Random(1))
    run(replace(config, run=replace(config.run, progress="plain")))
    said = capsys.readouterr()
    assert "step-00000004 is used in its place" in said.out + said.err
    assert (folder / "checkpoints" / "damaged-step-00000008").exists()


def test_a_log_that_lost_lines_is_said_so_and_the_result_is_whole(stopped, capsys):
    config, folder = stopped
    lines = (folder / "log.jsonl").read_text().splitlines()
    (folder / "log.jsonl").write_text(lines[0] + "\n" + lines[1][:7])
    result = run(replace(config, run=replace(config.run, progress="plain")))["seeds"][0]
    said = capsys.readouterr()
    assert "of 5 lines up to step 8: the others are lost" in (said.out + said.err).replace("\n", " ")
    assert result["train_loss"] is not None
    assert [json.loads(line)["step"] for line in (folder / "log.jsonl").read_text().splitlines()][-1] == 14


def test_the_log_is_on_disk_before_the_checkpoint_that_counts_it(tmp_path, monkeypatch):
    """In this order: the lines of the log, its name in the folder, the checkpoint's name, ``latest``."""
    done = []
    fsync, replace_ = os.fsync, os.replace
    monkeypatch.setattr("os.fsync", lambda handle: fsync(handle) or done.append(opened(handle)))
    monkeypatch.setattr("os.replace", lambda old, new: replace_(old, new) or done.append(f"-> {Path(new).name}"))
    folder = SeedFolder(tmp_path, 0)
    folder.prepare()
    folder.log({"step": 1, "loss": 1.0})
    done.clear()
    folder.save(1, {"w": torch.ones(2)}, {}, keep=2)
    wanted = ["log.jsonl", "seed-0", "-> step-00000001", "checkpoints", "-> latest"]
    assert [one for one in done if one in wanted] == [*wanted, "seed-0"]
    assert json.loads((folder.checkpoint(1) / "manifest.json").read_text())["log_lines"] == 1


def opened(handle):
    return Path(os.readlink(f"/proc/self/fd/{handle}")).name


def test_weights_that_do_not_fit_are_refused_by_name(tmp_path):
    own = {"a": torch.ones(2), "b": torch.ones(3)}
    check_shapes(own, own, tmp_path)
    check_shapes({"k": torch.ones(())}, {"k": torch.ones(1)}, tmp_path)  # as older versions saved it
    for found, message in (
        ({"a": own["a"]}, "has no b"),
        ({**own, "b": torch.ones(4)}, r"has a b of shape \(4,\), and this network's is \(3,\)"),
        ({**own, "c": torch.ones(1)}, "has c, which this network lacks"),
    ):
        with pytest.raises(Foreign, match=message):
            check_shapes(found, own, tmp_path)


def test_numbers_that_json_does_not_have_come_back():
    tensors, skeleton = split({"best": [-math.inf, 0], "sum": {"loss": math.nan, 3: torch.ones(2)}})
    found = join(tensors, json.loads(json_text(skeleton)))
    assert found["best"] == [-math.inf, 0]
    assert math.isnan(found["sum"]["loss"])
    assert torch.equal(found["sum"][3], torch.ones(2))
