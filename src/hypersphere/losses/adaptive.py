"""Margins that depend on the sample: by its norm (AdaFace, MagFace), drawn (ElasticFace), by hardness (CurricularFace).

All work on s·cos θ, so that only the direction of a feature enters its logits.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from .._core.checks import check_choice, check_positive, check_share
from .._core.sphere import angle, compute_dtype
from ..functional.margins import additive_angle
from ._inputs import without
from .face import ArcFace, check_angle
from .margin_softmax import MarginSoftmax
from .sample import Sample


class AdaFace(MarginSoftmax):
    """Target logit s·(cos(θ_y − m·ẑ) − m·(1 + ẑ)), other logits s·cos θ_j (Kim et al. 2022, eq. 14-16).

    ẑ = clip((‖x‖ − μ)/(σ + ε)·h, −1, 1) uses the norm of the feature as a measure of image quality. For a clear image
    (ẑ = 1) the margin is that of ArcFace with −m plus that of CosFace with 2m, which emphasises hard samples. For a
    blurred image (ẑ = −1) it is ArcFace's margin, which does not. μ and σ are running means of the mean and the
    standard deviation of the norms in a batch. θ_y − m·ẑ is clamped to [0, π]. No gradient passes through ẑ.

    Args:
        in_features: dimension of the features, that is of the network's embedding.
        num_classes: number of classes, and of class vectors in ``weight``.
        margin: m ≥ 0, in radians where it is added to the angle.
        scale: s > 0, the length to which features are scaled.
        concentration: h ≥ 0. With the default 1/3, norms within three deviations of the mean are not clipped.
        momentum: share of the old μ and σ that remains after a batch, in [0, 1].
        device: device on which the parameters are created; None is torch's default device.
        dtype: floating-point type of the parameters; None is torch's default. Losses are computed in at least float32.
        **options: further settings of :class:`MarginSoftmax`: ``bias`` (add a learned number per class to the logits;
            default False), ``annealing`` (an :class:`Annealing` or :class:`MarginWarmup` by which the margin grows, or
            the name of a preset; default None, the full margin at once), ``detach_margin`` (treat the margin as a
            constant in the backward pass; default False), ``reduction`` (``"mean"``, ``"sum"`` or ``"none"`` over the
            samples; default ``"mean"``), ``ignore_index`` (label of ignored samples, default −100), ``label_smoothing``
            (share of the target that is spread over all classes, in [0, 1], default 0), ``class_weight`` (a factor of
            the loss for each class, default None), ``sub_centers`` (vectors per class, of which the closest counts;
            default 1) and ``chunk`` (classes per block: ``"auto"``, a number, or None for dense logits).

    Shape:
        - features: (..., in_features); labels: (...), class indices.
        - Output: scalar, or (...) with ``reduction="none"``; :meth:`logits` gives (..., num_classes).

    Raises:
        ValueError: If ``margin`` or ``concentration`` is negative, or ``momentum`` is outside [0, 1].

    Example:
        >>> head = hs.losses.AdaFace(64, 10)
        >>> features, labels = torch.randn(4, 64), torch.tensor([0, 1, 2, 9])
        >>> loss = head(features, labels)
        >>> loss.shape, head.logits(features).shape
        (torch.Size([]), torch.Size([4, 10]))
    """

    norm_mean: Tensor
    norm_std: Tensor
    in_full = (*MarginSoftmax.in_full, "norm_mean", "norm_std")

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        margin: float = 0.4,
        *,
        scale: float = 64.0,
        concentration: float = 1 / 3,
        momentum: float = 0.99,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        margin = check_positive("margin", margin, zero=True)
        super().__init__(
            in_features, num_classes, margin, scale=scale, device=device, dtype=dtype, **without(options, "angular")
        )
        self.concentration = check_positive("concentration", concentration, zero=True)
        self.momentum = check_share("momentum", momentum)
        self.register_buffer("norm_mean", _scalar(self.weight, 20.0))
        self.register_buffer("norm_std", _scalar(self.weight, 100.0))

    def reset_parameters(self) -> None:
        """Draw the class vectors again and set μ = 20 and σ = 100, the authors' initial values."""
        super().reset_parameters()
        if hasattr(self, "norm_mean"):
            self.norm_mean.fill_(20.0)
            self.norm_std.fill_(100.0)

    def observe(self, cos: Tensor, sample: Sample) -> dict[str, Tensor]:
        norms = sample.norm.clamp(1e-3, 100.0)
        mean, std = self.norm_mean, self.norm_std
        if self.training:
            count = sample.counts.sum()
            batch = torch.where(sample.counts, norms, 0.0).sum() / count.clamp_min(1)
            spread = torch.where(sample.counts, norms - batch, 0.0).square().sum() / (count - 1).clamp_min(1)
            mean = torch.where(count > 0, torch.lerp(batch.to(mean.dtype), mean, self.momentum), mean)
            std = torch.where(count > 1, torch.lerp(spread.sqrt().to(std.dtype), std, self.momentum), std)
            mean, std = _moved(self.norm_mean, mean), _moved(self.norm_std, std)
        return {"quality": ((norms - mean) / (std + 1e-3) * self.concentration).clamp(-1.0, 1.0)}

    def target(self, cos: Tensor, sample: Sample) -> Tensor:
        quality = sample.state["quality"]
        turned = (angle(cos) - self.margin * quality).clamp(0.0, math.pi)
        return turned.cos() - self.margin * (1 + quality)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, concentration={self.concentration:g}, momentum={self.momentum:g}"


