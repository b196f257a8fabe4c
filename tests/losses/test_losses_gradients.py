"""Gradients against finite differences: at random points, and where angles are 0, π/m and π."""

import math

import pytest
import torch
from loss_cases import SOFTMAX, build

import hypersphere as hs

L = hs.losses
D, C = 4, 5


def checked(head, x, y, second=False, atol=1e-5):
    """gradcheck of the loss in the features and every parameter."""
    names = [name for name, _ in head.named_parameters()]
    values = [p.detach().clone().requires_grad_() for p in head.parameters()]

    def loss(x, *parameters):
        return torch.func.functional_call(head, dict(zip(names, parameters, strict=True)), (x, y))

    check = torch.autograd.gradgradcheck if second else torch.autograd.gradcheck
    return check(loss, (x.requires_grad_(), *values), atol=atol, rtol=1e-4)


def at_angle(theta):
    """A feature at the given angle from the first class vector, of length 1.7."""
    return 1.7 * torch.tensor([[math.cos(theta), math.sin(theta), 0, 0]], dtype=torch.float64)


@pytest.mark.parametrize("m", [2, 3, 4])
@pytest.mark.parametrize("cls", [L.LSoftmax, L.ASoftmax])
@pytest.mark.parametrize("chunk", [None, 2])
def test_polynomial_margins_at_the_knots(m, cls, chunk):
    head = cls(D, C, margin=m, dtype=torch.float64, chunk=chunk)
    with torch.no_grad():
        head.weight[0] = torch.tensor([1.3, 0, 0, 0])
    for theta in [0.0, *(j * math.pi / m for j in range(1, m)), math.pi]:
        assert checked(head, at_angle(theta), torch.tensor([0]), atol=1e-4)  # ψ'' jumps: O(step)


@pytest.mark.parametrize("case", [*SOFTMAX, "sphereface2", "plus"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_finite_at_parallel_and_opposite(case, dtype):
    head = build(case, D, C, dtype=dtype)
    with torch.no_grad():
        head.weight[1] = -2 * head.weight[0]
        head.weight[2] = head.weight[0]
    x = torch.stack([head.weight[0].detach() * 3, -head.weight[0].detach(), head.weight[3].detach()]).requires_grad_()
    loss = head(x, torch.tensor([0, 0, 4]))
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(t.grad).all() for t in (x, *head.parameters()))


@pytest.mark.parametrize("factor", [1e30, 1e-30])
@pytest.mark.parametrize("case", ["a_softmax", "ga_linear", "arcface", "r_v2", "sphereface2", "plus"])
def test_finite_at_every_scale(case, factor):
    head = build(case, D, C)
    with torch.no_grad():
        head.weight.mul_(1 / factor)
    x = (torch.randn(3, D) * factor).requires_grad_()
    loss = head(x, torch.tensor([0, 1, 2]))
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(x.grad).all()


def test_zero_features_have_the_plain_gradient_and_zero_class_vectors_none():
    head = L.ASoftmax(D, C)
    with torch.no_grad():
        head.weight[2] = 0
    x = torch.zeros(1, D, requires_grad=True)
    loss = head(x, torch.tensor([0]))
    loss.backward()
    assert loss.item() == pytest.approx(math.log(C))
    directions = hs.functional.unit(head.weight.detach())
    torch.testing.assert_close(x.grad[0], directions.mean(0) - directions[0])
    assert torch.equal(head.weight.grad[2], torch.zeros(D))
