"""hs.functional.orthogonalize at its edges: precision, lost ranks, transforms and compilers, what is refused."""

from __future__ import annotations

from typing import Any

import orthogonal_reference as reference
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_orthogonalize import METHODS, defect, gaussian
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import hypersphere as hs
from harness import draw
from hypersphere.functional import Orthogonalizer, orthogonalize, register_orthogonalizer
from hypersphere.functional.orthogonalize import algorithms as exact


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("d", [36, 144, 300])
def test_float32_is_orthogonal_to_1e_5(method: str, d: int) -> None:
    for scale in (1.0, d**-0.5):
        assert defect(orthogonalize(scale * gaussian(d, d, dtype=torch.float32), method)) <= 1e-5


@pytest.mark.parametrize(("method", "scale"), [("cayley", 1e2), ("cayley", 1e4), ("cayley", 1e7), ("exponential", 1e3)])
def test_float32_is_orthogonal_for_large_skew_matrices(method: str, scale: float) -> None:
    for d in (5, 60):
        assert defect(orthogonalize(scale * gaussian(d, d, dtype=torch.float32), method)) <= 1e-5


@pytest.mark.parametrize("d", [36, 144, 300])
def test_lowdin_in_float32_is_close_to_the_float64_polar_factor(d: int) -> None:
    u = gaussian(d, d, seed=d, dtype=torch.float32)
    expected = torch.from_numpy(reference.lowdin(u.double().numpy()))
    assert float((orthogonalize(u, "lowdin") - expected).abs().max()) < 5e-6


@given(st.integers(2, 7), st.integers(0, 10_000), st.sampled_from(METHODS), st.floats(1e-12, 1e12))
@settings(deadline=None, max_examples=30)
def test_orthogonal_whatever_the_matrix(d: int, seed: int, method: str, scale: float) -> None:
    scale = min(scale, 10.0) if method == "exponential" else scale
    assert defect(orthogonalize(scale * gaussian(d, d, seed=seed), method)) < 1e-8


@pytest.mark.parametrize("method", ["gram_schmidt", "householder", "lowdin"])
@pytest.mark.parametrize("rank", [0, 1, 3, 5])
def test_rank_deficient_matrices_give_finite_results(method: str, rank: int) -> None:
    u = (gaussian(6, rank) @ gaussian(rank, 6, seed=1)).float().requires_grad_()
    r = orthogonalize(u, method)
    assert defect(r) <= 1e-5
    (grad,) = torch.autograd.grad(r, u, gaussian(6, 6, seed=2, dtype=torch.float32))
    assert grad.isfinite().all()
    assert float(grad.abs().max()) < 1e6


def test_one_lost_rank_still_has_lowdins_gradient() -> None:
    u = gaussian(4, 3) @ gaussian(3, 4, seed=1)
    leaf = u.clone().requires_grad_()
    weights = gaussian(4, 4, seed=3)
    (grad,) = torch.autograd.grad((orthogonalize(leaf, "lowdin") * weights).sum(), leaf)
    direction = orthogonalize(u, "lowdin") @ reference_symmetric(4)  # keeps the polar factor: derivative 0
    assert float((grad * direction).sum().abs()) < 1e-8


def reference_symmetric(d: int) -> Tensor:
    s = gaussian(d, d, seed=9)
    return s @ s.mT


@pytest.mark.parametrize("method", METHODS)
def test_batches_are_their_matrices(method: str) -> None:
    u = gaussian(2, 3, 4, 4)
    together = orthogonalize(u, method)
    for i in range(2):
        for j in range(3):
            torch.testing.assert_close(together[i, j], orthogonalize(u[i, j], method))
    assert orthogonalize(u[:0], method).shape == (0, 3, 4, 4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype: torch.dtype) -> None:
    u = gaussian(6, 6, dtype=dtype).requires_grad_()
    r = orthogonalize(u, "lowdin")
    assert r.dtype == dtype
    torch.testing.assert_close(r, orthogonalize(u.detach().float(), "lowdin").to(dtype), atol=0, rtol=0)
    r.float().sum().backward()
    assert u.grad is not None
    assert u.grad.dtype == dtype


