"""The one mechanism of all softmax losses: a logit rule, a margin rule for the target, an annealing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from .. import angular as _angular
from .._core.errors import check_positive
from .._core.sphere import norm, unit
from ..angular import AngularLike
from ..functional.angular import angular as angular_from_cos
from ..functional.angular import angular_from_angle
from ._polar import polar_form
from .annealing import MarginSchedule, resolve
from .head import ClassHead

__all__ = ["MarginSoftmax"]


class MarginSoftmax(ClassHead):
    """Cross-entropy of the logits amplitude·g(θ_j), with a margin on the target's (thesis 2.4, 2.20, D.11).

    The amplitude is ‖x‖, or ``scale`` (then only the direction of the features counts), times ‖W_j‖ if
    ``normalize`` is off. A new loss overrides :meth:`target`, and :meth:`others` if its margin is there.

    Args:
        in_features, num_classes: shape of the class vectors ``weight`` (num_classes, in_features).
        margin: kept as ``self.margin`` for the rules.
        scale: s of s·g(θ); None takes ‖x‖.
        angular: g, a name or an object of :mod:`hypersphere.angular`.
        annealing: :class:`Annealing`, :class:`MarginWarmup`, a preset's name; None is the pure margin.
        detach_margin: take margin − plain as a constant in backward. Off by default: it is no gradient
            of the loss.
        reduction, ignore_index, label_smoothing: as in ``torch.nn.functional.cross_entropy`` (the mean over a
            batch of ignored labels only is NaN, too), except that the mean over an empty batch is an error.
        class_weight: its ``weight``, one number per class.
        chunk: how many classes to take at a time. ``"auto"`` decides by the number of logits, None is
            dense, a number always takes blocks of it. Second derivatives and ``torch.func`` are dense always.
    """

    bias: Tensor | None
    class_weight: Tensor | None

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        margin: float = 0.0,
        *,
        scale: float | None = None,
        angular: str | AngularLike = "cosine",
        bias: bool = False,
        annealing: MarginSchedule | str | None = None,
        detach_margin: bool = False,
        reduction: str = "mean",
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
        class_weight: Tensor | None = None,
        chunk: int | str | None = "auto",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        options: dict[str, Any] = {"reduction": reduction, "ignore_index": ignore_index}
        super().__init__(in_features, num_classes, chunk=chunk, device=device, dtype=dtype, **options)
        if not 0.0 <= label_smoothing <= 1.0:
            raise ValueError(f"label_smoothing={label_smoothing!r} must lie in [0, 1]")
        self.margin = margin
        self.scale = None if scale is None else check_positive("scale", scale)
        self.detach_margin = detach_margin
        self.label_smoothing = float(label_smoothing)
        self.angular = _checked_angular(angular, self)
        self.annealing = resolve(annealing)
        self.register_parameter("bias", nn.Parameter(self.weight.new_empty(num_classes)) if bias else None)
        self.register_buffer("class_weight", _checked_weight(class_weight, num_classes))
        if device is not None:
            self.to(device)
        self._reset_bias()

    def reset_parameters(self) -> None:
        """Class vectors and biases drawn anew, g and the annealing at their start. ``class_weight`` stays as it is."""
        super().reset_parameters()
        self._reset_bias()
        for part in (getattr(self, "angular", None), getattr(self, "annealing", None)):
            reset = getattr(part, "reset_parameters", None)  # a g of one's own need not have it
            if callable(reset):
                reset()

    def _reset_bias(self) -> None:
        bias = getattr(self, "bias", None)  # not there yet while the base class is built
        if bias is not None:
            nn.init.uniform_(bias, -(self.in_features**-0.5), self.in_features**-0.5)

    # The rules ------------------------------------------------------------------------------------------

    def target(self, cos: Tensor, g: AngularLike) -> Tensor:
        """g of the target with its margin, from cos θ_y; here none: g(θ_y)."""
        return g.from_cos(cos)

    def others(self, cos: Tensor, g: AngularLike) -> Tensor:
        """g of the other classes while training; here g(θ_j) as it is."""
        return g.from_cos(cos)

    @property
    def changes_target(self) -> bool:
        """Whether :meth:`target` is more than g(θ_y)."""
        return type(self).target is not MarginSoftmax.target

    @property
    def changes_others(self) -> bool:
        """Whether :meth:`others` is more than g(θ_j)."""
        return type(self).others is not MarginSoftmax.others

    # The loss -------------------------------------------------------------------------------------------

    def losses(self, x: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        share = None if self.annealing is None else self.annealing().to(x.dtype)
        smoothing = self._smoothing(x)
        polar = self._polar(x) if self._needs_polar else []
        if self.changes_others:
            shared = [] if share is None else [share]
            seen = self.reduce(self._score_others, polar, labels, shared, weights=smoothing)
        else:
            seen = self.reduce(self.score, self._linear_rows(x, polar), labels, [], weights=smoothing)
        own = self._own_logit(x, polar, seen.target.to(x.dtype), labels, share)
        plain = -logsigmoid(own - seen.logsumexp)  # log Σ e^u − u_y; logaddexp has NaN second derivatives far out
        weight = torch.ones_like(own) if self.class_weight is None else self.class_weight.to(x.dtype)[labels]
        losses = plain if self.class_weight is None else weight * plain
        if smoothing is not None:
            spread = smoothing.sum() * (plain + own) - seen.total - weight * own
            losses = (1 - self.label_smoothing) * losses + (self.label_smoothing / self.num_classes) * spread
        return losses, weight

    def _own_logit(self, x: Tensor, polar: list[Tensor], w: Tensor, labels: Tensor, share: Tensor | None) -> Tensor:
        """plain + share·amplitude·(g with margin − g) of each sample's own class."""
        length, direction = polar_form(w) if self.normalize or polar else (None, w)
        logit = None
        if self._linear:
            logit = (self._linear_rows(x, polar)[0] * (direction if self.normalize else w)).sum(-1)
        if self.changes_target or logit is None:
            cos = (polar[0] * direction).sum(-1)
            amplitude = polar[1][:, 0] if self.normalize or length is None else polar[1][:, 0] * length[:, 0]
            k = self._k()
            g = self.angular if k is None else _SigmoidOf(k[labels])
            plain = g.from_cos(cos)
            logit = amplitude * plain if logit is None else logit
            if self.changes_target:
                logit = logit + amplitude * self._blend(self.target(cos, g) - plain, share)
        return logit if self.bias is None else logit + self.bias[labels].to(x.dtype)

    def _blend(self, margin: Tensor, share: Tensor | None) -> Tensor:
        margin = margin.detach() if self.detach_margin else margin
        return margin if share is None else share * margin

    def _smoothing(self, x: Tensor) -> Tensor | None:
        """q_j of the smoothed part, if there is one."""
        if self.label_smoothing == 0:
            return None
        return x.new_ones(self.num_classes) if self.class_weight is None else self.class_weight.to(x.dtype)

    # The logits of a block of classes -------------------------------------------------------------------

    def rows(self, x: Tensor) -> list[Tensor]:
        """The vector of the inner product where g is the cosine (‖x‖cos θ = ŵ·x), else direction and amplitude."""
        return self._linear_rows(x, [] if self._linear and self.scale is None else self._polar(x))

    def classes(self) -> list[Tensor]:
        """The class vectors; the biases, if any; the k of each class, if g learns them."""
        k = self._k()
        return [self.weight, *([] if self.bias is None else [self.bias]), *([] if k is None else [k])]

    def score(self, rows: list[Tensor], classes: list[Tensor], shared: list[Tensor]) -> Tensor:
        if not self._linear:
            return self._score_polar(rows, classes, self._g_of(classes).from_cos)
        w = classes[0].to(rows[0].dtype)
        logits = rows[0] @ (unit(w) if self.normalize else w).T
        return logits if self.bias is None else logits + classes[1].to(logits.dtype)

    def _score_others(self, rows: list[Tensor], classes: list[Tensor], shared: list[Tensor]) -> Tensor:
        g = self._g_of(classes)

        def rule(cos: Tensor) -> Tensor:
            plain = g.from_cos(cos)
            return plain + self._blend(self.others(cos, g) - plain, shared[0] if shared else None)

        return self._score_polar(rows, classes, rule)

    def _score_polar(self, rows: list[Tensor], classes: list[Tensor], rule: Callable[[Tensor], Tensor]) -> Tensor:
        direction, amplitude = rows
        w = classes[0].to(direction.dtype)
        logits = amplitude * rule(direction @ unit(w).T)
        logits = logits if self.normalize else logits * norm(w)
        return logits if self.bias is None else logits + classes[1].to(logits.dtype)

    def _polar(self, x: Tensor) -> list[Tensor]:
        """Direction (N, d) and amplitude (N, 1) of each sample."""
        length, direction = polar_form(x)
        return [direction, length if self.scale is None else torch.full_like(length, self.scale)]

    def _linear_rows(self, x: Tensor, polar: list[Tensor]) -> list[Tensor]:
        if not self._linear:
            return polar
        return [x if self.scale is None else self.scale * polar[0]]

    @property
    def _linear(self) -> bool:
        return isinstance(self.angular, _angular.Cosine)

    @property
    def _needs_polar(self) -> bool:
        return self.scale is not None or not self._linear or self.changes_target or self.changes_others

    def _k(self) -> Tensor | None:
        """The learnable k of a sigmoid g, one per class."""
        k = self.angular.k if isinstance(self.angular, _angular.Sigmoid) else None
        return k.expand(self.num_classes) if isinstance(k, Tensor) else None

    def _g_of(self, classes: list[Tensor]) -> AngularLike:
        return self.angular if self._k() is None else _SigmoidOf(classes[-1])

    def extra_repr(self) -> str:
        shown = {"margin": self.margin, "scale": self.scale, "label_smoothing": self.label_smoothing}
        options = [f"{name}={value:g}" for name, value in shown.items() if value]
        options += ["detach_margin=True"] if self.detach_margin else []
        return ", ".join([super().extra_repr(), *options])


class _SigmoidOf:
    """The sigmoid g with the k of the classes at hand."""

    def __init__(self, k: Tensor) -> None:
        self.k = k

    def from_cos(self, c: Tensor) -> Tensor:
        return angular_from_cos(c, "sigmoid", self.k)

    def from_angle(self, theta: Tensor) -> Tensor:
        return angular_from_angle(theta, "sigmoid", self.k)


def _checked_angular(value: str | AngularLike, head: MarginSoftmax) -> AngularLike:
    g = _angular.resolve(value)
    if isinstance(g, _angular.Angular):
        return g.for_layer(head.num_classes)
    if isinstance(g, nn.Module) and any(True for _ in g.parameters()) and head.chunk is not None:
        raise ValueError(f"angular={g!r} has parameters that blocks of classes cannot reach: pass chunk=None too")
    return g


def _checked_weight(value: Any, num_classes: int) -> Tensor | None:
    if value is None:
        return None
    if not isinstance(value, Tensor) or not value.is_floating_point() or value.shape != (num_classes,):
        raise ValueError(f"class_weight must be a floating-point tensor of shape ({num_classes},), one per class")
    return value.detach().clone()
