"""Plain CNNs: convolutions and 2×2 max pooling, then fully connected layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from .._core.checks import check_choice, check_count
from .entry import Entry
from .grammar import Conv, Layer, Pool, image_size_of
from .network import Network, image_network
from .slots import Slots

# widths of conv1.x, conv2.x, conv3.x and of the fully connected layer
WIDTHS: dict[str, tuple[tuple[int, int, int], int]] = {
    "paper": ((64, 96, 128), 256),  # paper Table 5 = thesis Table B.1
    "code": ((128, 192, 256), 256),  # the authors' released SphereNets
    "c1": ((64, 128, 256), 512),  # thesis Table C.1
    "c1_adversarial": ((32, 64, 128), 256),  # thesis Table C.1, adversarial attacks
    "d1": ((64, 128, 256), 256),  # thesis Tables D.1 and E.1
    "e3": ((32, 64, 64), 64),  # thesis Table E.3
    "f1": ((64, 64, 64), 64),  # thesis Table F.1, CIFAR-100
    "f1_imagenet": ((64, 128, 256), 256),  # thesis Table F.1, ImageNet
}


def plain_cnn(
    num_classes: int,
    slots: Slots,
    depth: int,
    stem: bool = False,
    widths: str | Sequence[int] = "paper",
    feature_dim: int | None = None,
    fc_norm: bool = True,
    in_channels: int = 3,
    image_size: int | Sequence[int] = 32,
) -> Network:
    """CNN-n: three stages of n/3 convolutions 3×3, each followed by 2×2 max pooling, then one fully connected layer.

    The name counts convolutions. CNN-10 has a 7×7 convolution and a 3×3 max pooling of stride 2 each before them
    (thesis Table F.1). SphereConv → BatchNorm → ReLU, and no ReLU after the fully connected layer.

    Args:
        num_classes: outputs of the classifier, 0 for none.
        slots: operators, normalisation and activation of all layers (:class:`Slots`).
        depth: number of convolutions, 3 times that of a stage, and one for the stem.
        stem: start with the 7×7 convolution and the pooling.
        widths: filters of the stages: three numbers, or the name of a width set: ``"paper"`` (64, 96, 128; Table 5,
            thesis Table B.1), ``"code"`` (128, 192, 256; the authors' released nets), ``"c1"`` (64, 128, 256 and 512
            features), ``"c1_adversarial"`` (32, 64, 128), ``"d1"`` (64, 128, 256; also Table E.1), ``"e3"`` (32, 64, 64
            and 64 features), ``"f1"`` (64, 64, 64 and 64 features), ``"f1_imagenet"`` (64, 128, 256).
        feature_dim: size of the fully connected layer; None: that of the width set, 256 for a tuple.
        fc_norm: normalise the embedding, as the authors' released code does.
        in_channels: number of channels of the images: 1 for grey, 3 for colour.
        image_size: height and width of the images, a number or both.
    """
    if isinstance(widths, str):
        (first, second, third), dim = WIDTHS[check_choice("widths", widths, WIDTHS)]
    else:
        first, second, third = triple(widths)
        dim = 256
    per_stage = (depth - stem) // 3
    stages: list[tuple[str, Sequence[Layer]]] = []
    if stem:
        stages += [("conv0", (Conv(first, 7, 2), Pool(3, 2, 1)))]
    stages += [
        (f"conv{i}", (*[Conv(width)] * per_stage, Pool())) for i, width in enumerate((first, second, third), start=1)
    ]
    fully_connected = (dim if feature_dim is None else feature_dim,)
    size = image_size_of(image_size)
    return image_network(stages, slots, num_classes, in_channels, size, fully_connected, fc_norm)


# (filters, kernel, depth, stride of the first) of conv0.x, conv1.x, ..., sizes of the fully connected layers
_Rows = tuple[tuple[int, int, int, int], ...]
_TABLES: dict[str, tuple[_Rows, tuple[int, ...]]] = {
    "mnist2d": (((32, 5, 2, 1), (64, 5, 2, 1), (128, 5, 2, 1)), (2,)),
    "mnist": (((64, 3, 1, 1), (64, 3, 3, 1), (64, 3, 3, 1), (64, 3, 3, 1)), (256,)),
    "cifar10": (((64, 3, 1, 1), (64, 3, 4, 1), (96, 3, 4, 1), (128, 3, 4, 1)), (256,)),
    "cifar100": (((96, 3, 1, 1), (96, 3, 4, 1), (192, 3, 4, 1), (384, 3, 4, 1)), (512,)),
    "lfw": (((64, 3, 1, 2), (64, 3, 4, 1), (256, 3, 4, 1), (256, 3, 4, 1), (256, 3, 4, 1)), (512,)),
    "c4": (((32, 3, 2, 1), (64, 3, 2, 1), (128, 3, 2, 1)), (256, 2)),
}


def table_cnn(
    num_classes: int,
    slots: Slots,
    table: str,
    image_size: int | Sequence[int],
    in_channels: int = 1,
    feature_dim: int | None = None,
    fc_norm: bool = True,
    last_relu: bool = False,
) -> Network:
    """The networks of thesis Table 2.1 (L-Softmax: PReLU and BatchNorm) and of sec. C.4 (2-dimensional features).

    Conv0.x, if there is one, Conv1.x, ... with 2×2 max pooling after Conv1.x to Conv3.x, then the fully connected
    layers (2; 256; 256; 512; 512; in C.4 256 and 2).

    Args:
        num_classes: outputs of the classifier, 0 for none.
        slots: operators, normalisation and activation of all layers (:class:`Slots`).
        table: the column of the table, e.g. ``"mnist"``.
        image_size: height and width of the images, a number or both.
        in_channels: number of channels of the images: 1 for grey, 3 for colour.
        feature_dim: size of the last fully connected layer; None: that of the table.
        fc_norm: normalise the embedding (off by default where it has 2 dimensions, to be looked at).
        last_relu: a ReLU after the embedding, which then lies in the first quadrant (thesis Figure A.1).
    """
    rows, fully_connected = _TABLES[table]
    first = 1 if len(rows) == 3 else 0
    stages: list[tuple[str, Sequence[Layer]]] = []
    for index, (width, kernel, depth, stride) in enumerate(rows, start=first):
        layers: list[Layer] = [Conv(width, kernel, stride if i == 0 else 1) for i in range(depth)]
        stages.append((f"conv{index}", [*layers, Pool()] if 1 <= index <= 3 else layers))
    if feature_dim is not None:
        fully_connected = (*fully_connected[:-1], feature_dim)
    size = image_size_of(image_size)
    network = image_network(stages, slots, num_classes, in_channels, size, fully_connected, fc_norm)
    if last_relu:
        network.body.add_module("relu", nn.ReLU())
    return network


def few_shot_cnn(
    num_classes: int,
    slots: Slots,
    width: int = 64,
    in_channels: int = 3,
    image_size: int | Sequence[int] = 84,
) -> Network:
    """CNN-4 of thesis Table F.3: four times a 3×3 convolution and 2×2 max pooling; the maps are the embedding.

    Args:
        num_classes: outputs of the linear classifier, 0 for none (a cosine head is "baseline++").
        slots: operators, normalisation and activation of all layers (:class:`Slots`).
        width: filters of each layer.
        in_channels: number of channels of the images: 1 for grey, 3 for colour.
        image_size: height and width of the images (mini-ImageNet: 84×84).
    """
    stages = [(f"conv{i}", (Conv(width), Pool())) for i in range(1, 5)]
    return image_network(stages, slots, num_classes, in_channels, image_size_of(image_size), ())


def triple(widths: Sequence[int], count: int = 3) -> tuple[int, ...]:
    """``count`` filter numbers."""
    numbers = tuple(check_count("widths", width) for width in widths)
    if len(numbers) != count:
        raise ValueError(f"widths={tuple(widths)!r} must have {count} numbers, one for each stage")
    return numbers


def _plain(depth: int, table: str, **defaults: Any) -> Entry:
    return Entry(plain_cnn, table, {"depth": depth, "stem": depth % 3 == 1}, {"num_classes": 10, **defaults})


def _table(table: str, cited: str, **defaults: Any) -> Entry:
    return Entry(table_cnn, cited, {"table": table}, {"num_classes": 10, **defaults})


def _lsoftmax(column: str, cited: str, **defaults: Any) -> Entry:
    return _table(column, f"thesis Table 2.1, {cited}", activation="prelu", **defaults)


MODELS: dict[str, Entry] = {
    "cnn3": _plain(3, "paper Table 5; thesis Tables B.1, E.3"),
    "cnn4": Entry(few_shot_cnn, "thesis Table F.3", {}, {"num_classes": 64}),
    "cnn6": _plain(6, "thesis Tables D.1, E.1, F.1", num_classes=100, widths="f1"),
    "cnn9": _plain(9, "paper Table 5; thesis Tables B.1, C.1, D.1, E.1, E.3, F.1"),
    "cnn10": _plain(10, "thesis Table F.1 (ImageNet)", num_classes=1000, widths="f1_imagenet", image_size=224),
    "cnn15": _plain(15, "thesis Tables D.1, E.1", num_classes=100, widths="d1"),
    **{f"cnn{depth}": _plain(depth, "paper Table 5; thesis Table B.1") for depth in (18, 45, 60, 69)},
    "cnn6_mnist2d": _table("c4", "thesis sec. C.4", image_size=28, fc_norm=False),
    "lsoftmax_mnist2d": _lsoftmax("mnist2d", "MNIST (for Figure 2.2)", image_size=28, fc_norm=False),
    "lsoftmax_mnist": _lsoftmax("mnist", "MNIST", image_size=28),
    "lsoftmax_cifar10": _lsoftmax("cifar10", "CIFAR10/CIFAR10+", image_size=32, in_channels=3),
    "lsoftmax_cifar100": _lsoftmax("cifar100", "CIFAR100", num_classes=100, image_size=32, in_channels=3),
    "lsoftmax_lfw": _lsoftmax("lfw", "LFW", num_classes=10575, image_size=(112, 96), in_channels=3),
}
