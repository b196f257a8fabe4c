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


def test_gram_schmidt_of_bad_condition_is_right_or_nan(monkeypatch):
    """Corrections make up for what one Cholesky factor loses; a matrix without an answer says so."""
    torch.manual_seed(0)
    monkeypatch.setattr(exact, "is_captured", lambda x: True)
    left, right = (torch.linalg.qr(torch.randn(24, 24, dtype=torch.float64))[0] for _ in range(2))
    u = left @ torch.diag(torch.logspace(0, -6, 24, dtype=torch.float64)) @ right
    q, t = iterative.cholesky_qr(torch.stack([u, u.clone().index_fill_(1, torch.tensor([3]), 0.0)]))
    want_q, want_t = exact.gram_schmidt(u.clone())
    torch.testing.assert_close(q[0].mT @ q[0], torch.eye(24, dtype=torch.float64), atol=1e-9, rtol=0)
    torch.testing.assert_close(q[0], want_q, atol=1e-6, rtol=0)
    torch.testing.assert_close(t[0], want_t.triu(), atol=1e-6, rtol=0)
    assert q[1].isnan().all()