@pytest.mark.parametrize("method", METHODS)
def test_autocast_does_not_reach_it(method: str) -> None:
    u = gaussian(20, 20, dtype=torch.float32)
    expected = orthogonalize(u, method)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(orthogonalize(u, method), expected, atol=0, rtol=0)


@pytest.mark.parametrize("method", METHODS)
def test_transforms(method: str) -> None:
    def loss(u: Tensor) -> Tensor:
        return orthogonalize(u, method).sin().sum()

    u = gaussian(5, 5, dtype=torch.float32).requires_grad_()
    (expected,) = torch.autograd.grad(loss(u), u)
    torch.testing.assert_close(torch.func.grad(loss)(u.detach()), expected)
    batch = gaussian(3, 5, 5, seed=1, dtype=torch.float32)
    torch.testing.assert_close(torch.vmap(lambda u: orthogonalize(u, method))(batch), orthogonalize(batch, method))
    torch.testing.assert_close(
        torch.vmap(torch.func.grad(loss))(batch), torch.stack([torch.func.grad(loss)(b) for b in batch])
    )


@pytest.mark.slow
def test_compiles_with_inductor() -> None:
    u = gaussian(6, 6, dtype=torch.float32)
    compiled = torch.compile(lambda u: orthogonalize(u, "lowdin") * 2, fullgraph=True)
    torch.testing.assert_close(compiled(u), orthogonalize(u, "lowdin") * 2)


def test_a_second_derivative_is_refused() -> None:
    u = gaussian(4, 4).requires_grad_()
    (grad,) = torch.autograd.grad(orthogonalize(u, "cayley").sum(), u, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivative"):
        grad.sum().backward()
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.func.grad(lambda u: torch.func.grad(lambda u: orthogonalize(u, "cayley").sum())(u).sum())(u.detach())


def test_forward_mode_is_refused() -> None:
    u = gaussian(4, 4)
    with pytest.raises(RuntimeError, match="no forward mode: use reverse mode"):
        torch.func.jvp(lambda u: orthogonalize(u, "lowdin"), (u,), (u,))
    with torch.autograd.forward_ad.dual_level(), pytest.raises(RuntimeError, match="no forward mode"):
        orthogonalize(torch.autograd.forward_ad.make_dual(u, u), "cayley")


def test_several_backward_passes_through_one_matrix() -> None:
    u = gaussian(4, 4).requires_grad_()
    r = orthogonalize(u, "gram_schmidt")
    first, second = (r[0] ** 2 * r[1]).sum(), r[2].sin().sum()
    first.backward()
    second.backward()
    total = u.grad
    r = orthogonalize(u, "gram_schmidt")
    (expected,) = torch.autograd.grad((r[0] ** 2 * r[1]).sum() + r[2].sin().sum(), u)
    torch.testing.assert_close(total, expected)


@pytest.mark.parametrize("method", ["cayley", "gram_schmidt"])
def test_a_matrix_changed_in_place_is_noticed(method: str) -> None:
    """Its gradient would be that of another matrix."""
    r = orthogonalize(gaussian(4, 4).requires_grad_(), method)
    r.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        r.sum().backward()
    with torch.inference_mode():
        orthogonalize(gaussian(4, 4), method).mul_(2)


def test_another_algorithm_can_be_registered_for_a_device() -> None:
    calls = []

    def forward(u: Tensor) -> tuple[Tensor, ...]:
        calls.append("forward")
        return exact.cayley(u)

    used = register_orthogonalizer("cayley", "cpu", Orthogonalizer(forward, exact.cayley_backward))
    try:
        u = gaussian(3, 3)
        torch.testing.assert_close(orthogonalize(u, "cayley"), torch.from_numpy(reference.cayley(u.numpy())))
        assert calls == ["forward"]
    finally:
        register_orthogonalizer("cayley", "cpu", used)
    orthogonalize(u, "cayley")
    assert calls == ["forward"]
    with pytest.raises(TypeError, match="Orthogonalizer"):
        register_orthogonalizer("cayley", "cpu", forward)  # type: ignore[arg-type]


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="did you mean 'cayley'"):
        orthogonalize(torch.eye(3), "caylay")
    with pytest.raises(ValueError, match="square"):
        orthogonalize(torch.randn(3, 4), "lowdin")
    with pytest.raises(ValueError, match="square"):
        orthogonalize(torch.randn(3), "lowdin")
    for attached in ("canonical", "cholesky"):  # orthogonal, and not
        with pytest.raises(TypeError, match=r"works only in hs\.orthogonal\.attach"):
            orthogonalize(torch.eye(3), attached)
    with pytest.raises(TypeError, match="floating-point"):
        orthogonalize(torch.eye(3).long(), "lowdin")
    with pytest.raises(TypeError, match=r"torch\.Tensor"):
        hs.functional.orthogonalize([[1.0]], "lowdin")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("method", "wrong"), [("lowdin", "nan"), ("exponential", "nan"), ("exponential", "inf"), ("cayley", "inf")]
)
@pytest.mark.parametrize("d", [3, 40])
def test_what_is_not_finite_is_named_where_a_factorization_would_fail(method: str, wrong: str, d: int) -> None:
    u = torch.eye(d)
    u[d - 1, 0] = float(wrong)
    with pytest.raises(ValueError, match="u has NaN or infinite entries"):
        orthogonalize(u, method)