class MagFace(MarginSoftmax):
    """Target logit s·cos(θ_y + m(a)), other logits s·cos θ_j, plus λ_g·g(a) (Meng et al. 2021, eq. 3-5).

    a = ‖x‖, clamped to [l_a, u_a], is the network's estimate of the quality of an image. The margin grows with a: m(a)
    = l_m + (u_m − l_m)/(u_a − l_a)·(a − l_a). The regularizer g(a) = 1/a + a/u_a² rewards large a, so that the
    features of easy samples become long. The gradient passes through a and is 0 outside [l_a, u_a]. Beyond θ_y = π −
    m(a) the target logit continues as in :class:`ArcFace`.

    Args:
        in_features: dimension of the features, that is of the network's embedding.
        num_classes: number of classes, and of class vectors in ``weight``.
        lower_norm: l_a > 0, the smallest norm that makes a difference; smaller norms count as l_a.
        upper_norm: u_a, the largest norm that makes a difference; larger norms count as u_a.
        lower_margin: l_m, the margin in radians at l_a.
        upper_margin: u_m, the margin in radians at u_a.
        scale: s > 0, the length to which features are scaled in the logits.
        norm_weight: λ_g ≥ 0, the weight of the regularizer.
        device: device on which the parameters are created; None is torch's default device.
        dtype: floating-point type of the parameters; None is torch's default. Losses are computed in at least float32.
        **options: further settings of :class:`MarginSoftmax`: ``bias`` (add a learned number per class to the logits;
            default False), ``annealing`` (an :class:`Annealing` or :class:`MarginWarmup` by which the margin grows, or
            the name of a preset; default None, the full margin at once), ``detach_margin`` (treat the margin as a
            constant in the backward pass; default False), ``reduction`` (``"mean"``, ``"sum"`` or ``"none"`` over the
            samples; default ``"mean"``), ``ignore_index`` (label of ignored samples, default −100), ``label_smoothing``
            (share of the target that is spread over all classes, in [0, 1], default 0), ``class_weight`` (a factor of
            the loss for each class, default None), ``sub_centers`` (vectors per class, of which the closest counts;
            default 1) and ``chunk`` (classes per block: ``"auto"``, a number, or None for dense logits).

    Shape:
        - features: (..., in_features); labels: (...), class indices.
        - Output: scalar, or (...) with ``reduction="none"``; :meth:`logits` gives (..., num_classes).

    Raises:
        ValueError: If the upper norm or margin is not above the lower one, or a number is negative.

    Example:
        >>> head = hs.losses.MagFace(64, 10)
        >>> features, labels = torch.randn(4, 64), torch.tensor([0, 1, 2, 9])
        >>> loss = head(features, labels)
        >>> loss.shape, head.logits(features).shape
        (torch.Size([]), torch.Size([4, 10]))
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        lower_norm: float = 10.0,
        upper_norm: float = 110.0,
        lower_margin: float = 0.45,
        upper_margin: float = 0.8,
        scale: float = 64.0,
        norm_weight: float = 35.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        options = without(without(options, "angular"), "margin", instead="lower_margin and upper_margin")
        super().__init__(in_features, num_classes, scale=scale, device=device, dtype=dtype, **options)
        self.lower_norm, self.upper_norm = (
            check_positive("lower_norm", lower_norm),
            check_positive("upper_norm", upper_norm),
        )
        if self.lower_norm >= self.upper_norm:
            raise ValueError(f"upper_norm={upper_norm!r} must be larger than lower_norm={lower_norm!r}")
        self.lower_margin = check_positive("lower_margin", lower_margin, zero=True)
        self.upper_margin = check_positive("upper_margin", upper_margin, zero=True)
        if not self.lower_margin <= self.upper_margin < math.pi:
            raise ValueError(f"upper_margin={upper_margin!r} must lie between lower_margin={lower_margin!r} and π")
        self.norm_weight = check_positive("norm_weight", norm_weight, zero=True)

    def target(self, cos: Tensor, sample: Sample) -> Tensor:
        slope = (self.upper_margin - self.lower_margin) / (self.upper_norm - self.lower_norm)
        return additive_angle(cos, self.lower_margin + slope * (self._kept_norm(sample) - self.lower_norm))

    def penalty(self, sample: Sample) -> Tensor:
        a = self._kept_norm(sample)
        return self.norm_weight * (1 / a + a / self.upper_norm**2)

    def _kept_norm(self, sample: Sample) -> Tensor:
        return sample.norm.clamp(self.lower_norm, self.upper_norm)

    def extra_repr(self) -> str:
        return (
            f"{super().extra_repr()}, norms={self.lower_norm:g}..{self.upper_norm:g}, "
            f"margins={self.lower_margin:g}..{self.upper_margin:g}, norm_weight={self.norm_weight:g}"
        )


class ElasticFace(MarginSoftmax):
    """Target logit s·cos(θ_y + m_i) or s·(cos θ_y − m_i), m_i ~ N(m, σ²) drawn at each step (Boutros et al. 2022).

    Random margins allow classes to differ in how compact they are. In evaluation mode m_i = m. The margins are drawn
    from torch's generator of the device, so a run that restores the state of this generator continues exactly.

    Args:
        in_features: dimension of the features, that is of the network's embedding.
        num_classes: number of classes, and of class vectors in ``weight``.
        margin: m ≥ 0, the mean margin; None is 0.5 for the arc and 0.35 for the cosine.
        scale: s > 0, the length to which features are scaled.
        form: ``"arc"`` adds to the angle, ``"cos"`` subtracts from the cosine.
        std: σ ≥ 0, the spread of the margins; 0 is a fixed margin.
        sort: give the larger margins of a batch to the samples farther from their class vector (ElasticFace+).
        device: device on which the parameters are created; None is torch's default device.
        dtype: floating-point type of the parameters; None is torch's default. Losses are computed in at least float32.
        **options: further settings of :class:`MarginSoftmax`: ``bias`` (add a learned number per class to the logits;
            default False), ``annealing`` (an :class:`Annealing` or :class:`MarginWarmup` by which the margin grows, or
            the name of a preset; default None, the full margin at once), ``detach_margin`` (treat the margin as a
            constant in the backward pass; default False), ``reduction`` (``"mean"``, ``"sum"`` or ``"none"`` over the
            samples; default ``"mean"``), ``ignore_index`` (label of ignored samples, default −100), ``label_smoothing``
            (share of the target that is spread over all classes, in [0, 1], default 0), ``class_weight`` (a factor of
            the loss for each class, default None), ``sub_centers`` (vectors per class, of which the closest counts;
            default 1) and ``chunk`` (classes per block: ``"auto"``, a number, or None for dense logits).

    Shape:
        - features: (..., in_features); labels: (...), class indices.
        - Output: scalar, or (...) with ``reduction="none"``; :meth:`logits` gives (..., num_classes).

    Raises:
        ValueError: If ``margin`` is not in [0, π), ``std`` is negative, or ``form`` is unknown.

    Example:
        >>> head = hs.losses.ElasticFace(64, 10)
        >>> features, labels = torch.randn(4, 64), torch.tensor([0, 1, 2, 9])
        >>> loss = head(features, labels)
        >>> loss.shape, head.logits(features).shape
        (torch.Size([]), torch.Size([4, 10]))
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        margin: float | None = None,
        *,
        scale: float = 64.0,
        form: str = "arc",
        std: float = 0.05,
        sort: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        check_choice("form", form, ("arc", "cos"))
        margin = check_positive("margin", (0.5 if form == "arc" else 0.35) if margin is None else margin, zero=True)
        if form == "arc":
            check_angle(margin)
        super().__init__(
            in_features, num_classes, margin, scale=scale, device=device, dtype=dtype, **without(options, "angular")
        )
        self.form, self.std, self.sort = form, check_positive("std", std, zero=True), bool(sort)

    def observe(self, cos: Tensor, sample: Sample) -> dict[str, Tensor]:
        if not self.training:
            return {"margin": torch.full_like(cos, self.margin)}
        margins = self.margin + self.std * torch.randn_like(cos)
        if self.sort:
            far = torch.where(sample.counts, -cos, math.inf)  # ignored samples keep to themselves, behind all others
            ranked = torch.where(sample.counts, margins, math.inf).sort().values
            margins = torch.where(sample.counts, ranked.scatter(0, far.argsort(), ranked), self.margin)
        return {"margin": margins}

    def target(self, cos: Tensor, sample: Sample) -> Tensor:
        margin = sample.state["margin"]
        return additive_angle(cos, margin) if self.form == "arc" else cos - margin

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, form={self.form!r}, std={self.std:g}, sort={self.sort}"


