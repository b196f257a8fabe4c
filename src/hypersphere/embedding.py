"""``hs.embed``: the embeddings of images, batch by batch, with the model left as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ._core.checks import check_count
from ._core.errors import check_model
from ._core.features import features_and_output, features_of, has_features
from ._core.modes import modes_kept
from ._core.output_layer import announce, find_output_layers
from ._core.pixels import Normalized, trained_normalized
from .data import MEASURED
from .data import normalize as to_inputs

__all__ = ["embed"]

Features = Callable[[Tensor], Tensor]


@torch.no_grad()
def embed(
    model: nn.Module,
    images: Tensor | Iterable[Any] | Any,
    *,
    flip: bool = False,
    batch_size: int = 256,
    device: torch.device | str | None = None,
    normalize: str | None = "auto",
    mean: tuple[float, ...] | Tensor | None = None,
    std: tuple[float, ...] | Tensor | None = None,
    features: Features | str | None = None,
) -> Tensor:
    """Compute embeddings of images, float32 on the CPU.

    The embedding is what the model classifies: ``model.features(x)`` if it has that method, as the networks of
    :mod:`hypersphere.models` and trained runs do; else the input of its output layer (the last linear layer); else its
    output. A backbone that was trained under a head, and whose last layer is linear, needs ``features=model``; the log
    names a layer that was guessed. The model runs in evaluation mode, without gradients; its modes and device are
    restored afterwards.

    Args:
        model: the network, of this package or any other; its modes and device stay as they are.
        images: (N, C, H, W), uint8 (normalised here) or floating (not normalised); a split of :mod:`hypersphere.data`;
            or an iterable of such batches, or of (batch, labels). Floating points (N, P, 3) and rows (N, F) work too.
        flip: also embed the mirrored images and put both embeddings side by side.
        batch_size: number of images that go through the model at a time.
        device: where the model runs; None: where it is.
        normalize: how uint8 images are normalised: ``"symmetric"``, ``"unit"``, ``"mean"`` (with ``mean``) or
            ``"standard"`` (with ``mean`` and ``std``), see :func:`hypersphere.data.normalize`. The default ``"auto"``
            takes the normalisation that the network was trained with if :func:`hypersphere.load` loaded it, else
            ``"symmetric"``; it leaves floating images as they are. None normalises nothing.
        mean: mean of each channel in [0, 1], for ``"standard"`` and ``"mean"``.
        std: standard deviation of each channel in [0, 1], for ``"standard"``.
        features: another source of embeddings: the name of the module whose input they are, or a function of a batch,
            e.g. ``features=model`` for the output of the model.

    Returns:
        Embeddings (N, d), or (N, 2d) with ``flip``.

    Raises:
        ValueError: If ``images`` is empty, ``features`` is not a module of the model, an embedding is NaN or not (N,
            d), or ``normalize``, ``mean`` or ``std`` is given where it would change nothing: with floating images, or
            with a normalisation that has no mean. Also if the network was trained with the mean of its images and its
            run does not hold that mean.
        TypeError: If ``images`` is neither a tensor, a split nor an iterable of batches.

    Example:
        >>> model = hs.models.create("cnn9", num_classes=10)
        >>> hs.embed(model, torch.zeros(2, 3, 32, 32, dtype=torch.uint8)).shape
        torch.Size([2, 256])
    """
    check_count("batch_size", batch_size)
    check_model(model)
    if isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
        model = model.module  # the wrapper hides the method ``features``
    trained = trained_normalized(model) or Normalized("symmetric")
    if normalize not in MEASURED and (mean is not None or std is not None):
        like = trained.kind if trained.kind in MEASURED else "standard"
        raise ValueError(
            f"mean={mean} and std={std} change nothing with normalize={normalize!r}: pass normalize={like!r} too"
        )
    kind = normalize
    if normalize == "auto":
        kind, mean, std = trained
    found: list[Tensor] = []
    dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
    source = _source(model, features)
    with _evaluating(model, device) as place:

        def run(batch: Tensor) -> Tensor:
            x = batch.to(place)
            if not x.is_floating_point():
                if kind in MEASURED and mean is None and normalize == "auto":
                    raise ValueError(
                        f"the network was trained with data.normalize={kind!r}, and its run does not hold the mean of "
                        f"the images: pass normalize={kind!r}, mean=dataset.mean, std=dataset.std"
                    )
                x = to_inputs(x, kind, mean=mean, std=std, dtype=dtype)
            x = x.to(dtype)
            parts = [_features(source, model, view) for view in ((x, x.flip(-1)) if flip else (x,))]
            return torch.cat(parts, 1).float().cpu()

        count = 0
        for batch in _batches(images, flip):
            if batch.is_floating_point() and normalize not in ("auto", None):
                raise ValueError(
                    f"normalize={normalize!r} is for uint8 images, and these are {batch.dtype}: pass the pixels as "
                    "uint8, or inputs that are normalised already, without normalize="
                )
            for part in batch.split(batch_size) if len(batch) else (batch,):
                # a model need not take an empty batch: one blank image tells the dimension
                out = run(part) if len(part) else run(part.new_zeros((1, *part.shape[1:])))[:0]
                bad = ~out.isfinite().all(1)
                if bool(bad.any()):
                    image = count + int(bad.nonzero()[0])
                    raise ValueError(
                        f"the embedding of image {image} is NaN or infinite: look at it and at the weights"
                    )
                found.append(out)
                count += len(out)
    if not found:
        raise ValueError("images gave no batch: there is nothing to embed")
    return torch.cat(found)


@contextmanager
def _evaluating(model: nn.Module, device: torch.device | str | None) -> Iterator[torch.device]:
    """Evaluation mode on ``device``; each module's own mode and the model's device afterwards."""
    tensor = next((t for tensors in (model.parameters(), model.buffers()) for t in tensors), None)
    home = torch.device("cpu") if tensor is None else tensor.device
    place = home if device is None else torch.device(device)
    try:
        with modes_kept(model):
            model.eval()
            if place != home:
                model.to(place)
            yield place
    finally:
        if place != home:
            model.to(home)


def _source(model: nn.Module, features: Features | str | None) -> Features:
    """The function from a batch to its embeddings."""
    if features is not None and not isinstance(features, str):
        return features
    if features is None and has_features(model):
        return lambda x: features_of(model, x)
    if isinstance(features, str) and features not in dict(model.named_modules()):
        raise ValueError(f"features={features!r} is not a module of the model: see model.named_modules()")
    found = find_output_layers(model, output_layer=features)
    choice = "features= (the name of the module whose input is the embedding, or the model itself for its output)"
    announce(found, model, "embed", choice)
    layer = found.last
    return model if layer is None else lambda x: features_and_output(model, x, layer=layer)[0]


def _features(source: Features, model: nn.Module, x: Tensor) -> Tensor:
    try:
        out = source(x)
    except RuntimeError as error:
        first = next((m for m in model.modules() if isinstance(m, nn.Conv2d)), None)
        if first is not None and x.ndim == 4 and x.shape[1] != first.in_channels:
            raise ValueError(
                f"images have {x.shape[1]} channels, the model's first convolution takes {first.in_channels}"
            ) from error
        raise
    fits = isinstance(out, Tensor) and out.ndim >= 2 and len(out) == len(x) and out[0].numel() == out.shape[1]
    if not fits:
        shape = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
        raise ValueError(
            f"{len(x)} images gave features {shape}: an embedding is (N, d); choose another with features="
        )
    return out.flatten(1)


def _batches(images: Any, flip: bool) -> Iterator[Tensor]:
    """Batches of a tensor, of a split, or of an iterable of tensors or (tensor, labels)."""
    if isinstance(images, Tensor):
        yield _checked(images, flip)
    elif isinstance(getattr(images, "inputs", None), Tensor):
        yield _checked(images.inputs, flip)
    elif isinstance(images, Iterable) and not isinstance(images, str | bytes):
        for item in images:
            batch = item[0] if isinstance(item, tuple | list) and item else item
            if not isinstance(batch, Tensor):
                raise TypeError(
                    f"images gave a {type(batch).__name__}: each batch must be a tensor or (tensor, labels)"
                )
            yield _checked(batch, flip)
    else:
        raise TypeError(
            f"images must be a tensor, a split in memory or an iterable of batches, not {type(images).__name__}: image "
            "files are batches of FolderLoader(folder, batch_size, train=False)"
        )


def _checked(batch: Tensor, flip: bool) -> Tensor:
    images = batch.ndim == 4
    if batch.dtype != torch.uint8 and not batch.is_floating_point():
        raise TypeError(f"images have dtype {batch.dtype}: pass uint8 pixels, or floating inputs of the model")
    if not images and (flip or batch.dtype == torch.uint8 or batch.ndim < 2):
        raise ValueError(f"images have shape {tuple(batch.shape)}: pass a batch (N, C, H, W)")
    return batch
