"""Networks to fuse, and their comparison with the same ones without kernels."""

from contextlib import contextmanager

import torch
from torch import nn

import hypersphere as hs
from hypersphere import kernels
from hypersphere.kernels import launch


def conv(cin, cout, g="linear", h="sphere", **options):
    return hs.nn.DecoupledConv2d(cin, cout, 3, padding=1, angular=g, magnitude=h, **options)


def network(g="linear", h="sphere"):
    return nn.Sequential(
        conv(3, 4, g, h), nn.BatchNorm2d(4), nn.ReLU(),
        conv(4, 6, g, h, bias=True, affine=True), nn.BatchNorm2d(6), nn.PReLU(6),
        nn.MaxPool2d(2),
        nn.Sequential(conv(6, 4, g, h), nn.GELU()),
        nn.Flatten(), hs.nn.SphereLinear(36, 5, angular=g), nn.BatchNorm1d(5),
    )  # fmt: skip


@contextmanager
def plain_operations():
    """No kernels inside."""
    before, interpreting = set(launch._enabled), launch._interpreting
    kernels.enable()
    launch._interpreting = False
    try:
        yield
    finally:
        kernels.enable(*before)
        launch._interpreting = interpreting


def compare(fused, plain, x, tolerance=2e-5):
    """Outputs, gradients and buffers of two models, one of them without kernels."""
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    out = fused(a)
    seed = torch.randn_like(out)
    out.backward(seed)
    with plain_operations():
        expected = plain(b)
        expected.backward(seed)
    torch.testing.assert_close(out, expected, rtol=tolerance, atol=tolerance)
    scale = max(float(p.grad.norm()) for p in plain.parameters())
    pairs = [(a.grad, b.grad), *((p.grad, q.grad) for p, q in zip(fused.parameters(), plain.parameters(), strict=True))]
    for mine, theirs in pairs:
        assert float((mine - theirs).norm()) < tolerance * max(scale, float(theirs.norm()))
    for mine, theirs in zip(fused.buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance)


class Unit(nn.Module):
    """A residual unit as torchvision writes it: attributes, and one ReLU for two places."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = hs.nn.SphereConv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.relu = nn.ReLU(inplace=True)
        self.conv2, self.bn2 = hs.nn.SphereConv2d(4, 4, 3, padding=1, angular="linear"), nn.BatchNorm2d(4)
        self.act2 = nn.SiLU()

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.act2(self.bn2(self.conv2(out))) + x)
