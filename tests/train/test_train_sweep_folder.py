"""The folder of a sweep: it holds one sweep, which may grow, and one process at a time works in it."""

import contextlib
import json
import os
import signal
import subprocess

import pytest

import programs
from hypersphere.cli import main
from hypersphere.runs import run_path
from hypersphere.runs.lock import locked
from hypersphere.train import room
from hypersphere.train.room import Peak, Room

QUICK = ["--schedule.steps", "1", "--run.eval-every", "1", "--model.widths", "4,4,4|", "--run.device", "cpu"]
QUIET = ["--run.progress", "off", "--run.tensorboard", "no", "--run.energy", "no", "--jobs", "1"]
RATES = ["--optim.lr", "1e-3,2e-3"]


@pytest.fixture
def sweep(tmp_path, capsys):
    """Run a sweep of digits.cnn in an empty folder; its exit status, output and errors."""

    def run(*words, recipe="digits.cnn"):
        code = main(["sweep", recipe, *QUICK, *QUIET, "--run.folder", str(tmp_path), *words])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def untrained(monkeypatch):
    """Let trainings begin and do nothing more, and list their runs."""
    names = []

    def begin(config):
        names.append(config.run.name)
        begun(run_path(config))

    monkeypatch.setattr("hypersphere.cli.sweep.train", begin)
    return names


def begun(folder):
    (folder / "seed-0").mkdir(parents=True, exist_ok=True)
    (folder / "seed-0" / "log.jsonl").write_text("")


def table(out):
    """The rows of the printed table, by value."""
    lines = out[out.index("final, %") :].splitlines()[1:]
    return {row[0]: row[1:] for row in map(str.split, lines) if row and row[0][0].isdigit()}


def content(tmp_path, name="digits.cnn-sweep"):
    return json.loads((tmp_path / name / "sweep.json").read_text())


@pytest.mark.parametrize("device", ["cpu", "gpu"])
@pytest.mark.parametrize("version", ["this", "earlier"])
def test_results_of_other_settings_are_never_shown(tmp_path, sweep, monkeypatch, device, version):
    """A GPU trains only what is missing, here by a made-up report of the machine; earlier files had rows alone."""

    @contextlib.contextmanager
    def made_up(device):
        yield Peak(2**30, 2**30)

    if device == "gpu":
        monkeypatch.setattr(room, "room", lambda device: Room(1, 2**40, 2**40))
        monkeypatch.setattr(room, "measured", made_up)
    jobs = ("--jobs", "auto" if device == "gpu" else "1")
    assert sweep(*RATES, *jobs)[0] == 0
    file = tmp_path / "digits.cnn-sweep" / "sweep.json"
    if version == "earlier":
        file.write_text(json.dumps(content(tmp_path)["runs"]))
    before = file.read_bytes()
    for rates in ("1e-3,2e-3", "3e-3,4e-3"):  # the second asks for no run that is there
        code, out, err = sweep("--optim.lr", rates, "--optim.weight-decay", "0", *jobs)
        assert (code, out) == (2, "")
        assert "other settings: optim.weight_decay (0.0005, now 0.0)" in err
        assert "--name" in err
        assert "--run.name" not in err
    assert file.read_bytes() == before
    assert len(list(tmp_path.glob("*/*/config.json"))) == 2


def test_a_run_with_other_settings_in_its_place_is_refused(tmp_path, sweep, untrained):
    place = ["--run.folder", str(tmp_path / "digits.cnn-sweep"), "--run.name", "optim.lr=0.002"]
    quick = [word.rstrip("|") for word in QUICK]
    assert main(["train", "digits.cnn", *quick, *QUIET[:-2], "--optim.lr", "0.5", *place]) == 0
    code, _, err = sweep(*RATES)
    assert code == 2
    assert "optim.lr=0.002 holds a run with other settings: optim.lr (0.5, now 0.002). Choose another --name" in err
    assert not untrained
    assert not (tmp_path / "digits.cnn-sweep" / "sweep.json").exists()


@pytest.mark.parametrize(
    ("words", "recipe", "says"),
    [
        (["--data.batch-size", "32,64"], "digits.cnn", "a sweep of optim.lr, and this one varies data.batch_size"),
        ([*RATES, "--data.batch-size", "32,64"], "digits.cnn", "this one varies optim.lr, data.batch_size"),
        ([], "digits.cnn", "this one varies no option"),
        ([*RATES, "--data.batch-size", "32"], "digits.cnn", "with other settings: data.batch_size (64, now 32)"),
        (RATES, "digits.spherenet", "a sweep of the recipe 'digits.cnn', not of 'digits.spherenet'"),
    ],
)
def test_another_sweep_goes_elsewhere(tmp_path, sweep, untrained, words, recipe, says):
    name = ["--name", "mine"]
    assert sweep(*RATES, *name)[0] == 0
    assert untrained == ["optim.lr=0.001", "optim.lr=0.002"]
    assert {key: content(tmp_path, "mine")[key] for key in ("recipe", "varied")} == {
        "recipe": "digits.cnn",
        "varied": ["optim.lr"],
    }
    assert content(tmp_path, "mine")["settings"]["schedule.steps"] == 1
    for also in ([], ["--show"]):
        code, _, err = sweep(*words, *name, *also, recipe=recipe)
        assert code == 2
        assert says in err
        assert "choose another folder with --name" in err
    assert len(untrained) == 2


