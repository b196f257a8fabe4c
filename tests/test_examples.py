"""Every example runs: those of packages that are not installed are skipped."""

import importlib.util
import math
import os
from pathlib import Path

import pytest
import torch

import programs

EXAMPLES = Path(__file__).parents[1] / "examples"


def example(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_moving_average():
    found = example("ema").main(steps=30)
    assert found["network"] > 0.5
    assert found["average"] > 0.3
    assert found["network"] != found["average"]


@pytest.mark.parametrize("name", ["ddp", "fsdp2"])
def test_one_process(name):
    if not torch.distributed.is_available():
        pytest.skip("this build of torch has no torch.distributed")
    assert math.isfinite(example(name).main(steps=3))
    assert not torch.distributed.is_initialized()


@pytest.mark.slow
def test_two_processes(tmp_path):
    """As its first line says; ddp.py differs by the wrapper alone."""
    command = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", EXAMPLES / "fsdp2.py"]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHON_EXEC": str(programs.python())}
    done = programs.run(command, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("loss ") == 2


def test_accelerate():
    pytest.importorskip("accelerate")
    assert math.isfinite(example("with_accelerate").main(steps=3))


def test_lightning():
    pytest.importorskip("lightning")
    assert example("with_lightning").main(steps=60) > 0.3


def test_trainer(tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    trained, saved = example("with_trainer").main(str(tmp_path), steps=2)
    images = torch.randn(3, 1, 8, 8)
    with torch.no_grad():
        assert torch.equal(trained.eval()(images).logits, saved.eval()(images).logits)
    assert "SphereLinear" in str(saved)
    with pytest.raises(OSError, match=r"model\.safetensors"):
        transformers.ViTForImageClassification.from_pretrained(tmp_path)
