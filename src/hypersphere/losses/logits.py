"""The logit rule of the softmax losses: amplitude · g(θ_j), with a bias of each class if wanted."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .. import angular as _angular
from .._core.checks import check_positive
from .._core.sphere import norm, unit
from ..angular import AngularLike
from ..kernels.job import KINDS
from ._angular import SigmoidOf, checked_angular
from ._fused import Known
from ._polar import polar_form
from ._products import products
from .head import ClassHead, local


class AngularHead(ClassHead):
    """Logits amplitude·g(θ_j) + b_j of all classes, a block of them at a time.

    The amplitude is ‖x‖, or ``scale``, times ‖W_j‖ if ``normalize`` is off. Where g is the cosine the logit is an inner
    product (:attr:`is_linear`), and is computed as one.
    """

    bias: Tensor | None

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        scale: float | None = None,
        angular: str | AngularLike = "cosine",
        bias: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(in_features, num_classes, **options)
        if self.sub_centers > 1 and not self.normalize:
            raise ValueError(
                f"sub_centers={self.sub_centers} are compared by angle: use a loss on normalised class vectors"
            )
        self.scale = None if scale is None else check_positive("scale", scale)
        self.angular = checked_angular(angular, self)
        self.register_parameter("bias", nn.Parameter(self.weight.new_empty(num_classes)) if bias else None)
        self._reset_bias()

    def reset_parameters(self) -> None:
        """Draw class vectors and biases again, and reset g."""
        super().reset_parameters()
        self._reset_bias()
        reset = getattr(getattr(self, "angular", None), "reset_parameters", None)  # a g of one's own need not have it
        if callable(reset):
            reset()

    def _reset_bias(self) -> None:
        bias = getattr(self, "bias", None)  # not there yet while the base class is built
        if bias is not None:
            nn.init.uniform_(bias, -(self.in_features**-0.5), self.in_features**-0.5)

    # The samples ----------------------------------------------------------------------------------------

    def rows(self, x: Tensor) -> list[Tensor]:
        """Compute what the score needs of the samples.

        Args:
            x: features of the batch, (N, in_features).

        Returns:
            The vector of the inner product where g is the cosine (‖x‖cos θ = ŵ·x), else direction and amplitude.
        """
        return self.rows_of(x, [] if self.is_linear and self.scale is None else self.polar(x))

    def rows_of(self, x: Tensor, polar: list[Tensor]) -> list[Tensor]:
        """:meth:`rows` where :meth:`polar` is known; it may be empty where the inner product is with x itself."""
        if not self.is_linear:
            return polar[:2]
        return [x if self.scale is None else self.scale * polar[0]]

    def polar(self, x: Tensor) -> list[Tensor]:
        """Direction (N, d), amplitude (N, 1) and length (N, 1) of each sample."""
        length, direction = polar_form(x)
        return [direction, length if self.scale is None else torch.full_like(length, self.scale), length]

    @property
    def is_linear(self) -> bool:
        """Whether g is the cosine itself; a subclass of it may have another formula."""
        return isinstance(self.angular, _angular.Cosine) and self.angular.closed_form() is not None

    # The classes ----------------------------------------------------------------------------------------

    def classes(self) -> list[Tensor]:
        """Return what the score needs of the classes.

        Returns:
            The class vectors; then the biases and the k of each class, where there are any.
        """
        w = local(self.weight)
        w = w if self.sub_centers == 1 else w.unflatten(0, (-1, self.sub_centers))
        return [w, *(local(t) for t in (self.bias, self._k()) if t is not None)]

    def part_names(self) -> list[str]:
        """The names of :meth:`classes`, in their order."""
        there = {"bias": self.bias is not None, "k": self._learns_k}
        return ["weight", *(name for name, is_there in there.items() if is_there)]

    def by_name(self, classes: list[Tensor]) -> dict[str, Tensor]:
        """The tensors of the classes, or of a block of them, by name."""
        return dict(zip(self.part_names(), classes, strict=True))

    def g_of(self, parts: dict[str, Tensor]) -> AngularLike:
        """The g of the classes at hand."""
        return SigmoidOf(parts["k"]) if "k" in parts else self.angular

    def class_tensors(self) -> dict[str, Tensor]:
        g: Any = self.angular
        per_class = {"angular.raw_k": g.raw_k} if self._learns_k and g.share == "filter" else {}
        return super().class_tensors() | per_class

    @property
    def _learns_k(self) -> bool:
        g = self.angular
        return isinstance(g, _angular.Sigmoid) and g.raw_k is not None and g.closed_form() is not None

    def _k(self) -> Tensor | None:
        """The learnable k of a sigmoid g, one per class."""
        form = self.angular.closed_form() if isinstance(self.angular, _angular.Sigmoid) else None
        if form is None or not isinstance(k := form[1], Tensor):
            return None
        whole = self.shards is None or k.dim() > 0
        return k.expand(self.num_classes) if whole else self.shards.of_each_class(k)

    # The logits of a block of classes -------------------------------------------------------------------

    def score(self, rows: list[Tensor], classes: list[Tensor], shared: list[Tensor]) -> Tensor:
        parts = self.by_name(classes)
        if not self.is_linear:
            return self.score_by(self.g_of(parts).from_cos, rows, parts)
        w = parts["weight"].to(rows[0].dtype)
        logits = products(rows[0], unit(w) if self.normalize else w)
        return logits + parts["bias"].to(logits.dtype) if "bias" in parts else logits

    def score_by(self, rule: Callable[[Tensor], Tensor], rows: list[Tensor], parts: dict[str, Tensor]) -> Tensor:
        """:meth:`score` with any function of the cosines in the place of g."""
        direction, amplitude = rows[:2]
        w = parts["weight"].to(direction.dtype)
        logits = amplitude * rule(products(direction, unit(w)))
        logits = logits if self.normalize else logits * norm(w)
        return logits + parts["bias"].to(logits.dtype) if "bias" in parts else logits

    def known_score(self) -> Known | None:
        """:meth:`score` as the kernels know it, or None."""
        bias, bound = None if self.bias is None else 1, self.scale or math.inf
        if self.is_linear:
            return Known("cosine", normalize=self.normalize, bias=bias, bound=bound)
        form = self.angular.closed_form() if isinstance(self.angular, _angular.Angular) else None
        if form is None or form[0] not in KINDS or not self.normalize:
            return None
        if isinstance(form[1], Tensor):
            return Known("curved", amplitude=1, bias=bias, bound=bound, k=1 if bias is None else 2)
        half_k, top = 0.5 / form[1], 1 / math.tanh(math.pi / (4 * form[1]))
        return Known(form[0], (half_k, top, 0.0), amplitude=1, bias=bias, bound=bound)
