"""The regularizers of a run: energies and orthogonality, summed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .. import orthogonal, regularizers
from .._core.registries import REGULARIZERS
from ..config import OrthogonalConfig, RegularizerConfig


class Penalty(nn.Module):
    """The sum of the run's regularizers; false without any."""

    def __init__(self, parts: list[nn.Module], relaxed: nn.Module | None, beta: float) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self._relaxed, self._beta = [relaxed], beta  # in a list, so that the model does not become a submodule

    def __bool__(self) -> bool:
        return len(self.parts) > 0 or self._relaxed[0] is not None

    def forward(self) -> Tensor:
        terms: list[Any] = [part() for part in self.parts]
        if self._relaxed[0] is not None:
            terms.append(orthogonal.penalty(self._relaxed[0], self._beta))
        return torch.stack(terms).sum()


def make_penalty(
    config: RegularizerConfig, opt: OrthogonalConfig, model: nn.Module, head: nn.Module | None, seed: int
) -> Penalty:
    """The regularizers on this model."""
    parts: list[nn.Module] = []
    shared: dict[str, Any] = dict(config.extra)
    if config.name in ("mhe", "comhe"):
        shared |= {"output": config.output, "s": config.s, "distance": config.distance, "seed": seed}
        shared |= {"half_space": config.half_space}
        if config.hidden is not None:
            shared["hidden"] = config.hidden
    if config.name == "comhe":
        shared |= {"projection": config.projection, "dim": config.dim, "count": config.count}
        shared |= {"aggregate": config.aggregate, "refresh": config.refresh}
    if config.name not in ("none", "mhe", "comhe") and config.weight is not None:
        shared["weight"] = config.weight
    if config.name != "none":
        parts.append(REGULARIZERS.find(config.name, "regularizer.name")(model, head=head, **shared))
    if config.orthonormality:
        parts.append(regularizers.Orthonormal(model, config.orthonormality, head))
    return Penalty(parts, model if opt.method == "relaxed" else None, opt.beta)
