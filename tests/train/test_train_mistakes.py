"""Mistakes on the command line: a message that helps, no traceback, and a folder that takes the corrected command."""

import errno
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch.distributed as dist
from tiny import tiny
from torch import nn

import programs
from hypersphere.cli import _parse, main
from hypersphere.cli._sweep_plan import make_plan
from hypersphere.cli.settings import chosen_config
from hypersphere.config import overridden, to_dict
from hypersphere.runs import Run, SeedFolder, files
from hypersphere.runs.files import write_json
from hypersphere.runs.model import make_head
from hypersphere.train import Job, LossConfig, OptimConfig, run, run_at_once, training, unbegun, with_values
from hypersphere.train.distributed import team
from hypersphere.train.optimizer import make_projection
from hypersphere.train.training import Training

QUICK = [
    *("--run.device", "cpu", "--model.widths", "4,4,4", "--model.feature-dim", "8", "--data.batch-size", "32"),
    *("--schedule.steps", "3", "--schedule.milestones", "none", "--run.log-every", "1"),
]

# The folder of a run that never began ----------------------------------------------------------------


def test_a_mistaken_first_command_does_not_stand_in_the_way(tmp_path, capsys):
    words = ["train", "digits.cnn", *QUICK, "--run.name", "fix", "--run.folder", str(tmp_path), "--run.progress", "off"]
    assert main([*words, "--data.batch-size", "100000"]) == 2
    assert "batch_size" in capsys.readouterr().err
    assert main(words) == 0
    assert main([*words, "--data.batch-size", "16"]) == 2
    assert "holds a run with other settings: data.batch_size" in capsys.readouterr().err


@pytest.mark.parametrize("mistake", [["--data.name", "mnist", "--data.root", "nowhere"], ["--data.batch-size", "9999"]])
@pytest.mark.parametrize("at_once", [False, True])
def test_a_command_that_fails_before_training_leaves_no_run(tmp_path, monkeypatch, capsys, mistake, at_once):
    monkeypatch.chdir(tmp_path)
    words = ["digits.cnn", *QUICK, "--run.folder", "runs", "--run.progress", "off", *mistake]
    if at_once:
        config = chosen_config("digits.cnn", None, overridden(_parse(["train", *words])))
        outcomes = run_at_once([Job(config, seed) for seed in (0, 1, 2)], 2)
        assert all(isinstance(outcome.error, ValueError | OSError) for outcome in outcomes)
    else:
        assert main(["train", *words, "--run.seeds", "0,1"]) == 2
        assert capsys.readouterr().err.startswith("hypersphere train: ")
    assert list((tmp_path / "runs").iterdir()) == []


def test_what_was_in_the_folder_before_stays(tmp_path, capsys):
    words = ["train", "digits.cnn", *QUICK, "--run.folder", str(tmp_path), "--run.progress", "off"]
    folder, wrong = tmp_path / "mine", ["--data.batch-size", "9999"]
    folder.mkdir()
    assert main([*words, "--run.name", "mine", *wrong]) == 2
    assert list(folder.iterdir()) == [], "a folder of the user's own, empty as before"
    (folder / "notes.txt").write_text("mine")
    assert main([*words, "--run.name", "mine", *wrong]) == 2
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]
    (folder / "config.json").write_text(json.dumps(to_dict(tiny(tmp_path, "mine", 2))))
    assert main([*words, "--run.name", "mine", *wrong]) == 2
    assert {path.name for path in folder.iterdir()} >= {"notes.txt", "config.json"}, "settings of the user's own"


def test_a_seed_that_began_keeps_the_run(tmp_path):
    config = with_values(tiny(tmp_path, "mine", 2), {"run.seeds": (0, 1)})
    with pytest.MonkeyPatch.context() as patch:
        make = training.make_parts
        patch.setattr(training, "make_parts", lambda config, seed, team: make(config, {0: 0}[seed], team))
        with pytest.raises(KeyError):
            run(config)
    assert {path.name for path in (tmp_path / "mine").iterdir()} >= {"config.json", "seed-0"}
    assert [result["seed"] for result in run(config)["seeds"]] == [0, 1]


