"""The trained network of a run folder."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from .build import make_objective
from .files import read_tensors
from .runs import Run
from .training import merged

__all__ = ["load"]


def load(run: str | Path, *, seed: int | None = None, device: torch.device | str = "cpu") -> nn.Module:
    """The network of a run for evaluation: inputs → logits, with ``features`` for the embedding.

    Orthogonal matrices are multiplied into the weights, so it is an ordinary network. A run that is not finished
    gives its newest checkpoint.

    Args:
        run: the run folder, or the folder of one seed in it.
        seed: which seed; None: the first.
    """
    found = Run(run, seed)
    folder = found.folder()
    with torch.random.fork_rng(devices=[]):
        objective = make_objective(found.config, found.facts(), 0)
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
