"""Picking points of clouds: farthest ones, neighbours in a ball."""

from __future__ import annotations

import torch
from torch import Tensor


@torch.library.custom_op("hypersphere::farthest_points", mutates_args=())
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


@farthest_points.register_fake
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
