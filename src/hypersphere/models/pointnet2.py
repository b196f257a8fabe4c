"""PointNet++ with single-scale grouping (thesis sec. E.1)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .._core.checks import check_count, check_positive
from .._core.extremes import largest
from .entry import Entry
from .network import Network
from .pointnet import head_of
from .slots import Slots


class PointNet2(Network):
    """Two levels of local PointNets on balls around farthest points, one on all that is left, a perceptron.

    By default as in thesis Table 6.8: 512 balls of radius 0.2 with 32 points: 64, 64, 128; 128 balls of radius 0.4 with
    64 points: 128, 128, 256; all: 256, 512, 1024; then 512, 256 and the classifier.

    Args:
        num_classes: outputs of the classifier, 0 for none.
        slots: operators, normalisation and activation of all layers (:class:`Slots`).
        points: number of centres of the two levels.
        radii: radius of the ball in which each level groups the neighbours of a point.
        samples: largest number of points of a ball, the first in the cloud's order.
        in_channels: numbers per point; the first 3 are coordinates, further ones are features.
        dropout: probability after both hidden layers, in [0, 1).

    Raises:
        ValueError: If ``in_channels`` is below 3; in the forward pass, if a cloud has fewer points than a level picks.

    Example:
        >>> net = hs.models.PointNet2(4, hs.models.Slots(), points=(8, 4), samples=(4, 4))
        >>> net.feature_dim
        256
    """

    def __init__(
        self,
        num_classes: int,
        slots: Slots,
        points: tuple[int, int] = (512, 128),
        radii: tuple[float, float] = (0.2, 0.4),
        samples: tuple[int, int] = (32, 64),
        in_channels: int = 3,
        dropout: float = 0.5,
    ) -> None:
        extra = check_count("in_channels", in_channels, minimum=3) - 3
        body = _Body(slots, extra, points, radii, samples, dropout)
        super().__init__(body, body.feature_dim, num_classes, slots)


class _Body(nn.Module):
    """Clouds ``(N, P, 3 + extra)`` to their embedding."""

    def __init__(
        self,
        slots: Slots,
        extra: int,
        points: tuple[int, int],
        radii: tuple[float, float],
        samples: tuple[int, int],
        dropout: float,
    ) -> None:
        super().__init__()
        rows = ((extra, (64, 64, 128)), (128, (128, 128, 256)))
        self.levels = nn.ModuleList(
            _Level(cin, sizes, slots, points[i], radii[i], samples[i]) for i, (cin, sizes) in enumerate(rows)
        )
        self.all = slots.chain("Conv2d", (3 + 256, 256, 512, 1024))
        self.head, self.feature_dim = head_of(1024, (512, 256), slots, (dropout, dropout))

    def forward(self, x: Tensor) -> Tensor:
        xyz, values = x[..., :3], x[..., 3:]
        for level in self.levels:
            xyz, values = level(xyz, values)
        everything = torch.cat([xyz, values.to(xyz.dtype)], -1).transpose(1, 2).unsqueeze(-1)
        return self.head(largest(self.all(everything).squeeze(-1), -1))


class _Level(nn.Module):
    """Set abstraction: centres, their balls, a PointNet on each ball."""

    def __init__(self, cin: int, sizes: Sequence[int], slots: Slots, points: int, radius: float, samples: int) -> None:
        super().__init__()
        self.points = check_count("points", points)
        self.radius = check_positive("radii", radius)
        self.samples = check_count("samples", samples)
        self.shared = slots.chain("Conv2d", (cin + 3, *sizes))

    def forward(self, xyz: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        if xyz.shape[1] < self.points:
            raise ValueError(
                f"the cloud has {xyz.shape[1]} points, this level picks {self.points}: "
                "create the model with smaller points=(first, second)"
            )
        centres = gather_points(xyz, torch.ops.hypersphere.farthest_points(xyz.detach().float(), self.points))
        index = ball_neighbours(centres, xyz, self.radius, self.samples)  # (N, points, samples)
        local = gather_points(xyz, index) - centres.unsqueeze(2)
        group = torch.cat([local, gather_points(values.to(local.dtype), index)], -1)
        out = largest(self.shared(group.permute(0, 3, 1, 2)), -1)
        return centres, out.transpose(1, 2)


_TABLE = "thesis Table 6.8 (PointNet++, single scale)"
MODELS: dict[str, Entry] = {"pointnet2": Entry(PointNet2, _TABLE, {}, {"num_classes": 40, "init": "xavier"})}


def farthest_points(xyz: Tensor, count: int) -> Tensor:
    """Numbers ``(N, count)`` of points of ``(N, P, 3)``: the first, then always the one farthest from those taken."""
    clouds = torch.arange(xyz.shape[0], device=xyz.device)
    taken = torch.empty(xyz.shape[0], count, dtype=torch.long, device=xyz.device)
    distance = xyz.new_full(xyz.shape[:2], torch.inf)
    newest = torch.zeros_like(clouds)
    for i in range(count):
        taken[:, i] = newest
        away = (xyz - xyz[clouds, newest].unsqueeze(1)).square().sum(-1)
        distance = torch.minimum(distance, away)
        newest = distance.argmax(-1)
    return taken


# One operation for compilers, which an eager call does not import.
_LIBRARY = torch.library.Library("hypersphere", "FRAGMENT")
_LIBRARY.define("farthest_points(Tensor xyz, SymInt count) -> Tensor")
_LIBRARY.impl("farthest_points", farthest_points, "CompositeExplicitAutograd")


@torch.library.register_fake("hypersphere::farthest_points", lib=_LIBRARY)
def _(xyz: Tensor, count: int) -> Tensor:
    return xyz.new_empty(xyz.shape[0], count, dtype=torch.long)


def ball_neighbours(centres: Tensor, xyz: Tensor, radius: float, samples: int) -> Tensor:
    """Numbers ``(N, M, samples)`` of the first points within ``radius`` of each centre, in the cloud's order.

    A ball with fewer points repeats its first one. Every centre has to be a point of the cloud.
    """
    with torch.no_grad():
        distance = torch.cdist(centres.float(), xyz.float(), compute_mode="donot_use_mm_for_euclid_dist")
        size = xyz.shape[1]
        number = torch.arange(size, device=xyz.device).expand_as(distance)
        inside = torch.where(distance <= radius, number, size)
        first = inside.topk(min(samples, size), largest=False, sorted=True).values
        return torch.where(first == size, first[..., :1], first)


def gather_points(values: Tensor, index: Tensor) -> Tensor:
    """``values[n, index[n, ...]]``: rows of ``(N, P, C)`` by numbers ``(N, ...)``."""
    rows = index.flatten(1).unsqueeze(-1).expand(-1, -1, values.shape[-1])
    return values.gather(1, rows).unflatten(1, index.shape[1:])