class CurricularFace(ArcFace):
    """Target logit s·T, T = cos(θ_y + m) as in ArcFace; others s·c_j, or s·c_j·(t + c_j) where c_j = cos θ_j > T.

    See Huang et al. 2020, eq. 4-5. Classes with c_j > T are hard negatives. t is the running mean of cos θ_y and starts
    at 0, so hard negatives count less early in training and more later. No gradient passes through t or through the
    comparison.

    Args:
        in_features: dimension of the features, that is of the network's embedding.
        num_classes: number of classes, and of class vectors in ``weight``.
        margin: m in radians, ≥ 0, a number or a tensor with one per class.
        scale: s > 0, the length to which features are scaled.
        momentum: share of the old t that remains after a batch, in [0, 1]; 0.99 as in the authors' code.
        device: device on which the parameters are created; None is torch's default device.
        dtype: floating-point type of the parameters; None is torch's default. Losses are computed in at least float32.
        **options: further settings of :class:`MarginSoftmax`: ``bias`` (add a learned number per class to the logits;
            default False), ``annealing`` (an :class:`Annealing` or :class:`MarginWarmup` by which the margin grows, or
            the name of a preset; default None, the full margin at once), ``detach_margin`` (treat the margin as a
            constant in the backward pass; default False), ``reduction`` (``"mean"``, ``"sum"`` or ``"none"`` over the
            samples; default ``"mean"``), ``ignore_index`` (label of ignored samples, default −100), ``label_smoothing``
            (share of the target that is spread over all classes, in [0, 1], default 0), ``class_weight`` (a factor of
            the loss for each class, default None), ``sub_centers`` (vectors per class, of which the closest counts;
            default 1) and ``chunk`` (classes per block: ``"auto"``, a number, or None for dense logits).

    Shape:
        - features: (..., in_features); labels: (...), class indices.
        - Output: scalar, or (...) with ``reduction="none"``; :meth:`logits` gives (..., num_classes).

    Raises:
        ValueError: If ``margin`` is not in [0, π), or ``momentum`` is outside [0, 1].

    Example:
        >>> head = hs.losses.CurricularFace(64, 10)
        >>> features, labels = torch.randn(4, 64), torch.tensor([0, 1, 2, 9])
        >>> loss = head(features, labels)
        >>> loss.shape, head.logits(features).shape
        (torch.Size([]), torch.Size([4, 10]))
    """

    t: Tensor
    in_full = (*MarginSoftmax.in_full, "t")

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        margin: float | Tensor = 0.5,
        *,
        scale: float = 64.0,
        momentum: float = 0.99,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        super().__init__(in_features, num_classes, margin, scale=scale, device=device, dtype=dtype, **options)
        self.momentum = check_share("momentum", momentum)
        self.register_buffer("t", _scalar(self.weight, 0.0))

    def reset_parameters(self) -> None:
        """Draw the class vectors again and set t = 0."""
        super().reset_parameters()
        if hasattr(self, "t"):
            self.t.zero_()

    def observe(self, cos: Tensor, sample: Sample) -> dict[str, Tensor]:
        t = self.t
        if self.training:
            count = sample.counts.sum()
            mean = torch.where(sample.counts, cos, 0.0).sum() / count.clamp_min(1)
            t = _moved(self.t, torch.where(count > 0, torch.lerp(mean.to(t.dtype), t, self.momentum), t))
        return {"t": t, "threshold": self.target(cos, sample)}

    def others(self, cos: Tensor, sample: Sample) -> Tensor:
        return torch.where(cos > sample.state["threshold"], cos * (sample.state["t"] + cos), cos)

    def known_others(self, names: tuple[str, ...]) -> tuple[str, float] | None:
        return ("curricular", 0.0) if type(self).others is CurricularFace.others else None

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, momentum={self.momentum:g}"


def _scalar(like: Tensor, value: float) -> Tensor:
    """A running number beside the weight, in the dtype that heads compute in; torch.compile loses those of shape ()."""
    return torch.full((1,), value, device=like.device, dtype=compute_dtype(like.dtype))


def _moved(buffer: Tensor, value: Tensor) -> Tensor:
    """``value``, which the buffer now holds."""
    value = value.clone()
    buffer.copy_(value)
    return value
