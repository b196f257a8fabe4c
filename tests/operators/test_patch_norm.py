"""Patch norms: against loops, at every scale, with the gradient of zero patches."""

import pytest
import torch

import hypersphere as hs

patch_norm = hs.functional.patch_norm


def test_rectangular_windows():
    x = torch.randn(1, 2, 7, 6, dtype=torch.float64)
    out = patch_norm(x, (3, 1), stride=(2, 1), padding=(1, 0))
    unfolded = torch.nn.functional.unfold(x, (3, 1), padding=(1, 0), stride=(2, 1)).norm(dim=1)
    torch.testing.assert_close(out.flatten(1), unfolded)


@pytest.mark.parametrize("scale", [1e-35, 1e-25, 1e19, 1e25, 1e37])
@pytest.mark.parametrize("compiled", [False, True])
def test_right_at_every_scale_on_cpu(scale, compiled):
    x = torch.randn(2, 3, 5, 5, generator=torch.Generator().manual_seed(0))
    function = torch.compile(patch_norm, backend="aot_eager", fullgraph=True) if compiled else patch_norm
    torch.testing.assert_close(
        function(x * scale, 3, padding=1) / scale, patch_norm(x, 3, padding=1), rtol=2e-5, atol=0
    )
    big = (x * scale).requires_grad_()
    (grad,) = torch.autograd.grad(function(big, 3, padding=1).sum(), big)
    plain = x.clone().requires_grad_()
    (expected,) = torch.autograd.grad(patch_norm(plain, 3, padding=1).sum(), plain)
    torch.testing.assert_close(grad, expected, rtol=2e-5, atol=1e-6)


def test_half_precision_does_not_overflow():
    x = torch.full((1, 64, 3, 3), 6e4, dtype=torch.float16)
    out = patch_norm(x, 3)
    assert out.dtype == torch.float32
    assert out.item() == pytest.approx(x.float().norm().item(), rel=1e-6)


def test_zero_patches_have_norm_and_gradient_zero():
    x = torch.zeros(1, 2, 6, 6)
    x[..., 5, 5] = 1.0
    x.requires_grad_()
    out = patch_norm(x, 3, padding=1)
    (grad,) = torch.autograd.grad(out.sum(), x)
    assert out[0, 0, :4, :4].eq(0).all()
    assert grad.isfinite().all()
    assert grad[..., :4, :4].eq(0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_second_derivatives_by_function_transforms(dtype):
    x = torch.randn(1, 2, 4, 4, dtype=dtype, generator=torch.Generator().manual_seed(0))

    def curvature(norm):
        slope = torch.func.grad(lambda x: (norm(x) * x[:, :1]).sin().sum())
        return torch.func.grad(lambda x: slope(x).square().sum())(x)

    found = curvature(lambda x: patch_norm(x, 3, padding=1))
    ones = torch.ones(1, 2, 3, 3, dtype=dtype)
    expected = curvature(lambda x: torch.nn.functional.conv2d(x * x, ones, padding=1).sqrt())
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_infinite_patches_by_function_transforms():
    x = torch.ones(3, 2, 4, 4)
    x[1, 0, 0, 0], x[2] = torch.inf, 0
    torch.testing.assert_close(torch.vmap(lambda x: patch_norm(x[None], 3)[0])(x), patch_norm(x, 3))


def test_empty_batch():
    x = torch.zeros(0, 2, 5, 5, requires_grad=True)
    out = patch_norm(x, 3)
    assert out.shape == (0, 1, 3, 3)
    assert torch.autograd.grad(out.sum(), x)[0].shape == x.shape


@pytest.mark.parametrize(
    ("x", "arguments", "message"),
    [
        (torch.ones(2, 3), (3,), r"shape \(2, 3\).*spatial"),
        (torch.ones(2, 3, 4), ((3, 3),), r"one for each entry"),
        (torch.ones(2, 3, 4, 4), (3, 1, 0, 1, 2), r"groups=2 does not divide the 3"),
        (torch.ones(2, 3, 4, 4), (0,), r"kernel_size=0 must be at least 1"),
        (torch.ones(2, 3, 4, 4), (3, 0), r"stride=0 must be at least 1"),
        (torch.ones(2, 3, 4, 4), (3, (1, 1, 1)), r"stride=\(1, 1, 1\) must be a number or 2 numbers"),
        (torch.ones(2, 3, 4, 4), (3, 1, -1), r"padding=-1 must be at least 0"),
        (torch.ones(2, 3, 4, 4), (3, 1, 0, 0), r"dilation=0 must be at least 1"),
    ],
)
def test_wrong_shapes_are_named(x, arguments, message):
    with pytest.raises(ValueError, match=message):
        patch_norm(x, *arguments)


def test_padding_is_in_numbers():
    with pytest.raises(TypeError, match=r"padding='same' must be an int"):
        patch_norm(torch.ones(2, 3, 4, 4), 3, padding="same")


def test_lists_and_single_entries_are_read_as_torch_reads_them():
    x = torch.randn(2, 3, 7, 6)
    expected = patch_norm(x, 3, 2, 1, 1)
    assert torch.equal(patch_norm(x, [3, 3], [2], (1,), [1, 1]), expected)


@pytest.mark.parametrize("groups", [8, 16])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "dilation"), [(3, 1, 1, 1), (3, 2, 1, 1), ((3, 2), (2, 1), 0, 2), (5, 3, 4, 1)]
)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_many_groups_in_float32(groups, kernel, stride, padding, dilation, layout):
    """Where a depthwise convolution stands in for the sums; some patches are zero, and exactly so."""
    x = torch.randn(2, 16, 9, 10)
    x[:, :, 2:8, 2:8] = 0
    x = x.to(memory_format=layout).requires_grad_()
    exact = x.detach().double().requires_grad_()
    arguments = (kernel, stride, padding, dilation, groups)
    out, expected = patch_norm(x, *arguments), patch_norm(exact, *arguments)
    seed = torch.randn_like(out)
    torch.testing.assert_close(out.double(), expected, rtol=1e-6, atol=0)
    assert torch.equal(out == 0, expected == 0)
    (found,), (grad,) = torch.autograd.grad(out, x, seed), torch.autograd.grad(expected, exact, seed.double())
    torch.testing.assert_close(found.double(), grad, rtol=1e-5, atol=1e-6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(patch_norm(x, *arguments), out)
    (first,) = torch.autograd.grad(patch_norm(x, *arguments), x, seed, create_graph=True)
    (wide,) = torch.autograd.grad(patch_norm(exact, *arguments), exact, seed.double(), create_graph=True)
    (second,), (expected,) = torch.autograd.grad(first.sum(), x), torch.autograd.grad(wide.sum(), exact)
    torch.testing.assert_close(second.double(), expected, rtol=1e-4, atol=1e-5)
