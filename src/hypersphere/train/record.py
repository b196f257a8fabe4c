"""What is kept of a training of one seed: its numbers, and on what they were computed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..evaluation import told_apart
from ..runs import WARNINGS, environment

if TYPE_CHECKING:
    from .training import Training


def finished(training: Training, also: dict[str, dict[str, float]]) -> dict[str, Any]:
    """The content of ``result.json``; ``also`` has what the final network was evaluated in besides its protocol."""
    scores, last = training.scores, training.last
    also = told_apart(also, [*scores, "initial_energy", "seconds_per_100_steps"])
    metrics = scores | {key: value for numbers in also.values() for key, value in numbers.items()}
    rate = training.folder.rate() or training.config.schedule.steps / max(training.seconds, 1e-9)
    numbers = {
        "final_accuracy": scores["accuracy"],
        "best_accuracy": training.best,
        "best_step": training.best_step,
        "test_loss": scores.get("loss"),
        "train_loss": last.get("loss"),
        "train_accuracy": 100 * last["train_accuracy"] if "train_accuracy" in last else None,
        "metrics": metrics | _at_start(training) | {"seconds_per_100_steps": 100 / rate},
    }
    result = _made(training, numbers) | {"steps_per_second": round(rate, 2)}
    if also:
        result["also"] = {name: list(numbers) for name, numbers in also.items()}
    return result


def diverged(training: Training, step: int) -> dict[str, Any]:
    """The same of one that has no final number: its loss was not finite at ``step``, or a weight was after it."""
    numbers: dict[str, Any] = {"diverged": step, "metrics": _at_start(training)}
    if math.isfinite(training.best):
        numbers |= {"best_accuracy": training.best, "best_step": training.best_step}
    return _made(training, numbers)


def _made(training: Training, numbers: dict[str, Any]) -> dict[str, Any]:
    """Numbers with the training that they are of."""
    config, warnings = training.config, training.folder.path / WARNINGS
    result = {
        "recipe": config.recipe,
        "seed": training.seed,
        "steps": config.schedule.steps,
        **numbers,
        "parameters": sum(p.numel() for p in training.parts.objective.parameters()),
        "seconds": round(training.seconds, 3),
        "processes": training.team.world,
        "precision": config.run.precision,
        "environment": environment(training.team.device),
    }
    if training.most_at_once > 1:
        result["at_once"] = training.most_at_once
    if warnings.exists():
        result["warning"] = warnings.read_text(encoding="utf-8").strip()
    return result


def _at_start(training: Training) -> dict[str, float]:
    """The energy before the first step, in half space, as in thesis Table 7.2; empty where it is not measured."""
    energies = training.first_energies
    return {"initial_energy": sum(energies.values())} if energies else {}
