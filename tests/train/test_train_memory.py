"""Memory that runs out: one sentence with the batch size and the options to change, and a run that continues."""

import importlib
from types import SimpleNamespace

import pytest
import torch
from tiny import tiny

from hypersphere.cli import main
from hypersphere.runs import SeedFolder, Team
from hypersphere.train import Job, Stopped, run, run_at_once, training
from hypersphere.train.memory import out_of_memory
from hypersphere.train.step import Step

WORDS = ["train", "digits.cnn", "--run.device", "cpu", "--run.progress", "off", "--run.log-every", "1"]
WORDS += ["--run.checkpoint-every", "2", "--run.eval-every", "4", "--run.tensorboard", "no", "--data.batch-size", "32"]
WORDS += ["--model.widths", "4,4,4", "--model.feature-dim", "8", "--schedule.steps", "6", "--schedule.milestones", "5"]
GPU = "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 15.77 GiB of which 1 GiB is free."


def of_the_host(*_):
    """The allocator's own error."""
    torch.empty(2**52)


def of_a_gpu(*_):
    raise torch.OutOfMemoryError(GPU)


def of_numpy(*_):
    raise MemoryError("Unable to allocate 1.50 TiB for an array with shape (9, 9)")


def fail_at(monkeypatch, step, fail):
    work = Step._updates
    monkeypatch.setattr(Step, "_updates", lambda self: fail() if self.step == step else work(self))


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        ("energy", "lower --limit"),
        ("evaluate", "lower --batch-size, or give --device cpu"),
        ("export", "lower --samples"),
        ("report", "give --logs-only, or --device cpu"),
    ],
)
def test_commands_that_train_nothing_say_what_needs_less(command, advice, monkeypatch, capsys):
    module = importlib.import_module(f"hypersphere.cli.{command}")
    monkeypatch.setattr(module, "run", of_a_gpu)
    assert main([command, "somewhere"]) == 1
    said = f"hypersphere {command}: memory ran out (it asked for 20.00 GiB more): {advice}\n"
    assert capsys.readouterr().err == said
    monkeypatch.setattr(module, "run", lambda options: (_ for _ in ()).throw(RuntimeError("another")))
    with pytest.raises(RuntimeError, match="another"):
        main([command, "somewhere"])
    assert main([command, "--help"]) == 0  # what is advised exists
    known = capsys.readouterr().out
    assert all(word.strip(",") in known for word in advice.split() if word.startswith("--"))


@pytest.mark.parametrize(
    ("fail", "asked"), [(of_the_host, "16777216.00 GiB"), (of_a_gpu, "20.00 GiB"), (of_numpy, "1.50 TiB")]
)
def test_one_sentence_and_the_same_command_continues(tmp_path, capsys, fail, asked):
    words = [*WORDS, "--run.folder", str(tmp_path)]
    assert main([*words, "--run.name", "whole"]) == 0
    capsys.readouterr()
    with pytest.MonkeyPatch.context() as patch:
        fail_at(patch, 3, fail)
        assert main([*words, "--run.name", "broken"]) == 1
    last = tmp_path / "broken" / "seed-0" / "checkpoints" / "step-00000002"
    assert capsys.readouterr().err == (
        f"hypersphere train: the CPU ran out of memory at step 3, at --data.batch-size 32 (it asked for {asked} more); "
        f"the last good checkpoint is {last}, from which the same command continues. Lower --data.batch-size or use "
        "--run.precision bfloat16, under another --run.name\n"
    )
    assert main([*words, "--run.name", "broken"]) == 0
    whole, broken = (SeedFolder(tmp_path / name, 0).weights() for name in ("whole", "broken"))
    assert all(torch.equal(value, broken[name]) for name, value in whole.items())


def test_a_gpu_is_named_with_its_memory(tmp_path, monkeypatch):
    about = SimpleNamespace(name="NVIDIA T4", total_memory=15 * 2**30)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: about)
    config, second = tiny(tmp_path, "mine", 2), Team(rank=1, world=2, device=torch.device("cuda:1"))
    for fail, place in (of_a_gpu, "cuda:1 (NVIDIA T4, 15.0 GiB)"), (of_the_host, "the CPU"):
        with pytest.raises((RuntimeError, MemoryError)) as found:
            fail()
        stopped = out_of_memory(found.value, config, SeedFolder(tmp_path, 0), second, None)
        assert str(stopped).startswith(f"{place} ran out of memory ")
        assert (stopped.speaker, stopped.code) == (1, 1)


def test_a_run_without_a_step_takes_the_smaller_batch_under_its_name(tmp_path, capsys):
    words = [*WORDS, "--run.folder", str(tmp_path), "--run.precision", "bfloat16"]
    with pytest.MonkeyPatch.context() as patch:
        fail_at(patch, 0, of_a_gpu)
        assert main(words) == 1
    assert capsys.readouterr().err.endswith("; no checkpoint was written yet. Lower --data.batch-size\n")
    assert main([*words, "--data.batch-size", "16"]) == 0


def test_an_evaluation_takes_smaller_batches_in_the_same_run(tmp_path, capsys):
    words = [*WORDS, "--run.folder", str(tmp_path)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "evaluate_protocol", of_a_gpu)
        assert main(words) == 1
    said = capsys.readouterr().err
    assert "ran out of memory in the evaluation of step 4, at --data.eval-batch-size 500 (" in said
    assert said.endswith("from which the same command continues. Lower --data.eval-batch-size\n")
    assert main([*words, "--data.eval-batch-size", "50"]) == 0


def test_a_network_that_does_not_fit_leaves_no_run(tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "make_parts", of_the_host)
        with pytest.raises(Stopped, match=r"memory while data and network were prepared, at --data.batch-size 32 \("):
            run(tiny(tmp_path, "mine", 2))
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_that_does_not_fit_into_memory_is_not_called_damaged(tmp_path):
    config = tiny(tmp_path, "mine", 6)
    with pytest.MonkeyPatch.context() as patch:
        fail_at(patch, 5, of_the_host)
        with pytest.raises(Stopped, match="at step 5"):
            run(config)
        patch.setattr(training.Training, "_take", of_the_host)
        with pytest.raises(Stopped, match="the CPU ran out of memory at step 0"):
            run(config)
    assert len(run(config)["seeds"]) == 1


def test_others_go_on_at_once(tmp_path, monkeypatch):
    jobs = [Job(tiny(tmp_path, name, 2), 0) for name in ("small", "large")]
    steps = training.Training._steps
    monkeypatch.setattr(
        training.Training, "_steps", lambda self: of_the_host() if self.config.recipe == "large" else steps(self)
    )
    found = {outcome.job: outcome for outcome in run_at_once(jobs, 2)}
    assert found[jobs[0]].result is not None
    assert "Train fewer at a time (--at-once, --jobs), lower --data.batch-size, or" in str(found[jobs[1]].error)


def test_other_errors_are_no_lack_of_memory(tmp_path, monkeypatch):
    fail_at(monkeypatch, 1, lambda: torch.ones(2) @ torch.ones(3))
    with pytest.raises(RuntimeError, match="inconsistent tensor size"):
        run(tiny(tmp_path, "mine", 2))
