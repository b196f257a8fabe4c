"""Linear layers with g = cos as compiled graphs have them in half precision, against float64."""

import copy

import pytest
import torch
from block_reference import ACTIVATIONS, Case, distance
from torch import nn

import hypersphere as hs
from hypersphere import kernels
from hypersphere.functional.magnitude import DEFAULT_BETA, MAGNITUDES
from hypersphere.functional.operators.rows import fused_rows, takes
from hypersphere.kernels.spec import Fields


def rows(x, weight, q=None, scale=None, shift=None, rho=None, leaks=None, give_q=False, **settings):
    f = Fields(rho=None if rho is not None else 1.0, leak=0.1, **settings)
    return fused_rows(f, x, q, weight, scale, shift, rho, leaks, give_q)


def check(case, tolerance=1e-4):
    """In float32, so that what is left is the error of GELU's short polynomial."""
    case.make()
    expected = case.expected()
    t = {name: v.float().flatten(1) if v.dim() == 4 else v.float() for name, v in case.tensors.items()}
    t = {name: v.requires_grad_() for name, v in t.items()}
    q = t["x"].square().sum(1, keepdim=True) if case.chained else None
    settings = {"magnitude": case.h, "beta": DEFAULT_BETA.get(case.h, 0.0), "activation": case.act}
    z, q = rows(**t, q=q, give_q=True, **settings)
    torch.autograd.backward([z, q], [case.dz.flatten(1), case.dq.flatten(1)])
    found = {"z": z, "q": q} | {f"d{name}": v.grad for name, v in t.items()}
    for name, value in expected.items():
        assert distance(found[name].detach(), value.view_as(found[name])) < tolerance, (name, case)
    without = rows(**t, q=t["x"].square().sum(1, keepdim=True) if case.chained else None, **settings)
    assert torch.equal(z, without[0])
    assert without[1] is None


LINEAR = {"g": "cosine", "kernel": 1, "padding": 0, "size": (1, 1), "batch": 40, "channels": 7, "norm": "none"}


@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.parametrize("h", MAGNITUDES)
def test_every_h(h, chained):
    check(Case(h=h, act="gelu", chained=chained, **LINEAR))


@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.parametrize("act", ACTIVATIONS)
def test_activations(act, chained):
    check(Case(act=act, learnable=True, chained=chained, **LINEAR))


def test_the_ends():
    """Rows along and against a filter, of zeros, with infinities and NaN; filters of any length, one of zeros."""
    weight = torch.eye(4, 3) * torch.tensor([1e-30, 1e30, 1.0, 0.0])[:, None]
    x = torch.tensor([[2.0, 0, 0], [-3, 0, 0], [0, 0, 0], [0, float("inf"), 0], [0, 0, float("nan")]])
    for q in (None, x.square().sum(1, keepdim=True)):
        x.requires_grad_()
        z, _ = rows(x, weight, q)
        torch.testing.assert_close(z[:3, 0], torch.tensor([1.0, -1, 0]))
        assert not z[:3, 1:].any()
        assert z[3:].isnan().all()
        (grad,) = torch.autograd.grad(z[:3].sum(), x)
        assert grad[:3].isfinite().all()
        x = x.detach()


@pytest.mark.parametrize("alpha", [1.0, 2.0])
def test_gradients_of_the_smallest_norms(alpha):
    """1/n² may overflow, and an entry of 0 would make it NaN."""
    x = (torch.tensor([1.0, 0.0, 2.0]) * 10.0 ** -torch.arange(10.0, 26.0)[:, None]).requires_grad_()
    for q in (None, x.square().sum(1, keepdim=True)):
        z, _ = rows(x, torch.eye(4, 3), q, alpha=alpha)
        (grad,) = torch.autograd.grad(1000 * z.sum(), x)
        assert grad.isfinite().all()
        assert z[:6].any(1).all()


def test_any_order_in_memory():
    outcomes = []
    seed = torch.randn(6, 4, dtype=torch.bfloat16)
    for x in (torch.arange(18.0).view(3, 6).t(), torch.arange(18.0).view(3, 6).t().contiguous()):
        x = x.bfloat16().requires_grad_()
        z, _ = rows(x, torch.eye(4, 3), shift=torch.ones(4), activation="gelu")
        outcomes.append((z, torch.autograd.grad(z, x, seed.t().contiguous().t())[0]))
    assert torch.equal(outcomes[0][0], outcomes[1][0])
    assert torch.equal(outcomes[0][1], outcomes[1][1])


def test_float16_takes_long_rows():
    x = torch.full((1, 512), 6e4, dtype=torch.float16)
    z, _ = rows(x, torch.ones(1, 512), x.float().square().sum(1, keepdim=True))
    assert abs(float(z) - 1) < 1e-3


def test_compiled_without_a_graph_break_and_without_kernels():
    layers = hs.nn.SphereLinear(24, 32, True), nn.GELU(), hs.nn.SphereLinear(32, 24, True)
    model = hs.nn.fuse(nn.Sequential(nn.LayerNorm(24), *layers))
    x = torch.randn(3, 20, 24)
    exact, wide = copy.deepcopy(model).double(), x.double().requires_grad_()
    exact(wide).square().sum().backward()
    kernels.LAUNCHES.clear()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    x.requires_grad_()
    with torch.autocast(x.device.type, torch.bfloat16):
        out = compiled(x)
    assert out.dtype == torch.bfloat16
    out.float().square().sum().backward()
    assert not kernels.LAUNCHES
    for mine, theirs in zip((x, *model.parameters()), (wide, *exact.parameters()), strict=True):
        assert distance(mine.grad, theirs.grad) < 0.04


def test_what_is_left_to_the_kernels():
    x = torch.zeros(1, 1, dtype=torch.bfloat16)
    assert takes(Fields(), x)
    assert not takes(Fields(), x.float())
    for other in ({"angular": "sigmoid"}, {"running": True}, {"norm": "train"}):
        assert not takes(Fields(**other), x)
