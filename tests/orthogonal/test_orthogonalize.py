"""hs.functional.orthogonalize: the literal algorithms, gradients, determinants."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import ClassVar

import numpy as np
import orthogonal_reference as reference
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from harness import Case, Suite, draw
from hypersphere.functional import orthogonalize
from hypersphere.functional.orthogonalize import algorithms as exact
from hypersphere.functional.orthogonalize import iterations as iterative
from hypersphere.functional.orthogonalize import methods

METHODS = methods()
LITERAL = {
    "gram_schmidt": reference.gram_schmidt,
    "householder": lambda u: reference.householder(u)[0],
    "lowdin": reference.lowdin,
    "cayley": reference.cayley,
    "exponential": reference.exponential,
}


def literally(method: str) -> Callable[[np.ndarray], np.ndarray]:
    return lambda u: np.stack([LITERAL[method](one) for one in u])


class TestMaps(Suite):
    cases: ClassVar = {
        **{
            f"{method} of {d} dimensions": Case(
                lambda method=method: lambda u: orthogonalize(u, method),
                lambda d=d: (draw(4, d, d),),
                literally(method),
                "value",
                1e-9,
            )
            for method, d in itertools.product(METHODS, [1, 2, 3, 9, 24])
        },
        **{
            method: Case(
                lambda method=method: lambda u: orthogonalize(u, method),
                lambda: (draw(2, 5, 5),),
                literally(method),
                "value gradient dtype autocast compile export",
                1e-9,
                half=0.1,
            )
            for method in METHODS
        },
    }


def gaussian(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def defect(r: Tensor) -> float:
    r = r.detach().double()
    return float((r.mT @ r - torch.eye(r.shape[-1], dtype=r.dtype)).abs().max())


@settings(deadline=None, max_examples=30)
@given(
    d=st.integers(2, 40),
    power=st.floats(0, 12),
    kind=st.sampled_from(["even", "one small", "one large", "triangular"]),
    seed=st.integers(0, 10**6),
)
def test_gram_schmidt_of_ill_conditioned_float32_matrices(d: int, power: float, kind: str, seed: int) -> None:
    """However near to singular: orthogonal, and the float64 answer where float32 determines one."""
    w, v = (torch.linalg.qr(gaussian(d, d, seed=seed + i))[0] for i in range(2))
    small = 10.0**-power
    values = {
        "even": torch.logspace(0, -power, d, dtype=torch.float64),
        "one small": torch.ones(d, dtype=torch.float64).index_fill_(0, torch.tensor([d - 1]), small),
        "one large": torch.full((d,), small, dtype=torch.float64).index_fill_(0, torch.tensor([0]), 1.0),
    }
    if kind == "triangular":  # pivots all 1, condition up to 2^d
        u = torch.eye(d, dtype=torch.float64) - torch.ones(d, d, dtype=torch.float64).triu(1) + small * w
    else:
        u = (w * values[kind]) @ v
    r = orthogonalize(u.float(), "gram_schmidt")
    assert defect(r) <= 1e-5
    if power <= 3 and kind != "triangular":
        torch.testing.assert_close(r.double(), orthogonalize(u.float().double(), "gram_schmidt"), rtol=0, atol=1e-3)


def test_iterative_gram_schmidt_is_the_same_map() -> None:
    u = gaussian(12, 12)
    np.testing.assert_allclose(
        orthogonalize(u, "gram_schmidt"), reference.iterative_gram_schmidt(u.numpy()), atol=1e-12
    )


def test_householder_is_gram_schmidt_up_to_the_last_sign() -> None:
    differing = 0
    for seed in range(12):
        u = gaussian(5, 5, seed=seed)
        hr, gs = orthogonalize(u, "householder"), orthogonalize(u, "gram_schmidt")
        torch.testing.assert_close(hr[:, :-1], gs[:, :-1])
        torch.testing.assert_close(hr[:, -1].abs(), gs[:, -1].abs())
        differing += bool((hr - gs).abs().max() > 0.1)
    assert 0 < differing < 12


@pytest.mark.parametrize("diagonal", [(1.0, 1.0, 1.0), (-1.0, 2.0, -3.0), (1.0, -1.0, -2.0)])
def test_householder_leaves_triangular_matrices_alone_as_algorithm_3_does(diagonal: tuple[float, ...]) -> None:
    u = torch.diag(torch.tensor(diagonal, dtype=torch.float64)) + gaussian(3, 3).triu(1)
    expected, reflections = reference.householder(u.numpy())
    assert reflections == 0
    np.testing.assert_allclose(orthogonalize(u, "householder"), expected, atol=1e-12)


@pytest.mark.parametrize("d", [4, 5])
def test_determinants(d: int) -> None:
    for seed in range(6):
        u = gaussian(d, d, seed=seed)
        det = {method: float(torch.det(orthogonalize(u, method))) for method in METHODS}
        sign = float(torch.sign(torch.det(u)))
        reflections = reference.householder(u.numpy())[1]
        expected = [sign, (-1.0) ** reflections, sign, 1.0, 1.0]
        assert [det[m] for m in METHODS] == pytest.approx(expected, abs=1e-10)


def test_lowdin_is_the_nearest_orthogonal_matrix() -> None:
    u = gaussian(6, 6)
    nearest = float((orthogonalize(u, "lowdin") - u).norm())
    for method in ("gram_schmidt", "householder", "cayley", "exponential"):
        assert float((orthogonalize(u, method) - u).norm()) > nearest
    for seed in range(20):  # and than its neighbours on the manifold
        step = orthogonalize(0.05 * gaussian(6, 6, seed=seed), "exponential")
        assert float((orthogonalize(u, "lowdin") @ step - u).norm()) > nearest


def test_gradient_of_the_halved_inverse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "_SPLIT", 3)
    u = gaussian(2, 11, 11).requires_grad_()
    np.testing.assert_allclose(
        orthogonalize(u, "cayley")[0].detach(), reference.cayley(u[0].detach().numpy()), atol=1e-10
    )
    assert torch.autograd.gradcheck(lambda u: orthogonalize(u, "cayley"), u)


@pytest.mark.parametrize(
    ("forward", "backward"),
    [
        (iterative.cholesky_qr, exact.qr_backward),
        (iterative.polynomial_polar, iterative.polynomial_polar_backward),
    ],
)
def test_algorithms_for_gpus_are_the_same_maps(forward, backward) -> None:
    method = "gram_schmidt" if forward is iterative.cholesky_qr else "lowdin"
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-4)):
        u, grad = gaussian(3, 12, 12, dtype=dtype), gaussian(3, 12, 12, seed=1, dtype=dtype)
        r, *kept = forward(u)
        leaf = u.clone().requires_grad_()
        expected = orthogonalize(leaf, method)
        (wanted,) = torch.autograd.grad(expected, leaf, grad)
        torch.testing.assert_close(r, expected.detach(), atol=tolerance, rtol=0)
        torch.testing.assert_close(backward(grad, r, *kept), wanted, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("forward", [iterative.cholesky_qr, iterative.polynomial_polar])
def test_algorithms_for_gpus_fall_back_where_they_fail(forward) -> None:
    u = gaussian(6, 6)
    u[:, 3] = u[:, 2]
    r, *kept = forward(u)
    assert defect(r) < 1e-10
    backward = exact.qr_backward if forward is iterative.cholesky_qr else iterative.polynomial_polar_backward
    assert backward(gaussian(6, 6, seed=1), r, *kept).isfinite().all()


def test_lowdin_gradient_where_all_singular_values_coincide() -> None:
    u = torch.eye(7, dtype=torch.float64, requires_grad=True)
    grad = gaussian(7, 7)
    (at_identity,) = torch.autograd.grad(orthogonalize(u, "lowdin"), u, grad)
    torch.testing.assert_close(at_identity, (grad - grad.mT) / 2)
    q = orthogonalize(gaussian(7, 7, seed=2), "gram_schmidt")
    leaf = (3.0 * q).requires_grad_()
    assert torch.autograd.gradcheck(lambda u: orthogonalize(u, "lowdin"), leaf)
