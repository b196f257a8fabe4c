"""On a GPU: one CUDA graph does what eager steps do, resumes, and finds what is not finite."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from cases import diverging, pairs, parallel_cases
from safetensors.torch import load_file
from tiny import everything, tiny, tiny_gan

from hypersphere import kernels
from hypersphere.orthogonal import rotation_parameters
from hypersphere.train import (
    Job,
    LossConfig,
    ModelConfig,
    OptimConfig,
    OrthogonalConfig,
    RegularizerConfig,
    Stopped,
    run,
    run_at_once,
    with_values,
)
from hypersphere.train.build import make_parts, make_step
from hypersphere.train.distributed import team
from hypersphere.train.step import Step
from hypersphere.train.training import Training

pytestmark = pytest.mark.gpu

CASES = {
    "adam": {"optim": OptimConfig(lr=5e-3)},
    "sgd": {"optim": OptimConfig(name="sgd", lr=0.05, clip=5.0)},
    "muon": {"optim": OptimConfig(name="muon", lr=0.02)},
    "adamh": {"optim": OptimConfig(name="adamh", lr=0.02)},
    "muonh": {"optim": OptimConfig(name="muonh", lr=0.02)},
    "margin and energy": {
        "model": ModelConfig(name="cnn3", widths="8,8,8", feature_dim=16, conv="sphere", angular="sigmoid"),
        "loss": LossConfig(name="ga_softmax", margin=2, angular="linear", annealing="sphereface"),
        "regularizer": RegularizerConfig(name="mhe"),
        "optim": OptimConfig(lr=5e-3, projection_every=4),
    },
}
HERE = Path(__file__).parent


@pytest.mark.parametrize("case", CASES)
def test_a_captured_step_is_an_eager_step(case, tmp_path):
    losses = {}
    for eager in (True, False):
        config = tiny(tmp_path, "gpu", 60, **CASES[case])
        config = with_values(config, {"run.device": "cuda", "run.matmul": "highest"})
        step = Step(make_parts(config, 0, team("cuda")), eager=eager)
        losses[eager] = []
        for _ in range(5):
            for _ in range(12):  # crosses epochs (45 batches) and milestones
                step()
            losses[eager].append(step.read()["loss"])
        assert eager == (step._graph is None)
    assert losses[False] == pytest.approx(losses[True], rel=0.03)


def test_a_row_of_blocks_is_trained_by_kernels_alone(tmp_path):
    """Batch, network, loss and sums by kernels; the same by plain operations."""
    losses = {}
    model = ModelConfig(name="cnn3", widths="8,8,8", feature_dim=16, conv="sphere", angular="sigmoid")
    for families in (kernels.FAMILIES, ()):
        kernels.enable(*families)
        kernels.LAUNCHES.clear()
        config = with_values(tiny(tmp_path, "gpu", 60, model=model), {"run.device": "cuda", "run.matmul": "highest"})
        step = Step(make_parts(config, 0, team("cuda")), eager=True)
        for _ in range(12):
            step()
        assert kernels.LAUNCHES["criterion_kernel"] == kernels.LAUNCHES["tally_kernel"] == 12 * bool(families)
        losses[bool(families)] = step.read()
    kernels.enable(*(name for name, on in kernels.FAMILIES.items() if on))
    assert losses[True] == pytest.approx(losses[False], rel=0.01, abs=0.02)


def test_the_learning_rate_follows_the_schedule_inside_the_graph(tmp_path):
    config = with_values(tiny(tmp_path, "rate", 24), {"run.device": "cuda"})
    parts = make_parts(config, 0, team("cuda"))
    step = Step(parts)
    seen = []
    for _ in range(24):
        step()
        seen.append(float(parts.optimizers.parts[0].param_groups[0]["lr"]))
    assert seen == pytest.approx([1e-3] * 12 + [1e-4] * 6 + [1e-5] * 6)


def test_trainings_at_once_end_as_they_do_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
    kinds = {"plain": tiny, "gan": tiny_gan}  # the captured step of a GAN draws random numbers
    for name, kind in kinds.items():
        run(with_values(kind(tmp_path / "alone", name, 40), {"run.device": "cuda", "run.compile": "off"}))
    configs = [kind(tmp_path / "shared", name, 40) for name, kind in kinds.items()]
    jobs = [Job(with_values(config, {"run.device": "cuda", "run.compile": "off"}), 0) for config in configs]
    outcomes = run_at_once(jobs, 2)
    assert [outcome.error for outcome in outcomes] == [None, None]
    for name in kinds:
        ours, theirs = (
            load_file(tmp_path / place / name / "seed-0" / "model.safetensors") for place in ("shared", "alone")
        )
        assert all(torch.equal(ours[key], theirs[key]) for key in theirs)


def test_a_run_goes_on_from_its_checkpoint(tmp_path):
    values = {"run.device": "cuda", "run.precision": "bfloat16", "run.channels_last": True}
    config = with_values(everything(tmp_path, "on", 16), values)
    genuine = Training._log

    def log(self, now, line):
        genuine(self, now, line)
        self.interrupted = now == 6

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Training, "_log", log)
        with pytest.raises(Stopped, match="stopped at step"):
            run(config)
    run(config)
    lines = [json.loads(line) for line in (tmp_path / "on" / "seed-0" / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "loss" in line] == list(range(2, 17, 2))


def test_the_first_bad_step_is_found_after_the_fact(tmp_path):
    config = with_values(
        tiny(tmp_path, "bad", 40, optim=OptimConfig(name="sgd", lr=1e30, weight_decay=0.0)),
        {"run.device": "cuda", "run.log_every": 20, "run.checkpoint_every": 40, "schedule.kind": "constant"},
    )
    with pytest.raises(Stopped, match=r"not finite at step [1-9]\b.*first in"):
        run(config)
    assert torch.cuda.is_available()


METHODS = ["cayley", "gram_schmidt", "householder", "lowdin", "exponential", "relaxed", "cholesky"]


@pytest.mark.parametrize("blocks", [1, 2])
@pytest.mark.parametrize("method", METHODS)
def test_orthogonal_matrices_are_captured(method, blocks, tmp_path):
    losses = {}
    for eager in (True, False):
        config = tiny(tmp_path, "opt", 60, orthogonal=OrthogonalConfig(method, blocks=blocks))
        config = with_values(
            config, {"run.device": "cuda", "run.matmul": "highest", "run.compile": "off", "data.pad": 0}
        )
        step = make_step(make_parts(config, 0, team("cuda")), eager=eager)
        for _ in range(12):
            step()
        losses[eager] = step.read()["loss"]
        assert (step._graph is None) == (eager or method == "exponential")
    assert losses[False] == pytest.approx(losses[True], rel=0.01)


JUMPS = {"cayley": 1e5, "gram_schmidt": 1.0, "householder": 1.0, "lowdin": 1.0}


@pytest.mark.parametrize(("method", "compiled"), [("cayley", "off"), *((method, "on") for method in JUMPS)])
def test_a_step_whose_matrices_failed_is_done_again_later(method, compiled, tmp_path):
    """Parameters that jump too far for the graph: the host finds out without waiting, as if it had waited.

    Compiled, all weights are turned together, by kernels that sum over the padding of the matrices.
    """
    losses = {}
    for waits in (True, False):
        config = tiny(tmp_path, "jump", 60, orthogonal=OrthogonalConfig(method))
        config = with_values(config, {"run.device": "cuda", "run.matmul": "highest", "run.compile": compiled})
        parts = make_parts(config, 0, team("cuda"))
        step = make_step(parts)
        for _ in range(8):
            step()
        step.complete()
        assert step._maps._late
        step._maps._watched = 100 if waits else 0
        torch.manual_seed(1)
        with torch.no_grad():
            for raw in rotation_parameters(parts.objective):
                raw.copy_(JUMPS[method] * torch.randn_like(raw))
        for _ in range(6):
            step()
        losses[waits] = step.read()["loss"]
        assert step._maps._watched > 0
        assert step.step == int(step._counter) == 14
        assert all(buffer.isfinite().all() for buffer in parts.objective.buffers())
    assert losses[False] == pytest.approx(losses[True], rel=0.01)


GANS = {
    "spectral": {},
    "clipped": {"clip": 0.05},
    "layer": {"normalization": "layer"},
    "penalised": {"loss": "wasserstein", "gradient_penalty": 1.0},
}


@pytest.mark.parametrize("case", GANS)
def test_a_captured_step_of_a_gan_is_an_eager_one(case, tmp_path):
    lines = {}
    for eager in (True, False):
        config = tiny_gan(tmp_path, "gan", 60, **GANS[case])
        # compiled code draws other noise: the capture alone is compared
        config = with_values(config, {"run.device": "cuda", "run.matmul": "highest", "run.compile": "off"})
        step = make_step(make_parts(config, 0, team("cuda")), eager=eager)
        lines[eager] = []
        for _ in range(2):  # longer, and rounding is amplified to per cents
            for _ in range(6):
                step()
            line = step.read()
            lines[eager] += [line["loss"], line["generator_loss"]]
        assert eager == (step._graph is None)
    assert lines[False] == pytest.approx(lines[True], rel=0.02)


def test_a_compiled_gan_learns(tmp_path):
    config = tiny_gan(tmp_path, "compiled", 30)
    config = with_values(config, {"run.device": "cuda", "run.precision": "bfloat16", "run.log_every": 15})
    assert run(config)["seeds"][0]["steps"] == 30
    lines = [json.loads(line) for line in (tmp_path / "compiled" / "seed-0" / "log.jsonl").read_text().splitlines()]
    first, last = (line for line in lines if "loss" in line)
    assert 0 < last["loss"] < first["loss"]
    assert 0 < last["generator_loss"] < 10


@pytest.mark.parametrize("loss", [LossConfig(name="softmax", center=0.1, contrastive=0.5), LossConfig(name="triplet")])
def test_losses_that_compare_samples_are_captured(loss, tmp_path):
    losses = {}
    for eager in (True, False):
        config = pairs(tmp_path, "pairs", loss)
        config = with_values(config, {"schedule.steps": 12, "run.device": "cuda", "run.matmul": "highest"})
        step = Step(make_parts(config, 0, team("cuda")), eager=eager)
        for _ in range(config.schedule.steps):
            step()
        losses[eager] = step.read()["loss"]
        assert eager == (step._graph is None)
    assert losses[False] == pytest.approx(losses[True], rel=0.01)


def test_two_processes_that_share_a_gpu_give_the_losses_of_one(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])}
    for folder in (one, two):
        folder.mkdir()
    done = subprocess.run(
        [*command, str(HERE / "parallel.py"), str(two), "cuda"], capture_output=True, text=True, env=env, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for config in (*parallel_cases(one), diverging(one)):
        config = replace(config, run=replace(config.run, device="cuda", matmul="highest", graph="off", compile="off"))
        if config.recipe == "diverging":
            with pytest.raises(Stopped) as alone:
                run(config)
            message = (two / "stopped-1.txt").read_text()
            assert message.partition(";")[0] == str(alone.value).partition(";")[0]
            continue
        run(config)
        first, second = (logged(folder / config.recipe) for folder in (one, two))
        assert second == pytest.approx(first, abs=2e-3), config.recipe


def logged(path: Path) -> list[float]:
    lines = [json.loads(line) for line in (path / "seed-0" / "log.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line]
