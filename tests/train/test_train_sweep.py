"""Settings from a file, sweeps, and how the command line explains itself."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tiny import tiny

import programs
from hypersphere._core.cores import cores
from hypersphere.cli import main
from hypersphere.cli._sweep_plan import make_plan
from hypersphere.cli.train import chosen_config
from hypersphere.recipes import get
from hypersphere.train import room, run, to_dict
from hypersphere.train.room import Peak, Room, measured

QUICK = ["--schedule.steps", "4", "--data.batch-size", "16", "--model.widths", "4,4,4|", "--run.device", "cpu"]
QUIET = ["--run.progress", "off", "--run.tensorboard", "no", "--run.eval-every", "4", "--run.energy", "no"]


def test_the_file_of_a_run_gives_its_settings_and_goes_on_in_it(tmp_path, capsys):
    config = tiny(tmp_path, steps=2)
    run(config)
    for file in (tmp_path / "tiny", tmp_path / "tiny" / "config.json"):
        assert chosen_config(None, str(file), {}) == config
        assert main(["train", "--config", str(file)]) == 0
    assert f"in {tmp_path / 'tiny'}" in capsys.readouterr().out


def test_a_run_that_was_moved_goes_on_in_its_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run(tiny("runs", steps=2))
    Path("elsewhere").mkdir()
    moved = Path("runs/tiny").rename(tmp_path / "elsewhere" / "renamed")
    monkeypatch.chdir(tmp_path / "elsewhere")
    before = (moved / "seed-0" / "model.safetensors").stat().st_mtime_ns
    for file in ("renamed", "renamed/config.json", str(moved)):
        assert main(["train", "--config", file, "--run.seeds", "0,1"]) == 0
        assert f"in {moved};" in capsys.readouterr().out
    assert (moved / "seed-0" / "model.safetensors").stat().st_mtime_ns == before
    assert (moved / "seed-1" / "model.safetensors").exists()
    assert not Path("runs").exists()
    assert main(["train", "--config", "renamed", "--optim.lr", "0.5"]) == 2
    assert "renamed holds a run with other settings: optim.lr" in capsys.readouterr().err
    assert main(["train", "--config", "renamed", "--optim.lr", "0.5", "--run.name", "variant"]) == 0
    assert Path("variant/seed-0/result.json").exists(), "run.folder of its settings, which is now this one"


def test_files_change_a_recipe_and_the_command_line_wins(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(
        'recipe = "digits.spherenet"\n"optim.lr" = 1\n[schedule]\nsteps = 7\nmilestones = [3, 5]\n'
        '[model]\nk = "none"\nextra = {dropout = 0.5}\n[data]\nbatch-size = "1_00"\n'
    )
    config = chosen_config(None, str(file), {"schedule.steps": 9})
    recipe = get("digits.spherenet")
    assert config.recipe == recipe.recipe
    assert (config.optim.lr, config.schedule.steps, config.schedule.milestones) == (1.0, 9, (3, 5))
    assert (config.model.k, config.model.extra, config.data.batch_size) == (None, {"dropout": 0.5}, 100)
    assert config.loss == recipe.loss
    whole = tmp_path / "whole.json"
    whole.write_text(json.dumps(to_dict(config)))
    assert chosen_config(None, str(whole), {}) == config
    assert chosen_config("digits.spherenet", str(whole), {}) == config
    whole.write_text(json.dumps(to_dict(config) | {"recipe": "of.another.version"}))
    assert chosen_config(None, str(whole), {}).model == config.model  # a run says everything itself


@pytest.mark.parametrize("command", ["train", "sweep"])
@pytest.mark.parametrize(
    ("recipe", "text", "says"),
    [
        ([], 'recipe = "digits.sphernet"\n', ["mine.toml: ", "'digits.sphernet'", "digits.spherenet"]),
        ([], "", ["mine.toml names no recipe: name a recipe"]),
        (["digits.cnn"], 'recipe = "digits.spherenet"\n', ["recipe 'digits.spherenet', not of 'digits.cnn'"]),
        (["custom"], 'recipe = "digits.spherenet"\n', ["recipe 'digits.spherenet', not of 'custom'"]),
        (["digits.cnn"], 'recipe = "custom"\n', ["recipe 'custom', not of 'digits.cnn'"]),
        (["digits.cnn"], 'recipe = "digits.sphernet"\n', ["mine.toml: ", "'digits.sphernet'", "digits.spherenet"]),
    ],
)
def test_a_file_of_another_recipe_or_of_none_trains_nothing(tmp_path, capsys, command, recipe, text, says):
    (tmp_path / "mine.toml").write_text(text + "[optim]\nlr = 5e-4\n")
    assert main([command, *recipe, "--config", str(tmp_path / "mine.toml"), "--show"]) == 2
    told = capsys.readouterr().err
    assert all(word in told for word in says), told


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"loss": {"margn": 0.3}}', "unknown setting 'loss.margn'; did you mean loss.margin?"),
        ('{"lr": 0.3}', "unknown setting 'lr'; did you mean optim.lr?"),
        ('{"optim.lr": [1]}', "optim.lr=[1] must be float"),
        ('{"schedule": {"steps": 1.5}}', "schedule.steps=1.5 must be int"),
        ('{"data": {"hflip": "perhaps"}}', "data.hflip='perhaps' must be bool"),
        ('{"optim": {"lr": 0.1}, "optim.lr": 0.2}', "has the setting 'optim.lr' twice"),
        ('{"data": {"batch-size": 8, "batch_size": 16}}', "has the setting 'data.batch_size' twice"),
        ('{"optim": {"lr": 0.1, "lr": 0.2}}', "'lr' stands twice in one object"),
        ('{"gan": 3}', "gan=3 must be a group of settings: gan.generator"),
        ("[1]", "holds list"),
        ("{", "is not a JSON file"),
    ],
)
def test_files_with_mistakes(tmp_path, capsys, text, says):
    (tmp_path / "mine.json").write_text(text)
    assert main(["train", "custom", "--config", str(tmp_path / "mine.json"), "--show"]) == 2
    assert says in capsys.readouterr().err


def test_commas_and_bars():
    texts = {"loss.margin": "0.2,0.3", "schedule.milestones": "10,20|5,15", "run.seeds": "0,1", "model.widths": "4,8|"}
    found = list(make_plan("digits.cnn", None, {"loss.name": "arcface", **texts}).combinations())
    varied = [(one.config.loss.margin, one.config.schedule.milestones) for one in found]
    assert varied == [(0.2, (10, 20)), (0.2, (5, 15)), (0.3, (10, 20)), (0.3, (5, 15))]
    assert {(one.config.run.seeds, one.config.model.widths) for one in found} == {((0, 1), "4,8")}
    assert found[0].name == "loss.margin=0.2,schedule.milestones=10+20"
    assert len({one.name for one in found}) == 4
    for bad, says in (
        ({"optim.lr": "1,x"}, "does not accept"),
        ({"optim.lr": "1,1"}, "no value twice"),
        ({"run.name": "a"}, "--name"),
    ):
        with pytest.raises(ValueError, match=says):
            make_plan("digits.cnn", None, bad)


def test_a_sweep_over_what_changes_nothing_is_refused(tmp_path, capsys):
    words = ["sweep", "digits.cnn", "--run.folder", str(tmp_path), "--show"]
    assert main([*words, "--loss.scale", "8,16"]) == 2
    assert "--loss.scale 8.0 changes nothing here: it needs a head" in capsys.readouterr().err
    assert main([*words, "--loss.name", "cross_entropy,arcface", "--loss.scale", "8,16"]) == 0


class Child(contextlib.AbstractContextManager):
    """In the place of a process that trains."""

    def __init__(self, command, env, **options):
        self.command, self.env, self.told = command, env, threading.Event()

    def __exit__(self, *error):
        pass

    def wait(self):
        return 0

    def terminate(self):
        self.told.set()


@pytest.fixture
def children(monkeypatch):
    """The processes that a sweep starts; none trains."""
    found = []

    def start(command, real=subprocess.Popen, **options):
        if "hypersphere" not in command:
            return real(command, **options)
        found.append(Child(command, **options))
        return found[-1]

    monkeypatch.setattr(subprocess, "Popen", start)
    return found


@pytest.mark.parametrize("to", ["process", "thread"])
def test_a_termination_signal_ends_the_processes_of_a_sweep(to, tmp_path, capsys, children, monkeypatch):
    both_at_work = threading.Barrier(2, timeout=30)

    def wait(child):
        both_at_work.wait()
        if child is children[0]:
            if to == "process":
                os.kill(os.getpid(), signal.SIGTERM)  # this process alone, as a scheduler may
            else:
                signal.pthread_kill(threading.get_ident(), signal.SIGTERM)  # where the system may deliver it
        assert child.told.wait(30)
        return 130

    assert threading.current_thread() is threading.main_thread()  # where signals are handled
    monkeypatch.setattr(Child, "wait", wait)
    words = ["sweep", "digits.cnn", *QUICK, "--optim.lr", "0.1,0.2,0.3", "--jobs", "2", "--run.folder", str(tmp_path)]
    assert main(words) == 130
    assert len(children) == 2
    out, err = capsys.readouterr()
    assert "stopped. Give the same command again" in err
    assert "exit status" not in out  # it was asked to stop: nothing has failed
    assert out.count("stopped before its training began") == 2


def test_processes_of_a_sweep_trust_what_its_command_line_names(tmp_path, children):
    rules = ["--model.angular", "cosine,hypersphere.angular:Linear", "--model.conv", "sphere"]
    main(["sweep", "digits.cnn", *QUICK, *rules, "--jobs", "2", "--run.folder", str(tmp_path)])
    trusted = [one.command[one.command.index("--trust") + 1] for one in children if "--trust" in one.command]
    assert len(children) == 2
    assert trusted == ["hypersphere.angular"]


def test_what_cannot_be_trained_is_said_before_the_others_train(tmp_path, capsys, monkeypatch):
    said = []
    monkeypatch.setattr("hypersphere.cli.sweep.train", lambda config: said.append(capsys.readouterr().err))
    words = ["sweep", "digits.cnn", *QUICK, "--optim.lr", "0.1,-1", "--run.folder", str(tmp_path)]
    assert main([*words, "--show"]) == 0
    shown = "hypersphere sweep: optim.lr=-1.0: optim.lr=-1.0 must be finite and > 0\n"
    assert capsys.readouterr().err == shown
    assert main(words) == 1
    assert said == [shown]
    assert capsys.readouterr().err == ""  # once is enough


def test_a_sweep_goes_on_past_failures_and_after_interruptions(tmp_path, capsys, children):
    words = [
        "sweep",
        "digits.cnn",
        "--name",
        "all",
        "--run.folder",
        str(tmp_path),
        *QUICK,
        *QUIET,
        "--run.seeds",
        "0,1",
    ]
    words += ["--optim.lr", "0.01,1e30,-1"]  # the second diverges, the third is no rate
    assert main([*words, "--show"]) == 0
    assert capsys.readouterr().out.split() == ["optim.lr=0.01", "optim.lr=1e+30", "optim.lr=-1.0"]
    assert main(words) == 1
    out, err = capsys.readouterr()
    assert "optim.lr=1e+30" in err
    rows = [line.split() for line in out.splitlines()]
    assert any(row[0] == "0.01" and "2" in row for row in rows if row)
    assert any(row[0] == "1e+30" and row[-1] == "failed" for row in rows if row)
    content = json.loads((tmp_path / "all" / "sweep.json").read_text())["runs"]
    assert [len(one["seeds"]) for one in content] == [2, 0, 0]
    assert content[1]["error"]
    assert (tmp_path / "all" / "sweep.png").stat().st_size > 1000
    weights = tmp_path / "all" / "optim.lr=0.01" / "seed-1" / "model.safetensors"
    before = weights.stat().st_mtime_ns
    assert main([*words, "--jobs", "2"]) == 1
    assert weights.stat().st_mtime_ns == before  # done is done, and needs no process
    (child,) = children
    assert "optim.lr=1e+30" in str(child.command)
    assert main([*words, "--jobs", "2", "--schedule.steps", "5"]) == 2
    assert "all holds a sweep with other settings: schedule.steps (4, now 5): choose another" in capsys.readouterr().err
    assert main(["report", str(tmp_path / "all"), "--logs-only"]) == 0
    assert "optim.lr=0.01" in (tmp_path / "all" / "report.html").read_text()


GIB = 2**30


@pytest.mark.parametrize(
    ("free", "peak", "waiting", "fits"),
    [
        (Room(8, 100 * GIB), Peak(GIB), 20, 8),  # never more than the cores
        (Room(8, 10 * GIB), Peak(3 * GIB), 20, 3),
        (Room(8, 10 * GIB), Peak(30 * GIB), 20, 1),
        (Room(8, None), Peak(0), 5, 5),
        (Room(2, 100 * GIB, 40 * GIB), Peak(GIB, 4 * GIB), 20, 9),  # more than cores: the GPU computes
        (Room(2, 100 * GIB, 140 * GIB), Peak(GIB, GIB // 4), 99, 16),
        (Room(2, 4 * GIB, 140 * GIB), Peak(GIB, GIB // 4), 99, 3),  # the host is full first
    ],
)
def test_as_many_as_fit(free, peak, waiting, fits):
    assert free.fits(peak, waiting) == fits


def test_the_room_of_this_machine():
    with measured("cpu") as peak:
        pass
    here = room.room("cpu")
    assert here.device_memory is None
    assert 1 <= here.cores <= os.cpu_count()
    assert here.memory > 2**20
    assert 2**26 < peak.memory < 2**40  # torch is in it


@pytest.mark.parametrize("free", [Room(3, 100 * GIB), Room(1, 100 * GIB), Room(1, 100 * GIB, 6 * GIB)], ids=str)
def test_a_sweep_sizes_itself(tmp_path, capsys, monkeypatch, children, free):
    """By a made-up report of the machine: three cores, one core, and a GPU with room for two."""

    @contextlib.contextmanager
    def made_up(device):
        yield Peak(GIB, GIB * 2 if free.device_memory else 0)

    monkeypatch.setattr(room, "room", lambda device: free)
    monkeypatch.setattr(room, "measured", made_up)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    words = ["sweep", "digits.cnn", "--run.folder", str(tmp_path), *QUICK, *QUIET, "--schedule.steps", "1"]
    words += ["--run.eval-every", "1"]
    if free.device_memory:  # two runs of two seeds are four trainings to a GPU, which need not wait for one another
        words += ["--optim.lr", "0.01,0.02", "--run.seeds", "0,1"]
    else:
        words += ["--optim.lr", "0.01,0.02,0.03,0.04"]
    assert main(words) == 0
    out = capsys.readouterr().out
    done = len(list(tmp_path.glob("*/*/seed-*/result.json")))
    if free.cores == 3:
        assert "3 at a time" in out
        assert (len(children), done) == (3, 1)
        assert {one.env["OMP_NUM_THREADS"] for one in children} == {str(max(1, cores() // 3))}
    else:
        assert f"{2 if free.device_memory else 1} at a time" in out
        assert (len(children), done) == (0, 4)


@pytest.mark.slow
def test_two_trainings_at_a_time(tmp_path, capsys, monkeypatch):
    """Each in a process of its own: the same weights as one after the other, and the table of both."""
    words = ["sweep", "digits.cnn", "--run.folder", str(tmp_path), *QUICK, *QUIET, "--optim.lr", "0.01,0.02"]
    monkeypatch.setattr(sys, "executable", str(programs.python()))
    assert main([*words, "--name", "together", "--jobs", "2"]) == 0
    out = capsys.readouterr().out
    assert "2 runs in" in out
    assert [line.split()[0] for line in out.splitlines() if line.strip().startswith("0.0")] == ["0.01", "0.02"]
    content = json.loads((tmp_path / "together" / "sweep.json").read_text())["runs"]
    assert [(one["error"], len(one["seeds"])) for one in content] == [(None, 1), (None, 1)]
    assert (tmp_path / "together" / "sweep.png").exists()
    said = (tmp_path / "together" / "settings" / "optim.lr=0.01.txt").read_text()
    assert "in " in said
    assert main([*words, "--name", "alone"]) == 0
    for name in ("optim.lr=0.01", "optim.lr=0.02"):
        one, two = (
            load_file(tmp_path / kind / name / "seed-0" / "model.safetensors") for kind in ("together", "alone")
        )
        assert all(torch.allclose(value, two[key], atol=1e-5) for key, value in one.items())


def test_misspelt_options_and_help_by_group(capsys):
    assert main(["train", "digits.cnn", "--loss.margn", "3"]) == 2
    assert "did you mean --loss.margin" in capsys.readouterr().err
    assert main(["train", "digits.cnn", "--lr", "3"]) == 2
    assert "did you mean --optim.lr?" in capsys.readouterr().err
    assert main(["train", "--help"]) == 0
    short = capsys.readouterr().out
    assert "--help GROUP" in short
    assert "--loss.margin" not in short
    assert len(short.splitlines()) < 40
    assert main(["train", "--help", "loss"]) == 0
    text = capsys.readouterr().out
    assert "--loss.margin" in text
    assert "--optim.lr" not in text
    assert main(["train", "--help", "los"]) == 2
    assert "did you mean loss?" in capsys.readouterr().err


def test_list_takes_the_name_of_a_table_and_knows_our_numbers_anywhere(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["list", "recipes", "paper.table1"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    measured = json.loads((Path(__file__).parents[2] / "results" / "paper.table1.json").read_text())["measurements"]
    shown = {row[0] for row in rows if len(row) == 6 and row[2] not in ("-", "ours")}
    assert shown & {one["cell"] for one in measured}
    assert main(["list"]) == 0
    assert "open.omniglot_few_shot " in capsys.readouterr().out


def test_options_may_need_what_is_varied():
    """A margin is none of the recipe's loss, but one of the heads that are compared."""
    texts = {"loss.name": "arcface,am_softmax,cross_entropy", "loss.margin": "0.3"}
    plan = make_plan("digits.cnn", None, texts)
    found = list(plan.combinations())
    assert plan.settings() == {"loss.margin": 0.3}
    assert [one.config.loss.margin for one in found[:2]] == [0.3, 0.3]
    assert [one.error is None for one in found] == [True, True, False]
    with pytest.raises(ValueError, match="belong to a head"):
        make_plan("digits.cnn", None, {"loss.margin": "0.3"})
