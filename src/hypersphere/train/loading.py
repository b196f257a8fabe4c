"""The trained network of a run folder."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from .build import make_objective
from .config import Config
from .data import Facts
from .files import read_json, read_tensors
from .folder import SeedFolder, read_config
from .training import merged

__all__ = ["load", "locate"]


def load(run: str | Path, *, seed: int | None = None, device: torch.device | str = "cpu") -> nn.Module:
    """The network of a run for evaluation: inputs → logits, with ``features`` for the embedding.

    Orthogonal matrices are multiplied into the weights, so it is an ordinary network. A run that is not finished
    gives its newest checkpoint.

    Args:
        run: the run folder, or the folder of one seed in it.
        seed: which seed; None: the first.
    """
    config, folder = locate(run, seed)
    facts = _facts(folder.path / "facts.json")
    with torch.random.fork_rng(devices=[]):
        objective = make_objective(config, facts, 0)
    final = folder.path / "model.safetensors"
    if final.exists():
        model = merged(objective.classifier())
        model.load_state_dict(read_tensors(final))
    else:
        checkpoint = folder.latest()
        if checkpoint is None:
            raise ValueError(f"{folder.path} holds no network yet: train it first")
        objective.load_state_dict(folder.load(checkpoint)[1])
        model = merged(objective.classifier())
    return model.eval().to(device)


def locate(run: str | Path, seed: int | None = None) -> tuple[Config, SeedFolder]:
    """Settings and seed folder of a run, or of one seed's folder."""
    path = Path(run).expanduser()
    if path.name.startswith("seed-") and (path.parent / "config.json").exists():
        seed, path = int(path.name.removeprefix("seed-")), path.parent
    config = read_config(path)
    if seed is None:
        found = sorted(int(entry.name.removeprefix("seed-")) for entry in path.glob("seed-*"))
        if not found:
            raise ValueError(f"{path} holds no seed yet: train it first")
        seed = found[0]
    folder = SeedFolder(path, seed)
    if not folder.path.exists():
        raise ValueError(f"{path} has no seed {seed}")
    return config, folder


def _facts(path: Path) -> Facts:
    values = read_json(path)
    size = values["image_size"]
    return Facts(**{**values, "image_size": None if size is None else tuple(size), "classes": tuple(values["classes"])})
