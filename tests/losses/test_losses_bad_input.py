"""What is wrong is refused by name; what is defined is finite."""

import math

import pytest
import torch
from loss_cases import ALL, SEEING, build

import hypersphere as hs

L = hs.losses
D, C = 4, 5
HEADS = ["softmax", "a_softmax", "ga_linear", "arcface", "r_v2", "sphereface2", "plus", *SEEING]


@pytest.mark.parametrize("case", HEADS)
@pytest.mark.parametrize("wrong", [C, -1, 10**12])
def test_labels_out_of_range(case, wrong):
    with pytest.raises(ValueError, match=rf"labels contain {wrong}.*\[0, 4\].*ignore_index=-100"):
        build(case, D, C)(torch.randn(2, D), torch.tensor([0, wrong]))


@pytest.mark.parametrize("labels", [torch.tensor([0.0, 1.0]), torch.tensor([True, False]), [0, 1]])
def test_labels_of_other_types(labels):
    with pytest.raises(TypeError, match="class indices"):
        build("a_softmax", D, C)(torch.randn(2, D), labels)


def test_small_integer_labels_are_welcome():
    head, x = build("a_softmax", D, C), torch.randn(2, D)
    assert head(x, torch.tensor([0, 1], dtype=torch.uint8)) == head(x, torch.tensor([0, 1]))


def test_shapes():
    head = build("a_softmax", D, C)
    with pytest.raises(ValueError, match=r"features of shape \(2, 3\) must end in in_features=4"):
        head(torch.randn(2, 3), torch.tensor([0, 1]))
    with pytest.raises(ValueError, match=r"labels of shape \(3,\)"):
        head(torch.randn(2, D), torch.tensor([0, 1, 2]))
    with pytest.raises(TypeError, match=r"features has dtype torch\.int64"):
        head(torch.ones(2, D, dtype=torch.int64), torch.tensor([0, 1]))
    with pytest.raises(ValueError, match="in_features=4"):
        head.logits(torch.randn(2, 3))


@pytest.mark.parametrize("case", ALL)
def test_zero_features_zero_class_vectors_and_one_class(case):
    for classes in (C, 1):
        for chunk in (None, 1):
            head = build(case, D, classes, chunk=chunk)
            with torch.no_grad():
                head.weight[0].zero_()
            x = torch.stack([torch.zeros(D), torch.randn(D)]).requires_grad_()
            loss = head(x, torch.tensor([0, classes - 1]))
            loss.backward()
            assert torch.isfinite(loss)
            assert all(torch.isfinite(t.grad).all() for t in (x, *head.parameters()) if t.grad is not None)
            if classes == 1 and not isinstance(head, L.SphereFace2 | L.MagFace):
                assert loss == 0  # one class is always right


@pytest.mark.parametrize("case", HEADS)
@pytest.mark.parametrize("chunk", [None, 2])
def test_empty_batch(case, chunk):
    head = build(case, D, C, chunk=chunk)
    x, y = torch.zeros(0, D, requires_grad=True), torch.zeros(0, dtype=torch.int64)
    with pytest.raises(ValueError, match="batch is empty"):
        head(x, y)
    inner = getattr(head, "head", head)
    inner.reduction = "sum"
    loss = head(x, y)
    loss.backward()
    assert loss == 0
    assert torch.equal(head.weight.grad, torch.zeros_like(head.weight))
    inner.reduction = "none"
    assert head(x, y).shape == (0,)
    assert head.logits(x).shape == (0, C)


@pytest.mark.parametrize("case", HEADS)
@pytest.mark.parametrize("chunk", [None, 2])
def test_nan_stays_with_its_sample(case, chunk):
    head, x = build(case, D, C, chunk=chunk, reduction="none"), torch.randn(3, D)
    x[1, 2] = math.nan
    head(x, torch.tensor([0, 1, 2]))  # running state does not keep it
    assert all(torch.isfinite(buffer).all() for buffer in head.buffers())
    head.eval()
    loss = head(x, torch.tensor([0, 1, 2]))
    expected = head(x[::2], torch.tensor([0, 2]))
    assert loss.isnan().tolist() == [False, True, False] or isinstance(head, L.SphereFacePlus)
    torch.testing.assert_close(loss[::2], expected)


