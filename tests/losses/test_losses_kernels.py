"""The pass over the classes by kernels (in Triton's interpreter, without a GPU): the numbers of plain operations."""

import copy
from contextlib import nullcontext

import pytest
import torch
from loss_cases import ALL, build
from torch.utils._pytree import tree_leaves

import hypersphere as hs
from hypersphere import kernels
from hypersphere.losses import _direct

pytest.importorskip("triton")
L = hs.losses
N, D, C = 9, 20, 70


@pytest.fixture(autouse=True)
def _kernels(on_kernels):
    """On a GPU, or in Triton's interpreter."""


def outcome(head, x, y, half=False):
    x = x.clone().requires_grad_()
    with torch.autocast(x.device.type, torch.bfloat16, enabled=half):
        loss = head(x, y)
    return loss.detach(), *torch.autograd.grad(loss.sum(), [x, *head.parameters()])


def near(found, wanted, tolerance):
    for got, want in zip(found, wanted, strict=True):
        assert (got.double() - want).norm() <= tolerance * max(want.norm().item(), 1e-3)


def batch():
    """One sample is ignored, and may be anything."""
    x, y = 3 * torch.randn(N, D), torch.randint(0, C, (N,))
    x[3], y[3] = torch.nan, -100
    return x, y


@pytest.mark.parametrize("case", ALL)
def test_values_and_gradients(case):
    """Against float64: float32 to 1e-5 (s = 64 multiplies its rounding), bfloat16 products to a few of its digits."""
    head = build(case, D, C, chunk=32).eval()
    x, y = batch()
    exact = copy.deepcopy(head).double()
    wanted = outcome(exact, x.double(), y)
    kernels.LAUNCHES.clear()
    near(outcome(head, x, y), wanted, 2e-5)
    assert kernels.LAUNCHES["gradient_kernel"] == 3, dict(kernels.LAUNCHES)
    bounded = getattr(head, "scale", None) is not None and "curricular" not in case and case != "sphereface2"
    assert bounded <= (kernels.LAUNCHES["sums_kernel"] == 0), "e^u is bounded: forward prepares the gradients"
    near(outcome(head, x, y, half=True), wanted, 0.05)


@pytest.mark.parametrize(
    "case", ["softmax_bias", "ga_sigmoid", "ga_shared_k", "r_v2_annealed", "subcenter", "curricularface"]
)
@pytest.mark.parametrize("chunk", ["auto", 40])
def test_every_option(case, chunk):
    options = {"label_smoothing": 0.1, "class_weight": torch.rand(C), "reduction": "sum"}
    head = build(case, D, C, chunk=chunk, **options).eval()
    x, y = batch()
    wanted = outcome(copy.deepcopy(head).double(), x.double(), y)
    near(outcome(head, x, y), wanted, 1e-4)
    if chunk == 40:
        near(outcome(head, x, y, half=True), wanted, 0.05)


def test_the_target_is_exact_in_half_precision():
    """bfloat16 products do not touch its logit and its gradient."""
    head = L.ArcFace(D, 2, chunk="auto")
    with torch.no_grad():
        head.weight[1] = -head.weight[0]
    x = head.weight[:1].detach() + 0.3 * torch.randn(1, D)
    exact = outcome(copy.deepcopy(head).double(), x.double(), torch.tensor([1]))
    found = outcome(head, x, torch.tensor([1]), half=True)
    own = [g[1] if g.dim() == 2 and len(g) == 2 else None for g in found]
    assert found[0].item() == pytest.approx(exact[0].item(), rel=2e-3)
    assert (own[2].double() - exact[2][1]).norm() <= 1e-5 * exact[2][1].norm()


def test_second_derivatives_and_transforms_are_plain():
    head = L.ArcFace(D, C)
    x, y = batch()
    x.requires_grad_()
    (first,) = torch.autograd.grad(head(x, y), x, create_graph=True)
    second = torch.autograd.grad(first.square().sum(), [x, head.weight])
    exact = copy.deepcopy(head).double()
    wide = x.detach().double().requires_grad_()
    (first,) = torch.autograd.grad(exact(wide, y), wide, create_graph=True)
    near(second, torch.autograd.grad(first.square().sum(), [wide, exact.weight]), 1e-3)
    torch.func.grad(lambda a: head(a, y))(x.detach())


@pytest.mark.parametrize("kind", ["WSoftmax", "ArcFace"])
def test_hessians_of_many_directions_at_once(kind):
    head, x, y = getattr(hs.losses, kind)(2, 3).eval(), torch.randn(1, 2), torch.tensor([1])
    hessian = torch.autograd.functional.hessian
    one_by_one = hessian(lambda x: head(x, y), x)
    torch.testing.assert_close(hessian(lambda x: head(x, y), x, vectorize=True), one_by_one, rtol=1e-4, atol=1e-4)


def test_zeros_one_class_nan_and_half_parameters():
    for classes, dtype in ((5, torch.float32), (1, torch.float32), (5, torch.bfloat16)):
        head = L.ArcFace(D, classes, reduction="none", dtype=dtype)
        with torch.no_grad():
            head.weight[0].zero_()
        x = torch.randn(4, D)
        x[0] = 0
        x[1, 2] = torch.nan
        x.requires_grad_()
        loss = head(x, torch.tensor([0, 0, classes - 1, 0]))
        loss[[0, 2, 3]].sum().backward()
        assert loss.isnan().tolist() == [False, classes > 1, False, False] or loss[1].isnan()
        assert torch.isfinite(x.grad[[0, 2, 3]]).all()
        assert head.weight.grad.dtype == dtype
        if classes == 1:
            assert (loss[[0, 2, 3]] == 0).all()


