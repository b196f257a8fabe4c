"""Lemmas 1 and 2 of the paper (sec. 2.3, supplement C), numerically.

G(U, V) = ½‖F − UVᵀ‖² with U (n, k), V (m, k), and G_S the same of rows scaled to length 1. At an optimum
rescaled to (cU, V/c) the restricted condition number κ (largest over smallest nonzero eigenvalue of the
Hessian) of G grows at least like c² when n, m > k. As printed the lemma does not ask for that, and for
n = m = k it fails; and G_S is invariant to scale but its Hessian is not: Lemma 2 holds because rows are
re-normalised after each step.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import hypersphere as hs

SCALES = (1.0, 2.0, 4.0, 8.0, 16.0)


def optimum(n: int, m: int, k: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """U and V with rows of length 1, as the paper assumes."""
    generator = torch.Generator().manual_seed(seed)
    u, v = (torch.randn(rows, k, generator=generator, dtype=torch.float64) for rows in (n, m))
    return u / u.norm(dim=1, keepdim=True), v / v.norm(dim=1, keepdim=True)


def hessian(u: Tensor, v: Tensor, f: Tensor, *, sphere: bool) -> Tensor:
    """Of G or G_S in all (n+m)k variables. G_S is our operator: cosine SphereLinear of V by U."""
    split = u.numel()

    def objective(point: Tensor) -> Tensor:
        a, b = point[:split].view_as(u), point[split:].view_as(v)
        product = hs.functional.decoupled_linear(b, a).T if sphere else a @ b.T
        return (f - product).square().sum() / 2

    return torch.autograd.functional.hessian(objective, torch.cat((u.flatten(), v.flatten())))


def eigenvalues(matrix: Tensor) -> Tensor:
    return torch.linalg.eigvalsh((matrix + matrix.T) / 2)


def conditions(n: int, m: int, k: int, seed: int = 0) -> list[float]:
    """κ of G at (cU, V/c) for each c, the k² zero eigenvalues of the symmetry UVᵀ = (UA)(VA⁻ᵀ)ᵀ left out."""
    u, v = optimum(n, m, k, seed)
    found = []
    for c in SCALES:
        values = eigenvalues(hessian(c * u, v / c, u @ v.T, sphere=False))
        zeros, rest = values[: k * k], values[k * k :]
        assert zeros.abs().max() < 1e-10 * values[-1]
        assert rest[0] > 1e-10 * values[-1]
        found.append((values[-1] / rest[0]).item())
    return found


def slope(values: list[float]) -> float:
    """Of log κ against log c, over the last doubling."""
    return math.log(values[-1] / values[-2]) / math.log(SCALES[-1] / SCALES[-2])


def test_hessian_is_the_papers() -> None:
    """Equation 12 at an optimum, in our order of variables: VᵀV for each row of U, UᵀU for each row of V."""
    u, v = optimum(3, 4, 2)
    h = hessian(u, v, u @ v.T, sphere=False)
    split = u.numel()
    torch.testing.assert_close(h[:split, :split], torch.block_diag(*[v.T @ v] * 3))
    torch.testing.assert_close(h[split:, split:], torch.block_diag(*[u.T @ u] * 4))
    i, a, j, b = 1, 0, 2, 1
    assert h[i * 2 + a, split + j * 2 + b].item() == pytest.approx((v[j, a] * u[i, b]).item())


@pytest.mark.parametrize(("n", "m", "k"), [(5, 4, 2), (4, 6, 3), (6, 6, 2)])
@pytest.mark.parametrize("seed", [0, 1])
def test_lemma_1_plain_condition_grows_at_least_like_c_squared(n: int, m: int, k: int, seed: int) -> None:
    kappa = conditions(n, m, k, seed)
    assert slope(kappa) >= 2
    assert kappa[-1] > SCALES[-1] ** 2 * kappa[0]  # also against the balanced start, from which κ may first fall
    assert slope(kappa) == pytest.approx(4, abs=0.1)  # λ_max grows like c² and λ_min falls like c⁻²


def test_lemma_1_fails_for_square_factors() -> None:
    """n = m = k: λ_min rises with λ_max, and κ stays where it was."""
    for k in (2, 3):
        kappa = conditions(k, k, k)
        assert slope(kappa) < 0.1
        assert kappa[-1] < SCALES[-1] * kappa[0]  # far from c²


@pytest.mark.parametrize(("n", "m", "k"), [(5, 4, 2), (4, 6, 3), (3, 3, 3)])
def test_lemma_2_on_the_sphere_nothing_grows(n: int, m: int, k: int) -> None:
    u, v = optimum(n, m, k)
    target = u @ v.T
    expected = eigenvalues(hessian(u, v, target, sphere=True))
    assert expected[-1] > 0.1
    layers = [hs.nn.SphereLinear(k, rows, dtype=torch.float64) for rows in (n, m)]
    projection = hs.optim.WeightProjection(torch.nn.ModuleList(layers), every=1)
    for c in SCALES[1:]:
        with torch.no_grad():
            layers[0].weight.copy_(c * u)
            layers[1].weight.copy_(v / c)
        projection.step()  # "after each iteration we normalise": the library's weight projection
        points = [layer.weight.detach() for layer in layers]
        torch.testing.assert_close(eigenvalues(hessian(*points, target, sphere=True)), expected, rtol=0, atol=1e-10)


def test_without_renormalisation_the_hessian_does_feel_the_scale() -> None:
    """G_S(cU, V/c) = G_S(U, V), but its derivatives carry 1/c and c: the last clause needs the projection."""
    u, v = optimum(5, 4, 2)
    target, c = u @ v.T, 8.0
    scaled = hessian(c * u, v / c, target, sphere=True)
    split = u.numel()
    at_one = hessian(u, v, target, sphere=True)
    torch.testing.assert_close(scaled[:split, :split], at_one[:split, :split] / c**2, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(scaled[split:, split:], at_one[split:, split:] * c**2, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(hs.functional.decoupled_linear(v / c, c * u).T, target)
