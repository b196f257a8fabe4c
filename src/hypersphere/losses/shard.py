"""Class vectors over a process group: each process holds and scores a share of the classes.

With R processes and N samples on each, a step sends

    forward    features (N·d of each process) and labels; log Σ e^u, Σ q·u and the vectors of the R·N targets, summed
    backward   the gradients of the same

and nothing of the size of the classes. Every process computes the per-sample part of all R·N samples, whose cost does
not depend on the number of classes, and returns the loss of its own samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from .._core.checks import check_positive
from .._core.modes import autocast_dtype, without_autocast
from ..angular import Sigmoid
from . import _collectives as collectives
from ._classes import Classes, block_width
from ._inputs import check_features, check_labels, counted, miner_weights, reduce_losses
from .head import ClassHead

H = TypeVar("H", bound=ClassHead)


def shard(head: H, mesh: Any, *, rate: float = 1.0) -> H:
    """Distribute the class vectors of a head over the processes of a mesh, in place.

    The weight (a bias, class weights and a learned k of each class, too) becomes a ``DTensor`` split over the classes;
    a learned k that all classes share stays on every process. ``head(features, labels)`` takes the batch of this
    process and returns its part of the loss: with ``reduction="mean"``, R times the sum of its losses over the number
    of samples of all processes, so that the mean over the processes is the mean over all samples. Gradients are those
    of that mean, as with DistributedDataParallel: wrap the backbone in it but not the head, and step all parameters
    with one optimizer. Running statistics (AdaFace, CurricularFace) are those of the batch of all processes.

    Start every process with the same weights (the same seed, or a checkpoint) and give each the same number of samples.
    ``torch.distributed.checkpoint`` saves and loads the head on any number of processes. ``logits`` gathers the logits
    of all classes; it is for evaluation, and all processes must call it together.

    Args:
        head: A head with class vectors. Joined heads (SphereFace+, center loss) raise an error, and so does a g of
            your own with learned parameters.
        mesh: One-dimensional ``DeviceMesh`` over whose processes the classes are split, e.g. ``init_device_mesh("cuda",
            (8,))``.
        rate: Share of the classes that count as negatives at a training step, drawn again each time on every process;
            the classes of the batch are always among them (Partial FC, An et al. 2022). 1 uses all classes.

    Returns:
        ``head`` itself, whose weight is now a ``DTensor`` split over the processes.

    Raises:
        TypeError: If ``head`` has no class vectors, or ``mesh`` is not a ``DeviceMesh``.
        ValueError: If the mesh has several dimensions, the head is sharded already, a part of it cannot be split or
            ``rate`` is not in (0, 1].

    Example:
        >>> mesh = torch.distributed.init_device_mesh("cuda", (8,))  # doctest: +SKIP
        >>> head = hs.losses.shard(hs.losses.ArcFace(512, 10_000_000), mesh)  # doctest: +SKIP
    """
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor, Shard

    if not isinstance(head, ClassHead):
        raise TypeError(f"head must be a head with class vectors, e.g. ArcFace, not {type(head).__name__}")
    if not head.splits:
        raise TypeError(f"{type(head).__name__} needs the logits of all classes at once: it cannot be split")
    if not isinstance(mesh, DeviceMesh):
        raise TypeError(f"mesh must be a torch DeviceMesh (init_device_mesh), not {type(mesh).__name__}")
    if mesh.ndim != 1:
        raise ValueError(f"mesh has {mesh.ndim} dimensions: pass the one over which classes are split, e.g. mesh['tp']")
    if isinstance(head.weight, DTensor):
        raise ValueError("head is sharded already: shard(head, mesh) must be called once")
    if check_positive("rate", rate) > 1:
        raise ValueError(f"rate={rate!r} is a share of the classes: it must lie in (0, 1]")
    smoothing: float = getattr(head, "label_smoothing", 0.0)
    if rate < 1 and smoothing:
        raise ValueError(f"rate={rate!r} and label_smoothing={smoothing!r}: smoothing needs all classes")
    g = getattr(head, "angular", None)
    learns = isinstance(g, nn.Module) and any(p.requires_grad for p in g.parameters())
    if learns and not (isinstance(g, Sigmoid) and g.closed_form() is not None):
        raise ValueError(f"angular={g!r} learns something that cannot be split: pass hs.angular.Sigmoid, or a fixed g")
    if head.sub_centers > 1 and head.num_classes % mesh.size():
        raise ValueError(f"{head.num_classes} classes with sub-centers must be a multiple of {mesh.size()} processes")
    for name, one in head.class_tensors().items():
        rows = -(-one.shape[0] // mesh.size())
        part = one.detach()[mesh.get_local_rank() * rows :][:rows].clone()  # all start alike: nothing has to be sent
        split = DTensor.from_local(part, mesh, [Shard(0)], run_check=False, shape=one.shape, stride=one.stride())
        owner, _, last = name.rpartition(".")
        kept = nn.Parameter(split, one.requires_grad) if isinstance(one, nn.Parameter) else split
        setattr(head.get_submodule(owner), last, kept)
    head.shards = Shards(mesh, head.num_classes, float(rate))
    return head


class Shards:
    """Which classes this process owns, and the passes over those of all."""

    def __init__(self, mesh: Any, classes: int, rate: float) -> None:
        self.mesh, self.rate, self.classes = mesh, rate, classes
        self.world, self.rank = mesh.size(), mesh.get_local_rank()
        self.widest = -(-classes // self.world)  # as torch.chunk splits
        self.first = min(self.rank * self.widest, classes)
        self.count = min(self.widest, classes - self.first)

    @property
    def group(self) -> Any:
        return self.mesh.get_group()

    def loss(self, head: ClassHead, features: Tensor, labels: Tensor, indices: Sequence[Tensor] | None) -> Tensor:
        """The loss of this process's batch, see :func:`shard`."""
        check_features(features, head.in_features)
        flat, counts = check_labels(labels, features, head.num_classes, head.ignore_index)
        half = autocast_dtype(features.device) is not None
        with without_autocast(features.device):
            x = counted(features.reshape(-1, head.in_features).to(head.computing_dtype(features)), counts)
            names = collectives.gathered(torch.where(counts, flat, -1), self.group)
            losses, divisors = head.losses(collectives.gathered(x, self.group), names.clamp_min(0), names >= 0, half)
            mine = slice(self.rank * x.shape[0], (self.rank + 1) * x.shape[0])
            weights = miner_weights(indices, x.shape[0], losses)
            own = losses[mine] if weights is None else losses[mine] * weights
            own = torch.where(counts, own, 0.0)
            divisors = torch.where(names >= 0, divisors, 0.0)
            return reduce_losses(own, divisors / self.world, head.reduction, labels.shape)

    def reduce(
        self, head: ClassHead, score: Any, rows: list[Tensor], labels: Tensor, shared: list[Tensor], **options: Any
    ) -> Any:
        """As :meth:`ClassHead.reduce`, over the classes of all processes."""
        scale = float(self.world)  # gradients of class tensors are of the mean over processes, those of samples are not
        rows = [collectives.scaled_gradient(r, scale) if r.is_floating_point() else r for r in rows]
        shared = [collectives.scaled_gradient(s, scale) for s in shared]
        classes, local = head.classes(), labels - self.first
        owned = (local >= 0) & (local < self.count)
        if self.count == 0:
            seen = self._nothing(rows, classes, labels, options.get("logsumexp", True))
        else:
            local = torch.where(owned, local, -1)
            if self.rate < 1 and head.training:
                chosen = self._chosen(local)
                classes = [c.index_select(0, chosen) for c in classes]
                local = torch.where(owned, torch.searchsorted(chosen, local.clamp_min(0)), -1)
            seen = head.reduce_here(score, rows, classes, local, shared, whole=False, **options)
        own = [torch.where(owned.view(-1, *[1] * (o.dim() - 1)), o, 0.0) for o in seen.own]
        return Classes(*collectives.combined(self.group, seen.logsumexp, seen.total, tuple(own)))

    def own_vectors(self, vectors: Tensor, labels: Tensor) -> Tensor:
        """The vectors of these classes, wherever they are."""
        local = labels - self.first
        owned = (local >= 0) & (local < self.count)
        own = vectors.new_zeros((labels.shape[0], *vectors.shape[1:]))
        if self.count:
            found = vectors.index_select(0, local.clamp(0, self.count - 1))
            own = torch.where(owned.view(-1, *[1] * (own.dim() - 1)), found, own)
        return collectives.total(own, self.group)

    def replicated(self, x: Tensor) -> Tensor:
        """A parameter that every process holds whole."""
        return collectives.replicated(x, self.group)

    def of_each_class(self, x: Tensor) -> Tensor:
        """A number that every process holds and all classes share, once for each class of this process."""
        scaled = collectives.scaled_gradient(self.replicated(x), float(self.world))  # the sum of all, not their mean
        return scaled.expand(self.count)

    def sum(self, x: Tensor) -> Tensor:
        """Of a number of each process, without a gradient."""
        return collectives.total(x.detach(), self.group)

    @torch.no_grad()
    def logits(self, head: ClassHead, x: Tensor) -> Tensor:
        """Logits (N, C) of this process's features, without a gradient; every process asks at the same time."""
        scored = head.score(head.rows(collectives.gathered(x, self.group)), head.classes(), [])
        parts = [scored.new_empty(scored.shape[0], self.widest) for _ in range(self.world)]
        dist.all_gather(parts, nn.functional.pad(scored, (0, self.widest - scored.shape[1])), group=self.group)
        rows = slice(self.rank * x.shape[0], (self.rank + 1) * x.shape[0])
        return torch.cat([part[rows] for part in parts], 1)[:, : self.classes]

    @torch.no_grad()
    def predict(self, head: ClassHead, x: Tensor) -> Tensor:
        """The class with the largest logit of each of this process's features; R·N numbers are exchanged."""
        rows, classes = head.rows(collectives.gathered(x, self.group)), head.classes()
        best = rows[0].new_full((rows[0].shape[0],), -torch.inf)
        place = torch.full_like(best, self.classes, dtype=torch.int64)
        width = block_width("auto", len(best), self.count, x.device) or max(self.count, 1)
        for start in range(0, self.count, width):
            top, at = head.score(rows, [c[start : start + width] for c in classes], []).max(1)
            place = torch.where(top > best, self.first + start + at, place)
            best = torch.maximum(best, top)
        largest = best.clone()
        dist.all_reduce(largest, dist.ReduceOp.MAX, group=self.group)
        place = torch.where(best == largest, place, self.classes)
        dist.all_reduce(place, dist.ReduceOp.MIN, group=self.group)
        return place[self.rank * x.shape[0] : (self.rank + 1) * x.shape[0]]

    def __deepcopy__(self, memo: dict[int, Any]) -> Shards:
        return self  # a process group cannot be copied, and nothing here changes

    def _chosen(self, local: Tensor) -> Tensor:
        """Classes of this process that count at this step, sorted: those of the batch, and others by lot."""
        most = min(self.count, max(round(self.rate * self.count), local.shape[0]))
        lot = torch.rand(self.count + 1, device=local.device)
        lot[torch.where(local >= 0, local, self.count)] = 2.0
        return lot[: self.count].topk(most).indices.sort().values

    def _nothing(self, rows: list[Tensor], classes: list[Tensor], labels: Tensor, logsumexp: bool) -> Any:
        """What a process without classes adds; still a function of its tensors, so that backward runs everywhere."""
        zero = 0.0 * (rows[0].sum() + sum(c.sum() for c in classes)).nan_to_num()
        lse = rows[0].new_full(labels.shape, torch.finfo(rows[0].dtype).min / 2 if logsumexp else 0.0) + zero
        own = tuple(c.new_zeros((labels.shape[0], *c.shape[1:])) for c in classes)
        return Classes(lse, torch.zeros_like(lse), own)
