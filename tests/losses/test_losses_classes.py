"""Blocks of classes: the same loss and gradients as the dense way, without the N × C logits."""

import pytest
import torch
from loss_cases import ALL, build

import hypersphere as hs
from hypersphere.losses import _classes
from hypersphere.losses._classes import block_width, reduce_classes

L = hs.losses
N, D, C = 12, 16, 301


def run(head, x, y):
    x = x.clone().requires_grad_()
    loss = head(x, y)
    return loss.detach(), *torch.autograd.grad(loss.sum(), [x, *head.parameters()])


def pair(case, width, **options):
    dense, blocks = build(case, D, C, chunk=None, **options).eval(), build(case, D, C, chunk=width, **options).eval()
    blocks.load_state_dict(dense.state_dict())
    return dense, blocks


@pytest.mark.parametrize("width", [64, 301, 1000])
@pytest.mark.parametrize("case", ALL)
def test_same_as_dense(case, width):
    """To 1e-6 of the loss and of the largest gradient, in float32; s = 64 multiplies the rounding of cos θ."""
    x, y = torch.randn(N, D), torch.randint(0, C, (N,))
    y[3] = -100
    dense, blocks = pair(case, width)
    scale = getattr(dense, "scale", None) or 1.0
    tolerance = 1e-6 * max(1.0, scale / 10)
    for want, got in zip(run(dense, x, y), run(blocks, x, y), strict=True):
        assert (want - got).abs().max() <= tolerance * max(want.abs().max(), 1e-3)


def test_a_block_may_hold_one_class():
    x, y = torch.randn(4, D, dtype=torch.float64), torch.tensor([0, 300, 7, 7])
    dense, blocks = pair("a_softmax", 1, dtype=torch.float64)
    torch.testing.assert_close(run(dense, x, y), run(blocks, x, y))


@pytest.mark.parametrize("case", ["softmax_bias", "a_softmax", "ga_linear", "r_v2_annealed", "w_learnable_k"])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_same_as_dense_with_every_option(case, reduction):
    x, y = torch.randn(N, D, dtype=torch.float64), torch.randint(0, C, (N,))
    y[0] = -100
    options = {"label_smoothing": 0.1, "class_weight": torch.rand(C, dtype=torch.float64), "reduction": reduction}
    dense, blocks = pair(case, 50, dtype=torch.float64, **options)
    for want, got in zip(run(dense, x, y), run(blocks, x, y), strict=True):
        torch.testing.assert_close(want, got, rtol=1e-11, atol=1e-12)


def test_both_ways_are_equally_far_from_float64():
    x, y = torch.randn(N, D), torch.randint(0, C, (N,))
    dense, blocks = pair("arcface", 64)
    exact = build("arcface", D, C, dtype=torch.float64, chunk=None)
    exact.load_state_dict(dense.state_dict())
    want = run(exact, x.double(), y)
    errors = [max((a - b).abs().max() / a.abs().max() for a, b in zip(want, run(h, x, y), strict=True))
              for h in (dense, blocks)]  # fmt: skip
    assert errors[1] < 4 * errors[0] + 1e-6


def test_auto_counts_the_logits():
    cpu, other = torch.device("cpu"), torch.device("meta")
    assert block_width("auto", 128, 1000, cpu) is None
    assert block_width("auto", 256, 100_000, cpu) == 2048
    assert block_width("auto", 256, 100_000, other) is None
    assert block_width("auto", 256, 1_000_000, other) == 1 << 17
    assert block_width(None, 256, 10**9, cpu) is None
    assert block_width(7, 1, 2, cpu) == 7


def test_no_tensor_of_n_by_c_is_ever_made(monkeypatch):
    sizes = []
    monkeypatch.setattr(_classes, "AUTO_LOGITS", {"cpu": 100, "other": 100})
    head = L.ArcFace(D, C)
    score = head.score
    monkeypatch.setattr(head, "score", lambda r, c, s: sizes.append(len(c[0])) or score(r, c, s))
    monkeypatch.setattr(_classes, "AUTO_BLOCK", {"cpu": 128 * N, "other": 1})
    head(torch.randn(N, D), torch.randint(0, C, (N,))).backward()
    assert sizes == [128, 128, 45] * 2  # once forward, once again in backward


@pytest.mark.parametrize("width", [None, 40])
def test_two_halves_of_the_classes_add_up_to_the_whole(width):
    """How processes that own some of the classes each combine: per-sample numbers only."""
    head = L.ArcFace(D, C, dtype=torch.float64)
    x, y = torch.randn(N, D, dtype=torch.float64), torch.randint(0, C, (N,))
    rows, q = head.rows(x), torch.rand(C, dtype=torch.float64)
    whole = reduce_classes(head.score, rows, [head.weight], [], y, weights=q)
    cut, halves = 130, []
    for start, stop in ((0, cut), (cut, C)):
        part = slice(start, stop)
        halves.append(
            reduce_classes(head.score, rows, [head.weight[part]], [], y - start, weights=q[part], width=width)
        )
    torch.testing.assert_close(torch.logaddexp(halves[0].logsumexp, halves[1].logsumexp), whole.logsumexp)
    torch.testing.assert_close(halves[0].total + halves[1].total, whole.total)
    target = torch.where((y < cut)[:, None], halves[0].own[0], halves[1].own[0])
    torch.testing.assert_close(target, whole.own[0])


def test_half_precision_parameters_keep_their_dtype():
    for chunk in (None, 50):
        head = L.CosFace(D, C, dtype=torch.bfloat16, chunk=chunk)
        x = torch.randn(N, D, dtype=torch.bfloat16, requires_grad=True)
        loss = head(x, torch.randint(0, C, (N,)))
        loss.backward()
        assert loss.dtype == torch.float32
        assert head.weight.dtype == head.weight.grad.dtype == x.grad.dtype == torch.bfloat16


def test_backward_under_autocast_stays_in_float32():
    dense, blocks = pair("arcface", 64)
    x, y = torch.randn(N, D), torch.randint(0, C, (N,))
    want = run(blocks, x, y)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = run(blocks, x, y)
        half = blocks(x.bfloat16(), y)
    torch.testing.assert_close(want, got, rtol=0, atol=0)
    assert half.dtype == torch.float32
    assert half.item() == pytest.approx(dense(x.bfloat16().float(), y).item(), rel=1e-5)