def test_a_further_seed_that_fails_at_its_start_leaves_nothing(tmp_path, monkeypatch):
    """Its folder stood in the way of evaluate, also where an earlier command made the run."""
    config = tiny(tmp_path, "mine", 2)
    run(config)
    (tmp_path / "mine" / "seed-7" / "checkpoints").mkdir(parents=True)  # not of this command
    monkeypatch.setattr(unbegun, "_made", {})
    monkeypatch.setattr(unbegun, "_before", {})  # as in another process
    monkeypatch.setattr(training, "check_room", lambda *_: (_ for _ in ()).throw(OSError("the disk is full")))
    with pytest.raises(OSError, match="the disk is full"):
        run(with_values(config, {"run.seeds": (0, 1)}))
    assert {path.name for path in (tmp_path / "mine").iterdir()} == {"config.json", "result.json", "seed-0", "seed-7"}
    assert Run(tmp_path / "mine").seeds == (0,)


def test_a_run_that_another_process_has_opened_since_stays(tmp_path):
    config = tiny(tmp_path, "mine", 2)
    with pytest.MonkeyPatch.context() as patch:

        def fail(*_):
            write_json(tmp_path / "mine" / "config.json", to_dict(config))  # as its open_run does
            raise ValueError("no data here")

        patch.setattr(training, "make_parts", fail)
        with pytest.raises(ValueError, match="no data here"):
            run(config)
    assert (tmp_path / "mine" / "config.json").exists()


def test_a_folder_without_space_does_not_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(files.shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
    with pytest.raises(OSError, match="free some space"):
        run(tiny(tmp_path, "mine", 2))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("trace", ["log", "checkpoint", "result"])
def test_a_run_that_began_keeps_its_settings(tmp_path, trace):
    config = tiny(tmp_path, "mine", 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Training, "_steps", lambda self: (_ for _ in ()).throw(RuntimeError("out of memory")))
        with pytest.raises(RuntimeError, match="out of memory"):
            run(config)
    assert (tmp_path / "mine" / "seed-0" / "facts.json").exists()
    folder = SeedFolder(tmp_path / "mine", 0)
    match trace:
        case "log":
            folder.log({"step": 2})
        case "checkpoint":
            folder.save(2, {}, {}, keep=1)
        case _:
            folder.write_result({"final_accuracy": 1.0})
    before = (tmp_path / "mine" / "config.json").read_bytes()
    with pytest.raises(ValueError, match="holds a run with other settings"):
        run(with_values(config, {"optim.lr": 0.5}))
    assert (tmp_path / "mine" / "config.json").read_bytes() == before


@pytest.mark.parametrize("content", ['{"hidden_size": 3}', '{"model": 3}', "[1]", "3", "", '{"model": null}'])
def test_settings_of_something_else_are_never_overwritten(tmp_path, content):
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "config.json").write_text(content)
    with pytest.raises(ValueError, match=r"theirs.*config\.json.*another --run.name"):
        run(tiny(tmp_path, "theirs", 2))
    assert (folder / "config.json").read_text() == content


