"""``--optim.*``: the optimizer, weight decay, and what is done to the weights."""

from __future__ import annotations

from dataclasses import dataclass

from .._core.checks import check_choice, check_count, check_positive
from .._core.registries import OPTIMIZERS
from .options import option


def _with(*arguments: str) -> str:
    """The optimizers that have one of these arguments."""
    return ", ".join(e.name for e in OPTIMIZERS.entries() if any(one.name in arguments for one in e.parameters))


def of_matrices() -> list[str]:
    """The optimizers for matrices, which leave the other parameters to AdamW."""
    return [entry.name for entry in OPTIMIZERS.entries() if entry.extra.get("matrices")]


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

    name: str = option("adam", lambda: f"{', '.join(OPTIMIZERS)}, or an address module:Class of your own")
    lr: float = option(1e-3, "learning rate before the schedule")
    momentum: float = option(0.9, lambda: f"momentum of {_with('momentum')}")
    nesterov: bool = option(False, lambda: f"Nesterov momentum of {_with('nesterov')}")
    beta1: float = option(0.9, lambda: f"decay of the first moment of {_with('betas')}")
    beta2: float = option(0.999, lambda: f"decay of the second moment of {_with('betas')}")
    eps: float = option(1e-8, lambda: f"ε in the denominator of {_with('eps')}")
    weight_decay: float = option(0.0, "weight decay of the parameters that optim.decay chooses")
    decay: str = option("weights", "what decays: weights (no directions, k, rho, biases, norms), or all parameters")
    undecayed: tuple[str, ...] = option((), "names of further parameters that do not decay, * for any part of a name")
    adam_lr: float = option(
        1e-3,
        lambda: f"learning rate of AdamW for the parameters that {', '.join(of_matrices())} leave to it",
    )
    orthogonal_lr: float | None = option(
        None, "learning rate of R; none: 0.02 under orthogonal.method gradient, lr under every other method"
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
        OPTIMIZERS.check("optim.name", self.name)
        check_choice("optim.decay", self.decay, ("weights", "all"))
        for name in ("lr", "adam_lr", "projection_norm"):
            check_positive(f"optim.{name}", getattr(self, name))
        check_positive("optim.eps", self.eps, zero=True)
        for name in ("momentum", "beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"optim.{name}={getattr(self, name)} must lie in [0, 1)")
        if self.orthogonal_lr is not None:
            check_positive("optim.orthogonal_lr", self.orthogonal_lr)
        check_positive("optim.weight_decay", self.weight_decay, zero=True)
        if self.clip is not None:
            check_positive("optim.clip", self.clip)
        check_count("optim.projection_every", self.projection_every, minimum=0)
