"""The networks that gpu_operators.py measures, written out: CNN-9, ResNet-50, ConvNeXt-T, ViT-S."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import hypersphere as hs

__all__ = ["NETWORKS", "cnn9", "make"]


def cnn9(op: Any = None, norm: bool = True) -> nn.Module:
    """Nine 3×3 convolutions of 64, 96 and 128 filters (paper Table 5) and two fully connected layers, for 32×32."""
    layers: list[nn.Module] = []
    cin = 3
    for width in (64, 96, 128):
        for _ in range(3):
            layers.append((op or nn.Conv2d)(cin, width, 3, padding=1, bias=False))
            layers += [nn.BatchNorm2d(width), nn.ReLU()] if norm else [nn.ReLU()]
            cin = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(128 * 16, 256), nn.ReLU(), nn.Linear(256, 10))


class Residual(nn.Module):
    def __init__(self, branch: nn.Module, shortcut: nn.Module, act: nn.Module) -> None:
        super().__init__()
        self.branch, self.shortcut, self.act = branch, shortcut, act

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.branch(x) + self.shortcut(x))


def _convs(*rows: tuple[int, int, int, int, bool]) -> nn.Sequential:
    """Convolution, BatchNorm and, if said so, ReLU for each (in, out, kernel, stride, activate)."""
    layers: list[nn.Module] = []
    for cin, cout, k, stride, activate in rows:
        layers += [nn.Conv2d(cin, cout, k, stride, k // 2, bias=False), nn.BatchNorm2d(cout)]
        layers += [nn.ReLU()] if activate else []
    return nn.Sequential(*layers)


def resnet50() -> nn.Module:
    """He et al., with the strides in the 3×3 convolutions."""
    layers: list[nn.Module] = [_convs((3, 64, 7, 2, True)), nn.MaxPool2d(3, 2, 1)]
    cin = 64
    for width, units, first in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(units):
            stride, cout = first if i == 0 else 1, 4 * width
            branch = _convs((cin, width, 1, 1, True), (width, width, 3, stride, True), (width, cout, 1, 1, False))
            shortcut = _convs((cin, cout, 1, stride, False)) if cin != cout or stride > 1 else nn.Identity()
            layers.append(Residual(branch, shortcut, nn.ReLU()))
            cin = cout
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(cin, 1000))


class ChannelNorm(nn.LayerNorm):
    """LayerNorm over the channels of maps."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Unit(nn.Module):
    """ConvNeXt's: depthwise 7×7, LayerNorm, a perceptron on the channels with GELU."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(dim, dim, 7, padding=3, groups=dim)
        self.norm = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.gain = nn.Parameter(torch.full((dim,), 1e-6))

    def forward(self, x: Tensor) -> Tensor:
        out = self.mlp(self.norm(self.depthwise(x).permute(0, 2, 3, 1))) * self.gain
        return x + out.permute(0, 3, 1, 2)


def convnext_t() -> nn.Module:
    dims, depths = (96, 192, 384, 768), (3, 3, 9, 3)
    layers: list[nn.Module] = [nn.Conv2d(3, dims[0], 4, 4), ChannelNorm(dims[0])]
    for i, (dim, depth) in enumerate(zip(dims, depths, strict=True)):
        if i:
            layers += [ChannelNorm(dims[i - 1]), nn.Conv2d(dims[i - 1], dim, 2, 2)]
        layers += [Unit(dim) for _ in range(depth)]
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(dims[-1]), nn.Linear(dims[-1], 1000)
    )


class Attention(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        n, length, dim = x.shape
        q, k, v = self.qkv(x).view(n, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, length, dim))


class Encoder(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.attention, self.norm2 = nn.LayerNorm(dim), Attention(dim, heads), nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    """ViT-S/16 with mean pooling."""

    def __init__(self, dim: int = 384, depth: int = 12, heads: int = 6) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, dim, 16, 16)
        self.places = nn.Parameter(torch.randn(1, 196, dim) * 0.02)
        self.blocks = nn.Sequential(*(Encoder(dim, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2) + self.places
        return self.head(self.norm(self.blocks(x)).mean(1))


NETWORKS = {"ViT-S": ViT, "ResNet-50": resnet50, "ConvNeXt-T": convnext_t}  # in the order of their compile times


def make(name: str, angular: str | None) -> nn.Module:
    """A network, converted to SphereConv with this g unless it is None."""
    model = NETWORKS[name]()
    if angular is None:
        return model
    last = [n for n, m in model.named_modules() if isinstance(m, nn.Linear)][-1]
    return hs.nn.fuse(hs.convert(model, angular=angular, output_layer=last))