def test_huge_and_tiny_vectors():
    for factor in (1e30, 1e-30):
        head = L.SSoftmax(D, C)
        plain = copy.deepcopy(head)
        plain.chunk = None
        with torch.no_grad():
            head.weight.mul_(factor)
        x, y = batch()
        torch.testing.assert_close(head(x / factor, y), plain(x, y), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("samples", "d", "scale", "at_once"), [(9, 32, 64.0, True), (9, 4, 64.0, False), (9, 20, 90.0, False)]
)
def test_gradients_are_prepared_where_there_is_room_and_e_to_the_logits_is_a_number(samples, d, scale, at_once):
    head = L.ArcFace(d, C, scale=scale, chunk=32)
    x, y = torch.randn(samples, d), torch.randint(0, C, (samples,))
    wanted = outcome(copy.deepcopy(head).double(), x.double(), y)
    for half in (False, True)[: 1 + at_once]:
        kernels.LAUNCHES.clear()
        near(outcome(head, x, y, half), wanted, 0.05 if half else 2e-5)
        assert (kernels.LAUNCHES["sums_kernel"] == 0) == at_once


def test_logits_at_both_ends_of_their_range():
    """All classes in the direction of a sample, and all opposite to it: e^±64, summed and inverted."""
    head = L.CosFace(D, C, scale=64.0, margin=0.1, reduction="none")
    x, y = torch.randn(2, D), torch.tensor([0, 1])
    with torch.no_grad():
        head.weight.copy_(x[0] * torch.linspace(0.5, 2, C)[:, None] + 1e-2 * torch.randn(C, D))
    x[1] = -x[0]
    near(outcome(head, x, y), outcome(copy.deepcopy(head).double(), x.double(), y), 1e-4)


def test_features_alone_and_nothing_at_all():
    """Class vectors that are not trained; a batch of which every sample is ignored."""
    head, (x, y) = L.ArcFace(D, C), batch()
    x.requires_grad_()
    (wanted,) = torch.autograd.grad(copy.deepcopy(head).double()(wide := x.detach().double().requires_grad_(), y), wide)
    (found,) = torch.autograd.grad(head.requires_grad_(False)(x, y), x)
    near([found], [wanted], 2e-5)
    head.requires_grad_(True).reduction = "sum"
    for grad in torch.autograd.grad(head(x, torch.full_like(y, -100)), [x, head.weight]):
        assert (grad == 0).all()


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_a_label_that_is_no_class_loses_nan_and_moves_nothing(reduction):
    """Where the range is not checked: on a GPU."""
    head, (x, y) = L.ArcFace(D, C), batch()
    y[5] = C
    settings = _direct.Additive(64.0, 0.5, True, reduction, -100, None, False)
    x.requires_grad_()
    loss = _direct.additive_loss(settings, lambda x, w: x, x, head.weight, y)
    wrong = torch.arange(N, device=y.device) == 5
    assert loss.isnan().tolist() == (wrong.tolist() if reduction == "none" else True)
    found = torch.autograd.grad(loss.sum(), [x, head.weight])
    y[5] = -100
    expected = torch.autograd.grad(head(x, y), [x, head.weight])
    scale = (N - 2) / (N - 1) if reduction == "mean" else N - 2  # the wrong label counts in the mean
    for one, two in zip(found, expected, strict=True):
        torch.testing.assert_close(one, scale * two, rtol=1e-4, atol=1e-6)


def test_an_additive_margin_is_one_node_and_serves_twice():
    """What waits in the gradient's memory is used up by the first backward pass: the second computes it again."""
    head, (x, y) = L.ArcFace(D, C, chunk=32), batch()
    x.requires_grad_()
    with torch.autocast(x.device.type, torch.bfloat16):
        loss = head(x, y)
    once = torch.autograd.grad(loss, [x, head.weight], retain_graph=True)
    assert (kernels.LAUNCHES["target_kernel"], kernels.LAUNCHES["target_backward_kernel"]) == (1, 1)
    again = torch.autograd.grad(loss, [x, head.weight])
    for one, two in zip(once, again, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-6)
    L.ArcFace(D, C, label_smoothing=0.1)(x, y)
    assert kernels.LAUNCHES["target_kernel"] == 1


def nodes(node):
    yield node
    for one, _ in node.next_functions:
        if one is not None:
            yield from nodes(one)


@pytest.mark.parametrize(
    ("case", "chunk", "half"),
    [("arcface", 32, True), ("r_v2", "auto", False), ("ga_sigmoid", 32, True), ("w_cosine", "auto", False)],
)
def test_autograd_has_all_that_is_kept(case, chunk, half):
    """Hooks that offload see every tensor; gradients changed in place do not disturb a retained graph."""
    head, (x, y) = build(case, D, C, chunk=chunk).eval(), batch()
    wanted = outcome(head, x, y, half)[1:]
    x.requires_grad_()
    for hooks in (torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach().clone(), torch.clone), nullcontext()):
        with hooks, torch.autocast(x.device.type, torch.bfloat16, enabled=half):
            loss = head(x, y)
        (node,) = {one for one in nodes(loss.grad_fn) if one.name().startswith(("_Fused", "_Additive"))}
        kept = [value for name, value in vars(node).items() if name != "settings"]  # which hold one number at most
        assert not any(isinstance(one, torch.Tensor) for one in tree_leaves(kept))
        for _ in range(2):
            head.zero_grad()
            x.grad = None
            loss.sum().backward(retain_graph=True)
            for one, two in zip([x, *head.parameters()], wanted, strict=True):
                torch.testing.assert_close(one.grad, two, rtol=1e-4, atol=1e-5)
                one.grad.mul_(2)
