"""Random flips, padded crops and point-cloud jitter, drawn by position and applied while the batch is gathered.

An augmentation of images is an index map: output pixel ``(b, c, i, j)`` is source pixel ``(b, c, r(i), s(j))`` or the
padding. So one gather from the resident uint8 set does selection, flip and crop at once, without a loop over samples
and without an intermediate batch; a compiler fuses the normalisation into the same kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .._core.checks import check_choice, check_count, check_positive
from .._core.pixels import NORMALIZATIONS, PADDINGS
from ._random import epoch_key, normals, uniforms, words


@dataclass(frozen=True)
class Augment:
    """Flips and padded crops of images.

    Args:
        hflip: mirror left-right with probability ½.
        vflip: mirror up-down with probability ½.
        pad: pixels added on each side before a window of the original size is cut at one of the ``(2·pad + 1)²``
            places, each equally likely (4 in the documents); 0 does not crop.
        mode: what is outside the image: ``"constant"`` the byte ``fill``, ``"reflect"`` the image mirrored at the
            centres of its border pixels, ``"symmetric"`` at their outer edges, so that they are repeated (both as in
            NumPy's ``pad``; the authors' public code does the latter).
        fill: the byte of ``"constant"``, 0 is black.

    Raises:
        ValueError: If ``pad`` is negative, ``fill`` is not a byte, or ``mode`` is unknown.

    Example:
        >>> split = hs.data.Split(torch.zeros(4, 3, 8, 8, dtype=torch.uint8), torch.zeros(4, dtype=torch.long), ("a",))
        >>> loader = hs.data.Loader(split, batch_size=4, augment=hs.data.Augment(hflip=True, pad=1))
    """

    hflip: bool = False
    vflip: bool = False
    pad: int = 0
    mode: str = "constant"
    fill: int = 0

    def __post_init__(self) -> None:
        check_count("pad", self.pad, minimum=0)
        check_count("fill", self.fill, minimum=0)
        check_choice("mode", self.mode, PADDINGS)
        if self.fill > 255:
            raise ValueError(f"fill={self.fill} must be a byte: 0 to 255")

    def draw(self, key: Tensor, position: Tensor) -> Tensor:
        """Draw what happens to each sample.

        Args:
            key: random key of the epoch, from seed and epoch.
            position: position of each sample in the epoch, ``(n,)``.

        Returns:
            ``(n, 4)``: up-down flip, left-right flip, shift down, shift right.
        """
        flips, shifts = words(key, position), words(key, position, 1)
        places = 2 * self.pad + 1
        columns = [
            (flips >> 1 & 1) * self.vflip,
            (flips & 1) * self.hflip,
            ((shifts & 0xFFFF) * places >> 16) - self.pad,  # 0..65535 to −pad..pad
            ((shifts >> 16) * places >> 16) - self.pad,
        ]
        return torch.stack(columns, 1)

    def gather(self, images: Tensor, index: Tensor, draws: Tensor) -> Tensor:
        """Return the augmented images of a batch.

        Args:
            images: the set ``(N, C, H, W)``.
            index: indices of the images of the batch, ``(B,)``.
            draws: what happens to each, ``(B, 4)``, from :meth:`draw`.

        Returns:
            The changed images, ``(B, C, H, W)``.
        """
        if images.dim() != 4:
            raise ValueError(
                f"Augment changes images (N, C, H, W), not {tuple(images.shape)}: use PointAugment for clouds"
            )
        height, width = images.shape[2:]
        if self.pad > self._most(min(height, width)):
            raise ValueError(
                f"pad={self.pad} is more than an image of {height}×{width} can be mirrored by for mode={self.mode!r}: "
                f"give at most {self._most(min(height, width))}"
            )
        if not (self.hflip or self.vflip or self.pad):
            return images.index_select(0, index)
        rows, outside_rows = self._source(height, draws[:, 0:1], draws[:, 2:3])
        columns, outside_columns = self._source(width, draws[:, 1:2], draws[:, 3:4])
        channels = torch.arange(images.shape[1], device=images.device)
        planes = index.unsqueeze(1) * images.shape[1] + channels  # (B, C)
        pixel = (rows * width).unsqueeze(2) + columns.unsqueeze(1)  # (B, H, W)
        place = (planes * (height * width))[:, :, None, None] + pixel.unsqueeze(1)
        batch = images.reshape(-1)[place]
        if self.pad == 0 or self.mode != "constant":
            return batch
        outside = outside_rows[:, None, :, None] | outside_columns[:, None, None, :]
        return batch.masked_fill(outside, self.fill)

    def _most(self, size: int) -> int:
        """The largest ``pad`` of images of that size: a mirrored one is used once."""
        return {"constant": self.pad, "reflect": size - 1, "symmetric": size}[self.mode]

    def _source(self, size: int, flip: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
        """Source coordinate of each output coordinate, ``(B, size)``, and where that lies in the padding."""
        place = torch.arange(size, device=shift.device)
        place = place + flip * (size - 1 - 2 * place) + shift
        outside = (place < 0) | (place >= size)
        if self.mode == "reflect":
            place = size - 1 - (size - 1 - place.abs()).abs()
        elif self.mode == "symmetric":
            place = torch.where(place < 0, -1 - place, torch.where(place < size, place, 2 * size - 1 - place))
        return place.clamp(0, size - 1), outside


@dataclass(frozen=True)
class PointAugment:
    """The augmentation of PointNet: a random rotation about the upright axis and jitter, drawn for each cloud.

    Args:
        rotate: rotate by an angle uniform in [0, 2π) about the y axis.
        jitter: standard deviation of the normal noise added to each coordinate, ≥ 0.
        clip: the noise is clipped to ``±clip``.
        scale: multiply by a factor uniform in ``[1 − scale, 1 + scale]``; 0 does not scale.

    Raises:
        ValueError: If ``scale`` is not below 1, or a number is negative.

    Example:
        >>> clouds = hs.data.CloudSplit(torch.rand(4, 16, 3), torch.zeros(4, dtype=torch.long), ("chair",))
        >>> loader = hs.data.Loader(clouds, batch_size=2, augment=hs.data.PointAugment(), normalize=None)
    """

    rotate: bool = True
    jitter: float = 0.01
    clip: float = 0.05
    scale: float = 0.0

    def __post_init__(self) -> None:
        check_positive("jitter", self.jitter, zero=True)
        check_positive("clip", self.clip, zero=True)
        check_positive("scale", self.scale, zero=True)
        if self.scale >= 1:
            raise ValueError(f"scale={self.scale} must be below 1, or clouds may be turned inside out")

    def draw(self, key: Tensor, position: Tensor) -> Tensor:
        """Draw random words for each cloud.

        Args:
            key: random key of the epoch, from seed and epoch.
            position: position of each cloud in the epoch, ``(n,)``.

        Returns:
            Random words ``(n, 3)``: for turn, scale and jitter of each cloud.
        """
        return words(key, position.unsqueeze(1), torch.arange(3, device=position.device))

    def gather(self, points: Tensor, index: Tensor, draws: Tensor) -> Tensor:
        """Return the augmented clouds of a batch.

        Args:
            points: all clouds of the set, ``(N, P, 3)``.
            index: indices of the clouds of the batch, ``(B,)``.
            draws: what happens to each, ``(B, 3)``, from :meth:`draw`.

        Returns:
            The changed clouds, ``(B, P, 3)``.
        """
        if points.dim() != 3:
            raise ValueError(
                f"PointAugment changes clouds (N, P, 3), not {tuple(points.shape)}: use Augment for images"
            )
        batch = points.index_select(0, index)
        if self.rotate:
            turn = 2 * torch.pi * uniforms(draws[:, :1])
            cos, sin = turn.cos(), turn.sin()
            x, y, z = batch.unbind(2)
            batch = torch.stack([cos * x + sin * z, y, cos * z - sin * x], 2)
        if self.scale:
            batch = batch * (1 + self.scale * (2 * uniforms(draws[:, 1, None, None]) - 1))
        if self.jitter:
            place = torch.arange(batch[0].numel(), device=points.device).view(batch[0].shape)
            noise = normals(draws[:, 2, None, None], place)
            batch = batch + (self.jitter * noise).clamp(-self.clip, self.clip)
        return batch


def augment(
    images: Tensor,
    *,
    hflip: bool = False,
    vflip: bool = False,
    pad: int = 0,
    mode: str = "constant",
    fill: int = 0,
    seed: int = 0,
    step: int = 0,
) -> Tensor:
    """Flip and crop a batch; the same ``(seed, step)`` gives the same result.

    Args:
        images: ``(B, C, H, W)`` of any dtype.
        hflip: mirror left-right with probability ½.
        vflip: mirror up-down with probability ½.
        pad: pixels added on each side before a window of the original size is cut; 0 does not crop.
        mode: what is outside the image: ``"constant"`` the value ``fill``, ``"reflect"`` and ``"symmetric"`` the
            mirrored image, without and with its border pixels repeated.
        fill: byte that ``mode="constant"`` pads with, 0 to 255.
        seed: seed of the random flips and crops; with ``step`` it determines them.
        step: number of the batch, which with the seed determines the random numbers.

    Returns:
        The changed images, in the shape of ``images``.

    Raises:
        ValueError: If ``images`` is not (B, C, H, W), or ``pad`` or ``fill`` is out of range.

    Example:
        >>> hs.data.augment(torch.rand(2, 3, 8, 8), hflip=True, pad=1, step=5).shape
        torch.Size([2, 3, 8, 8])
    """
    if not isinstance(images, Tensor) or images.dim() != 4:
        raise ValueError("images must be a (B, C, H, W) tensor")
    rule = Augment(hflip, vflip, pad, mode, fill)
    place = torch.arange(len(images), device=images.device)
    key = torch.tensor(epoch_key(seed, step), device=images.device)
    return rule.gather(images, place, rule.draw(key, place))


def normalize(
    images: Tensor,
    kind: str | None = "symmetric",
    *,
    mean: Tensor | tuple[float, ...] | None = None,
    std: Tensor | tuple[float, ...] | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Convert bytes to network inputs.

    Args:
        images: uint8 images ``(..., C, H, W)``, channels first.
        kind: ``"symmetric"``: ``(x − 127.5)/128`` as the SphereNet experiments do; ``"unit"``: ``x/255``;
            ``"standard"``: ``(x/255 − mean)/std`` for each channel; ``"mean"``: ``x/255 − mean`` for each channel, the
            mean subtraction of thesis 2.2.7; None: unchanged bytes.
        mean: mean of each channel in [0, 1], for ``"standard"`` and ``"mean"``.
        std: standard deviation of each channel, for ``"standard"``.
        dtype: floating-point type of the result, float32 by default.

    Returns:
        The normalised inputs, in the shape of ``images``.

    Raises:
        TypeError: If ``images`` is floating: such images are taken for normalised ones.

    Example:
        >>> hs.data.normalize(torch.tensor([[[0, 255]]], dtype=torch.uint8), "unit")
        tensor([[[0., 1.]]])
    """
    if kind is None:
        return images
    if not isinstance(images, Tensor) or images.is_floating_point():
        what = getattr(images, "dtype", type(images).__name__)
        raise TypeError(f"images have dtype {what}: pass the pixels as uint8 in a tensor, 0 to 255")
    scale, shift = affine(kind, mean, std, images.shape[-3] if images.dim() > 2 else 1)
    shape = (-1, 1, 1)
    return (images.float() * scale.to(images.device).view(shape) + shift.to(images.device).view(shape)).to(dtype)


