"""Angular functions g as objects for layers and losses; each computes g from the cosine and from the angle.

Your own g needs no subclass: any object with ``from_cos(c)`` works in a layer, and one that also has
``from_angle(theta)`` in a margin loss. ``hs.register("angular", name, cls)`` gives it a name.
"""

from __future__ import annotations

import copy
from typing import Any, Protocol, Self, runtime_checkable

import torch
from torch import Tensor, nn

from ._core import positive
from ._core.checks import check_choice, check_count, check_positive
from ._core.modes import class_of, whole
from ._core.registries import ANGULAR
from .functional.angular import angular, angular_from_angle
from .functional.operators.closed_forms import CLOSED_FORMS

__all__ = ["Angular", "AngularLike", "Cosine", "Linear", "Sigmoid", "SquareCosine", "resolve"]


@runtime_checkable
class AngularLike(Protocol):
    """The protocol of a g: any object with ``from_cos`` works as ``angular=`` of a layer.

    The output channels of a layer are in dimension 1 of ``c``. A margin loss also calls ``from_angle(theta)``.

    Example:
        >>> class Cubic:
        ...     def from_cos(self, c):
        ...         return c**3
        >>> isinstance(Cubic(), hs.angular.AngularLike)
        True
    """

    def from_cos(self, c: Tensor, /) -> Tensor:
        """Compute g from the cosine.

        Args:
            c: cos θ, with the output channels in dimension 1.

        Returns:
            g(θ), in the shape of ``c``.
        """


class Angular(nn.Module):
    """Base of the built-in angular functions g.

    The class attribute ``kind`` names the formula of :func:`hypersphere.functional.angular`. Calling the object is
    calling :meth:`from_cos`.

    Shape:
        - Input: (*), any shape.
        - Output: (*), the same shape.

    Example:
        >>> g = hs.angular.resolve("linear")
        >>> isinstance(g, hs.angular.Angular), g.kind
        (True, 'linear')
    """

    kind: str

    def from_cos(self, c: Tensor) -> Tensor:
        """Compute g from c = cos θ.

        Args:
            c: cosines in [−1, 1]; values outside, from rounding, count as ±1.

        Returns:
            g(θ), in the shape of ``c``, with a finite gradient at ±1.
        """
        return angular(c, self.kind)

    def from_angle(self, theta: Tensor) -> Tensor:
        """Compute g from θ, also beyond π, as margin losses need it for g(mθ).

        Args:
            theta: angles in radians, any real number.

        Returns:
            g(θ), in the shape of ``theta``.
        """
        return angular_from_angle(theta, self.kind)

    def forward(self, c: Tensor) -> Tensor:
        """Compute g from the cosine: the same as :meth:`from_cos`.

        Args:
            c: cosines c = cos θ in [−1, 1], of any shape.

        Returns:
            g(θ), in the shape of ``c``.
        """
        return self.from_cos(c)

    def closed_form(self) -> tuple[str, float | Tensor] | None:
        """Return the name and k under which fused code computes exactly this g.

        Returns:
            ``(kind, k)``, or None if plain operations must compute it, as in a subclass.
        """
        known = type(self) in _FUSED or class_of(self) in _FUSED
        return (self.kind, self._curvature()) if known else None

    def _curvature(self) -> float | Tensor:
        """The k of fused code, which formulas without one ignore."""
        return 0.3

    def reset_parameters(self) -> None:
        """Set learned parameters back to their initial values."""

    def for_layer(self, channels: int) -> Self:
        """Return the object that a layer keeps.

        Args:
            channels: number of output channels of the layer, for a parameter per filter.

        Returns:
            This object, or a copy if it has parameters to learn, so that layers do not share them.
        """
        return copy.deepcopy(self) if self.state_dict() else self


class Cosine(Angular):
    """g = cos θ: the inner product of the directions, and the usual choice (thesis 4.11).

    Shape:
        - Input: (*), any shape.
        - Output: (*), the same shape.

    Example:
        >>> hs.angular.Cosine()(torch.tensor([-1.0, 0.0, 1.0]))
        tensor([-1.,  0.,  1.])
    """

    kind = "cosine"


