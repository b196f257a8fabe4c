"""Residual networks: for CIFAR, for ImageNet standard, wide and modified, and those of SphereFace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from .._core.checks import check_choice, check_positive
from .entry import Entry
from .grammar import Conv, Layer, Pool, Residual, Unit, image_size_of
from .network import Network, image_network
from .plain import triple
from .slots import Slots

CIFAR_WIDTHS: dict[str, tuple[int, ...]] = {
    "paper": (64, 96, 128),  # paper Table 6 = thesis Table B.2, for paper sec. 4.2
    "paper_wide": (96, 192, 384),  # paper Table 6, for the CIFAR-10+/100 results; thesis Table C.1
    "d2": (64, 128, 256),  # thesis Tables D.2 and E.2
    "f2": (16, 32, 64),  # thesis Table F.2
}

IMAGENET_WIDTHS: dict[str, tuple[int, ...]] = {
    "standard": (64, 128, 256, 512),  # thesis Tables C.1, D.2, E.2
    "wide": (256, 512, 768, 1024),  # paper Table 6 = thesis Table B.2, for paper sec. 4.6
}


def cifar_resnet(
    num_classes: int,
    slots: Slots,
    depth: int,
    widths: str | Sequence[int] = "paper",
    shortcut: str | None = None,
    in_channels: int = 3,
) -> Network:
    """ResNet-20/32 for CIFAR: one 3×3 convolution, three stages of residual units, global average pooling.

    Args:
        num_classes: outputs of the classifier, 0 for none.
        slots: operators, normalisation and activation of all layers (:class:`Slots`).
        depth: 6·units + 2.
        widths: filters of the stages: three numbers, or ``"paper"`` (64, 96, 128; Table 6, sec. 4.2), ``"paper_wide"``
            (96, 192, 384; Table 6 and thesis Table C.1), ``"d2"`` (64, 128, 256; thesis Tables D.2, E.2), ``"f2"``
            (16, 32, 64; thesis Table F.2).
        shortcut: where the shape changes, ``"operator"`` (SphereResNet-v1), ``"plain"`` (v2, and what the authors'
            released code does), or ``"pad"`` (no parameters, He et al. on CIFAR). None: ``"pad"`` for the widths
            ``"f2"``, which that thesis table takes over from He et al., else ``"plain"``.
        in_channels: of the images, which may have any size.
    """
    first, second, third = (
        CIFAR_WIDTHS[check_choice("widths", widths, CIFAR_WIDTHS)] if isinstance(widths, str) else triple(widths)
    )
    if shortcut is None:
        shortcut = "pad" if widths == "f2" else "plain"
    units = (depth - 2) // 6
    stages: list[tuple[str, Sequence[Layer]]] = [("conv0", (Conv(first),))]
    for i, (width, stride) in enumerate(((first, 1), (second, 2), (third, 2)), start=1):
        stages.append((f"conv{i}", _units(width, units, stride, "basic", shortcut)))
    return image_network(stages, slots, num_classes, in_channels, (32, 32), None)


def imagenet_resnet(
    num_classes: int,
    slots: Slots,
    units: tuple[int, int, int, int],
    form: str,
    widths: str | Sequence[int] = "standard",
    shortcut: str = "plain",
    in_channels: int = 3,
) -> Network:
    """ResNet-18/34/50: a 7×7 convolution and 3×3 max pooling of stride 2 each, four stages, global average pooling.

    ResNet-50 has its strides in the first 1×1 convolution of a unit, as He et al. print it.

    Args:
        num_classes: outputs of the classifier, 0 for none.
        slots: operators, normalisation and activation of all layers (:class:`Slots`).
        units: residual units of each stage.
        form: ``"basic"`` or ``"bottleneck"``.
        widths: filters of the stages, the first also of the stem: four numbers, or ``"standard"`` (64, 128, 256, 512;
            thesis Tables C.1, D.2, E.2), ``"wide"`` (256, 512, 768, 1024; paper Table 6, thesis Table B.2).
        shortcut: where the shape changes, ``"operator"`` (SphereResNet-v1), ``"plain"`` (v2), or ``"pad"``.
        in_channels: of the images, which may have any size from 32×32 on.
    """
    filters = (
        IMAGENET_WIDTHS[check_choice("widths", widths, IMAGENET_WIDTHS)]
        if isinstance(widths, str)
        else triple(widths, 4)
    )
    stages: list[tuple[str, Sequence[Layer]]] = [("conv0", (Conv(filters[0], 7, 2), Pool(3, 2, 1)))]
    for i, (width, count) in enumerate(zip(filters, units, strict=True), start=1):
        stages.append((f"conv{i}", _units(width, count, 1 if i == 1 else 2, form, shortcut)))
    return image_network(stages, slots, num_classes, in_channels, (224, 224), None)


def modified_resnet(
    num_classes: int,
    slots: Slots,
    widths: Sequence[int] = (128, 256, 512, 1024),
    in_channels: int = 3,
    branch_std: float | None = None,
) -> Network:
    """The modified ResNet-18 of thesis Table C.1, built like the SphereFace networks.

    A 7×7 convolution and 3×3 max pooling of stride 2 each; then four stages, each a 3×3 convolution of stride 2
    followed by 1, 2, 3 and 0 residual units without projections; global average pooling. With the classifier these
    are 18 layers.

    Args:
        num_classes: outputs of the classifier, 0 for none.
        slots: operators, normalisation and activation of all layers (:class:`Slots`).
        widths: filters of the four stages, the first also of the stem.
        in_channels: of the images, which may have any size.
        branch_std: deviation of the normal weights of residual branches; None: as ``init`` says. With 0.01 and
            ``init="xavier"`` the network starts as the SphereFace networks do, which thesis C.1.1 asks for.
    """
    filters = triple(widths, 4)
    stages: list[tuple[str, Sequence[Layer]]] = [("conv0", (Conv(filters[0], 7, 2), Pool(3, 2, 1)))]
    stages += face_stages(filters, (1, 2, 3, 0))
    network = image_network(stages, slots, num_classes, in_channels, (224, 224), None)
    draw_branches(network, branch_std)
    return network


def sphereface(
    num_classes: int,
    slots: Slots,
    units: tuple[int, int, int, int],
    widths: Sequence[int] = (64, 128, 256, 512),
    feature_dim: int = 512,
    in_channels: int = 3,
    image_size: int | Sequence[int] = (112, 96),
    last_relu: bool = False,
    branch_std: float | None = 0.01,
) -> Network:
    """SphereFace-4/10/20/36/64: four stages, each a 3×3 convolution of stride 2, then residual units; FC1.

    The name counts convolutions. The embedding is the output of FC1. The default is PReLU without BatchNorm, as in the
    authors' released networks; both activations of a residual unit are inside its branch. Those networks initialise
    weights by Xavier, and by a normal distribution of deviation 0.01 in residual branches. With the initialisation of
    He et al. everywhere, the features of the 64-layer CNN would have lengths of millions.

    Args:
        num_classes: outputs of the classifier; the default 0 leaves it to a head such as
            :class:`hypersphere.losses.ASoftmax`.
        slots: operators, normalisation and activation of all layers (:class:`Slots`).
        units: residual units of each stage.
        widths: filters of the stages.
        feature_dim: size of FC1 (3 for thesis Figure 2.10).
        in_channels: number of channels of the images: 1 for grey, 3 for colour.
        image_size: height and width of the images (aligned faces of 112×96), a number or both.
        branch_std: deviation of the weights of residual branches; None: as ``init`` says.
        last_relu: a ReLU after FC1, as networks had before (thesis Table A.1, CNN A).
    """
    stages = face_stages(triple(widths, 4), units)
    network = image_network(stages, slots, num_classes, in_channels, image_size_of(image_size), (feature_dim,))
    draw_branches(network, branch_std)
    if last_relu:
        network.body.add_module("relu", nn.ReLU())
    return network


def draw_branches(network: Network, std: float | None) -> None:
    """Normal weights of deviation ``std`` in the residual branches; None leaves them as they are."""
    if std is None:
        return
    for unit in (module for module in network.modules() if isinstance(module, Residual)):
        for weight in (p for p in unit.branch.parameters() if p.ndim == 4):
            nn.init.normal_(weight, std=check_positive("branch_std", std))


def face_stages(widths: Sequence[int], units: Sequence[int]) -> list[tuple[str, Sequence[Layer]]]:
    """``[3×3, width]×1, S2`` and then residual units, for each stage (thesis Table 2.7)."""
    return [
        (f"conv{i}", (Conv(width, 3, 2), *[Unit(width, form="face")] * count))
        for i, (width, count) in enumerate(zip(widths, units, strict=True), start=1)
    ]


def _units(width: int, count: int, stride: int, form: str, shortcut: str) -> list[Layer]:
    return [Unit(width, stride if i == 0 else 1, form, shortcut) for i in range(count)]


def _imagenet(depth: int, table: str, fixed: dict[str, Any] | None = None, **defaults: Any) -> Entry:
    units = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}[depth]
    shape = {"units": units, "form": "bottleneck" if depth == 50 else "basic"}
    return Entry(imagenet_resnet, table, {**shape, **(fixed or {})}, {"num_classes": 1000, **defaults})


_FACE_UNITS = {4: (0, 0, 0, 0), 10: (0, 1, 2, 0), 20: (1, 2, 4, 1), 36: (2, 4, 8, 2), 64: (3, 8, 16, 3)}
_FACES: dict[str, Any] = {"num_classes": 0, "activation": "prelu", "norm": "none", "init": "xavier"}
MODELS: dict[str, Entry] = {
    "resnet18": _imagenet(18, "paper Table 6; thesis Tables B.2, C.1, D.2, E.2"),
    "resnet18_modified": Entry(modified_resnet, "thesis Table C.1", {}, {"num_classes": 1000}),
    "resnet20": Entry(cifar_resnet, "thesis Table F.2", {"depth": 20}, {"num_classes": 100, "widths": "f2"}),
    "resnet32": Entry(
        cifar_resnet, "paper Table 6; thesis Tables B.2, C.1, D.2, E.2, F.2", {"depth": 32}, {"num_classes": 10}
    ),
    "resnet34": _imagenet(34, "thesis Tables D.2, E.2"),
    "resnet50": _imagenet(50, "thesis sec. E.1 (He et al.)"),
    **{
        f"sphere_resnet18_{version}": _imagenet(
            18,
            f"paper Table 6 and sec. 4.6, SphereResNet-18-{version}",
            {"shortcut": shortcut},
            widths="wide",
            conv="sphere",
        )
        for version, shortcut in (("v1", "operator"), ("v2", "plain"))
    },
    **{
        f"sphereface{depth}": Entry(sphereface, f"thesis Table 2.7, {depth}-layer CNN", {"units": units}, _FACES)
        for depth, units in _FACE_UNITS.items()
    },
}
