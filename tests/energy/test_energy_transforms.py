"""Forward mode and function transforms of the energy, with tiles as without: never a silent zero."""

import pytest
import torch
from torch.autograd import forward_ad

from hypersphere.functional import energy

SETTINGS = [(2.0, "euclidean", False, False), (0.0, "euclidean", True, True), (1.0, "angular", True, False)]


def vectors(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def dense_and_tiled(s, distance, half_space, weighted, count=7):
    beta = vectors(count, seed=5).abs() + 0.5 if weighted else None
    return [lambda w, b=b: energy(w, s, distance, half_space, beta, block_size=b) for b in (None, 3)]


def difference(f, w, v, step=1e-6):
    return (f(w + step * v) - f(w - step * v)) / (2 * step)


@pytest.mark.parametrize("setting", SETTINGS)
def test_forward_mode_is_the_directional_derivative(setting):
    dense, tiled = dense_and_tiled(*setting)
    w, v = vectors(7, 4), vectors(7, 4, seed=1)
    value, tangent = torch.func.jvp(tiled, (w,), (v,))
    torch.testing.assert_close(value, dense(w))
    torch.testing.assert_close(tangent, difference(dense, w, v), rtol=1e-6, atol=1e-8)
    with forward_ad.dual_level():
        dual = tiled(forward_ad.make_dual(w, v))
        torch.testing.assert_close(forward_ad.unpack_dual(dual).tangent, tangent)


@pytest.mark.parametrize("setting", SETTINGS)
def test_function_transforms_agree_with_autograd(setting):
    dense, tiled = dense_and_tiled(*setting)
    w = vectors(7, 4).requires_grad_()
    (expected,) = torch.autograd.grad(dense(w), w)
    w = w.detach()
    torch.testing.assert_close(torch.func.grad(tiled)(w), expected)
    torch.testing.assert_close(torch.func.jacfwd(tiled)(w), expected)
    torch.testing.assert_close(torch.func.jacrev(tiled)(w), expected)
    hessian = torch.autograd.functional.hessian(dense, w)
    torch.testing.assert_close(torch.func.hessian(tiled)(w), hessian)
    torch.testing.assert_close(torch.func.jacrev(torch.func.grad(tiled))(w), hessian)


def test_maps_of_gradients_and_gradients_of_maps():
    dense, tiled = dense_and_tiled(2.0, "euclidean", False, True)
    sets = vectors(3, 7, 4)
    expected = torch.stack([torch.func.grad(dense)(w) for w in sets])
    torch.testing.assert_close(torch.vmap(torch.func.grad(tiled))(sets), expected)
    torch.testing.assert_close(torch.func.grad(lambda x: torch.vmap(tiled)(x).sum())(sets), expected)
    torch.testing.assert_close(torch.vmap(tiled)(sets), torch.stack([dense(w) for w in sets]))


def test_third_derivatives_are_refused_not_zero():
    _, tiled = dense_and_tiled(2.0, "euclidean", False, False)
    w, v = vectors(7, 4), vectors(7, 4, seed=1)

    def curvature(w):
        return (torch.func.jvp(torch.func.grad(tiled), (w,), (v,))[1] * v).sum()

    with pytest.raises(RuntimeError, match="third derivative"):
        torch.func.jvp(curvature, (w,), (v,))
    with pytest.raises(RuntimeError, match="third derivative"):
        torch.func.grad(curvature)(w)


def test_forward_mode_beyond_the_dense_limit():
    w, v = vectors(1100, 4), vectors(1100, 4, seed=1)
    expected = torch.autograd.functional.jvp(lambda x: energy(x, block_size=2000), w, v)[1]
    tangent = torch.func.jvp(energy, (w,), (v,))[1]
    assert tangent != 0
    torch.testing.assert_close(tangent, expected)
    torch.testing.assert_close(tangent, difference(energy, w, v, 1e-7), rtol=1e-4, atol=1e-9)
