"""Two processes with half the batch each are one process with the whole batch."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from cases import parallel_cases
from safetensors.torch import load_file

from hypersphere.train import run

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    one, two = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("two")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    env = {**os.environ, "PYTHONPATH": str(HERE), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, str(HERE / "parallel.py"), str(two)], capture_output=True, text=True, env=env, timeout=120
    )
    assert done.returncode == 0, done.stderr[-3000:]
    torch.set_num_threads(1)
    for config in parallel_cases(one):
        run(config)
    return one, two


def losses(path: Path) -> dict[int, float]:
    lines = [json.loads(line) for line in (path / "seed-0" / "log.jsonl").read_text().splitlines()]
    return {line["step"]: line["loss"] for line in lines if "loss" in line}


@pytest.mark.parametrize("name", ["no_batchnorm", "batchnorm", "running_norm", "gan"])
def test_two_processes_give_the_losses_of_one(folders, name):
    one, two = (losses(folder / name) for folder in folders)
    assert one.keys() == two.keys()
    assert len(one) == 6
    for step, loss in one.items():
        assert two[step] == pytest.approx(loss, abs=1e-5)


@pytest.mark.parametrize("name", ["no_batchnorm", "batchnorm", "running_norm", "gan"])
def test_one_writer_and_the_same_weights_and_scores(folders, name):
    first, second = (folder / name / "seed-0" for folder in folders)
    result = json.loads((second / "result.json").read_text())
    assert result["processes"] == 2
    assert result["final_accuracy"] == pytest.approx(json.loads((first / "result.json").read_text())["final_accuracy"])
    ours, theirs = load_file(first / "model.safetensors"), load_file(second / "model.safetensors")
    for key, value in ours.items():
        torch.testing.assert_close(theirs[key], value, atol=2e-4, rtol=1e-3)
