"""Several trainings at once in one process: each ends as it does alone, whatever becomes of the others."""

import json
import os
import signal

import pytest
import torch
from cases import diverging
from safetensors.torch import load_file
from tiny import everything, tiny, tiny_gan

from hypersphere import data
from hypersphere.cli import main
from hypersphere.train import Job, Stopped, compiled, explain, run, run_at_once, with_values
from hypersphere.train import at_once as module
from hypersphere.train.board import Board
from hypersphere.train.training import Training

FOREIGN = ("rate", "seconds_per_100_steps")


def log_of(folder):
    lines = [json.loads(line) for line in (folder / "seed-0" / "log.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name not in FOREIGN} for line in lines]


def same(left, right):
    """Logs and weights, bit for bit."""
    assert log_of(left) == log_of(right)
    ours, theirs = (load_file(folder / "seed-0" / "model.safetensors") for folder in (left, right))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_trainings_at_once_end_as_they_do_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("hypersphere.train.training.TURN", 1)
    kinds = {"everything": everything, "gan": tiny_gan}  # a GAN draws from torch's own generator
    for name, kind in kinds.items():
        run(kind(tmp_path / "alone", name, 4))
    state = torch.get_rng_state()
    jobs = [Job(kind(tmp_path / "shared", name, 4), 0) for name, kind in kinds.items()]
    order = []
    genuine = Training._log

    def log(self, now, line):
        order.append(self.config.recipe)
        genuine(self, now, line)

    monkeypatch.setattr(Training, "_log", log)
    outcomes = run_at_once(jobs, 2)
    assert [one.error for one in outcomes] == [None] * 2
    assert order[:2] == ["everything", "gan"]  # they took turns
    assert torch.equal(torch.get_rng_state(), state)
    for name in kinds:
        same(tmp_path / "alone" / name, tmp_path / "shared" / name)
        result = json.loads((tmp_path / "shared" / name / "result.json").read_text())
        assert result["seeds"][0]["at_once"] == 2


def test_a_set_is_read_once_for_all_of_them(tmp_path, monkeypatch):
    genuine, reads = data.load, []
    monkeypatch.setattr(data, "load", lambda *words, **options: reads.append(words) or genuine(*words, **options))
    config = tiny(tmp_path, "shared", 1)
    larger = with_values(config, {"run.name": "larger", "data.batch_size": config.data.batch_size + 1})
    jobs = [Job(with_values(config, {"run.seeds": (0, 1, 2)}), seed) for seed in range(3)]
    assert all(one.result for one in run_at_once([*jobs, Job(larger, 0)], 2))
    assert len(reads) == 2
    run(with_values(config, {"run.name": "alone"}))
    assert len(reads) == 3  # nothing is kept afterwards


def test_a_failed_one_does_not_stop_the_others(tmp_path):
    good = tiny(tmp_path, "good", 2)
    jobs = [Job(diverging(tmp_path), 0), Job(good, 0), Job(with_values(good, {"run.name": "g2"}), 1)]
    absent = with_values(good, {"run.name": "absent", "data.name": "cifar10", "data.root": str(tmp_path / "no")})
    outcomes = {one.job.name: one for one in run_at_once([*jobs, Job(absent, 0)], 3)}
    assert isinstance(outcomes["diverging seed 0"].error, Stopped)
    assert "not finite" in str(outcomes["diverging seed 0"].error)
    assert not outcomes["diverging seed 0"].stopped
    assert outcomes["absent seed 0"].error is not None
    assert outcomes["good seed 0"].result is not None
    assert outcomes["g2 seed 1"].result["seed"] == 1


@pytest.mark.parametrize("stopping", [False, True])
def test_others_go_on_while_the_cause_of_a_failure_is_looked_for(stopping, tmp_path, monkeypatch):
    genuine, walk, seen = Training._log, explain.spoiled, []

    def log(self, now, line):
        genuine(self, now, line)
        seen.append(self.config.recipe)
        if self.config.recipe == "bad" and now == 4:
            with torch.no_grad():
                self.parts.objective.model.body.conv2[0].op.weight[0] = float("inf")

    def spoiled(objective, buffers=True):
        seen.append("walk")
        if stopping and seen.count("walk") == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return walk(objective, buffers)

    monkeypatch.setattr(Training, "_log", log)
    monkeypatch.setattr(explain, "spoiled", spoiled)
    values = {"run.log_every": 1, "run.checkpoint_every": 8, "schedule.kind": "constant"}
    jobs = [Job(with_values(tiny(tmp_path, name, steps), values), 0) for name, steps in (("bad", 8), ("good", 40))]
    outcomes = {one.job.name: one for one in run_at_once(jobs, 2)}
    first, last = seen.index("walk"), len(seen) - seen[::-1].index("walk")
    assert "good" in seen[first:last]
    assert ("was not found, because the search" if stopping else "first in") in str(outcomes["bad seed 0"].error)
    assert (outcomes["good seed 0"].result is None) == stopping


def test_a_summary_that_cannot_be_written_fails_alone(tmp_path, monkeypatch):
    genuine = module.write_result

    def full(folder, config):
        if config.recipe == "a":
            raise OSError("no space left")
        return genuine(folder, config)

    jobs = [Job(tiny(tmp_path, name, 2), 0) for name in ("a", "b")]
    with monkeypatch.context() as patch:
        patch.setattr(module, "write_result", full)
        first, second = run_at_once(jobs, 1)
    assert "no space" in str(first.error)
    assert second.result is not None
    assert run_at_once(jobs[:1], 1)[0].result is not None


def test_interrupted_work_goes_on(tmp_path, monkeypatch):
    names = ("a", "b", "c")
    run(everything(tmp_path, "alone", 8))
    genuine = Training._log

    def log(self, now, line):
        genuine(self, now, line)
        if now == 4 and self.config.recipe == "b":
            schedule[0]._stop()

    schedule = []
    init = module._Schedule.__init__

    def remember(self, *arguments):
        init(self, *arguments)
        schedule.append(self)

    jobs = [Job(everything(tmp_path, name, 8), 0) for name in names]
    with monkeypatch.context() as patch:
        patch.setattr(Training, "_log", log)
        patch.setattr(module._Schedule, "__init__", remember)
        outcomes = run_at_once(jobs, 2)
    assert [one.stopped for one in outcomes] == [True] * 3
    assert {one.job.config.recipe for one in outcomes if one.error is not None} == {"a", "b"}
    assert (outcomes[2].job.config.recipe, outcomes[2].error) == ("c", None)  # it has not begun
    outcomes = run_at_once(jobs, 2)
    assert all(one.result is not None for one in outcomes)
    for name in names:
        same(tmp_path / "alone", tmp_path / name)


def test_a_result_tells_of_parts_that_were_trained_with_others(tmp_path, monkeypatch):
    genuine = Training._log

    def log(self, now, line):
        genuine(self, now, line)
        self.interrupted = now == 2

    configs = [tiny(tmp_path, name, 4) for name in ("a", "b")]
    with monkeypatch.context() as patch:
        patch.setattr(Training, "_log", log)
        assert all(one.stopped for one in run_at_once([Job(config, 0) for config in configs], 2))
        with pytest.raises(Stopped):
            run(tiny(tmp_path, "alone", 4))
    first, second = (run(config)["seeds"][0] for config in configs)
    assert (first["at_once"], second["at_once"]) == (2, 2)
    assert "at_once" not in run(tiny(tmp_path, "alone", 4))["seeds"][0]


def test_what_a_training_needs_comes_first(tmp_path):
    first = tiny(tmp_path, "first", 2)
    second = with_values(tiny(tmp_path, "second", 2), {"model.start": "first"})
    outcomes = run_at_once([Job(second, 0), Job(first, 0)], 2)
    assert [one.job.config.recipe for one in outcomes] == ["first", "second"]
    assert all(one.error is None for one in outcomes)


def test_several_processes_are_refused(tmp_path, monkeypatch):
    from hypersphere.runs import Team

    monkeypatch.setattr(module, "team", lambda device: Team(0, 2, torch.device("cpu")))
    (outcome,) = run_at_once([Job(tiny(tmp_path), 0)], 2)
    assert "torchrun" in str(outcome.error)
    with pytest.raises(ValueError, match="at_once=0"):
        run_at_once([], 0)


def test_reproduce_at_once(tmp_path, capsys):
    words = ["reproduce", "digits", "--steps", "2", "--run.device", "cpu", "--run.progress", "plain", "--seeds", "0,1"]
    words += ["--cells", "cnn"]
    alone = [*words, "--results", str(tmp_path / "one"), "--run.folder", str(tmp_path / "runs")]
    shared = [*words, "--results", str(tmp_path / "two"), "--run.folder", str(tmp_path / "others"), "--at-once", "3"]
    assert main(alone) == 0
    capsys.readouterr()
    assert main(shared) == 0
    assert "published" in capsys.readouterr().out
    numbers = []
    for folder in ("one", "two"):
        found = json.loads((tmp_path / folder / "digits.json").read_text())["measurements"]
        numbers.append([(m["cell"], m["seed"], m["final_accuracy"], m["test_loss"]) for m in found])
    assert numbers[0] == numbers[1]
    assert len(numbers[0]) == 2
    assert main(shared) == 0
    assert capsys.readouterr().out.count("is done") == 1
    assert main([*shared, "--at-once", "0"]) != 0


def test_cuda_gets_more_queues_before_it_starts(monkeypatch):
    name = "CUDA_DEVICE_MAX_CONNECTIONS"
    monkeypatch.setenv(name, "1")
    run_at_once([], 2)
    assert os.environ[name] == "1"  # the user's number counts
    monkeypatch.delenv(name)
    with monkeypatch.context() as patch:
        patch.setattr(torch.cuda, "is_initialized", lambda: True)
        run_at_once([], 2)
    assert name not in os.environ  # too late
    run_at_once([], 2)
    assert os.environ[name] == "32"


def test_the_board_has_a_row_for_each(capsys, monkeypatch):
    board = Board(5, "plain")
    rows = [board.row() for _ in range(2)]
    for i, row in enumerate(rows):
        row.start(f"training {i}", 100, 0)
        row.update(10 * (i + 1), {"loss": 1.5, "rate": 20.0 + i})
    board.ended("training 2: 90.00%")
    board.ended("training 3: it broke", "failed")
    lines = board.text().splitlines()
    assert lines[0] == "1 done, 1 failed, 2 at work, 1 waiting of 5 trainings; 41.0 steps/s together"
    assert [line.split()[:3] for line in lines[1:]] == [["training", "0", "10/100"], ["training", "1", "20/100"]]
    assert lines[1].index("loss") == lines[2].index("loss")
    monkeypatch.setattr("hypersphere.train.board.EVERY", 0.0)
    rows[0].update(30, {"loss": 1.0})
    assert "30/100" in capsys.readouterr().out
    rows[0].stop()
    assert len(board.text().splitlines()) == 2


def test_the_board_is_live_in_a_terminal():
    pytest.importorskip("rich")
    board = Board(1, "rich")
    row = board.row()
    row.start("training", 10, 0)
    assert board._live is not None
    assert "training" in str(board._rendered())
    row.stop()
    assert board._live is None


def test_seeds_share_what_is_compiled_and_other_settings_do_not(tmp_path, monkeypatch):
    resets = []
    monkeypatch.setattr(torch.compiler, "reset", lambda: resets.append(1))
    monkeypatch.setattr(compiled, "_kept", (None, 0))
    config = tiny(tmp_path)
    for _ in range(5):  # those that do not share fill the compiler's eight places
        compiled.forget_compiled(config)
    assert len(resets) == 2
    compiled.forget_compiled(with_values(config, {"run.name": "elsewhere"}))
    assert len(resets) == 2
    compiled.forget_compiled(with_values(config, {"model.conv": "sphere"}))
    assert len(resets) == 3


def test_a_number_that_cannot_be_written_does_not_end_the_others(tmp_path, monkeypatch, capsys):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("hypersphere.recipes.results.record", full)
    words = ["--steps", "2", "--at-once", "2", "--results", str(tmp_path / "results"), "--run.device", "cpu"]
    assert main(["reproduce", "digits", *words, "--run.folder", str(tmp_path / "runs")]) == 1
    assert capsys.readouterr().err.count("No space left on device") == 2
    assert len(list((tmp_path / "runs").glob("*/seed-0/result.json"))) == 2


def test_a_run_that_starts_from_itself_is_an_error(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["--cells", "cnn", "--run.name", "A", "--model.start", "A", "--steps", "2", "--at-once", "2"]
    assert main(["reproduce", "digits", *words, "--results", str(tmp_path), "--run.device", "cpu"]) == 1
    assert "it starts from A, which waits for it" in capsys.readouterr().err
