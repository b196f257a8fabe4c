"""Small look-alikes of the model trees that people have."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class BasicBlock(nn.Module):
    """As in torchvision's ResNet."""

    def __init__(self, cin: int, cout: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(cout, cout, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        shortcut = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))
        self.downsample = None if cin == cout and stride == 1 else shortcut

    def forward(self, x: Tensor) -> Tensor:
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(out + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(4)
        self.layer1 = nn.Sequential(BasicBlock(4, 4), BasicBlock(4, 4))
        self.layer2 = nn.Sequential(BasicBlock(4, 6, 2))
        self.fc = nn.Linear(6, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer2(self.layer1(F.relu(self.bn1(self.conv1(x)))))
        return self.fc(x.mean((2, 3)))


class Conv2dSame(nn.Conv2d):
    """As in timm: pads by itself, then convolves."""

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(F.pad(x, (0, 1, 0, 1)), self.weight, self.bias)


class StdConv2d(nn.Conv2d):
    """As in timm: standardises its weight first."""

    def forward(self, x: Tensor) -> Tensor:
        w = self.weight - self.weight.mean((1, 2, 3), keepdim=True)
        return self._conv_forward(x, w / w.std((1, 2, 3), keepdim=True), self.bias)


class MobileNet(nn.Module):
    """As in timm: ``get_classifier``, depthwise convolutions, convolutions with a forward of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.conv_stem = Conv2dSame(3, 6, 2)
        self.blocks = nn.ModuleDict(
            {"dw": nn.Conv2d(6, 6, 3, padding=1, groups=6), "pw": nn.Conv2d(6, 8, 1), "std": StdConv2d(8, 8, 1)}
        )
        self.classifier = nn.Linear(8, 4)

    def get_classifier(self) -> nn.Module:
        return self.classifier

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv_stem(x)
        for block in self.blocks.values():
            x = F.relu(block(x))
        return self.classifier(x.mean((2, 3)))


class Attention(nn.Module):
    """As in timm's vision transformer."""

    def __init__(self, dim: int, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, c))


class ViT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch_embed = nn.Conv2d(3, 8, 4, 4)
        self.attn = Attention(8)
        self.torch_attn = nn.MultiheadAttention(8, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch_embed(x).flatten(2).transpose(1, 2)
        x = x + self.attn(x)
        x = x + self.torch_attn(x, x, x)[0]
        return self.head((x + self.mlp(x)).mean(1))


class Tagger(nn.Module):
    """Embedding, recurrent layers and a decoder tied to the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 6)
        self.rnn = nn.LSTM(6, 5, 2, bidirectional=True, proj_size=3, batch_first=True)
        self.gru = nn.GRU(6, 6)
        self.plain = nn.RNN(6, 6, nonlinearity="relu")
        self.decoder = nn.Linear(6, 10)
        self.decoder.weight = self.embed.weight

    def forward(self, x: Tensor) -> Tensor:
        x = self.plain(self.gru(self.rnn(self.embed(x))[0])[0])[0]
        return self.decoder(x)


class Everything(nn.Module):
    """A layer of each type, called one after another."""

    def __init__(self) -> None:
        super().__init__()
        self.c1 = nn.Conv1d(2, 4, 3, padding="same", padding_mode="circular")
        self.t1 = nn.ConvTranspose1d(4, 4, 3, stride=2, padding=1, output_padding=1, groups=2)
        self.c2 = nn.Conv2d(4, 4, (3, 2), (1, 2), (1, 0), (1, 2), groups=2, padding_mode="reflect")
        self.t2 = nn.ConvTranspose2d(4, 2, 2, dilation=2, bias=False)
        self.c3 = nn.Conv3d(2, 2, 2)
        self.t3 = nn.ConvTranspose3d(2, 3, 2)
        self.linear = nn.Linear(3, 4, bias=False)
        self.out = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.t1(self.c1(x))
        x = self.t2(self.c2(x.unflatten(2, (4, -1))))
        x = self.t3(self.c3(torch.stack([x, x, x], 2)))
        return self.out(self.linear(x.mean((2, 3, 4))))


NETS: list[tuple[type[nn.Module], Tensor]] = [
    (ResNet, torch.randn(2, 3, 8, 8)),
    (MobileNet, torch.randn(2, 3, 8, 8)),
    (ViT, torch.randn(2, 3, 8, 8)),
    (Tagger, torch.randint(10, (2, 4))),
    (Everything, torch.randn(2, 2, 12)),
]


def by_type(model: nn.Module) -> dict[str, str]:
    return {name: type(module).__name__ for name, module in model.named_modules()}


def double(x: Tensor) -> Tensor:
    return x.double() if x.is_floating_point() else x
