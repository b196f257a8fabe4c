"""Values against the equations in float64, the semantics of F.cross_entropy, and the identities of the family."""

import math

import loss_reference as ref
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from loss_cases import ALL, SOFTMAX, build

import hypersphere as hs
from hypersphere.functional.angular import ANGULAR

L = hs.losses
N, D, C = 7, 5, 6


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(N, D, generator=generator, dtype=torch.float64)
    return x, torch.randint(0, C, (N,), generator=generator)


def numpy_of(head):
    return head.weight.detach().numpy(), None if head.bias is None else head.bias.detach().numpy()


@pytest.mark.parametrize("case", ["softmax_bias", "a_softmax", "ga_sigmoid", "r_v2", "arcface"])
def test_class_weights_smoothing_and_ignored_labels(case, batch):
    x, y = batch
    y[2] = -100
    q = torch.linspace(0.2, 2.0, C, dtype=torch.float64)
    head = build(case, D, C, dtype=torch.float64, class_weight=q, label_smoothing=0.2)
    _, _, name, options = SOFTMAX[case]
    w, bias = numpy_of(head)
    expected = ref.softmax_loss(name, x.numpy(), w, y.tolist(), weight=q.numpy(), smoothing=0.2, bias=bias, **options)
    assert head(x, y).item() == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("chunk", [None, 2])
