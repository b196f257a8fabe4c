"""SphereFace2: a binary loss for each class instead of one softmax over all."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from .._core import positive
from .._core.checks import check_positive
from .._core.sphere import unit
from ._fused import Known
from .head import ClassHead

_SOFTMAX_ONLY = ("label_smoothing", "class_weight", "annealing", "detach_margin", "angular", "sub_centers")


class SphereFace2(ClassHead):
    """(λ/r)·log(1+e^{−r(g(c_y)−m)−b}) + ((1−λ)/r)·Σ_{j≠y} log(1+e^{r(g(c_j)+m)+b}), c_j = cos θ_j.

    g(z) = 2((z+1)/2)^t − 1 (Wen et al. 2022). The bias b is learned; it starts where the loss is stationary in it when
    all cosines are 0. Classes do not compete, so settings that only a softmax has raise an error.

    Args:
        in_features: dimension of the features, that is of the network's embedding.
        num_classes: number of classes, and of class vectors in ``weight``.
        margin: m ≥ 0, added on both sides of the decision boundary.
        scale: r > 0, the sharpness of the logistic.
        lam: λ in (0, 1), the weight of the positive part; 0.7 makes up for the many negatives.
        exponent: t ≥ 1; larger values spread the cosines more.
        reduction: ``"mean"``, ``"sum"`` or ``"none"`` over the batch.
        ignore_index: label of samples that are ignored.
        chunk: how many classes are computed at a time, as in :class:`MarginSoftmax`.
        device: device on which the parameters are created; None is torch's default device.
        dtype: floating-point type of the parameters; None is torch's default. Norms and angles are computed in at least
            float32.
        **refused: ``label_smoothing``, ``class_weight``, ``annealing``, ``detach_margin``, ``angular`` and
            ``sub_centers`` raise a TypeError that says why.

    Shape:
        - features: (..., in_features); labels: (...), class indices.
        - Output: scalar, or (...) with ``reduction="none"``; :meth:`logits` gives (..., num_classes).

    Raises:
        ValueError: If ``lam`` is not between 0 and 1, ``exponent`` is below 1, or ``margin`` is negative.
        TypeError: If an option is given that only a softmax has.

    Example:
        >>> head = hs.losses.SphereFace2(64, 10)
        >>> features, labels = torch.randn(4, 64), torch.tensor([0, 1, 2, 9])
        >>> loss = head(features, labels)
        >>> loss.shape, head.logits(features).shape
        (torch.Size([]), torch.Size([4, 10]))
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        margin: float = 0.4,
        *,
        scale: float = 40.0,
        lam: float = 0.7,
        exponent: float = 3.0,
        reduction: str = "mean",
        ignore_index: int = -100,
        chunk: int | str | None = "auto",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **refused: Any,
    ) -> None:
        for name in refused:
            reason = "is an option of softmax losses; SphereFace2 is binary" if name in _SOFTMAX_ONLY else "is unknown"
            raise TypeError(f"{name} {reason}: leave it out")
        if not 0 < lam < 1:
            raise ValueError(f"lam={lam!r} must lie between 0 and 1")
        if check_positive("exponent", exponent) < 1:
            raise ValueError(f"exponent={exponent!r} must be at least 1")
        margin = check_positive("margin", margin, zero=True)
        super().__init__(
            in_features,
            num_classes,
            reduction=reduction,
            ignore_index=ignore_index,
            chunk=chunk,
            device=device,
            dtype=dtype,
        )
        self.scale = check_positive("scale", scale)
        self.margin, self.lam, self.exponent = margin, float(lam), float(exponent)
        self.bias = nn.Parameter(torch.full((1,), self._balanced_bias(), device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=self.in_features**-0.5)
        if hasattr(self, "bias"):
            nn.init.constant_(self.bias, self._balanced_bias())

    def losses(self, x: Tensor, labels: Tensor, counts: Tensor, half: bool) -> tuple[Tensor, Tensor]:
        direction, b = unit(x), self._b(x) if self.shards is None else self.shards.replicated(self._b(x))
        known = Known("binary", (self.scale, self.margin, self.exponent), sigma=b)
        reduced = self.reduce(self._negative_losses, [direction], labels, [b], logsumexp=False, known=known, half=half)
        cos = (direction * unit(reduced.own[0].to(x.dtype))).sum(-1)
        positive = _softplus(-self.scale * (self._g(cos) - self.margin) - b)
        losses = (self.lam * positive + (1 - self.lam) * reduced.total) / self.scale
        return losses, torch.ones_like(losses)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, margin={self.margin:g}, lam={self.lam:g}, exponent={self.exponent:g}"

    def rows(self, x: Tensor) -> list[Tensor]:
        return [unit(x)]

    def score(self, rows: list[Tensor], classes: list[Tensor], shared: list[Tensor]) -> Tensor:
        """Compute the logits r·g(cos θ_j) + b.

        Args:
            rows: directions of the features, (N, in_features).
            classes: class vectors of a block, (block, in_features), and what else belongs to them.
            shared: tensors that all blocks of classes use, such as a bias.

        Returns:
            Logits (N, B) of the block.
        """
        return self.scale * self._g(rows[0] @ unit(classes[0].to(rows[0].dtype)).T) + self._b(rows[0])

    def _negative_losses(self, rows: list[Tensor], classes: list[Tensor], shared: list[Tensor]) -> Tensor:
        cos = rows[0] @ unit(classes[0].to(rows[0].dtype)).T
        return _softplus(self.scale * (self._g(cos) + self.margin) + shared[0])

    def _g(self, cos: Tensor) -> Tensor:
        return 2 * ((cos + 1) / 2).clamp_min(0).pow(self.exponent) - 1

    def _b(self, x: Tensor) -> Tensor:
        return self.bias.reshape(()).to(x.dtype)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        positive.shape_as(self.bias, state_dict, f"{prefix}bias")
        super()._load_from_state_dict(state_dict, prefix, *args)

    def _balanced_bias(self) -> float:
        """b with λ·σ(−a_y − b) = (1−λ)(C−1)·σ(a + b): the root B = e^b of a quadratic, in its stable form."""
        if self.num_classes == 1:
            return 0.0
        at_zero = 2 * 0.5**self.exponent - 1
        own, other = self.scale * (at_zero - self.margin), self.scale * (at_zero + self.margin)
        z = self.lam / ((1 - self.lam) * (self.num_classes - 1))
        if z == 1:  # the root is 2·e^((own − other)/2), which may be too small to be a number
            return -(own + other) / 2
        root = math.sqrt((1 - z) ** 2 + 4 * z * math.exp(own - other))
        if z > 1:  # 1 − z + root cancels, and may vanish: the same root, multiplied by its conjugate
            return math.log(z - 1 + root) - math.log(2) - own
        return math.log(2 * z) - other - math.log(1 - z + root)


def _softplus(u: Tensor) -> Tensor:
    """log(1 + e^u), exact at every u (``softplus`` is linear beyond 20)."""
    return -logsigmoid(-u)