@pytest.mark.parametrize("case", ALL)
@pytest.mark.parametrize("chunk", [None, 2])
def test_half_features_under_autocast(case, chunk):
    head = build(case, D, C, chunk=chunk).eval()
    x, y = torch.randn(6, D), torch.randint(0, C, (6,))
    for dtype in (torch.float16, torch.bfloat16):
        half = x.to(dtype).requires_grad_()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = head(half, y)
        loss.backward()
        assert loss.dtype == torch.float32
        assert half.grad.dtype == dtype
        assert torch.isfinite(half.grad).all()
        torch.testing.assert_close(loss, head(x.to(dtype).float(), y))
        assert head.weight.dtype == torch.float32


@pytest.mark.parametrize("case", ALL)
def test_inputs_and_parameters_are_not_written(case):
    head = build(case, D, C, chunk=2)
    x, y = torch.randn(6, D), torch.randint(0, C, (6,))
    x0, y0 = x.clone(), y.clone()
    before = {name: p.detach().clone() for name, p in head.named_parameters()}
    head(x, y).backward()
    assert torch.equal(x, x0)
    assert torch.equal(y, y0)
    assert all(torch.equal(p, before[name]) for name, p in head.named_parameters())
    assert x._version == 0


@pytest.mark.parametrize("cls", [L.LSoftmax, L.ASoftmax, L.GASoftmax, L.SphereFaceR])
@pytest.mark.parametrize("margin", [0.9, 0, -4, math.nan])
def test_multiplicative_margins_below_one(cls, margin):
    with pytest.raises(ValueError, match="at least 1"):
        cls(D, C, margin)


@pytest.mark.parametrize(
    ("build_it", "match"),
    [
        (lambda: L.CosFace(D, C, -0.1), "margin=-0.1"),
        (lambda: L.ArcFace(D, C, 28.6), "radians"),
        (lambda: L.CurricularFace(D, C, torch.full((C,), 3.2)), "radians"),
        (lambda: L.CenterLoss(L.Softmax(D, C), rate=1.5), "rate=1.5"),
        (lambda: L.ArcFace(D, C, scale=0.0), "scale=0.0"),
        (lambda: L.Softmax(0, C), "in_features=0"),
        (lambda: L.Softmax(D, 0), "num_classes=0"),
        (lambda: L.Softmax(D, C, reduction="average"), "reduction='average'"),
        (lambda: L.Softmax(D, C, label_smoothing=1.5), "label_smoothing=1.5"),
        (lambda: L.Softmax(D, C, class_weight=torch.ones(3)), r"class_weight .* \(5,\)"),
        (lambda: L.Softmax(D, C, chunk="big"), "chunk='big'"),
        (lambda: L.Softmax(D, C, chunk=0), "chunk=0"),
        (lambda: L.WSoftmax(D, C, angular="cos"), "angular='cos'"),
        (lambda: L.SphereFaceR(D, C, form="v3"), "form='v3'"),
        (lambda: L.SphereFace2(D, C, lam=1.0), "lam=1.0"),
        (lambda: L.SphereFace2(D, C, exponent=0.5), "exponent=0.5"),
        (lambda: L.SphereFacePlus(L.Softmax(D, C), weight=-1.0), "weight=-1.0"),
        (lambda: L.SphereFacePlus(L.Softmax(D, C), distance="cosine"), "distance='cosine'"),
    ],
)
def test_bad_arguments(build_it, match):
    with pytest.raises(ValueError, match=match):
        build_it()


@pytest.mark.parametrize(
    "option", [{"label_smoothing": 0.1}, {"class_weight": torch.ones(C)}, {"annealing": "sphereface"},
               {"detach_margin": True}, {"angular": "linear"}, {"sub_centers": 2}],
)  # fmt: skip
def test_sphereface2_refuses_what_only_a_softmax_has(option):
    with pytest.raises(TypeError, match=f"{next(iter(option))} is an option of softmax losses"):
        L.SphereFace2(D, C, **option)
    with pytest.raises(TypeError, match="sclae is unknown"):
        L.SphereFace2(D, C, sclae=3)


