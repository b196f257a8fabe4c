"""Max pooling by kernels against torch's, with its sum of squares."""

import pytest
import torch
import torch.nn.functional as F

from hypersphere.functional.operators import fused_max_pool


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("size", "stride", "padding"), [(2, 2, 0), (3, 2, 1), (3, 1, 1), (2, 3, 0)])
def test_values_and_gradients(size, stride, padding, last):
    x = torch.randn(2, 5, 7 - (size == stride), 6)  # windows that cover all inputs, and not
    x = (x.contiguous(memory_format=torch.channels_last) if last else x).requires_grad_()
    y = x.detach().clone().requires_grad_()
    z, q = fused_max_pool(x, (size, size), (stride, stride), (padding, padding), True)
    expected = F.max_pool2d(y, size, stride, padding)
    squares = expected.square().sum(1, keepdim=True)
    dz, dq = torch.randn_like(expected), torch.randn_like(squares)
    torch.autograd.backward([z, q], [dz, dq])
    torch.autograd.backward([expected, squares], [dz, dq])
    torch.testing.assert_close(z, expected)
    torch.testing.assert_close(q, squares)
    torch.testing.assert_close(x.grad, y.grad)


def test_a_gradient_in_another_order():
    x = torch.randn(2, 3, 4, 6, requires_grad=True)
    factors = torch.randn(2, 2, 3, 3)
    found, expected = (
        torch.autograd.grad((z.permute(0, 2, 3, 1) * factors).sum(), x)[0]
        for z in (fused_max_pool(x, (2, 2), (2, 2), (0, 0), False)[0], F.max_pool2d(x, 2))
    )
    torch.testing.assert_close(found, expected)


def test_nan_is_the_largest():
    x = torch.randn(1, 2, 4, 4)
    x[0, 0, 1, 1] = float("nan")
    z, _ = fused_max_pool(x, (2, 2), (2, 2), (0, 0), False)
    torch.testing.assert_close(z, F.max_pool2d(x, 2), equal_nan=True)


def test_second_derivative():
    x = torch.randn(1, 2, 4, 4, requires_grad=True)

    def value(pool):
        z = pool(x)
        (grad,) = torch.autograd.grad(z.pow(3).sum() + z.square().sum().square(), x, create_graph=True)
        return torch.autograd.grad(grad.square().sum(), x)[0]

    def with_squares(x):
        z, q = fused_max_pool(x, (2, 2), (2, 2), (0, 0), True)
        return z + 0 * q

    torch.testing.assert_close(value(with_squares), value(lambda x: F.max_pool2d(x, 2)))
