"""Run folders made in a moment: everything that training writes, with weights that were never trained."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import torch
from tiny import tiny

from hypersphere.runs import Facts, SeedFolder, merged, open_run, run_path, write_result
from hypersphere.runs.files import write_json
from hypersphere.train import Config
from hypersphere.train.build import make_objective
from hypersphere.train.objective import Objective

DIGITS = Facts(10, 1, (8, 8), classes=tuple("0123456789"))


def make_run(
    folder: Path, *, facts: Facts = DIGITS, finished: bool = True, seeds: tuple[int, ...] = (0,), **parts: object
) -> tuple[Path, Objective]:
    """A run folder, and the objective of its last seed in evaluation mode."""
    config: Config = tiny(folder, **{"name": "made", **parts})
    run_path(config).mkdir(parents=True)
    path = open_run(config)
    for seed in seeds:
        objective = make_objective(config, facts, seed)
        _move_statistics(objective)
        _fill(SeedFolder(path, seed), objective, facts, finished, seed)
    if finished:
        write_result(path, config)
    return path, objective.eval()


def _fill(folder: SeedFolder, objective: Objective, facts: Facts, finished: bool, seed: int) -> None:
    folder.prepare()
    write_json(folder.path / "facts.json", dataclasses.asdict(facts))
    write_json(folder.path / "environment.json", {"torch": "2", "command": "hypersphere train made", "device": "cpu"})
    for step in (4, 8):
        folder.log({"step": step, "loss": 1.0})
        folder.save(step, objective.state_dict(), {"step": step, "numbers": torch.ones(2)}, keep=2)
    if finished:
        folder.write_weights(merged(objective.classifier()).state_dict())
        folder.write_result({"seed": seed, "final_accuracy": 10.0, "best_accuracy": 12.0, "best_step": 4})


def _move_statistics(objective: Objective) -> None:
    """Running means and variances that are not those of a fresh network."""
    with torch.no_grad():
        for name, buffer in objective.named_buffers():
            if name.endswith(("running_mean", "running_var")):
                buffer.uniform_(0.5, 1.5)
