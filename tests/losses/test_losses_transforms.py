"""Second derivatives, per-sample gradients and forward mode of every head, dense and in blocks."""

import copy
import itertools

import numpy as np
import pytest
import torch
from loss_cases import ALL, build
from torch.autograd import forward_ad

import hypersphere as hs

L = hs.losses
D, C, N = 4, 5, 3
CHUNKS = [None, 2]


def batch(dtype=torch.float64):
    return torch.randn(N, D, dtype=dtype), torch.tensor([0, 4, 1])


def penalty_gradients(head, x, y):
    """Gradients of ‖∂L/∂x‖², which needs the second derivatives, in the features and every parameter."""
    x = x.detach().requires_grad_()
    (first,) = torch.autograd.grad(head(x, y), x, create_graph=True)
    wanted = [x, *head.parameters()]
    return torch.autograd.grad(first.square().sum(), wanted, allow_unused=True)


@pytest.mark.parametrize("case", ALL)
def test_second_derivatives_do_not_depend_on_blocks(case):
    dense = build(case, D, C, dtype=torch.float64, chunk=None).double().eval()
    blocks = build(case, D, C, dtype=torch.float64, chunk=2).double().eval()
    blocks.load_state_dict(dense.state_dict())
    x, y = batch()
    for expected, got in zip(penalty_gradients(dense, x, y), penalty_gradients(blocks, x, y), strict=True):
        assert (expected is None) == (got is None)
        if expected is not None:
            torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("cls", [L.ArcFace, L.CosFace, L.SSoftmax])
def test_second_derivatives_are_finite_where_the_target_is_far_behind(cls, smoothing):
    """Logits of ±64: the target's probability is 0 in float32, and float64 says what the derivative is."""
    head = cls(D, C, scale=64.0, label_smoothing=smoothing)
    x = torch.cat([-3 * head.weight.detach()[:2], torch.randn(30, D)])
    y = torch.tensor([0, 1, *(torch.arange(30) % C).tolist()])
    single = penalty_gradients(head, x, y)
    double = penalty_gradients(copy.deepcopy(head).double(), x.double(), y)
    for got, expected in zip(single, double, strict=True):
        assert torch.isfinite(got).all()
        torch.testing.assert_close(got.double(), expected, rtol=1e-3, atol=1e-4 * expected.abs().max().item())


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("case", ALL)
def test_gradients_of_each_sample(case, chunk):
    head = build(case, D, C, dtype=torch.float64, chunk=chunk).double().eval()
    x, y = batch()
    expected = torch.stack([torch.autograd.grad(head(a[None], b[None]), a)[0]
                            for a, b in zip(x.clone().requires_grad_().unbind(), y, strict=True)])  # fmt: skip
    got = torch.vmap(torch.func.grad(lambda a, b: head(a[None], b[None])))(x, y)
    torch.testing.assert_close(got, expected)
    parameters = dict(head.named_parameters())

    def of_parameters(values, a, b):
        return torch.func.functional_call(head, values, (a[None], b[None]))

    each = torch.vmap(torch.func.grad(of_parameters), (None, 0, 0))(parameters, x, y)
    head(x, y).backward()
    for name, parameter in parameters.items():
        torch.testing.assert_close(each[name].mean(0), parameter.grad)


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("case", ["softmax", "a_softmax", "arcface", "r_v2", "sphereface2", "plus"])
def test_forward_mode(case, chunk):
    head = build(case, D, C, dtype=torch.float64, chunk=chunk).eval()
    (x, y), v = batch(), torch.randn(N, D, dtype=torch.float64)
    expected = (torch.autograd.grad(head(x.requires_grad_(), y), x)[0] * v).sum()
    torch.testing.assert_close(torch.func.jvp(lambda a: head(a, y), (x.detach(),), (v,))[1], expected)
    with forward_ad.dual_level():
        dual = head(forward_ad.make_dual(x.detach(), v), y)
        torch.testing.assert_close(forward_ad.unpack_dual(dual).tangent, expected)


@pytest.mark.parametrize("make", [lambda: L.CenterLoss(L.Softmax(D, C)), lambda: L.ContrastiveLoss(L.Softmax(D, C)),
                                  lambda: L.TripletLoss(D, C)])  # fmt: skip