def test_softmax_head_is_cross_entropy(smoothing, weighted, reduction, chunk, batch):
    x, y = batch
    y[0] = 3
    y[1] = -7
    q = torch.rand(C, dtype=torch.float64) if weighted else None
    head = L.Softmax(
        D,
        C,
        bias=True,
        dtype=torch.float64,
        reduction=reduction,
        label_smoothing=smoothing,
        class_weight=q,
        ignore_index=-7,
        chunk=chunk,
    )
    x.requires_grad_()
    logits = F.linear(x, head.weight, head.bias)
    want = F.cross_entropy(logits, y, weight=q, reduction=reduction, label_smoothing=smoothing, ignore_index=-7)
    got = head(x, y)
    torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)
    up = torch.rand_like(want)
    for a, b in zip(
        torch.autograd.grad(got, [x, *head.parameters()], up),
        torch.autograd.grad(want, [x, *head.parameters()], up),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(head.logits(x), logits)


@pytest.mark.parametrize(("lam", "share"), [(0.0, 1.0), (3.0, 0.25), (math.inf, 0.0)])
@pytest.mark.parametrize("case", ["l_softmax", "a_softmax", "ga_linear", "r_v2"])
def test_annealed_value(case, lam, share, batch):
    x, y = batch
    schedule = L.Annealing(base=lam, gamma=0.0, minimum=0.0)
    assert schedule.share().item() == pytest.approx(share)
    head = build(case, D, C, dtype=torch.float64, annealing=schedule)
    _, _, name, options = SOFTMAX[case]
    expected = ref.softmax_loss(name, x.numpy(), numpy_of(head)[0], y.tolist(), lam=lam, **options)
    assert head(x, y).item() == pytest.approx(expected, abs=1e-12)


def same(a, b, x, y, tolerance=1e-12):
    """Two heads give the same loss and gradients for the same class vectors."""
    with torch.no_grad():
        b.weight.copy_(a.weight)
    x = x.clone().requires_grad_()
    la, lb = a(x, y), b(x, y)
    torch.testing.assert_close(la, lb, rtol=tolerance, atol=tolerance)
    ga, gb = torch.autograd.grad(la, [x, a.weight]), torch.autograd.grad(lb, [x, b.weight])
    torch.testing.assert_close(ga, gb, rtol=tolerance, atol=tolerance)


def make(cls, *args, **options):
    return cls(D, C, *args, dtype=torch.float64, **options)


def test_a_softmax_is_the_cosine_ga_softmax(batch):
    same(make(L.ASoftmax, 3), make(L.GASoftmax, 3, angular="cosine"), *batch)


def test_margin_one_is_the_plain_form(batch):
    same(make(L.ASoftmax, 1), make(L.WSoftmax), *batch)
    same(make(L.LSoftmax, 1), make(L.Softmax), *batch)
    same(make(L.AMSoftmax, 0.0, scale=30.0), make(L.SSoftmax), *batch)
    same(make(L.ArcFace, 0.0, scale=30.0), make(L.SSoftmax), *batch, tolerance=1e-7)
    for kind in ANGULAR:
        same(make(L.GASoftmax, 1, angular=kind), make(L.WSoftmax, angular=kind), *batch)
    for form in ("v0", "v1", "v2"):
        same(make(L.SphereFaceR, 1, form=form, scale=30.0), make(L.SSoftmax), *batch, tolerance=1e-7)


def test_infinite_lambda_is_the_plain_form(batch):
    forever = L.Annealing(base=math.inf)
    same(make(L.ASoftmax, 4, annealing=forever), make(L.WSoftmax), *batch)
    same(make(L.LSoftmax, 4, annealing=forever), make(L.Softmax), *batch)


def test_l_softmax_on_unit_class_vectors_is_a_softmax(batch):
    x, y = batch
    a, b = make(L.LSoftmax, 4), make(L.ASoftmax, 4)
    with torch.no_grad():
        a.weight.copy_(hs.functional.unit(a.weight))
        b.weight.copy_(a.weight)
    torch.testing.assert_close(a(x, y), b(x, y), rtol=1e-12, atol=1e-12)


def test_cosface_and_arcface_by_their_usual_formulae(batch):
    x, _ = batch
    for head, rule in (
        (L.CosFace(D, C, dtype=torch.float64), lambda t: t.cos() - 0.35),
        (L.ArcFace(D, C, dtype=torch.float64), lambda t: torch.cos(t + 0.5)),
    ):
        theta = (F.normalize(x) @ F.normalize(head.weight).T).acos()
        y = theta.argsort(1)[:, 2]  # neither close nor beyond π − m
        assert (theta[torch.arange(N), y] < math.pi - 0.5).all()
        hot = F.one_hot(y, C).bool()
        logits = head.scale * torch.where(hot, rule(theta), theta.cos())
        torch.testing.assert_close(head(x, y), F.cross_entropy(logits, y), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("case", ["l_softmax", "a_softmax", "ga_linear", "am_softmax", "arcface", "r_v2", "r_v1"])
def test_margin_changes_the_loss_and_not_the_prediction(case, batch):
    x, y = batch
    head = build(case, D, C, dtype=torch.float64)
    normalized = head.normalize
    directions = F.normalize(head.weight) if normalized else head.weight
    assert torch.equal(head.logits(x).argmax(1), (x @ directions.T).argmax(1))
    plain = F.cross_entropy(head.logits(x), y)
    assert head(x, y) > plain


def test_detached_margin_keeps_the_value_and_drops_the_margins_gradient(batch):
    x, y = batch
    a, b = make(L.ASoftmax, 4), make(L.ASoftmax, 4, detach_margin=True)
    with torch.no_grad():
        b.weight.copy_(a.weight)
    x = x.clone().requires_grad_()
    torch.testing.assert_close(a(x, y), b(x, y))
    (ga,), (gb,) = torch.autograd.grad(a(x, y), x), torch.autograd.grad(b(x, y), x)
    assert not torch.allclose(ga, gb)
    d = F.normalize(a.weight).detach()
    cos = F.normalize(x) @ d.T
    own = F.one_hot(y, C).bool()
    delta = (hs.functional.psi(cos, 4) - cos).detach()
    logits = x @ d.T + x.norm(dim=1, keepdim=True) * torch.where(own, delta, 0.0)
    (want,) = torch.autograd.grad(F.cross_entropy(logits, y), x)
    torch.testing.assert_close(gb, want)


def test_sphereface2(batch):
    x, y = batch
    for chunk in (None, 4):
        head = L.SphereFace2(D, C, dtype=torch.float64, chunk=chunk)
        w, b = numpy_of(head)
        assert head(x, y).item() == pytest.approx(
            ref.sphereface2_loss(x.numpy(), w, y.tolist(), float(b[0])), abs=1e-12
        )
        cos = F.normalize(x) @ F.normalize(head.weight).T
        assert torch.equal(head.logits(x).argsort(1), cos.argsort(1))


def test_sphereface2_bias_starts_stationary():
    head = L.SphereFace2(8, 5, dtype=torch.float64)
    with torch.no_grad():  # all cosines 0: class vectors in the first axes, features in the last
        head.weight.copy_(torch.eye(5, 8))
    x = torch.eye(8, dtype=torch.float64)[-2:]
    head(x, torch.tensor([0, 3])).backward()
    assert abs(head.bias.grad.item()) < 1e-12


@pytest.mark.parametrize("s", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("chunk", [None, 4])
def test_sphereface_plus_adds_the_energy_of_the_batch(s, chunk, batch):
    x, y = batch
    head = L.ASoftmax(D, C, dtype=torch.float64, chunk=chunk)
    plus = L.SphereFacePlus(head, weight=0.7, s=s)
    energy = ref.class_energy(plus.weight.detach().numpy(), y.tolist(), s)
    assert (plus(x, y) - head(x, y)).item() == pytest.approx(0.7 * energy, rel=1e-10)
    assert hs.functional.class_energy(head.weight, y, s).item() == pytest.approx(energy, rel=1e-10)
    torch.testing.assert_close(plus.logits(x), head.logits(x))


@pytest.mark.parametrize("case", ALL)
def test_leading_dimensions_and_reductions(case, batch):
    x, y = torch.randn(3, 4, D), torch.randint(0, C, (3, 4))
    y[1, 2] = -100
    head = build(case, D, C).eval()
    inner = getattr(head, "head", head)
    mean = head(x, y)
    inner.reduction = "none"
    each = head(x, y)
    assert each.shape == y.shape
    assert each[1, 2] == 0
    inner.reduction = "sum"
    torch.testing.assert_close(head(x, y), each.sum())
    torch.testing.assert_close(mean, each.sum() / 11)
    assert head.logits(x).shape == (3, 4, C)


def test_a_new_loss_is_a_few_lines(batch):
    class Quadratic(L.MarginSoftmax):
        def target(self, cos, sample):
            return cos - self.margin * (1 - cos) ** 2

    x, y = batch
    head = Quadratic(D, C, margin=0.5, scale=20.0, dtype=torch.float64)
    cos = F.normalize(x) @ F.normalize(head.weight).T
    own = F.one_hot(y, C).bool()
    logits = 20 * torch.where(own, cos - 0.5 * (1 - cos) ** 2, cos)
    torch.testing.assert_close(head(x, y), F.cross_entropy(logits, y))


def test_a_head_may_carry_the_names_of_its_classes(batch):
    x, y = batch
    head = L.ArcFace(D, C)
    expected = head(x, y)
    head.class_names = [f"class {number}" for number in range(C)]
    assert torch.equal(head(x, y), expected)


def test_repr_names_the_settings():
    text = repr(L.ASoftmax(8, 10, annealing="sphereface", label_smoothing=0.1))
    assert "in_features=8, num_classes=10, margin=4, label_smoothing=0.1" in text
    assert "base=1000, gamma=0.12, power=1, minimum=5" in text
    assert "form='v1'" in repr(L.SphereFaceR(8, 10, form="v1"))
    assert np.all([name in repr(L.SphereFace2(8, 10)) for name in ("margin=0.4", "lam=0.7", "exponent=3")])
