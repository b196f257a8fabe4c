"""``--regularizer.*``: penalties on the directions of the neurons."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .._core.checks import check_choice, check_positive
from .._core.registries import REGULARIZERS
from .._core.registry import Entry, is_address
from .options import about, option


@dataclass(frozen=True)
class RegularizerConfig:
    """A penalty on the directions of the neurons.

    Raises:
        ValueError: If a setting is unknown, out of its range or contradicts another one; the message names it.

    Example:
        >>> from hypersphere.config import RegularizerConfig
        >>> RegularizerConfig(name="mhe").s
        2.0
    """

    name: str = option("none", lambda: f"none, {', '.join(REGULARIZERS)}, or an address module:Class of your own")
    weight: float | None = option(
        None, "weight of any regularizer but mhe, comhe; none: 1e-5 for orthonormal, orthogonal and srip, else 1"
    )
    hidden: float | None = option(None, "weight of the hidden layers' energy (mhe, comhe); none: the default")
    output: float = option(1.0, "weight of the output layer's energy (mhe, comhe)")
    s: float = option(2.0, "power s of the distance in the energy; 0: the logarithm")
    distance: str = option("euclidean", "distance of two neurons: euclidean, or angular (the angle)")
    half_space: bool = option(False, "energy of the hidden neurons together with their opposites")
    projection: str = option("random", "comhe: random, angle_preserving, adversarial, learned, group, bilateral")
    dim: int = option(30, "comhe: dimensions of a projection")
    count: int | None = option(None, "comhe: number of projections; none: 5 random ones, 1 of any other kind")
    aggregate: str = option("mean", "comhe: mean or max over the projections")
    refresh: int | None = option(1000, "comhe: steps between new projections; none: never")
    orthonormality: float = option(0.0, "weight of a further penalty ‖WᵀW−I‖² (the authors' SphereNet code: 1e-4)")
    transform: float = option(
        0.0, "weight of ½‖I−AAᵀ‖², the mean over a batch, where A is the feature transform of pointnet_tnet"
    )
    extra: dict[str, Any] = field(
        default_factory=dict, metadata=about("further options of the regularizer, name=value;name=value")
    )

    def __post_init__(self) -> None:
        if not is_address(self.name):
            check_choice("regularizer.name", self.name, ("none", *REGULARIZERS), own=REGULARIZERS.kind)
        check_positive("regularizer.orthonormality", self.orthonormality, zero=True)
        check_positive("regularizer.transform", self.transform, zero=True)


def is_energy(entry: Entry[Any]) -> bool:
    """Whether a regularizer takes the settings of an energy: s, distance and half_space."""
    return {"s", "distance", "half_space"} <= {one.name for one in entry.parameters}
