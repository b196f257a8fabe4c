"""Angular functions g as objects that layers and losses take: each knows g from the cosine and from an angle.

Your own g needs no subclass: any object with ``from_cos(c)`` works in a layer, and one that also has
``from_angle(theta)`` in a margin loss. ``hs.register("angular", name, cls)`` gives it a name.
"""

from __future__ import annotations

import copy
from typing import Protocol, Self, runtime_checkable

import torch
from torch import Tensor, nn

from ._core import positive
from ._core.errors import check_choice, check_count, check_positive
from ._core.registries import ANGULAR
from .functional.angular import angular, angular_from_angle
from .functional.operators.closed_forms import CLOSED_FORMS

__all__ = ["Angular", "AngularLike", "Cosine", "Linear", "Sigmoid", "SquareCosine", "resolve"]


@runtime_checkable
class AngularLike(Protocol):
    """What a layer needs of a g; ``c`` has its output channels in dimension 1."""

    def from_cos(self, c: Tensor, /) -> Tensor: ...


class Angular(nn.Module):
    """Base of the built-in g: ``kind`` names the formula of :func:`hypersphere.functional.angular`."""

    kind: str

    def from_cos(self, c: Tensor) -> Tensor:
        """g from c = cos θ."""
        return angular(c, self.kind)

    def from_angle(self, theta: Tensor) -> Tensor:
        """g from θ, also beyond π."""
        return angular_from_angle(theta, self.kind)

    def forward(self, c: Tensor) -> Tensor:
        return self.from_cos(c)

    def closed_form(self) -> tuple[str, float | Tensor] | None:
        """(kind, k) if fused code computes exactly this g, None if plain operations must serve (also in a subclass)."""
        return (self.kind, getattr(self, "k", 0.3)) if type(self) in _FUSED else None

    def reset_parameters(self) -> None:
        """Put what is learned back to its start."""

    def for_layer(self, channels: int) -> Self:
        """The object that a layer of ``channels`` outputs keeps: itself, or a copy if it has something to learn."""
        return copy.deepcopy(self) if self.state_dict() else self


class Cosine(Angular):
    """g = cos θ."""

    kind = "cosine"


class Linear(Angular):
    """g = 1 − 2θ/π (paper eq. 2), with range [−1, 1]."""

    kind = "linear"


class SquareCosine(Angular):
    """g = sign(cos θ)·cos²θ (thesis 4.14)."""

    kind = "square_cosine"


class Sigmoid(Angular):
    """g = the scaled logistic of the angle (paper eq. 4), steeper for smaller k.

    Args:
        k: curvature, > 0. Default 0.3 fixed, 0.5 learnable (paper sec. 4.3).
        learnable: learn k by gradient descent; it stays positive by construction.
        share: a learnable k for each ``"filter"``, for each ``"layer"``, or one for the ``"network"``
            (pass the same object to all its layers).
        form: how positivity is kept: ``"log"`` (k = exp r), or ``"abs"`` (k = |r| + 0.05, as in
            the authors' released code, which starts at k = 0.75).
    """

    kind = "sigmoid"

    def __init__(
        self, k: float | None = None, learnable: bool = False, share: str = "filter", form: str = "log"
    ) -> None:
        super().__init__()
        self.share = check_choice("share", share, ("filter", "layer", "network"))
        self.form = check_choice("form", form, ("log", "abs"))
        self.learnable = learnable
        start = check_positive("k", k) if k is not None else 0.5 if learnable else 0.3
        self._fixed = start
        self.raw_k = nn.Parameter(self._start()) if learnable else None

    @property
    def k(self) -> float | Tensor:
        """The curvature: a number when fixed, a tensor (one, or one per filter) when learnable."""
        return self._fixed if self.raw_k is None else positive.from_raw(self.raw_k, self.form)

    def from_cos(self, c: Tensor) -> Tensor:
        return angular(c, self.kind, self._k_for(c))

    def from_angle(self, theta: Tensor) -> Tensor:
        return angular_from_angle(theta, self.kind, self._k_for(theta))

    def for_layer(self, channels: int) -> Self:
        if self.raw_k is None or self.share == "network":
            return self
        mine = copy.deepcopy(self)
        if self.share == "filter" and self.raw_k.dim() == 0:
            check_count("channels", channels)
            mine.raw_k = nn.Parameter(self.raw_k.detach().repeat(channels))
        return mine

    @torch.no_grad()
    def reset_parameters(self) -> None:
        if self.raw_k is not None:
            self.raw_k.copy_(self._start().expand(self.raw_k.shape))

    def _start(self) -> Tensor:
        return positive.to_raw(self._fixed, self.form, "k")

    def extra_repr(self) -> str:
        if self.raw_k is None:
            return f"k={self._fixed:g}"
        return f"k={self._fixed:g}, learnable=True, share={self.share!r}, form={self.form!r}"

    def _k_for(self, x: Tensor) -> float | Tensor:
        k = self.k
        if not isinstance(k, Tensor) or k.dim() == 0:
            return k
        return k.view(-1, *[1] * max(x.dim() - 2, 0))


_BUILT_IN: tuple[type[Angular], ...] = (Cosine, Linear, Sigmoid, SquareCosine)
_FUSED = tuple(cls for cls in _BUILT_IN if cls.kind in CLOSED_FORMS)
for _cls in _BUILT_IN:
    ANGULAR.add(_cls.kind, _cls)


def resolve(value: str | AngularLike) -> AngularLike:
    """The g that an ``angular=`` argument means: a name, a ``module:Class``, or an object with ``from_cos``."""
    if isinstance(value, str):
        value = ANGULAR.find(value, "angular")()
    if not isinstance(value, AngularLike) or isinstance(value, type):
        raise TypeError(
            f"angular={value!r} is neither a name ({', '.join(ANGULAR)}) nor an object with a method from_cos(c)"
        )
    return value