def test_options_fixed_by_a_loss():
    with pytest.raises(TypeError, match="scale is fixed"):
        L.ASoftmax(D, C, scale=3.0)
    with pytest.raises(TypeError, match="angular is fixed"):
        L.CosFace(D, C, angular="linear")
    with pytest.raises(TypeError, match="head must be a head"):
        L.SphereFacePlus(torch.nn.Linear(D, C))


def test_a_g_of_ones_own():
    class Cubic:
        def from_cos(self, c):
            return c**3

    x, y = torch.randn(3, D), torch.tensor([0, 1, 2])
    dense, blocks = L.WSoftmax(D, C, angular=Cubic(), chunk=None), L.WSoftmax(D, C, angular=Cubic(), chunk=2)
    blocks.load_state_dict(dense.state_dict())
    torch.testing.assert_close(dense(x, y), blocks(x, y))
    with pytest.raises(TypeError, match="from_angle"):
        L.GASoftmax(D, C, angular=Cubic())


def test_a_learned_g_of_ones_own_is_dense():
    class Power(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Parameter(torch.tensor(1.0))

        def from_cos(self, c):
            return self.a * c

    with pytest.raises(ValueError, match="chunk=None"):
        L.WSoftmax(D, C, angular=Power(), chunk=2)
    head = L.WSoftmax(D, C, angular=Power(), chunk=None)
    head(torch.randn(3, D), torch.tensor([0, 1, 2])).backward()
    assert head.angular.a.grad.abs() > 0


@pytest.mark.parametrize("case", [*HEADS, "center", "contrastive", "triplet"])
def test_ignored_labels_only_are_what_they_are_in_torch(case):
    """The mean over no sample is NaN, the sum 0: as in cross_entropy."""
    extra = {
        "center": lambda **o: L.CenterLoss(L.Softmax(D, C, **o)),
        "contrastive": lambda **o: L.ContrastiveLoss(L.Softmax(D, C, **o)),
        "triplet": lambda **o: L.TripletLoss(D, C, **o),
    }
    x, y = torch.randn(3, D), torch.full((3,), -100)
    for reduction in ("mean", "sum", "none"):
        make = extra.get(case, lambda **o: build(case, D, C, **o))
        loss = make(reduction=reduction)(x, y)
        expected = torch.nn.functional.cross_entropy(torch.randn(3, C), y, reduction=reduction)
        torch.testing.assert_close(loss, expected, equal_nan=True)


@pytest.mark.parametrize("classes", [2, 3, 4, 100])
@pytest.mark.parametrize("scale", [1.0, 40.0, 64.0, 512.0])
def test_sphereface2_begins_balanced_for_any_number_of_classes(classes, scale):
    """λ·σ(−a_y − b) = (1 − λ)(C − 1)·σ(a + b) at cos = 0: both sides in logarithms."""
    head = hs.losses.SphereFace2(4, classes, margin=0.4, scale=scale, dtype=torch.float64)
    at_zero, b = 2 * 0.5**head.exponent - 1, head.bias.detach()
    own = math.log(head.lam) + torch.nn.functional.logsigmoid(-scale * (at_zero - 0.4) - b)
    others = math.log((1 - head.lam) * (classes - 1)) + torch.nn.functional.logsigmoid(scale * (at_zero + 0.4) + b)
    torch.testing.assert_close(own, others)


def test_sphereface2_begins_where_a_perfect_balance_leaves_no_number_for_the_root():
    """λ/((1 − λ)(C − 1)) = 1: by symmetry b = −r·g(0)."""
    head = hs.losses.SphereFace2(4, 2, lam=0.5, scale=4000.0, exponent=1.0, dtype=torch.float64)
    assert abs(head.bias.item()) < 1e-9
