"""Signals that come late, orders that depend on each other, and mistakes that are found before the first training."""

import json
import os
import signal

import pytest
from tiny import tiny

from hypersphere.cli import main
from hypersphere.train import Job, Outcome, Stopped, run, run_at_once, training, with_values
from hypersphere.train.launch import signals


def interrupting(monkeypatch):
    """A signal comes in the last evaluation of the first training that has one."""
    genuine, seen = training.Training._finish, []

    def finish(self):
        seen.append((self.config.recipe, self.seed))
        if len(seen) == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return genuine(self)

    monkeypatch.setattr(training.Training, "_finish", finish)
    return seen


def test_a_signal_in_the_last_evaluation_of_a_seed_is_obeyed_before_the_next(tmp_path, monkeypatch):
    config = with_values(tiny(tmp_path, "seeds", 2), {"run.seeds": (0, 1)})
    with monkeypatch.context() as patch:
        seen = interrupting(patch)
        with pytest.raises(Stopped, match="seed 0 is done") as stopped:
            run(config)
    assert stopped.value.code == 130
    assert seen == [("seeds", 0)]
    assert [one["seed"] for one in run(config)["seeds"]] == [0, 1]


@pytest.mark.parametrize("extra", [[], ["--at-once", "1", "--within", "9"], ["--at-once", "2"]])
def test_a_signal_in_the_last_evaluation_of_a_cell_begins_no_other(extra, tmp_path, monkeypatch, capsys):
    words = ["reproduce", "digits", "--steps", "2", "--seeds", "0,1", "--results", str(tmp_path / "results")]
    words += ["--run.folder", str(tmp_path / "runs"), "--run.device", "cpu", "--run.progress", "off", *extra]
    with monkeypatch.context() as patch:
        seen = interrupting(patch)
        assert main(words) == 130
    assert len(seen) in ((1, 2) if "2" in extra else (1,))  # one at work may end as well
    assert "Give the same command again" in capsys.readouterr().err
    assert main(words) == 0
    found = json.loads((tmp_path / "results" / "digits.json").read_text())["measurements"]
    assert len(found) == 4


def test_a_signal_in_the_last_evaluation_of_a_sweep_begins_no_other_run(tmp_path, monkeypatch, capsys):
    words = ["sweep", "digits.cnn", "--optim.lr", "1e-3,2e-3", "--jobs", "1", "--schedule.steps", "2"]
    words += ["--schedule.milestones", "none", "--run.folder", str(tmp_path), "--run.device", "cpu"]
    with monkeypatch.context() as patch:
        seen = interrupting(patch)
        assert main(words) == 130
    assert len(seen) == 1
    assert "Give the same command again" in capsys.readouterr().err
    assert main(words) == 0


def test_that_several_were_stopped_is_said_once(tmp_path, monkeypatch, capsys):
    def stopped(jobs, count, ended, within):
        outcomes = [Outcome(job, error=Stopped("everything is saved", code=130)) for job in jobs]
        for outcome in outcomes:
            ended(outcome)
        return outcomes

    monkeypatch.setattr("hypersphere.cli.reproduce.run_at_once", stopped)
    words = ["--seeds", "0,1", "--at-once", "2", "--steps", "2", "--results", str(tmp_path)]
    assert main(["reproduce", "digits", *words]) == 130
    assert capsys.readouterr().err == "hypersphere reproduce: stopped. Give the same command again to continue\n"


