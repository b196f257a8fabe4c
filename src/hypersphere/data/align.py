"""Faces aligned by landmarks: the similarity that brings five points nearest to their places (thesis 2.3.6)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from .._core.arrays import takes_arrays
from .._core.checks import check_count
from .._core.errors import check_floating

FIVE_POINTS = ((30.2946, 51.6963), (65.5318, 51.5014), (48.0252, 71.7366), (33.5493, 92.3655), (62.7299, 92.2041))
"""Where (x, y) eyes, nose and corners of the mouth belong in a face of 112×96; left and right as in the image."""


@takes_arrays("points", "target")
def similarity(points: Tensor, target: Tensor) -> Tensor:
    """The similarity p ↦ sRp + t that brings points nearest to their targets: argmin Σ‖sRp_i + t − q_i‖².

    R is a rotation and s > 0 a scale; reflections are excluded. With the centred points as complex numbers z_i and w_i
    the solution is s·e^{iφ} = Σ z̄_i w_i / Σ|z_i|².

    Args:
        points: Positions of the landmarks, (x, y).
        target: Target positions: one set for all faces, or one for each.

    Returns:
        The matrices [sR | t] of the similarities, one for each set of points.

    Shape:
        ``points``: (..., K, 2) with K ≥ 2; ``target``: broadcasts to it. Output: (..., 2, 3).

    Raises:
        ValueError: If shapes do not fit, or all landmarks of a face are one point.

    Example:
        >>> square = torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
        >>> hs.data.similarity(square, 2 * square + 3).diagonal()
        tensor([2., 2.])
    """
    for name, value in (("points", points), ("target", target)):
        check_floating(name, value)
        if value.ndim < 2 or value.shape[-1] != 2 or value.shape[-2] < 2:
            raise ValueError(f"{name} has shape {tuple(value.shape)}: pass (..., K, 2), at least two points (x, y)")
    if points.shape[-2] != target.shape[-2]:
        raise ValueError(f"points has {points.shape[-2]} landmarks, target {target.shape[-2]}: they must agree")
    if any(1 != a != b != 1 for a, b in zip(points.shape[::-1], target.shape[::-1], strict=False)):
        raise ValueError(
            f"points has shape {tuple(points.shape)}, target {tuple(target.shape)}: pass one target for all sets of "
            "points, or one for each"
        )
    dtype = torch.promote_types(points.dtype, torch.float32)
    p, q = points.to(dtype), target.to(points.device, dtype)
    origin, place = p.mean(-2, keepdim=True), q.mean(-2, keepdim=True)
    z, w = p - origin, q - place
    size = z.square().sum((-2, -1))
    if not bool((size > 0).all()):
        raise ValueError("points has a face whose landmarks are all one point, or NaN: it has no direction and no size")
    along = (z * w).sum((-2, -1)) / size
    across = (z[..., 0] * w[..., 1] - z[..., 1] * w[..., 0]).sum(-1) / size
    turn = torch.stack([torch.stack([along, -across], -1), torch.stack([across, along], -1)], -2)
    shift = place.mT - turn @ origin.mT
    return torch.cat([turn, shift], -1)


@takes_arrays("landmarks", "target")
@torch.no_grad()
def align_faces(
    images: Tensor,
    landmarks: Tensor,
    height: int = 112,
    width: int = 96,
    *,
    target: Tensor | None = None,
) -> Tensor:
    """Rotate, scale, shift and crop faces so that their landmarks lie near their target positions.

    The :func:`similarity` of a face minimises the distances of its landmarks to their targets in the result. Every
    pixel of the result is read from the image by bilinear interpolation; pixels outside of the image are black.

    Args:
        images: Images (N, C, H, W), uint8 or floating; the result has the same type.
        landmarks: Eyes, nose and corners of the mouth as (x, y) in pixels, the centre of the first pixel being (0, 0).
        height: Height of the aligned images in pixels.
        width: Width of the aligned images in pixels.
        target: Target positions in the result; None takes :data:`FIVE_POINTS`, scaled to the size of the result.

    Returns:
        Images of the same dtype; bytes are rounded.

    Shape:
        ``images``: (N, C, H, W). ``landmarks``: (N, K, 2). ``target``: (K, 2). Output: (N, C, height, width).

    Raises:
        ValueError: If shapes do not fit, landmarks are not finite, those of a face are all one point, or no similarity
            brings them near their targets.

    Example:
        >>> faces = torch.zeros(2, 3, 250, 250, dtype=torch.uint8)
        >>> points = 80 + torch.tensor(hs.data.FIVE_POINTS).repeat(2, 1, 1)
        >>> hs.data.align_faces(faces, points).shape
        torch.Size([2, 3, 112, 96])
    """
    check_count("height", height)
    check_count("width", width)
    if not isinstance(images, Tensor):
        raise TypeError(f"images is a {type(images).__name__}: pass a tensor (N, C, H, W), e.g. torch.from_numpy(...)")
    if images.ndim != 4 or landmarks.ndim != 3 or len(images) != len(landmarks):
        raise ValueError(
            f"images has shape {tuple(images.shape)}, landmarks {tuple(landmarks.shape)}: "
            "pass (N, C, H, W) and (N, K, 2)"
        )
    if not bool(landmarks.isfinite().all()):
        raise ValueError("landmarks has NaN or infinite entries: leave faces without landmarks out")
    points = landmarks.to(images.device, torch.float64)
    if target is None:
        target = points.new_tensor(FIVE_POINTS) * points.new_tensor([width / 96, height / 112])
    if target.shape != points.shape[1:]:
        raise ValueError(
            f"landmarks has {points.shape[1]} points of {points.shape[2]} numbers, target has shape "
            f"{tuple(target.shape)}: pass (N, K, 2) and (K, 2) with the same K; without a target K is 5"
        )
    if bool((points == points[:, :1]).all((1, 2)).any()):
        raise ValueError("landmarks has a face whose points are all one: leave faces without landmarks out")
    back = _inverse(similarity(points, target.to(points)))  # from a pixel of the result to the image
    x, y = torch.meshgrid(
        *(torch.arange(n, dtype=points.dtype, device=points.device) for n in (width, height)), indexing="xy"
    )
    places = torch.stack([x, y, torch.ones_like(x)], -1) @ back.mT[:, None]
    sides = points.new_tensor([images.shape[3], images.shape[2]])
    grid = (2 * places + 1) / sides - 1  # grid_sample's, −1 and 1 being the outer edges
    wide = images.to(torch.promote_types(images.dtype, torch.float32))  # half precision cannot name a pixel
    out = F.grid_sample(wide, grid.to(wide.dtype), align_corners=False)
    return out.to(images.dtype) if images.is_floating_point() else out.round().clamp(0, 255).to(images.dtype)


def _inverse(forward: Tensor) -> Tensor:
    """The similarity that undoes [sR | t]: [Rᵀ/s | −Rᵀt/s]."""
    turn, shift = forward[..., :2], forward[..., 2:]
    size = turn[..., 0].square().sum(-1)[..., None, None]  # s²
    if not bool((size > 0).all()):
        raise ValueError("landmarks has a face that no similarity brings near its places: are its points in order?")
    back = turn.mT / size
    return torch.cat([back, -back @ shift], -1)