class Linear(Angular):
    """g = 1 − 2θ/π (paper eq. 2), with range [−1, 1]: equal angles cost the same everywhere.

    Shape:
        - Input: (*), any shape.
        - Output: (*), the same shape.

    Example:
        >>> hs.angular.Linear().from_angle(torch.tensor([0.0, torch.pi / 2, torch.pi]))
        tensor([ 1.,  0., -1.])
    """

    kind = "linear"


class SquareCosine(Angular):
    """g = sign(cos θ)·cos²θ (thesis 4.14): flat around π/2, steep near 0 and π.

    Shape:
        - Input: (*), any shape.
        - Output: (*), the same shape.

    Example:
        >>> hs.angular.SquareCosine()(torch.tensor([-0.5, 0.5]))
        tensor([-0.2500,  0.2500])
    """

    kind = "square_cosine"


class Sigmoid(Angular):
    """g = tanh((π/2 − θ)/2k) / tanh(π/4k): the scaled logistic of the angle (paper eq. 4), steeper for smaller k.

    Args:
        k: curvature, > 0. Default 0.3 fixed, 0.5 learnable (paper sec. 4.3). Large k approaches the linear g, small k a
            step at π/2.
        learnable: learn k by gradient descent; it stays positive by construction.
        share: which layers and filters share a learnable k: ``"filter"`` (one per output channel), ``"layer"`` (one per
            layer) or ``"network"`` (one, if the same object is passed to all layers).
        form: how k is kept positive: ``"log"`` (k = exp r), or ``"abs"`` (k = |r| + 0.05, as in the authors' released
            code, which starts at k = 0.75).

    Shape:
        - Input: (N, C, ...) where k is learned per filter, else any shape.
        - Output: the shape of the input.

    Raises:
        ValueError: If ``k`` is not positive, or ``share`` or ``form`` is unknown.

    Example:
        >>> g = hs.angular.Sigmoid(k=0.3)
        >>> g(torch.tensor([-1.0, 0.0, 1.0]))
        tensor([-1.,  0.,  1.])
        >>> hs.nn.SphereLinear(4, 3, angular=hs.angular.Sigmoid(learnable=True)).angular.k.shape
        torch.Size([3])
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
        shape = () if share == "filter" else (1,)
        self.raw_k = nn.Parameter(torch.full(shape, self._start())) if learnable else None

    @property
    def k(self) -> float | Tensor:
        """The curvature: a number when fixed, a tensor (one, or one per filter) when learnable."""
        if self.raw_k is None:
            return self._fixed
        return positive.from_raw(self.raw_k if self.share == "filter" else whole(self.raw_k).reshape(()), self.form)

    def _curvature(self) -> float | Tensor:
        return self.k

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
        elif self.share == "filter" and len(self.raw_k) != channels:
            raise ValueError(
                f"angular has learned k for {len(self.raw_k)} filters, and the layer has {channels}: pass a new Sigmoid"
            )
        return mine

    @torch.no_grad()
    def reset_parameters(self) -> None:
        if self.raw_k is not None:
            self.raw_k.fill_(self._start())

    def _start(self) -> float:
        return positive.to_raw(self._fixed, self.form, "k")

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        positive.shape_as(self.raw_k, state_dict, f"{prefix}raw_k")
        super()._load_from_state_dict(state_dict, prefix, *args)

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
    """Return the g that an ``angular=`` argument stands for.

    Args:
        value: a registered name (``"cosine"``, ``"linear"``, ``"sigmoid"``, ``"square_cosine"``), an address
            ``"package.module:Class"``, or an object with ``from_cos``.

    Returns:
        An object with ``from_cos``: a new one for a name or address, ``value`` itself for an object.

    Raises:
        ValueError: If no g has that name.
        TypeError: If the object has no ``from_cos``.

    Example:
        >>> hs.angular.resolve("sigmoid").k
        0.3
    """
    if isinstance(value, str):
        value = ANGULAR.find(value, "angular")()
    if not isinstance(value, AngularLike) or isinstance(value, type):
        raise TypeError(
            f"angular={value!r} is neither a name ({', '.join(ANGULAR)}) nor an object with a method from_cos(c)"
            + (": call the class" if isinstance(value, type) else "")
        )
    return value
