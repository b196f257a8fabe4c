"""Batches of a small set that lives on the training device as bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Tensor

from .. import kernels
from .._core.checks import check_count
from .._core.pixels import MEASURED
from ._random import check_per_class, epoch_key, shuffled
from .augment import Augment, affine
from .types import pixel_moments

IGNORE = -100  # label of the rows that pad an incomplete last batch: torch's ignore_index
ORDER = 0x5EED  # the stream of random words that orders an epoch


class Samples(Protocol):
    """Anything with inputs, labels and classes: :class:`Split`, :class:`CloudSplit`."""

    @property
    def inputs(self) -> Tensor: ...

    @property
    def labels(self) -> Tensor: ...


class Augmentation(Protocol):
    """Anything that draws a row of random numbers per position in an epoch, and changes samples according to it."""

    def draw(self, key: Tensor, position: Tensor, /) -> Tensor: ...

    def gather(self, inputs: Tensor, index: Tensor, draws: Tensor, /) -> Tensor: ...


class Loader:
    """Shuffled, augmented, normalised batches of a resident set, each a pure function of ``(seed, epoch, step)``.

    The contract with a training loop:

    * ``start_epoch(e)`` writes epoch e's order and random numbers into buffers that keep their address. Call it
      outside the compiled or captured step.
    * ``batch(t)`` gives batch t of that epoch. With ``t`` an int64 tensor on the device nothing waits for the host, so
      it may be compiled and captured in a CUDA graph; advance the tensor in place between replays.
    * ``seek(step)`` starts the epoch of a global step and gives the step within. Nothing is replayed, so a run that
      continues at any step sees the batches it would have seen.

    Every epoch visits each sample once, without replacement.

    Args:
        split: the samples; moved to ``device`` once.
        batch_size: the global batch size. Each of ``world`` processes gets its ``batch_size / world`` rows of the same
            global batch with the same augmentation, so the number of processes does not change the data.
        augment: an :class:`Augment` or a :class:`PointAugment`; None changes nothing.
        normalize: ``"symmetric"`` ``(x − 127.5)/128``, ``"unit"``, ``"standard"``, ``"mean"`` or None (see
            :func:`normalize`); only for images.
        mean: mean of each channel, for ``"standard"`` and ``"mean"``; None computes it from the images of this split,
            so pass that of the training set to a test loader.
        std: standard deviation of each channel, for ``"standard"``; None computes it from the images of this split.
        shuffle: draw a new order in each epoch; False keeps the order of the split.
        per_class: K; a shuffled epoch then takes groups of K samples of one class, so that a batch has partners for
            losses that compare samples. Samples that do not fill a group of their class form groups of mixed classes.
        drop_last: leave out a last batch that is not full. False fills it up with sample 0 and labels ``-100``;
            iteration cuts these rows off.
        seed: seed of the order and of the augmentation; the same seed gives the same batches on every device.
        rank: number of this process, 0 to world − 1.
        world: number of processes that share every batch.
        device: device of the set and the batches; None takes that of the split.
        dtype: floating-point type of the normalised inputs.
        channels_last: store image batches channels last in memory, which convolutions on a GPU prefer.

    Raises:
        ValueError: If ``batch_size`` is larger than the set or not a multiple of ``world``, ``rank`` is not below
            ``world``, or no class has ``per_class`` samples.
        TypeError: If ``split`` is a whole data set, or a folder of files.

    Example:
        >>> split = hs.data.load("digits").train
        >>> loader = hs.data.Loader(split, batch_size=64)
        >>> images, labels = next(loader.epoch(0))
        >>> images.shape, labels.shape
        (torch.Size([64, 1, 8, 8]), torch.Size([64]))
    """

    def __init__(
        self,
        split: Samples,
        batch_size: int,
        *,
        augment: Augmentation | None = None,
        normalize: str | None = "symmetric",
        mean: tuple[float, ...] | None = None,
        std: tuple[float, ...] | None = None,
        shuffle: bool = True,
        per_class: int = 1,
        drop_last: bool = True,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
        device: torch.device | str | None = None,
        dtype: torch.dtype = torch.float32,
        channels_last: bool = False,
    ) -> None:
        check_count("batch_size", batch_size)
        check_count("world", world)
        check_count("rank", rank, minimum=0)
        if batch_size % world or rank >= world:
            raise ValueError(
                f"batch_size={batch_size} is shared by world={world} processes, of which this is rank={rank}: "
                "batch_size must be a multiple of world, and rank must be below world"
            )
        if not isinstance(getattr(split, "inputs", None), Tensor):
            raise TypeError(
                f"split must be samples in memory, such as the .train of a data set, not {type(split).__name__}: image "
                "files are read by FolderLoader, or into memory by load('folder', root).resident(size)"
            )
        self.inputs = split.inputs.to(device) if device is not None else split.inputs
        self.inputs = self.inputs.contiguous()
        self.labels = split.labels.to(self.inputs.device)
        self.size = len(self.labels)
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.per_class = check_per_class(per_class, batch_size, self.labels) if per_class != 1 else 1
        self.seed = seed
        self.augment = augment
        self.dtype = dtype
        self.steps = self.size // batch_size if drop_last else -(-self.size // batch_size)
        if self.size == 0:
            raise ValueError("split holds no samples: there are no batches of it")
        if self.steps == 0:
            raise ValueError(
                f"batch_size={batch_size} is more than the {self.size} samples: lower it, or pass drop_last=False"
            )
        self._images = self.inputs.dtype == torch.uint8
        self._format = torch.channels_last if channels_last and self._images else torch.contiguous_format
        self._affine = self._normalization(normalize, mean, std)
        self._channels = None  # scale and shift per channel, if one kernel can read the batches
        moves = augment is None or (type(augment) is Augment and augment.mode == "constant")
        if self._affine is not None and moves and self.inputs.numel() > 0:
            self._channels = [v.flatten().expand(self.inputs.shape[1]).contiguous() for v in self._affine]
        device = self.inputs.device
        local = batch_size // world
        self._first = rank * local
        self._rows = torch.arange(rank * local, (rank + 1) * local, device=device)
        self._order = torch.zeros(self.steps * batch_size, dtype=torch.int64, device=device)
        self._place = torch.arange(len(self._order), device=device)
        self._draws = None if augment is None else torch.zeros_like(augment.draw(self._place[0], self._place))
        self._epoch, self._begun = -1, False
        self.start_epoch(0)

    def __len__(self) -> int:
        return self.steps

    def __repr__(self) -> str:
        return (
            f"Loader({self.size} samples, batch_size={self.batch_size}, steps={self.steps}, seed={self.seed}, "
            f"augment={self.augment}, device={str(self.inputs.device)!r})"
        )

    def start_epoch(self, epoch: int) -> None:
        """Write the order and the random numbers of an epoch in place; starting the same epoch again writes nothing.

        Args:
            epoch: number of the epoch, from 0; it determines order and augmentation together with the seed.
        """
        check_count("epoch", epoch, minimum=0)
        self._begun = False
        if epoch == self._epoch:
            return
        self._epoch = epoch
        key = torch.full((), epoch_key(self.seed, epoch), device=self.inputs.device)
        order = torch.arange(self.size, device=self.inputs.device)
        if self.shuffle:
            order = shuffled(key, self.size, ORDER, self.labels, self.per_class)
        count = min(self.size, len(self._order))
        self._order[:count].copy_(order[:count])
        if self.augment is not None and self._draws is not None:
            self._draws.copy_(self.augment.draw(key, self._place))

    def batch(self, step: int | Tensor) -> tuple[Tensor, Tensor]:
        """Compute a batch of the epoch that was started last.

        Args:
            step: its number, from 0; a tensor on the device is not range-checked.

        Returns:
            The inputs (B, ...) and labels (B,) of this process's part of the batch.
        """
        if isinstance(step, int) and not 0 <= step < self.steps:
            raise ValueError(f"step={step} must be in 0..{self.steps - 1}: start the next epoch, or call seek(step)")
        channels = None if torch.compiler.is_compiling() else self._channels
        if isinstance(step, Tensor) and channels is not None and kernels.usable(channels[0], "loader"):
            return self._read(step, channels)
        position = step * self.batch_size + self._rows
        index = self._order.index_select(0, position)
        labels = self.labels.index_select(0, index)
        if len(self._order) > self.size:
            labels = labels.masked_fill(position >= self.size, IGNORE)
        if self.augment is None or self._draws is None:
            inputs = self.inputs.index_select(0, index)
        else:
            inputs = self.augment.gather(self.inputs, index, self._draws.index_select(0, position))
        if self._affine is not None:
            inputs = torch.addcmul(self._affine[1], inputs.float(), self._affine[0]).to(self.dtype)
        return inputs.contiguous(memory_format=self._format), labels

    def _read(self, step: Tensor, channels: list[Tensor]) -> tuple[Tensor, Tensor]:
        """The same by one kernel."""
        by, last = kernels.batch, self._format is torch.channels_last
        images = by.Images(self.inputs, self.labels, self._order, self._draws, self._rows, *channels)
        fill = 0 if self.augment is None else self.augment.fill  # type: ignore[attr-defined]
        return by.read_batch(images, step, self.batch_size, fill, IGNORE, self.dtype, last)

    def seek(self, step: int) -> int:
        """Start the epoch that a global step falls in.

        Args:
            step: number of the step since the start of training, from 0.

        Returns:
            The step within the epoch.
        """
        check_count("step", step, minimum=0)
        epoch, inside = divmod(step, self.steps)
        self.start_epoch(epoch)
        return inside

    def epoch(self, epoch: int = 0, start: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """Iterate over the batches of an epoch, the last one cut to its samples.

        Args:
            epoch: its number, from 0; it determines order and augmentation.
            start: step within the epoch to start at, for resuming; 0 is the beginning.

        Returns:
            Inputs and labels of each batch.
        """
        self.start_epoch(epoch)
        self._begun = True
        for step in range(start, self.steps):
            if self._epoch != epoch:  # another loop has started another epoch meanwhile
                self.start_epoch(epoch)
                self._begun = True
            inputs, labels = self.batch(step)
            left = self.size - step * self.batch_size - self._first
            yield (inputs, labels) if left >= len(labels) else (inputs[: max(left, 0)], labels[: max(left, 0)])

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of the epoch that was started; once it has begun, those of the next, as torch's loaders do."""
        return self.epoch(self._epoch + self._begun)

    def _normalization(
        self, kind: str | None, mean: tuple[float, ...] | None, std: tuple[float, ...] | None
    ) -> tuple[Tensor, Tensor] | None:
        if kind is None or not self._images:
            return None
        if kind in MEASURED and mean is None and std is None:
            mean, std = (tuple(value.tolist()) for value in pixel_moments(self.inputs))
        scale, shift = affine(kind, mean, std, self.inputs.shape[1])
        return scale.to(self.inputs.device).view(-1, 1, 1), shift.to(self.inputs.device).view(-1, 1, 1)
