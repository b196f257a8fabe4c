"""What is computed while a CUDA graph is recorded, when nothing may ask the host: the same maps."""

import pytest
import torch

from hypersphere.functional.orthogonalize import algorithms as exact
from hypersphere.functional.orthogonalize import iterations as iterative

MAPS = {
    "cayley": (exact.cayley, exact.cayley),
    "gram_schmidt": (iterative.cholesky_qr, exact.gram_schmidt),
    "lowdin": (iterative.polynomial_polar, exact.lowdin),
}


@pytest.mark.parametrize("shape", [(12, 12), (1, 12, 12), (3, 12, 12), (2, 3, 7, 7)])
@pytest.mark.parametrize("name", MAPS)
def test_the_map_is_the_same(name, shape, monkeypatch):
    torch.manual_seed(0)
    u = 3 * torch.randn(shape)
    captured, usual = MAPS[name]
    want = usual(u)[0]
    monkeypatch.setattr(exact, "is_captured", lambda x: True)
    monkeypatch.setattr(torch.Tensor, "__bool__", asked)
    monkeypatch.setattr(torch.Tensor, "__float__", asked)
    monkeypatch.setattr(torch.Tensor, "item", asked)
    got = captured(u)[0]
    monkeypatch.undo()
    torch.testing.assert_close(got, want, atol=2e-5, rtol=0)
    torch.testing.assert_close(got.mT @ got, torch.eye(shape[-1]).expand(shape), atol=1e-5, rtol=0)


def test_large_matrices_stay_orthogonal(monkeypatch):
    torch.manual_seed(0)
    monkeypatch.setattr(exact, "is_captured", lambda x: True)
    r = exact.cayley(30 * torch.randn(96, 96))[0]
    torch.testing.assert_close(r.mT @ r, torch.eye(96), atol=1e-5, rtol=0)


def asked(self):
    raise AssertionError("the host was asked")