# Folders and devices that cannot be ------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["/proc/nothing", "{file}", "{file}/below"])
def test_space_is_blamed_only_where_it_is_short(tmp_path, folder, capsys):
    (tmp_path / "file").write_text("x")
    folder = folder.format(file=tmp_path / "file")
    assert main(["train", "digits.cnn", "--run.folder", folder, "--run.device", "cpu"]) == 2
    said = capsys.readouterr().err
    assert f"{folder}/digits.cnn cannot be written" in said
    assert "choose another --run.folder" in said
    assert "free some space" not in said


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_asks_for_space(tmp_path, monkeypatch, number):
    def full(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(files.os, "posix_fallocate", full)
    with pytest.raises(OSError, match=r"cannot take the 1\.0 MiB .*free some space"):
        files.check_room(tmp_path, 2**20)


@pytest.mark.parametrize("name", ["tpu", "cpu:x", "meta", "", "cpu:-3"])
def test_a_device_that_cannot_be_used_is_named(tmp_path, name, capsys):
    assert main(["train", "digits.cnn", "--run.folder", str(tmp_path), "--run.device", name]) == 2
    assert f"run.device={name!r} cannot be used here" in capsys.readouterr().err
    assert team("cpu").device.type == "cpu"


@pytest.mark.parametrize("option", ["projection_every", "weighted_gradients"])
def test_a_projection_that_is_not_possible_names_its_option(option):
    off = f"--optim.{option.replace('_', '-')} {'0' if option == 'projection_every' else 'no'}"
    with pytest.raises(ValueError, match=rf"no hyperspherical layer.*, or give {off}$"):
        make_projection(OptimConfig(**{option: option == "weighted_gradients" or 1}), nn.Linear(2, 2))


@pytest.mark.parametrize("settings", [{"extra": {"widht": 3}}, {"angular": "linear"}, {"margin": "wide"}], ids=str)
def test_a_setting_that_a_head_does_not_take_is_named(settings):
    (name,) = settings.get("extra", settings)
    with pytest.raises(ValueError, match=rf"loss.name='arcface' is called with .*, {name}: .*Leave that setting"):
        make_head(LossConfig("arcface", **settings), 8, 4)


@pytest.mark.parametrize("name", ["a_softmax", "softmax"])
def test_what_is_derived_and_does_not_suit_a_head_is_named(name):
    """As `hypersphere train faces --loss.name softmax` has it."""
    with pytest.raises(ValueError, match=r"Give --loss\.fitting no --loss\.warmup 0 to leave them to the head"):
        make_head(LossConfig(name, fitting=True, warmup=5), 8, 4)


# list ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["tables", "recipes", "models", "datasets"])
def test_a_pattern_that_matches_nothing_is_named(what, capsys):
    assert main(["list", what, "nix*"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"hypersphere list: no {what} match 'nix*'\n"


@pytest.mark.parametrize(
    ("words", "near"),
    [(["heads", "arcfac"], "heads match 'arcfac'; did you mean arcface?"), (["networks", "cn9"], "did you mean cnn9?")],
)
def test_a_misspelt_name_of_a_list_is_answered_with_the_near_one(words, near, capsys):
    assert main(["list", *words]) == 1
    assert capsys.readouterr().err.endswith(f"{near}\n")


# Interrupts and closed pipes -------------------------------------------------------------------------


def test_ctrl_c_before_the_first_step_is_a_short_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(Training, "__init__", lambda *_: os.kill(os.getpid(), signal.SIGINT) or time.sleep(1))
    words = ["--run.folder", str(tmp_path), "--run.device", "cpu", "--run.progress", "off"]
    assert main(["train", "digits.cnn", *words]) == 130
    assert capsys.readouterr().err == "hypersphere train: interrupted\n"


def test_a_character_that_cannot_be_shown_is_spelt(monkeypatch):
    shown = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", shown)
    assert main(["list", "maps", "low_rank"]) == 0
    assert b"R = I + AB\\u1d40" in shown.buffer.getvalue()


def test_the_reader_of_a_list_may_leave():
    command = ["-m", "hypersphere", "list", "recipes"]
    done = programs.start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    done.stdout.close()
    assert done.stderr.read() == ""
    assert done.wait(60) == 128 + signal.SIGPIPE


@pytest.mark.parametrize("progress", ["plain", "rich", "off"])
def test_training_goes_on_when_nobody_reads(tmp_path, progress, monkeypatch, capsys):
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as unread:
        monkeypatch.setattr(sys, "stdout", unread)
        assert main(["train", "digits.cnn", *QUICK, "--run.folder", str(tmp_path), "--run.progress", progress]) == 0
    assert capsys.readouterr().err == ""
    assert (tmp_path / "digits.cnn" / "seed-0" / "result.json").exists()


def test_training_without_a_standard_output(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["train", "digits.cnn", *QUICK, "--run.folder", str(tmp_path), "--run.progress", "auto"]) == 0


def test_a_broken_pipe_elsewhere_is_an_error(monkeypatch, capsys):
    def broken(options):
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr("hypersphere.cli.listing.run", broken)
    assert main(["list"]) == 2
    assert "Broken pipe" in capsys.readouterr().err


def test_processes_that_cannot_meet_are_one_line(tmp_path, monkeypatch, capsys):
    def nobody(*values):
        raise dist.DistNetworkError("timed out\nand a trace of C++")

    monkeypatch.setattr(dist, "rendezvous", nobody)
    for name, value in {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    assert main(["train", "digits.cnn", "--run.folder", str(tmp_path), "--run.device", "cpu"]) == 2
    wanted = "hypersphere train: rank 1 could not meet the others of 2 processes (timed out): give the torchrun command"
    assert capsys.readouterr().err == f"{wanted} again\n"


# Code of one's own -----------------------------------------------------------------------------------

OWN_PARTS = """
from torch import nn


class Net(nn.Sequential):
    def __init__(self, num_classes):
        super().__init__(nn.Flatten(), nn.Linear(64, num_classes))
"""


def test_the_command_finds_modules_of_the_current_folder(tmp_path):
    """The installed command is a file of another folder, which Python searches instead of the current one."""
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "hypersphere"
    script.write_text("import sys\nfrom hypersphere.cli import main\nsys.exit(main())\n")
    here = tmp_path / "here"
    here.mkdir()
    (here / "my_parts.py").write_text(OWN_PARTS)
    (here / "difflib.py").write_text("raise ImportError('it hides that of Python')\n")
    quick = ["--run.device", "cpu", "--schedule.steps", "2", "--run.eval-every", "2", "--run.energy", "no"]
    words = [script, "train", "custom", "--model.name", "my_parts:Net", *quick, "--run.progress", "off"]
    done = programs.run(words, cwd=here)
    assert done.returncode == 0, done.stderr
    done = programs.run(words, cwd=tmp_path)
    assert done.returncode == 2
    assert "model.name='my_parts:Net': module 'my_parts' cannot be imported" in done.stderr
    assert "run this in the folder that holds it, or install it" in done.stderr


@pytest.mark.parametrize(
    ("option", "address", "says"),
    [
        ("--data.name", "nobody_at_all:data", "data.name='nobody_at_all:data': module"),
        ("--model.angular", "nobody_at_all:G", "model.angular='nobody_at_all:G': module"),
        ("--evaluation.also", "nobody_at_all:norms", "evaluation.also='nobody_at_all:norms': module"),
        ("--model.name", "json:Net", "model.name='json:Net': 'json' has no 'Net'"),
    ],
)
@pytest.mark.parametrize("command", ["train", "sweep"])
def test_code_that_is_not_there_is_told_by_its_option(tmp_path, capsys, command, option, address, says):
    words = [command, "custom", option, address, "--run.folder", str(tmp_path / "runs"), "--run.device", "cpu"]
    assert main(words) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_the_command_of_the_tutorial_on_own_parts(tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "tutorials" / "own_parts.md").read_text()
    imports = "import hypersphere as hs\n\n"
    classes = re.findall(r"^class \w+.*\n(?:(?: {4}.*)?\n)+", page, flags=re.M)
    (tmp_path / "my_parts.py").write_text(imports + "\n".join(classes))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (command,) = re.findall(r"^hypersphere (train .*)$", page, flags=re.M)
    try:
        assert main([*shlex.split(command), *QUICK, "--run.progress", "off"]) == 0
    finally:
        sys.modules.pop("my_parts", None)


def test_another_g_drops_the_k_of_the_sigmoid(tmp_path, capsys):
    cosine = {"model.angular": "cosine"}
    config = chosen_config("digits.spherenet", None, cosine)
    assert (config.model.angular, config.model.k) == ("cosine", None)
    (tmp_path / "whole.json").write_text(json.dumps(to_dict(chosen_config("digits.spherenet", None, {}))))
    assert chosen_config(None, str(tmp_path / "whole.json"), cosine).model == config.model
    (tmp_path / "part.toml").write_text('recipe = "digits.spherenet"\nmodel.angular = "cosine"\n')
    assert chosen_config(None, str(tmp_path / "part.toml"), {}).model == config.model
    assert chosen_config(None, str(tmp_path / "part.toml"), {"model.angular": "sigmoid"}).model.k is None
    assert chosen_config("digits.spherenet", None, {"model.angular": "sigmoid"}).model.k == 0.3
    plan = make_plan("digits.spherenet", None, {"model.angular": "sigmoid,cosine"})
    swept = [one.config.model for one in plan.combinations()]
    assert [(one.angular, one.k) for one in swept] == [("sigmoid", 0.3), ("cosine", None)]
    assert main(["train", "digits.spherenet", "--model.angular", "cosine", "--model.k", "0.2", "--show"]) == 2
    assert "--model.k 0.2 changes nothing here: it needs --model.angular sigmoid" in capsys.readouterr().err
