"""The one mechanism of all softmax losses: a margin rule on the logits of :mod:`.logits`, and its annealing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from .._core.checks import check_share
from .._core.labels import as_indices, class_indices
from .._core.sphere import unit
from ..angular import AngularLike
from ..kernels.launch import usable
from ._classes import reduce_classes
from ._direct import Additive, additive_loss
from ._fused import Known, fits
from ._inputs import check_class_weight, counted, host_copy, reduce_losses
from ._kept import kept
from ._polar import polar_form
from ._products import own_products
from .annealing import MarginSchedule, resolve
from .batch import Everyone
from .head import local
from .logits import AngularHead
from .sample import Sample


class MarginSoftmax(AngularHead):
    """Cross-entropy of the logits amplitude·g(θ_j), with a margin on the target's (thesis 2.4, 2.20, D.11).

    The amplitude is ‖x‖, or ``scale`` (then only the direction of the features counts), times ‖W_j‖ if ``normalize`` is
    off. A new loss overrides :meth:`target`, and :meth:`others` if it changes the other logits. If the margin depends
    on the batch or on running state, :meth:`observe` computes this state; :meth:`penalty` adds a term.

    Args:
        in_features: dimension of the features, that is of the network's embedding.
        num_classes: number of classes, and of class vectors in ``weight``.
        margin: stored as ``self.margin`` for :meth:`target`; a tensor with one number per class becomes a buffer.
        scale: s of s·g(θ), > 0; None takes ‖x‖.
        angular: g, a name or an object of :mod:`hypersphere.angular`.
        bias: add a learned number to the logit of each class.
        annealing: :class:`Annealing`, :class:`MarginWarmup` or a preset's name; None applies the margin from the start.
            A schedule that counts the steps of another head already is copied.
        detach_margin: treat margin − plain as a constant in the backward pass; off by default, because the gradient is
            then not that of the loss.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``, as in ``torch.nn.functional.cross_entropy``; the mean over an
            empty batch is an error.
        ignore_index: label of samples that are ignored; a batch of such samples has mean NaN, as in torch.
        label_smoothing: share of the target that is spread over all classes, in [0, 1].
        class_weight: one number per class that multiplies the loss of its samples.
        sub_centers: number K of vectors per class, of which the closest counts; class j has rows j·K to j·K + K − 1.
        chunk: number of classes computed at a time; ``"auto"`` chooses it by the number of logits, None computes all at
            once. Second derivatives and ``torch.func`` always compute all at once.
        device, dtype: where the parameters are created, and their type.

    Shape:
        - features: (..., in_features); labels: (...), class indices.
        - Output: scalar, or (...) with ``reduction="none"``; :meth:`logits` gives (..., num_classes).

    Raises:
        ValueError: If ``label_smoothing`` is outside [0, 1], ``class_weight`` has another shape than (num_classes,), or
            ``sub_centers`` is given for class vectors that are not normalised, or a margin or weight for each class is
            on the meta device, where it holds no numbers.

    Example:
        >>> head = hs.losses.MarginSoftmax(64, 10, scale=30.0)
        >>> head(torch.randn(4, 64), torch.tensor([0, 1, 2, 9])).shape
        torch.Size([])
    """

    #: under data parallel training what gathers the samples of all processes for :meth:`observe`, see ``BatchWide``
    everyone: Everyone | None = None

    class_weight: Tensor | None
    margin: Any  # a number, or a buffer with one for each class
    in_full: tuple[str, ...] = ("margin", "class_weight")

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        margin: float | Tensor = 0.0,
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
        sub_centers: int = 1,
        chunk: int | str | None = "auto",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        options: dict[str, Any] = {"reduction": reduction, "ignore_index": ignore_index, "sub_centers": sub_centers}
        options |= {"scale": scale, "angular": angular, "bias": bias, "chunk": chunk}
        super().__init__(in_features, num_classes, device=device, dtype=dtype, **options)
        if isinstance(margin, Tensor):
            self.register_buffer("margin", margin.detach().clone())
        else:
            self.margin = margin
        self._given = {"margin": host_copy("margin", margin), "class_weight": host_copy("class_weight", class_weight)}
        self.detach_margin = detach_margin
        self.label_smoothing = check_share("label_smoothing", label_smoothing)
        self.annealing = resolve(annealing, self)
        self.register_buffer("class_weight", check_class_weight(class_weight, num_classes))
        self.to(self.weight.device)  # margins, weights of classes and g may have been made elsewhere

    def reset_parameters(self) -> None:
        """Draw class vectors and biases again, and reset g and the annealing.

        Margins and weights per class get the values that were given, also in a head that was built on the meta device.
        """
        super().reset_parameters()
        for name, value in getattr(self, "_given", {}).items():  # not there yet while the base class is built
            buffer = self._buffers.get(name)
            if value is not None and buffer is not None and buffer.shape == value.shape:  # sharded weights stay
                buffer.copy_(value)
        annealing = getattr(self, "annealing", None)
        if annealing is not None:
            annealing.reset_parameters()

    # The rules ------------------------------------------------------------------------------------------

    def target(self, cos: Tensor, sample: Sample) -> Tensor:
        """Compute g of the target with its margin; a loss overrides it.

        Args:
            cos: cos θ_y of each sample, (N,).
            sample: the norm, label and state of each sample.

        Returns:
            The value for each sample, (N,); here g(θ_y), without a margin.
        """
        return sample.from_cos(cos)

    def others(self, cos: Tensor, sample: Sample) -> Tensor:
        """Compute g of the other classes while training.

        Args:
            cos: cos θ_j of a block of classes, (N, B).
            sample: the norm, label and state of each sample, (N, 1).

        Returns:
            The value for each sample and class of the block, (N, B); here g(θ_j).
        """
        return sample.from_cos(cos)

    def observe(self, cos: Tensor, sample: Sample) -> dict[str, Tensor]:
        """Compute the state of the batch that the other methods find in ``sample.state``.

        It is called once per forward pass, without gradients. Running buffers are updated here, and only here, in
        training mode. ``sample.counts`` is False for samples that are ignored or not finite.

        Args:
            cos: cos θ_y of each sample, (N,).
            sample: the norm and label of each sample.

        Returns:
            Tensors by name, (N,) or scalar; here none.
        """
        return {}

    def penalty(self, sample: Sample) -> Tensor | None:
        """Compute a term that is added to each sample's loss.

        Args:
            sample: the norm, label and state of each sample.

        Returns:
            The term of each sample, (N,), or None for no term, as here.
        """
        return None

    def margin_of(self, sample: Sample) -> Any:
        """Return the margin of each sample.

        Args:
            sample: the samples, of which the labels are used.

        Returns:
            The number, or a tensor with the margin of each sample's class.
        """
        return self.margin[sample.labels].to(sample.norm.dtype) if isinstance(self.margin, Tensor) else self.margin

    @property
    def changes_target(self) -> bool:
        """Whether :meth:`target` is more than g(θ_y)."""
        return type(self).target is not MarginSoftmax.target

    @property
    def changes_others(self) -> bool:
        """Whether :meth:`others` is more than g(θ_j)."""
        return type(self).others is not MarginSoftmax.others

    @property
    def observes(self) -> bool:
        """Whether :meth:`observe` is overridden."""
        return type(self).observe is not MarginSoftmax.observe

    # The loss -------------------------------------------------------------------------------------------

    def direct_loss(self, x: Tensor, labels: Tensor, half: bool) -> Tensor | None:
        additive = self._additive(x, half)
        if additive is None:
            return None
        flat = as_indices(labels, x.device).reshape(-1).contiguous()
        if flat.device.type == "cpu":  # the range of labels is checked where that needs no wait for a GPU
            class_indices(flat, self.num_classes, self.ignore_index)
        loss = additive_loss(additive, self._plain_loss(flat), x, self.weight, flat)
        return loss.view(labels.shape) if self.reduction == "none" else loss

    def losses(self, x: Tensor, labels: Tensor, counts: Tensor, half: bool) -> tuple[Tensor, Tensor]:
        share = None
        if self.annealing is not None:
            self.annealing.compute_in(x.dtype)
            share = self.annealing().to(x.dtype)
        smoothing = self._smoothing(x)
        polar = self.polar(x) if self._needs_polar else []
        sample = Sample(self.angular, polar[2][:, 0] if polar else x.new_empty(0), labels, counts, {})
        if self.observes:
            sample = sample._replace(state=self._observed(polar[0], sample))
        if self.changes_others:
            rows = [*polar, labels[:, None], counts[:, None], *(v[:, None] for v in sample.state.values())]
            score, shared = self._score_others(tuple(sample.state)), [] if share is None else [share]
            known = self._known_others(tuple(sample.state), x.new_ones(1) if share is None else share)
        else:
            rows, score, shared, known = self.rows_of(x, polar), self.score, [], self.known_score()
        seen = self.reduce(score, rows, labels, shared, weights=smoothing, known=known, half=half)
        own = self.by_name([t.to(x.dtype) for t in seen.own])
        logit = self._own_logit(x, polar, own, sample, share)
        plain = -logsigmoid(logit - seen.logsumexp)  # log Σ e^u − u_y; logaddexp has NaN second derivatives far out
        weight = own.get("class_weight", torch.ones_like(logit))
        losses = weight * plain if "class_weight" in own else plain
        if smoothing is not None:
            spread = self._smoothing_sum(smoothing) * (plain + logit) - seen.total - weight * logit
            losses = (1 - self.label_smoothing) * losses + (self.label_smoothing / self.num_classes) * spread
        extra = self.penalty(sample)
        return losses if extra is None else losses + weight * extra, weight

    @torch.no_grad()
    def _observed(self, direction: Tensor, sample: Sample) -> dict[str, Tensor]:
        vectors = unit(self.own_vectors(sample.labels).to(direction.dtype))
        cos, lengths = own_products(direction, vectors), sample.norm.detach()
        seen, first, own = sample._replace(norm=lengths, counts=sample.counts & cos.isfinite()), 0, len(cos)
        if self.everyone is not None and self.training:  # the batch is that of all processes
            columns = torch.stack([cos, lengths, seen.counts.to(cos.dtype)], 1)
            columns, names, first = self.everyone(columns, seen.labels)
            cos, lengths, counts = columns.unbind(1)
            seen = seen._replace(norm=lengths, labels=names, counts=counts > 0)
        state = {
            name: value.to(direction.dtype).expand(len(cos))[first : first + own]
            for name, value in self.observe(cos, seen).items()
        }
        return {name: kept(value) for name, value in state.items()} if torch.compiler.is_compiling() else state

    def _own_logit(
        self, x: Tensor, polar: list[Tensor], own: dict[str, Tensor], sample: Sample, share: Tensor | None
    ) -> Tensor:
        """plain + share·amplitude·(g with margin − g) of each sample's own class."""
        w = own["weight"]
        length, direction = polar_form(w) if self.normalize or polar else (None, w)
        logit = None
        if self.is_linear:
            logit = own_products(self.rows_of(x, polar)[0], direction if self.normalize else w)
        if self.changes_target or logit is None:
            cos = own_products(polar[0], direction)
            amplitude = polar[1][:, 0] if self.normalize or length is None else polar[1][:, 0] * length[:, 0]
            sample = sample._replace(g=self.g_of(own))
            plain = sample.from_cos(cos)
            logit = amplitude * plain if logit is None else logit
            if self.changes_target:
                logit = logit + amplitude * self._blend(self.target(cos, sample) - plain, share)
        return logit + own["bias"] if "bias" in own else logit

    def _blend(self, margin: Tensor, share: Tensor | None) -> Tensor:
        margin = margin.detach() if self.detach_margin else margin
        return margin if share is None else share * margin

    def _smoothing(self, x: Tensor) -> Tensor | None:
        """q_j of the smoothed part, if there is one."""
        if self.label_smoothing == 0:
            return None
        weight = self.classes()[-1] if self.class_weight is not None else None
        return x.new_ones(self.classes()[0].shape[0]) if weight is None else weight.to(x.dtype)

    def _smoothing_sum(self, smoothing: Tensor) -> Tensor:
        """Σ q_j over all classes."""
        return smoothing.sum() if self.shards is None else self.shards.sum(smoothing.sum())

    # The classes ----------------------------------------------------------------------------------------

    def classes(self) -> list[Tensor]:
        """Return what the score and the loss need of the classes.

        Returns:
            The class vectors; then the biases, the k of each class and the class weights, where there are any.
        """
        return [*super().classes(), *([] if self.class_weight is None else [local(self.class_weight)])]

    def part_names(self) -> list[str]:
        return [*super().part_names(), *([] if self.class_weight is None else ["class_weight"])]

    def _score_others(self, names: tuple[str, ...]) -> Callable[[list[Tensor], list[Tensor], list[Tensor]], Tensor]:
        """A score with the rule :meth:`others`, for which the rows carry the samples and their state of these names."""

        def score(rows: list[Tensor], classes: list[Tensor], shared: list[Tensor]) -> Tensor:
            parts = self.by_name(classes)
            labels, counts, *state = rows[3:]
            sample = Sample(self.g_of(parts), rows[2], labels, counts, dict(zip(names, state, strict=True)))

            def rule(cos: Tensor) -> Tensor:
                plain = sample.from_cos(cos)
                return plain + self._blend(self.others(cos, sample) - plain, shared[0] if shared else None)

            return self.score_by(rule, rows, parts)

        return score

    def known_target(self) -> tuple[bool, float] | None:
        """:meth:`target` as the kernels know it: cos θ − m, or cos(θ + m).

        Returns:
            Whether m is added to the angle, and m; None where the kernels do not know the rule.
        """
        return (False, 0.0) if type(self).target is MarginSoftmax.target else None

    def _additive(self, x: Tensor, half: bool) -> Additive | None:
        """How to compute the whole loss by kernels; None where more belongs to it than an additive margin."""
        known = self.known_target()
        options = (self.bias, self.class_weight, self.annealing, self.shards)
        if known is None or self.scale is None or self.chunk is None or any(one is not None for one in options):
            return None
        own = any(getattr(type(self), name) is not getattr(MarginSoftmax, name) for name in ("losses", "penalty"))
        more = own or self.changes_others or self.observes
        if more or self.label_smoothing or self.detach_margin or self.sub_centers > 1:
            return None
        if not (self.is_linear and self.normalize and self.weight.dtype == torch.float32):
            return None
        if not (usable(x, "margins") and fits([x], [self.weight])):
            return None
        width = self.chunk if isinstance(self.chunk, int) else None
        return Additive(self.scale, known[1], known[0], self.reduction, self.ignore_index, width, half)

    def _plain_loss(self, names: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
        def plain(x: Tensor, w: Tensor) -> Tensor:
            labels, counts = class_indices(names, self.num_classes, self.ignore_index)
            x = counted(x, counts)
            score, rows = self.score, self.rows_of(x, polar := self.polar(x))
            seen = reduce_classes(score, rows, [w], [], labels, whole=True)
            sample = Sample(self.angular, polar[2][:, 0], labels, counts, {})
            logit = self._own_logit(x, polar, {"weight": seen.own[0]}, sample, None)
            losses = torch.where(counts, -logsigmoid(logit - seen.logsumexp), 0.0)
            return reduce_losses(losses, counts.to(losses.dtype), self.reduction, losses.shape)

        return plain

    def known_others(self, names: tuple[str, ...]) -> tuple[str, float] | None:
        """Describe :meth:`others` to the kernels: its kind and first number, or None where they do not know the rule.

        Args:
            names: the names of the state that :meth:`observe` returned.

        Returns:
            (kind, first number) of the rule, or None if the kernels do not know it.
        """
        return None

    def _known_others(self, names: tuple[str, ...], share: Tensor) -> Known | None:
        found = self.known_others(names)
        if found is None or self.detach_margin or not (self.is_linear and self.normalize):
            return None
        places = {name: place for place, name in enumerate(names, 5)}
        bias = None if self.bias is None else 1
        threshold, t = places.get("threshold"), places.get("t")
        bound = self.scale if self.scale and found[0] == "fraction" else math.inf  # others' rules may exceed 1
        return Known(found[0], (found[1], 0.0, 0.0), True, 1, threshold, t, bias, share, bound)

    @property
    def _needs_polar(self) -> bool:
        penalized = type(self).penalty is not MarginSoftmax.penalty
        rules = self.changes_target or self.changes_others or self.observes or penalized
        return rules or self.scale is not None or not self.is_linear

    def extra_repr(self) -> str:
        margin = None if isinstance(self.margin, Tensor) else self.margin
        shown = {"margin": margin, "scale": self.scale, "label_smoothing": self.label_smoothing}
        options = [f"{name}={value:g}" for name, value in shown.items() if value]
        options += ["detach_margin=True"] if self.detach_margin else []
        return ", ".join([super().extra_repr(), *options])