def test_a_sweep_that_is_extended_shows_all(tmp_path, sweep):
    assert sweep(*RATES, "--run.seeds", "0,1")[0] == 0
    code, out, _ = sweep("--optim.lr", "4e-3", "--optim.weight-decay", "5e-4")  # which is the recipe's anyway
    assert code == 0
    rows = table(out)
    assert [(value, row[-1]) for value, row in rows.items()] == [("0.001", "2"), ("0.002", "2"), ("0.004", "1")]
    runs = content(tmp_path)["runs"]
    assert [(row["run"], len(row["seeds"])) for row in runs] == [
        ("optim.lr=0.001", 2),
        ("optim.lr=0.002", 2),
        ("optim.lr=0.004", 1),
    ]
    code, out, _ = sweep("--optim.lr", "4e-3,-1,1e-3")  # a row that failed and is not asked for again is left out
    assert code == 1
    assert [row["run"] for row in content(tmp_path)["runs"]] == [
        "optim.lr=0.002",
        "optim.lr=0.004",
        "optim.lr=-1.0",
        "optim.lr=0.001",
    ]
    assert sweep(*RATES)[0] == 0
    assert [row["run"] for row in content(tmp_path)["runs"]] == [f"optim.lr=0.00{n}" for n in (4, 1, 2)]


def test_options_in_another_order_find_their_runs(tmp_path, sweep, untrained):
    sizes = ["--data.batch-size", "32,64"]
    assert sweep(*RATES, *sizes)[0] == 0
    assert sweep(*sizes, *RATES)[0] == 0
    assert untrained[:4] == untrained[4:]


def test_a_sweep_that_was_killed_is_known(tmp_path, sweep, monkeypatch):
    def killed(config):
        begun(run_path(config))
        raise KeyboardInterrupt

    monkeypatch.setattr("hypersphere.cli.sweep.train", killed)
    assert sweep(*RATES)[0] == 130
    assert content(tmp_path)["varied"] == ["optim.lr"]
    assert "holds a sweep of optim.lr" in sweep("--data.batch-size", "32,64")[2]


def test_a_sweep_of_which_nothing_began_blocks_no_other(tmp_path, sweep, monkeypatch):
    def fail(config):
        raise ValueError("no data")

    monkeypatch.setattr("hypersphere.cli.sweep.train", fail)
    assert sweep(*RATES)[0] == 1
    monkeypatch.setattr("hypersphere.cli.sweep.train", lambda config: None)
    assert sweep("--data.batch-size", "32,64")[0] == 0
    assert content(tmp_path)["varied"] == ["data.batch_size"]


@pytest.mark.parametrize("text", ["{", "3", '{"runs": []}', "[1]", '[{"run": "a"}]', '{"runs": [{"varied": 3}]}'])
def test_a_damaged_file_is_named(tmp_path, sweep, untrained, text):
    begun(tmp_path / "mine" / "optim.lr=0.001")
    (tmp_path / "mine" / "sweep.json").write_text(text)
    code, _, err = sweep(*RATES, "--name", "mine")
    assert code == 2
    assert f"{tmp_path / 'mine' / 'sweep.json'} is damaged: remove it" in err
    assert not untrained


def test_the_folder_of_a_run_takes_no_sweep(tmp_path, sweep, untrained):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text("{}")
    assert "mine holds a run, not a sweep" in sweep(*RATES, "--name", "mine")[2]


def test_the_second_sweep_at_once_is_told_who_works_there(tmp_path, sweep, untrained):
    (tmp_path / "mine").mkdir()
    with locked(tmp_path / "mine", "it"):
        code, _, err = sweep(*RATES, "--name", "mine")
    assert code == 2
    assert f"mine is in use by process {os.getpid()} on " in err
    assert "choose another --name" in err
    assert not untrained
    assert sweep(*RATES, "--name", "mine")[0] == 0
    assert not (tmp_path / "mine" / ".lock").exists()


# A sweep whose trainings sleep: it says its process and that of a training.
SLEEPING = """
import os, subprocess, sys
real = subprocess.Popen

def start(command, **options):
    if "hypersphere" not in command:
        return real(command, **options)
    child = real(["sleep", "600"], **options)
    print("training", child.pid, flush=True)
    return child

subprocess.Popen = start
from hypersphere.cli import main
main(sys.argv[1:])
"""


def test_trainings_that_outlive_their_sweep_are_left_alone(tmp_path, sweep):
    words = ["sweep", "digits.cnn", *QUICK, *QUIET, "--run.folder", tmp_path, *RATES, "--jobs", "2"]
    first = programs.start(["-c", SLEEPING, *words], stdout=subprocess.PIPE)
    children = []
    try:
        while len(children) < 2:
            line = first.stdout.readline()
            assert line
            children += [int(line.split()[1])] if line.startswith("training") else []
        words = tmp_path / "digits.cnn-sweep" / "settings" / "optim.lr=0.001.txt"
        words.write_text("what the first training says\n")
        first.kill()
        first.wait()
        code, _, err = sweep(*RATES, "--jobs", "2")
        assert code == 2
        assert f"processes that still run, although process {first.pid} on " in err
        assert words.read_text() == "what the first training says\n"
    finally:
        first.kill()
        first.stdout.close()
        for child in children:
            os.kill(child, signal.SIGKILL)


def test_a_folder_that_cannot_be_written_is_told_before_training(tmp_path, sweep, untrained):
    (tmp_path / "file").write_text("in the place of a folder")
    code, out, err = sweep(*RATES, "--run.folder", str(tmp_path / "file" / "runs"))
    assert (code, out) == (2, "")
    assert "cannot be written (Not a directory): choose another --run.folder" in err
    assert not untrained