def affine(
    kind: str,
    mean: Tensor | tuple[float, ...] | None,
    std: Tensor | tuple[float, ...] | None,
    channels: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Scale and shift of ``kind`` for each channel (or for all), float32: the input is ``x·scale + shift``."""
    check_choice("normalize", kind, NORMALIZATIONS)
    if kind == "symmetric":
        return torch.tensor([1 / 128], device="cpu"), torch.tensor([-127.5 / 128], device="cpu")
    if kind == "unit":
        return torch.tensor([1 / 255], device="cpu"), torch.tensor([0.0], device="cpu")
    if kind == "mean":
        std = (1.0,)
    if mean is None or std is None:
        raise ValueError(
            f"normalize={kind!r} needs mean= and std= of the training images, e.g. dataset.mean, dataset.std"
        )
    centre, spread = (torch.as_tensor(part, dtype=torch.float64, device="cpu") for part in (mean, std))
    if not {centre.numel(), spread.numel()} <= {1, channels or max(centre.numel(), spread.numel())}:
        raise ValueError(
            f"mean={mean} and std={std} must have one number for each of the {channels or 'same'} channels"
        )
    if not bool((spread > 0).all() and (centre / spread).isfinite().all()):
        raise ValueError(f"mean={mean} and std={std} must be finite, and std must be positive in every channel")
    return (1 / (255 * spread)).float(), (-centre / spread).float()
