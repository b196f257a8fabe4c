"""Rv as one node: the same values and gradients as R by itself, whatever the user's matrix precision."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

import hypersphere as hs
from hypersphere.functional import orthogonalize
from hypersphere.functional.orthogonalize import Orthogonalizer, connect, methods, precision, rotate, solve
from hypersphere.functional.orthogonalize import algorithms as exact

METHODS = methods()


def gaussian(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("neurons", [1, 3, 9])
def test_gradients(method: str, neurons: int) -> None:
    """With few neurons Cayley's gradient is made of thin products, with many of square ones."""
    u, v = gaussian(2, 5, 5).requires_grad_(), gaussian(2, neurons, 5, seed=1).requires_grad_()

    def rotated(v: Tensor, u: Tensor) -> Tensor:
        return rotate(v, u, method, solve(u, method))

    torch.testing.assert_close(rotated(v, u), v @ orthogonalize(u, method).mT)
    assert torch.autograd.gradcheck(rotated, (v, u))
    assert torch.autograd.gradcheck(lambda u: connect(u, method, solve(u, method)), u)


@pytest.mark.parametrize("method", METHODS)
def test_shapes_without_memory(method: str) -> None:
    model = nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 2)).to("meta")
    out = hs.orthogonal.attach(model, method, neurons="keep")(torch.ones(3, 5, device="meta"))
    out.sum().backward()
    assert hs.orthogonal.merge(model)[0].weight.shape == (4, 5)  # type: ignore[index]


@pytest.mark.parametrize("method", ["cayley", "lowdin"])
@pytest.mark.parametrize("before", [True, False])
def test_a_matrix_changed_in_place_is_noticed(method: str, before: bool) -> None:
    """All reads of a step share R."""
    model = hs.orthogonal.attach(nn.Sequential(nn.Linear(5, 5), nn.Linear(5, 2)), method, neurons="keep")
    outs = [model(torch.ones(1, 5)).sum()] if before else []
    r = hs.orthogonal.matrices(model)["0.weight"]
    outs += [] if before else [model(torch.ones(1, 5)).sum(), r.sum()]
    with torch.no_grad():
        r.mul_(2)
    for out in outs:
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.backward()


def test_second_derivatives_go_as_far_as_the_map_has_them() -> None:
    u, v = gaussian(5, 5).requires_grad_(), gaussian(3, 5, seed=1).requires_grad_()
    w = rotate(v, u, "cayley", solve(u, "cayley"))
    of_v, of_u = torch.autograd.grad(w.sin().sum(), (v, u), create_graph=True)
    (mixed,) = torch.autograd.grad(of_v.square().sum(), u, retain_graph=True)
    r = orthogonalize(u, "cayley")
    (wanted,) = torch.autograd.grad((v @ r.mT).sin().sum(), v, create_graph=True)
    (expected,) = torch.autograd.grad(wanted.square().sum(), u)
    torch.testing.assert_close(mixed, expected)
    with pytest.raises(RuntimeError, match="no second derivative"):
        of_u.sum().backward()


@pytest.fixture
def rounding(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Products of float32 matrices with the digits of bfloat16, as "medium" makes them on processors that can."""
    multiply = torch.Tensor.__matmul__

    def coarse(a: Tensor, b: Tensor) -> Tensor:
        if a.dtype == torch.float32:
            return multiply(a.bfloat16().float(), b.bfloat16().float())
        return multiply(a, b)

    monkeypatch.setattr(torch.Tensor, "__matmul__", coarse)
    monkeypatch.setattr(precision, "_cpu_rounds", lambda setting: True)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    yield
    torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("method", METHODS)
def test_orthogonal_whatever_precision_the_user_chose(method: str, rounding: None) -> None:
    d = 40
    u = (gaussian(d, d) * (2 / d) ** 0.5).float()
    assert float((u @ u - (u.double() @ u.double())).abs().max()) > 1e-4  # the fixture does something
    r = orthogonalize(u, method).double()
    assert float((r.mT @ r - torch.eye(d)).abs().max()) < 5e-6
    assert torch.get_float32_matmul_precision() == "medium"  # the user's setting is not touched
    torch.set_float32_matmul_precision("highest")
    wanted = orthogonalize(u.double(), method)
    torch.testing.assert_close(r, wanted, atol=2e-6, rtol=0)


def test_weights_keep_their_lengths_whatever_precision(rounding: None) -> None:
    for method in ("cayley", "lowdin"):
        model = hs.orthogonal.attach(nn.Sequential(nn.Linear(30, 8), nn.Linear(8, 2)), method, neurons="gaussian")
        v, w = model[0].parametrizations.weight.original, model[0].weight
        torch.testing.assert_close(w.norm(dim=1), v.norm(dim=1), rtol=2e-6, atol=0)
        w.sum().backward()


@pytest.mark.parametrize("size", [1e4, 1e7, 1e8, 1e12, 1e30])
@pytest.mark.parametrize("d", [3, 6, 40])
def test_cayley_of_huge_matrices(size: float, d: int) -> None:
    """From its eigenvalues: orthogonal, of determinant 1, and −I on every plane that A turns."""
    u = (size * gaussian(d, d, seed=d)).float().requires_grad_()
    r = orthogonalize(u, "cayley")
    r.sum().backward()
    r = r.detach().double()
    assert float((r.mT @ r - torch.eye(d)).abs().max()) < 1e-6
    assert float(torch.det(r)) == pytest.approx(1.0, abs=1e-5)
    assert float(torch.trace(r)) == pytest.approx(-d if d % 2 == 0 else 2 - d, abs=1e-2 if size < 1e6 else 1e-4)
    assert u.grad is not None
    assert u.grad.isfinite().all()


def test_a_map_from_outside_works_by_name() -> None:
    """Declared once: in orthogonalize, attach and adapter alike."""
    hs.register("map", "half_cayley", Orthogonalizer(lambda u: exact.cayley(0.5 * u), _half_backward), label="half")
    u = gaussian(4, 4).requires_grad_()
    torch.testing.assert_close(orthogonalize(u, "half_cayley"), orthogonalize(0.5 * u, "cayley"))
    assert torch.autograd.gradcheck(lambda u: orthogonalize(u, "half_cayley"), u)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    hs.orthogonal.attach(model, "half_cayley", neurons="gaussian")
    model(torch.ones(1, 4)).sum().backward()


def _half_backward(grad: Tensor, r: Tensor) -> Tensor:
    return 0.5 * exact.cayley_backward(grad, r)