def test_whoever_listens_further_out_hears_it_and_a_second_signal_acts_at_once():
    heard = []
    with signals(lambda: heard.append("outer")), signals(lambda: heard.append("inner")):
        os.kill(os.getpid(), signal.SIGINT)
        assert heard == ["inner", "outer"]
        os.kill(os.getpid(), signal.SIGTERM)  # another one: a sweep's children get both
        assert heard == ["inner", "outer"] * 2
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_signal_that_nobody_further_in_hears_acts_at_once():
    heard = []
    with signals(lambda: heard.append("outer"), alone=False):
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        assert heard == []
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_several_processes_train_one_at_a_time(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main([*plan(tmp_path, "digits --cells cnn --steps 2"), "--within", "1"]) == 2
    assert "--at-once and --within need one process" in capsys.readouterr().err


def plan(tmp_path, *lines):
    (tmp_path / "plan.txt").write_text("\n".join(lines))
    words = ["reproduce", "--plan", str(tmp_path / "plan.txt"), "--results", str(tmp_path / "results")]
    return [*words, "--run.folder", str(tmp_path / "runs"), "--run.device", "cpu", "--run.progress", "off"]


@pytest.mark.parametrize("extra", [[], ["--at-once", "2"]])
@pytest.mark.parametrize("folder", [False, True])
def test_what_others_start_from_comes_first(folder, extra, tmp_path):
    start = str(tmp_path / "runs" / "digits.cnn-2") if folder else "digits.cnn-2"
    lines = [f"digits --cells cnn --steps 3 --model.start {start}", "digits --cells cnn --steps 2"]
    assert main([*plan(tmp_path, *lines), *extra]) == 0
    assert len(json.loads((tmp_path / "results" / "digits.json").read_text())["measurements"]) == 2


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ("--model.start nosuch", "model.start='nosuch' is no run: train it first"),
        ("--loss.name nosuch_module:Head", "nosuch_module"),
    ],
)
def test_mistakes_of_a_plan_are_found_before_its_first_training(mistake, message, tmp_path, capsys):
    lines = ["digits --cells cnn --steps 2", f"digits --cells spherenet --steps 2 {mistake}"]
    assert main(plan(tmp_path, *lines)) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_a_folder_of_results_that_cannot_be_written_is_found_before_training(tmp_path, capsys):
    (tmp_path / "results").write_text("a file")
    assert main(plan(tmp_path, "digits --cells cnn --steps 2")) != 0
    assert str(tmp_path / "results") in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_a_seed_that_fails_does_not_hide_the_others(tmp_path, capsys):
    words = plan(tmp_path, "digits --cells cnn --steps 2")
    assert main([*words, "--seeds", "1"]) == 0
    (tmp_path / "results" / "digits.json").unlink()
    broken = tmp_path / "runs" / "digits.cnn-2" / "seed-1" / "result.json"
    broken.write_text("broken")
    assert main([*words, "--seeds", "0,1,2"]) == 1
    assert "seed-1" in capsys.readouterr().err
    found = json.loads((tmp_path / "results" / "digits.json").read_text())["measurements"]
    assert [one["seed"] for one in found] == [0, 2]


def test_a_damaged_result_of_another_seed_costs_the_trainings_at_work_nothing(tmp_path):
    config = with_values(tiny(tmp_path, "seeds", 2), {"run.seeds": (0,)})
    run(config)
    (tmp_path / "seeds" / "seed-0" / "result.json").write_text("broken")
    jobs = [Job(with_values(config, {"run.seeds": (1,)}), 1), Job(tiny(tmp_path, "other", 6), 0)]
    outcomes = {one.job.name: one for one in run_at_once(jobs, 2)}
    assert outcomes["seeds seed 1"].error is None
    assert outcomes["seeds seed 1"].result["seed"] == 1
    assert outcomes["other seed 0"].result is not None


@pytest.mark.parametrize("file", ["result.json", "manifest.json"])
def test_a_damaged_result_of_another_seed_is_named_in_the_summary(tmp_path, caplog, file):
    config = with_values(tiny(tmp_path, "seeds", 2), {"run.seeds": (0,)})
    run(config)
    broken = tmp_path / "seeds" / "seed-0" / file
    broken.write_text("broken")
    summary = run(with_values(config, {"run.seeds": (1,)}))
    assert [one["seed"] for one in summary["seeds"]] == [1]
    assert summary["mean_final_accuracy"] == summary["seeds"][0]["final_accuracy"]
    (why,) = summary["damaged"]
    assert str(broken) in why
    assert f"seed 0 is left out of the summary of {tmp_path / 'seeds'}: {broken}" in caplog.text
    assert json.loads((tmp_path / "seeds" / "result.json").read_text())["damaged"] == [why]


def test_where_something_breaks_what_is_at_work_is_saved(tmp_path, monkeypatch):
    monkeypatch.setattr("hypersphere.train.training.TURN", 1)

    def ended(outcome):
        raise MemoryError("of the caller")

    jobs = [Job(tiny(tmp_path, "short", 1), 0), Job(tiny(tmp_path, "long", 50), 0)]
    with pytest.raises(MemoryError, match="of the caller"):
        run_at_once(jobs, 2, ended)
    assert list((tmp_path / "long" / "seed-0" / "checkpoints").glob("step-*"))