def test_comparison_losses_under_function_transforms(make):
    loss = make().double().eval()
    x, y = torch.randn(6, D, dtype=torch.float64), torch.tensor([0, 0, 1, 1, 2, 2])
    expected = torch.autograd.grad(loss(x.requires_grad_(), y), x)[0]
    torch.testing.assert_close(torch.func.grad(lambda a: loss(a, y))(x.detach()), expected)


@pytest.mark.parametrize("make", [
    L.Softmax, L.ArcFace, L.SphereFace2, L.CurricularFace, L.TripletLoss, lambda *o: L.MagFace(*o, chunk=2),
    *(lambda *o, join=join: join(L.Softmax(*o)) for join in (L.SphereFacePlus, L.ContrastiveLoss, L.CenterLoss)),
])  # fmt: skip
def test_what_is_ignored_may_be_anything(make):
    """Padding may hold NaN: neither the loss nor a gradient sees it."""
    x, y, loss = torch.randn(6, D), torch.tensor([0, 0, 1, 1, 2, -100]), make(D, C).eval()

    def seen(last):
        rows = torch.cat([x[:5], last[None]]).requires_grad_()
        value = loss(rows, y)
        return value, *torch.autograd.grad(value, [rows, *loss.parameters()])

    torch.testing.assert_close(seen(torch.full((D,), torch.nan)), seen(x[5]))


def test_traced_by_make_fx():
    """Whether a label is in range is not asked of a tracer's stand-in."""
    from torch.fx.experimental.proxy_tensor import make_fx  # a large module

    head, x, y = L.ArcFace(D, C), torch.randn(3, D), torch.tensor([0, 4, -100])
    torch.testing.assert_close(make_fx(lambda a: head(a, y))(x)(2 * x + 1), head(2 * x + 1, y))


def test_numbers_of_numpy():
    labels = np.array([0, 4, 1])
    head = L.ArcFace(np.int64(D), labels.max() + 1, np.float32(0.5), scale=np.float64(30.0), chunk=np.int32(2))
    assert (head.in_features, head.num_classes, head.chunk) == (D, C, 2)
    assert type(head.num_classes) is int
    x = torch.randn(3, D)
    plain = L.ArcFace(D, C, 0.5, scale=30.0, chunk=2)
    plain.load_state_dict(head.state_dict())
    torch.testing.assert_close(head(x, torch.tensor(labels)), plain(x, torch.tensor(labels)))
    assert L.ASoftmax(D, torch.tensor(labels).max() + 1, np.int64(4)).margin == 4
    for wrong in (True, np.True_, torch.tensor(True), 5.0, np.float32(5.0), "5", torch.tensor([5, 5])):
        with pytest.raises(TypeError, match="num_classes="):
            L.ArcFace(D, wrong)
    for wrong in (True, "0.5", np.True_, 1j):
        with pytest.raises(TypeError, match="margin="):
            L.ASoftmax(D, C, wrong)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "chunk"), list(zip(["softmax", "arcface", "r_v2", "sphereface2", "plus"], itertools.cycle(CHUNKS)))
)
def test_wrong_labels_fail_where_their_range_is_not_looked_at(case, chunk):
    """Compiled, under torch.func and on GPUs the indexing itself refuses them: no silent loss."""
    head, x = build(case, D, C, chunk=chunk), torch.randn(2, D)
    torch._dynamo.reset()
    compiled = torch.compile(head, fullgraph=True, backend="eager")
    for y in (torch.tensor([0, C]), torch.tensor([0, -1])):
        with pytest.raises((IndexError, RuntimeError), match=r"index"):
            compiled(x, y)
        with pytest.raises((IndexError, RuntimeError), match=r"index"):
            torch.func.grad(lambda a, y=y: head(a, y))(x)


def test_forward_mode_of_losses_between_samples():
    """Distances within the batch: torch's own function of them knows reverse mode only."""
    x, y = torch.randn(6, D, dtype=torch.float64), torch.tensor([0, 1, 0, 1, 2, 2])
    tangent = torch.randn_like(x)
    for loss in (L.TripletLoss(D, C), L.ContrastiveLoss(L.Softmax(D, C, dtype=torch.float64))):
        (gradient,) = torch.autograd.grad(loss.eval()(x.requires_grad_(), y), x)
        moved = torch.func.jvp(lambda x, loss=loss: loss(x, y), (x.detach(),), (tangent,))[1]
        torch.testing.assert_close(moved, (gradient * tangent).sum())
