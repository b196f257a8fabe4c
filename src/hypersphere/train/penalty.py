"""The regularizers of a run: energies and orthogonality, summed."""

from __future__ import annotations

from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from .. import orthogonal, regularizers
from .._core.registries import REGULARIZERS
from .._core.registry import Entry
from ..config import OrthogonalConfig, RegularizerConfig
from ..config.regularizer import is_energy

_SETTINGS = ["hidden", "output", "s", "distance", "half_space", "projection", "dim", "count", "aggregate", "refresh"]


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
    if config.name != "none":
        entry = REGULARIZERS.entry(config.name, "regularizer.name")
        settings = _settings(config, entry, seed)
        try:
            signature(entry.value).bind(model, head=head, **settings)
        except TypeError as error:
            raise ValueError(
                f"regularizer.name={config.name!r} is called with model, head{''.join(f', {n}' for n in settings)}: "
                f"{error}. hs.regularizers.HiddenRegularizer takes them all"
            ) from error
        parts.append(entry.value(model, head=head, **settings))
        if not isinstance(parts[-1], nn.Module):
            raise ValueError(
                f"regularizer.name={config.name!r} must be an nn.Module, whose state is saved and restored"
            )
    if config.orthonormality:
        parts.append(regularizers.Orthonormal(model, config.orthonormality, head))
    return Penalty(parts, model if opt.method == "relaxed" else None, opt.beta)


def _settings(config: RegularizerConfig, entry: Entry[Any], seed: int) -> dict[str, Any]:
    """The settings that a regularizer has arguments for.

    An energy gets all of them; any other those that are not at their defaults, so that its own defaults count.
    """
    energy = is_energy(entry)
    defaults, settings = RegularizerConfig(), dict(config.extra)
    for name in {one.name for one in entry.parameters} & set(_SETTINGS):
        value = getattr(config, name)
        if (energy and value is not None) or value != getattr(defaults, name):
            settings[name] = value
    if energy:
        return settings | {"seed": seed}
    return settings | ({} if config.weight is None else {"weight": config.weight})
