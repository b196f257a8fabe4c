"""Two processes with half the batch each are one process with the whole batch."""

import json
import os
import re
import sys
from pathlib import Path

import pytest
import torch
from cases import OBSERVING, diverging, parallel_cases
from safetensors.torch import load_file

import hypersphere as hs
import programs
from hypersphere.runs import Team
from hypersphere.train import Stopped, run, with_values
from hypersphere.train.adversary import make_adversary
from hypersphere.train.distributed import _share_mean
from hypersphere.train.peers import writer_first

HERE = Path(__file__).parent
CASES = ["no_batchnorm", "batchnorm", "running_norm", "gan", "pairs", "triplet", "orthogonal_descent", *OBSERVING]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    one, two = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("two")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path]), "PYTHON_EXEC": str(programs.python())}
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", HERE / "parallel.py", two]
    done = programs.run(command, env=env, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    torch.set_num_threads(1)
    for config in parallel_cases(one):
        run(config)
    return one, two


def losses(path: Path) -> dict[int, float]:
    lines = [json.loads(line) for line in (path / "seed-0" / "log.jsonl").read_text().splitlines()]
    return {line["step"]: line["loss"] for line in lines if "loss" in line}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_two_processes_give_the_losses_of_one(folders, name):
    one, two = (losses(folder / name) for folder in folders)
    assert one.keys() == two.keys()
    assert len(one) == 6
    for step, loss in one.items():
        assert two[step] == pytest.approx(loss, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_one_writer_and_the_same_weights_and_scores(folders, name):
    first, second = (folder / name / "seed-0" for folder in folders)
    result = json.loads((second / "result.json").read_text())
    assert result["processes"] == 2
    assert result["final_accuracy"] == pytest.approx(json.loads((first / "result.json").read_text())["final_accuracy"])
    ours, theirs = load_file(first / "model.safetensors"), load_file(second / "model.safetensors")
    for key, value in ours.items():
        torch.testing.assert_close(theirs[key], value, atol=2e-4, rtol=1e-3)


@pytest.mark.slow
def test_what_is_not_finite_is_named_by_step_and_layer(folders):
    one, two = folders
    with pytest.raises(Stopped) as alone:
        run(diverging(one))
    first, second = ((two / f"stopped-{rank}.txt").read_text() for rank in (0, 1))
    assert first == second
    assert named(first) == named(str(alone.value))
    assert re.fullmatch(r"the loss is not finite at step \d+, first in (layer|parameter) model\..*", named(first))


@pytest.mark.slow
def test_what_the_writer_refuses_no_process_waits_for(folders):
    first, second = ((folders[1] / f"refused-{rank}.txt").read_text() for rank in (0, 1))
    assert first.startswith("ValueError: ")
    assert "holds a run with other settings: data.pad" in first
    assert second == first.replace("ValueError", "Stopped")


def test_the_others_are_told_what_the_writer_raises(monkeypatch):
    sent = []

    def broadcast(box, source):
        sent.append(box[0]) if not sent else box.__setitem__(0, sent[0])

    monkeypatch.setattr(torch.distributed, "broadcast_object_list", broadcast)
    writer, other = (Team(rank, 2, torch.device("cpu")) for rank in (0, 1))
    with pytest.raises(ZeroDivisionError):
        writer_first(writer, lambda: 1 / 0)
    with pytest.raises(Stopped, match="division by zero") as told:
        writer_first(other, lambda: pytest.fail("only the writer works"))
    assert (told.value.code, told.value.speaker) == (2, 0)


def named(message: str) -> str:
    return message.partition(";")[0]


def test_no_fused_code_takes_the_norms_of_one_process_for_those_of_all():
    h = hs.magnitude.Tanh()
    _share_mean(h)
    assert h.closed_form() is None
    assert h.eval().closed_form() is not None


def test_a_share_of_a_batch_that_several_processes_have_is_not_replaced(tmp_path):
    config = with_values(
        next(iter(parallel_cases(tmp_path))),
        {"adversarial.train": "fgsm", "adversarial.mixture": "replace", "adversarial.fraction": 0.5},
    )
    with pytest.raises(ValueError, match="each of 2 processes has a part: train in one process"):
        make_adversary(config.adversarial, None, None, Team(0, 2, torch.device("cpu")))
