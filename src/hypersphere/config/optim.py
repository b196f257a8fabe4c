"""``--optim.*``: the optimizer, weight decay, and what is done to the weights."""

from __future__ import annotations

from dataclasses import dataclass

from .._core.checks import check_choice, check_count, check_positive
from .options import option

OPTIMIZERS = {
    "sgd": "SGD",
    "adam": "Adam",
    "adamw": "AdamW",
    "muon": "Muon",
    "adamh": "AdamH",
    "muonh": "MuonH",
    "orthogonal_sgd": "orthogonal SGD",
}
"""The optimizers and their labels."""


@dataclass(frozen=True)
class OptimConfig:
    """The optimizer, its weight decay, and the projection of the weights of hyperspherical layers.

    Raises:
        ValueError: If a setting is unknown, out of its range or contradicts another one; the message names it.

    Example:
        >>> from hypersphere.config import OptimConfig
        >>> OptimConfig(name="sgd", lr=0.1).momentum
        0.9
    """

    name: str = option(
        "adam",
        "sgd, adam, adamw; muon, adamh, muonh (the last two keep lengths; AdamW for the output layer and what is no "
        "matrix); orthogonal_sgd (for everything)",
    )
    lr: float = option(1e-3, "learning rate before the schedule")
    momentum: float = option(0.9, "momentum of sgd, orthogonal_sgd, muon and muonh")
    nesterov: bool = option(False, "Nesterov momentum of sgd and orthogonal_sgd")
    beta1: float = option(0.9, "decay of the first moment of adam, adamw and adamh")
    beta2: float = option(0.999, "decay of the second moment of adam, adamw and adamh")
    eps: float = option(1e-8, "ε in the denominator of adam, adamw and adamh")
    weight_decay: float = option(0.0, "weight decay of the parameters that optim.decay chooses")
    decay: str = option("weights", "weights: not on directions, k, rho, biases, norms; all: on every parameter")
    undecayed: tuple[str, ...] = option((), "names of further parameters that do not decay, * for any part of a name")
    adam_lr: float = option(1e-3, "learning rate of the AdamW part of muon, adamh and muonh")
    orthogonal_lr: float | None = option(
        None, "learning rate of R alone, for every orthogonal.method; none: 0.02 for gradient, lr for the others"
    )
    clip: float | None = option(None, "clip the norm of the whole gradient at this value; none: no clipping")
    projection_every: int = option(
        0, "project hyperspherical weights to length projection_norm every n steps; 0: never"
    )
    projection_norm: float = option(1.0, "length that weights are projected to")
    weighted_gradients: bool = option(False, "multiply each neuron's gradient by its norm (thesis 4.18)")

    @property
    def manifold_lr(self) -> float:
        """The rate of R under ``orthogonal.method`` gradient: 0.02 as in the authors' code, unless one is given."""
        return 2e-2 if self.orthogonal_lr is None else self.orthogonal_lr

    def __post_init__(self) -> None:
        check_choice("optim.name", self.name, OPTIMIZERS)
        check_choice("optim.decay", self.decay, ("weights", "all"))
        check_positive("optim.lr", self.lr)
        if self.orthogonal_lr is not None:
            check_positive("optim.orthogonal_lr", self.orthogonal_lr)
        check_positive("optim.weight_decay", self.weight_decay, zero=True)
        if self.clip is not None:
            check_positive("optim.clip", self.clip)
        check_count("optim.projection_every", self.projection_every, minimum=0)