@pytest.mark.parametrize("method", ["gram_schmidt", "householder"])
@pytest.mark.parametrize("d", [3, 40])
def test_what_is_not_finite_is_carried_on_elsewhere(method: str, d: int) -> None:
    u = torch.eye(d)
    u[d - 1, 0] = torch.nan
    assert not torch.isfinite(orthogonalize(u, method)).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_angles_too_large_for_an_exponential_are_named(dtype: torch.dtype) -> None:
    for size in (2 / torch.finfo(dtype).eps, 1e19 if dtype == torch.float32 else 1e300):
        u = size * torch.randn(4, 4, generator=torch.Generator().manual_seed(0), dtype=dtype)
        with pytest.raises(ValueError, match="too large: the angles"):
            orthogonalize(u, "exponential")
    with pytest.raises(ValueError, match="too large: the angles"):
        torch.func.vmap(lambda a: orthogonalize(a, "exponential"))(u[None])


class TestGradientOfTheExponential:
    """By eigenvectors on a CPU, by the exponential of a matrix of twice the size elsewhere: one adjoint."""

    @pytest.mark.parametrize("kind", ["gaussian", "large", "zero", "one plane", "equal planes"])
    @pytest.mark.parametrize("d", [1, 2, 5, 24])
    def test_both_ways_agree(self, kind: str, d: int) -> None:
        u = draw(3, d, d)
        if kind == "large":
            u = 20 * u
        elif kind != "gaussian":
            planes = {"zero": [], "one plane": [0], "equal planes": range(0, d - 1, 2)}[kind]
            u = torch.zeros_like(u)
            for plane in planes:
                u[:, plane + 1 : plane + 2, plane] = 0.7  # A has eigenvalues ±0.7i, each as often as there are planes
        grad = draw(3, d, d, seed=1)
        kept = exact.exponential(u)
        want = exact.exponential_backward(grad, *kept)
        torch.testing.assert_close(exact.exponential_backward_spectral(grad, *kept), want, rtol=1e-9, atol=1e-9)

    def test_in_single_precision_it_is_near_double(self) -> None:
        u, grad = (gaussian(128, 128, seed=seed, dtype=torch.float32) for seed in (0, 1))
        errors = []
        for backward in (exact.exponential_backward_spectral, exact.exponential_backward):
            want = exact.exponential_backward(grad.double(), *exact.exponential(u.double()))
            found = backward(grad, *exact.exponential(u))
            errors.append(float((found - want).norm() / want.norm()))
        assert errors[0] < 5e-6
        assert errors[0] < 2 * errors[1]

    def test_a_cpu_sees_no_matrix_of_twice_the_size(self) -> None:
        u = gaussian(12, 12).requires_grad_()
        with Widest() as seen:
            orthogonalize(u, "exponential").sum().backward()
        assert seen.size == 12


class Widest(TorchDispatchMode):
    """How long the longest row is that an operation returns."""

    size = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        rows = [part.shape[-1] for part in tree_leaves(result) if isinstance(part, Tensor) and part.dim() > 1]
        self.size = max([self.size, *rows])
        return result
