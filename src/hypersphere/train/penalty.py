"""The regularizers of a run: energies and orthogonality, summed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from .. import orthogonal, regularizers
from .._core.errors import check_choice, check_positive
from .model import OrthogonalConfig
from .options import about, option

__all__ = ["Penalty", "RegularizerConfig", "make_penalty"]

_NAMES = {
    "mhe": regularizers.MHE,
    "comhe": regularizers.CoMHE,
    "orthonormal": regularizers.Orthonormal,
    "orthogonal": regularizers.Orthogonal,
    "srip": regularizers.SRIP,
    "uniformity": regularizers.Uniformity,
    "separation": regularizers.Separation,
}


@dataclass(frozen=True)
class RegularizerConfig:
    """A penalty on the directions of the neurons."""

    name: str = option("none", f"none, {', '.join(_NAMES)}")
    weight: float | None = option(None, "weight of orthonormal, orthogonal, srip, ...; none: the default (1e-5)")
    hidden: float | None = option(None, "weight of the hidden layers' energy (mhe, comhe); none: the default")
    output: float = option(1.0, "weight of the output layer's energy (mhe, comhe)")
    s: float = option(2.0, "power of the energy")
    distance: str = option("euclidean", "euclidean or angular")
    half_space: bool = option(False, "half-space energy in the hidden layers")
    projection: str = option("random", "comhe: random angle_preserving adversarial group bilateral")
    dim: int = option(30, "comhe: dimensions of a projection")
    count: int | None = option(None, "comhe: number of projections; none: 5 (1 for learned ones)")
    aggregate: str = option("mean", "comhe: mean or max over the projections")
    refresh: int | None = option(1000, "comhe: steps between new projections; none: never")
    orthonormality: float = option(0.0, "weight of ‖WᵀW−I‖² beside the above (the authors' SphereNet code: 1e-4)")
    transform: float = option(
        0.0, "weight of ½‖I−AAᵀ‖², A the feature transform of pointnet_tnet, mean over the clouds of a batch"
    )
    extra: dict[str, Any] = field(
        default_factory=dict, metadata=about("further options of the regularizer, name=value;name=value")
    )

    def __post_init__(self) -> None:
        check_choice("regularizer.name", self.name, ("none", *_NAMES))
        check_positive("regularizer.orthonormality", self.orthonormality, zero=True)
        check_positive("regularizer.transform", self.transform, zero=True)


class Penalty(nn.Module):
    """The sum of the run's regularizers; false without any.

    ``capturable``: whether every call does the same on the device, without counters or draws on the host.
    """

    def __init__(self, parts: list[nn.Module], relaxed: nn.Module | None, beta: float) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self._relaxed, self._beta = [relaxed], beta  # in a list, so that the model is no submodule
        self.capturable = all(_is_pure(part) for part in parts)

    def __bool__(self) -> bool:
        return len(self.parts) > 0 or self._relaxed[0] is not None

    def forward(self) -> Tensor:
        # what has no state is called without its counter, which a compiler would specialise on
        terms: list[Any] = [part._penalty(None) if self.capturable else part() for part in self.parts]  # type: ignore[operator]
        if self._relaxed[0] is not None:
            terms.append(orthogonal.penalty(self._relaxed[0], self._beta))
        return torch.stack(terms).sum()


def _is_pure(part: nn.Module) -> bool:
    pure = (regularizers.Orthonormal, regularizers.Orthogonal, regularizers.Uniformity, regularizers.Separation)
    return isinstance(part, pure) or (isinstance(part, regularizers.MHE) and part.sample is None)


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
        parts.append(_NAMES[config.name](model, head=head, **shared))
    if config.orthonormality:
        parts.append(regularizers.Orthonormal(model, config.orthonormality, head))
    return Penalty(parts, model if opt.method == "relaxed" else None, opt.beta)
