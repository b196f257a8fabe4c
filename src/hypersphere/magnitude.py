"""Magnitude functions h as objects for layers.

Your own h needs no subclass: any callable h(n) of the patch norm works. If h(n)/n has a limit at 0,
add a method ``ratio(n)``, so that zero patches get the correct gradient. If each layer should have its own copy,
add a method ``for_layer(channels)``. ``hs.register("magnitude", name, cls)`` gives your h a name.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Self, cast

import torch
from torch import Tensor, nn

from ._core import positive
from ._core.checks import check_choice, check_positive, check_share
from ._core.modes import class_of, whole
from ._core.precision import FullPrecision
from ._core.registries import MAGNITUDES
from ._core.sphere import safe_reciprocal, upcast
from .functional.magnitude import DEFAULT_BETA, MagnitudeForm, follow, magnitude, magnitude_ratio
from .functional.magnitude import MAGNITUDES as FORMULAS

__all__ = ["Ball", "Linear", "Log", "Magnitude", "Mix", "Segment", "Sphere", "Tanh", "resolve"]


class Magnitude(FullPrecision):
    """Base of the built-in magnitude functions h.

    The class attribute ``kind`` names the formula of :func:`hypersphere.functional.magnitude`.

    Args:
        alpha: scale of the output, > 0. The default 1 leaves the scale to a following BatchNorm.

    Shape:
        - Input: norms n ≥ 0, any shape.
        - Output: the shape of the input.

    Raises:
        ValueError: If ``alpha`` is not positive.

    Example:
        >>> h = hs.magnitude.resolve("log")
        >>> isinstance(h, hs.magnitude.Magnitude), h.kind
        (True, 'log')
    """

    kind: str

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self.alpha = check_positive("alpha", alpha)
        self.beta = DEFAULT_BETA.get(self.kind, 0.0)

    def forward(self, n: Tensor) -> Tensor:
        """Compute h(n).

        Args:
            n: norms n ≥ 0 of patches, of any shape.

        Returns:
            h(n), in the shape of ``n``.
        """
        return magnitude(n, self.kind, self.alpha, self.beta, self.radius(n))

    def ratio(self, n: Tensor) -> Tensor:
        """Compute h(n)/n, with its limit at n = 0.

        Args:
            n: norms n ≥ 0 of patches, of any shape.

        Returns:
            h(n)/n, in the shape of ``n``: the factor of the inner product where g is the cosine.
        """
        if self._is_own:
            return self(n) * safe_reciprocal(n)
        return magnitude_ratio(n, self.kind, self.alpha, self.beta, self.radius(n))

    def weight_factor(self, length: Tensor) -> Tensor:
        """Compute the factor of ‖w‖ in h(‖w‖)·h(‖x‖) (thesis 4.16).

        Args:
            length: norms ‖w‖ of the kernels, one for each output channel.

        Returns:
            h(‖w‖) with α = 1, so that α counts once, and with ρ not multiplied by a running mean. For a subclass with
            its own ``forward`` it is the value of ``forward``.
        """
        if self._is_own:
            return cast(Tensor, self(length))
        return magnitude(length, self.kind, 1.0, self.beta, self.rho)

    def radius(self, n: Tensor) -> float | Tensor:
        """Return the ρ that applies to these norms.

        Args:
            n: norms of the patches of a batch; a running radius is updated from them in training mode.

        Returns:
            The radius: a number, or a scalar tensor if it is learned or scaled by a mean norm.
        """
        return self.rho

    def closed_form(self) -> MagnitudeForm | None:
        """Return this h as numbers and tensors for fused code.

        Returns:
            The form, or None for a subclass, which may have another formula.
        """
        known = type(self) in _FUSED or class_of(self) in _FUSED
        return MagnitudeForm(self.kind, self.alpha, self.beta, self.rho) if known else None

    @property
    def _is_own(self) -> bool:
        """Whether a subclass has a ``forward`` of its own, which the rest follows unless it is written, too."""
        return type(self).forward is not Magnitude.forward

    def reset_parameters(self) -> None:
        """Set learned and averaged values back to their initial values."""

    @property
    def rho(self) -> float | Tensor:
        """The operator radius ρ; 1 where the formula has none."""
        return 1.0

    @property
    def constant(self) -> float | None:
        """The value of h if h is constant, else None."""
        return None

    def for_layer(self, channels: int) -> Self:
        """Return the object that a layer keeps.

        Args:
            channels: number of output channels of the layer.

        Returns:
            A copy, because a learned radius and a running mean belong to one layer.
        """
        return copy.deepcopy(self)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha:g}" + (f", beta={self.beta:g}" if self.kind in DEFAULT_BETA else "")


class WithRadius(Magnitude):
    """An h with an operator radius ρ (thesis C.2), times the mean norm of the patches if it is ``running`` (C.1)."""

    def __init__(
        self,
        alpha: float = 1.0,
        rho: float = 1.0,
        learnable: bool = True,
        running: bool = True,
        momentum: float = 0.1,
        form: str = "log",
    ) -> None:
        super().__init__(alpha)
        self.form = check_choice("form", form, ("log", "square"))
        self.momentum = check_share("momentum", momentum, zero=False)
        self.learnable, self.running = learnable, running
        self._fixed = check_positive("rho", rho)
        self.raw_rho = nn.Parameter(torch.full((1,), self._start())) if learnable else None
        if running:
            self.register_buffer("running_norm", torch.ones(()))
            self.register_buffer("num_batches_tracked", torch.zeros((), dtype=torch.long))

    running_norm: Tensor
    num_batches_tracked: Tensor
    in_full = ("running_norm",)

    @property
    def rho(self) -> float | Tensor:
        """ρ itself, before the mean norm multiplies it."""
        if self.raw_rho is None:
            return self._fixed
        return upcast(positive.from_raw(whole(self.raw_rho).reshape(()), self.form))

    def radius(self, n: Tensor) -> float | Tensor:
        return self.rho * self._mean_norm(n) if self.running else self.rho

    def closed_form(self) -> MagnitudeForm | None:
        form = super().closed_form()
        if form is None or not self.running:
            return form
        return form._replace(
            running=self.running_norm,
            tracked=self.num_batches_tracked,
            momentum=self.momentum,
            training=self.training,
        )

    @torch.no_grad()
    def reset_parameters(self) -> None:
        if self.raw_rho is not None:
            self.raw_rho.fill_(self._start())
        if self.running:
            self.running_norm.fill_(1)
            self.num_batches_tracked.zero_()

    def _start(self) -> float:
        return positive.to_raw(self._fixed, self.form, "rho")

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        positive.shape_as(self.raw_rho, state_dict, f"{prefix}raw_rho")
        super()._load_from_state_dict(state_dict, prefix, *args)

    @torch.no_grad()
    def _mean_norm(self, n: Tensor) -> Tensor:
        if not self.training or n.numel() == 0:
            return upcast(self.running_norm)
        return follow(upcast(n).mean(), self.running_norm, self.num_batches_tracked, self.momentum)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, rho={self._fixed:g}, learnable={self.learnable}, running={self.running}"


class Sphere(Magnitude):
    """h = α (SphereConv, thesis 4.4): the norm of the patch does not matter.

    Args:
        alpha: the constant, > 0. The default 1 makes outputs cosines.

    Shape:
        - Input: norms n ≥ 0, any shape.
        - Output: the shape of the input.

    Example:
        >>> hs.magnitude.Sphere(alpha=2.0)(torch.tensor([0.5, 3.0]))
        tensor([2., 2.])
    """

    kind = "sphere"

    @property
    def constant(self) -> float | None:
        return self.alpha if class_of(self) is Sphere else None


class Ball(WithRadius):
    """h = α·min(n, ρ)/ρ (BallConv, thesis 4.5): linear up to the radius, then constant.

    Args:
        alpha: scale of the output, > 0: the value that h reaches at n = ρ.
        rho: operator radius, > 0; its initial value if learnable.
        learnable: learn ρ by gradient descent; it stays positive by construction.
        running: multiply ρ by the mean norm of the patches (eq. C.1), so that it needs no tuning to the scale of the
            data. Training mode uses the mean of the batch, without gradient; evaluation mode uses a moving average.
        momentum: weight of the newest batch in that average, in (0, 1]; 0.1 as in BatchNorm. The first batch sets it.
        form: how ρ is kept positive: ``"log"`` (ρ = exp r), or ``"square"`` (ρ = r² + 1e-4, as in the authors' released
            code).

    Shape:
        - Input: norms n ≥ 0, any shape.
        - Output: the shape of the input.

    Example:
        >>> hs.magnitude.Ball(rho=2.0, learnable=False, running=False)(torch.tensor([1.0, 2.0, 9.0]))
        tensor([0.5000, 1.0000, 1.0000])
    """

    kind = "ball"


class Tanh(WithRadius):
    """h = α·tanh(n/ρ) (TanhConv, thesis 4.6): a smooth, bounded h.

    Args:
        alpha: scale of the output, > 0: the value that h approaches for large norms.
        rho: operator radius, > 0; its initial value if learnable.
        learnable: learn ρ by gradient descent; it stays positive by construction.
        running: multiply ρ by the mean norm of the patches (eq. C.1), so that it needs no tuning to the scale of the
            data. Training mode uses the mean of the batch, without gradient; evaluation mode uses a moving average.
        momentum: weight of the newest batch in that average, in (0, 1]; 0.1 as in BatchNorm. The first batch sets it.
        form: how ρ is kept positive: ``"log"`` (ρ = exp r), or ``"square"`` (ρ = r² + 1e-4, as in the authors' released
            code).

    Shape:
        - Input: norms n ≥ 0, any shape.
        - Output: the shape of the input.

    Example:
        >>> h = hs.magnitude.Tanh(rho=1.0, learnable=False, running=False)
        >>> h(torch.tensor([0.0, 1.0, 20.0]))
        tensor([0.0000, 0.7616, 1.0000])
    """

    kind = "tanh"


class Linear(Magnitude):
    """h = α·n (LinearConv, thesis 4.7): with the cosine, an ordinary convolution by unit kernels.

    Args:
        alpha: slope α of h, > 0; it scales the output of the layer.

    Shape:
        - Input: norms n ≥ 0, any shape.
        - Output: the shape of the input.

    Example:
        >>> hs.magnitude.Linear(alpha=0.5)(torch.tensor([0.0, 4.0]))
        tensor([0., 2.])
    """

    kind = "linear"


class Segment(WithRadius):
    """h = α·n up to ρ, then with slope β (SegConv, thesis 4.8).

    Args:
        alpha: slope α of h up to the radius ρ, > 0; beyond it the slope is ``beta``.
        beta: slope beyond the radius, ≥ 0; with 0 h is bounded. With the defaults h grows half as fast there.
        rho: operator radius, > 0, where the slope changes; its initial value if learnable.
        learnable: learn ρ by gradient descent; it stays positive by construction.
        running: multiply ρ by the mean norm of the patches (eq. C.1), so that it needs no tuning to the scale of the
            data. Training mode uses the mean of the batch, without gradient; evaluation mode uses a moving average.
        momentum: weight of the newest batch in that average, in (0, 1]; 0.1 as in BatchNorm. The first batch sets it.
        form: how ρ is kept positive: ``"log"`` (ρ = exp r), or ``"square"`` (ρ = r² + 1e-4, as in the authors' released
            code).

    Shape:
        - Input: norms n ≥ 0, any shape.
        - Output: the shape of the input.

    Raises:
        ValueError: If ``alpha`` or ``rho`` is not positive, or ``beta`` is negative.

    Example:
        >>> hs.magnitude.Segment(rho=2.0, learnable=False, running=False)(torch.tensor([1.0, 2.0, 4.0]))
        tensor([1., 2., 3.])
    """

    kind = "segment"

    def __init__(
        self,
        alpha: float = 1.0,
        beta: float = 0.5,
        rho: float = 1.0,
        learnable: bool = True,
        running: bool = True,
        momentum: float = 0.1,
        form: str = "log",
    ) -> None:
        super().__init__(alpha, rho, learnable, running, momentum, form)
        self.beta = check_positive("beta", beta, zero=True)


class Log(Magnitude):
    """h = α·log(1+n) (LogConv, thesis 4.9): unbounded, but large norms count less.

    Args:
        alpha: scale of the output, > 0; the slope at n = 0.

    Shape:
        - Input: norms n ≥ 0, any shape.
        - Output: the shape of the input.

    Example:
        >>> hs.magnitude.Log()(torch.tensor([0.0, 1.0]))
        tensor([0.0000, 0.6931])
    """

    kind = "log"


class Mix(Magnitude):
    """h = α·n + β·log(1+n) (MixConv, thesis 4.10).

    Args:
        alpha: weight of the linear part, > 0.
        beta: weight of the logarithmic part, ≥ 0. The default 1 weights both alike.

    Shape:
        - Input: norms n ≥ 0, any shape.
        - Output: the shape of the input.

    Raises:
        ValueError: If ``alpha`` is not positive or ``beta`` is negative.

    Example:
        >>> hs.magnitude.Mix(alpha=1.0, beta=2.0)(torch.tensor([0.0, 1.0]))
        tensor([0.0000, 2.3863])
    """

    kind = "mix"

    def __init__(self, alpha: float = 1.0, beta: float = 1.0) -> None:
        super().__init__(alpha)
        self.beta = check_positive("beta", beta, zero=True)


_BUILT_IN: tuple[type[Magnitude], ...] = (Sphere, Ball, Tanh, Linear, Segment, Log, Mix)
_FUSED = tuple(cls for cls in _BUILT_IN if cls.kind in FORMULAS)
for _cls in _BUILT_IN:
    MAGNITUDES.add(_cls.kind, _cls)


def resolve(value: str | Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Return the h that a ``magnitude=`` argument stands for.

    Args:
        value: a registered name (``"sphere"``, ``"ball"``, ``"tanh"``, ``"linear"``, ``"segment"``, ``"log"``,
            ``"mix"``), an address ``"package.module:Class"``, or a callable of the norm.

    Returns:
        A callable of the norm: a new object for a name or address, ``value`` itself for a callable.

    Raises:
        ValueError: If no h has that name.
        TypeError: If the object cannot be called.

    Example:
        >>> hs.magnitude.resolve("ball").momentum
        0.1
    """
    if isinstance(value, str):
        value = MAGNITUDES.find(value, "magnitude")()
    if not callable(value) or isinstance(value, type):
        raise TypeError(
            f"magnitude={value!r} is neither a name ({', '.join(MAGNITUDES)}) nor a callable h(norm)"
            + (": call the class" if isinstance(value, type) else "")
        )
    return value
