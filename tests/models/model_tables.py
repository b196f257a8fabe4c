"""The documents' architecture tables, transcribed, and what they imply: an independent count, written from the rows.

``[3x3,64]x3`` three convolutions; ``{3x3,64;3x3,64}x5`` five residual units; ``S2`` stride 2 of the first convolution;
``pool2`` 2×2 max pooling, stride 2; ``pool3`` 3×3 max pooling, stride 2; ``fc 256``; ``avg`` global average pooling.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

POOL = "pool2"


def plain(depth: int, widths: tuple[int, int, int], fc: int) -> str:
    return " | ".join(f"[3x3,{w}]x{depth} | {POOL}" for w in widths) + f" | fc {fc}"


def cifar(units: int, widths: tuple[int, int, int]) -> str:
    first, second, third = (f"{{3x3,{w};3x3,{w}}}x{units}" for w in widths)
    return f"[3x3,{widths[0]}]x1 | {first} | {second} S2 | {third} S2 | avg"


def imagenet(units: tuple[int, ...], widths: tuple[int, ...], bottleneck: bool = False) -> str:
    def unit(w: int) -> str:
        return f"{{1x1,{w};3x3,{w};1x1,{4 * w}}}" if bottleneck else f"{{3x3,{w};3x3,{w}}}"

    rows = [f"{unit(w)}x{n}" + (" S2" if i else "") for i, (n, w) in enumerate(zip(units, widths, strict=True))]
    return f"[7x7,{widths[0]}]x1 S2 | pool3 | " + " | ".join(rows) + " | avg"


def face(units: tuple[int, ...], widths: tuple[int, ...] = (64, 128, 256, 512)) -> str:
    rows = []
    for n, w in zip(units, widths, strict=True):
        rows.append(f"[3x3,{w}]x1 S2")
        if n:
            rows.append(f"{{3x3,{w};3x3,{w}}}x{n}")
    return " | ".join(rows)


@dataclass(frozen=True)
class Case:
    name: str
    rows: str
    image: tuple[int, int, int]
    classes: int
    layers: int  # convolutions, without shortcuts
    options: dict[str, Any] = field(default_factory=dict)
    norm: bool = True
    fc_norm: bool = True
    prelu: bool = False
    shortcut: str = "project"

    def __str__(self) -> str:
        return "-".join([self.name, *(str(v) for v in self.options.values())])


RGB32, GREY28, IMAGENET, FACE = (3, 32, 32), (1, 28, 28), (3, 224, 224), (3, 112, 96)

CASES = [
    # paper Table 5, thesis Table B.1
    *(
        Case(f"cnn{n}", plain(n // 3, (64, 96, 128), 256), RGB32, 10, n, {"widths": "paper"})
        for n in (3, 9, 18, 45, 60, 69)
    ),
    Case("cnn9", plain(3, (128, 192, 256), 256), RGB32, 10, 9, {"widths": "code"}),
    # thesis Table C.1
    Case("cnn9", plain(3, (64, 128, 256), 512), RGB32, 100, 9, {"widths": "c1"}),
    Case(
        "cnn9", plain(3, (32, 64, 128), 256), RGB32, 10, 9, {"widths": "c1_adversarial", "norm": "none"}, norm=False
    ),
    # thesis Tables D.1, E.1
    *(Case(f"cnn{n}", plain(n // 3, (64, 128, 256), 256), RGB32, 100, n, {"widths": "d1"}) for n in (6, 9, 15)),
    # thesis Table E.3
    *(Case(f"cnn{n}", plain(n // 3, (32, 64, 64), 64), RGB32, 100, n, {"widths": "e3"}) for n in (3, 9)),
    # thesis Table F.1
    *(Case(f"cnn{n}", plain(n // 3, (64, 64, 64), 64), RGB32, 100, n, {"widths": "f1"}) for n in (6, 9)),
    Case("cnn10", "[7x7,64]x1 S2 | pool3 | " + plain(3, (64, 128, 256), 256), IMAGENET, 1000, 10),
    # thesis Tables 5.2, 6.4
    *(
        Case("cnn9", plain(3, (16 * t, 32 * t, 64 * t), 256), RGB32, 100, 9, {"widths": (16 * t, 32 * t, 64 * t)})
        for t in (1, 2, 8, 16, 20)
    ),
    # paper Figure 3 (c)
    Case("cnn9", plain(3, (16, 32, 48), 256), RGB32, 10, 9, {"widths": (16, 32, 48)}),
    # thesis Table 2.1
    Case(
        "lsoftmax_mnist2d",
        "[5x5,32]x2 | pool2 | [5x5,64]x2 | pool2 | [5x5,128]x2 | pool2 | fc 2",
        GREY28, 10, 6, prelu=True, fc_norm=False,
    ),
    Case("lsoftmax_mnist", f"[3x3,64]x1 | {plain(3, (64, 64, 64), 256)}", GREY28, 10, 10, prelu=True),
    Case("lsoftmax_cifar10", f"[3x3,64]x1 | {plain(4, (64, 96, 128), 256)}", RGB32, 10, 13, prelu=True),
    Case("lsoftmax_cifar100", f"[3x3,96]x1 | {plain(4, (96, 192, 384), 512)}", RGB32, 100, 13, prelu=True),
    Case(
        "lsoftmax_lfw",
        "[3x3,64]x1 S2 | [3x3,64]x4 | pool2 | [3x3,256]x4 | pool2 | [3x3,256]x4 | pool2 | [3x3,256]x4 | fc 512",
        FACE, 10575, 17, prelu=True,
    ),
    # thesis sec. C.4
    Case(
        "cnn6_mnist2d",
        "[3x3,32]x2 | pool2 | [3x3,64]x2 | pool2 | [3x3,128]x2 | pool2 | fc 256 | fc 2",
        GREY28, 10, 6, fc_norm=False,
    ),
    # thesis Table F.3
    Case("cnn4", " | ".join(["[3x3,64]x1 | pool2"] * 4), (3, 84, 84), 64, 4),
    # paper Table 6, thesis Tables B.2, C.1, D.2, E.2
    Case("resnet32", cifar(5, (64, 96, 128)), RGB32, 10, 31, {"widths": "paper"}),
    Case("resnet32", cifar(5, (96, 192, 384)), RGB32, 100, 31, {"widths": "paper_wide"}),
    Case("resnet32", cifar(5, (64, 128, 256)), RGB32, 100, 31, {"widths": "d2"}),
    # thesis Table F.2
    Case("resnet20", cifar(3, (16, 32, 64)), RGB32, 100, 19, shortcut="pad"),
    Case("resnet32", cifar(5, (16, 32, 64)), RGB32, 100, 31, {"widths": "f2"}, shortcut="pad"),
    # thesis Tables C.1, D.2, E.2; He et al.
    Case("resnet18", imagenet((2, 2, 2, 2), (64, 128, 256, 512)), IMAGENET, 1000, 17),
    Case("resnet34", imagenet((3, 4, 6, 3), (64, 128, 256, 512)), IMAGENET, 1000, 33),
    Case("resnet50", imagenet((3, 4, 6, 3), (64, 128, 256, 512), True), IMAGENET, 1000, 49),
    # paper Table 6 (sec. 4.6)
    Case("resnet18", imagenet((2, 2, 2, 2), (256, 512, 768, 1024)), IMAGENET, 1000, 17, {"widths": "wide"}),
    # thesis Table C.1, modified ResNet-18
    Case(
        "resnet18_modified",
        f"[7x7,128]x1 S2 | pool3 | {face((1, 2, 3, 0), (128, 256, 512, 1024))} | avg",
        IMAGENET, 1000, 17,
    ),
    # thesis Table 2.7
    *(
        Case(f"sphereface{n}", f"{face(units)} | fc 512", FACE, 0, n, norm=False, prelu=True)
        for n, units in {
            4: (0, 0, 0, 0), 10: (0, 1, 2, 0), 20: (1, 2, 4, 1), 36: (2, 4, 8, 2), 64: (3, 8, 16, 3),
        }.items()
    ),
]  # fmt: skip


@dataclass
class Implied:
    """What the rows of a table imply."""

    weights: list[tuple[int, ...]] = field(default_factory=list)  # convolutions in order, without shortcuts
    maps: list[tuple[int, int, int]] = field(default_factory=list)  # what each convolution gives
    parameters: int = 0
    features: int = 0


def implied(case: Case) -> Implied:
    out = Implied()
    channels, height, width = case.image
    vector = 0

    def extra(count: int, norm: bool, act: bool) -> int:
        return count * ((2 if case.norm else 1) if norm else 1) + (count if act and case.prelu else 0)

    def conv(kernel: int, filters: int, stride: int) -> None:
        nonlocal channels, height, width
        height, width = (height - 1) // stride + 1, (width - 1) // stride + 1  # odd kernels, padded
        out.weights.append((filters, channels, kernel, kernel))
        out.parameters += filters * channels * kernel**2 + extra(filters, True, True)
        channels = filters
        out.maps.append((channels, height, width))

    tokens = [token.strip() for token in case.rows.split("|")]
    for i, token in enumerate(tokens):
        if token == "avg":
            vector = channels
        elif token.startswith("pool"):
            size = int(token[4])
            height, width = (height // 2, width // 2) if size == 2 else ((height - 1) // 2 + 1, (width - 1) // 2 + 1)
        elif token.startswith("fc"):
            vector = vector or channels * height * width
            size = int(token.split()[1])
            last = i == len(tokens) - 1
            normed = case.fc_norm or not last
            out.parameters += vector * size + extra(size, normed, not last)
            vector = size
        else:
            body, count, rest = re.fullmatch(r"[\[{](.+)[\]}]x(\d+)(.*)", token).groups()
            for repeat in range(int(count)):
                stride = 2 if "S2" in rest and repeat == 0 else 1
                before = channels
                for position, part in enumerate(body.split(";")):
                    kernel, filters = int(part[0]), int(part.split(",")[1])
                    conv(kernel, filters, stride if position == 0 else 1)
                if token[0] == "{" and (stride == 2 or before != channels) and case.shortcut == "project":
                    out.parameters += before * channels + 2 * channels
    out.features = vector or channels * height * width
    out.parameters += (out.features + 1) * case.classes
    return out
