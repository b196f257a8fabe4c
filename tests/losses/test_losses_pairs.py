"""Center, contrastive and triplet loss: values from slow loops, gradients, joining, and what a batch may look like."""

import copy
import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hypersphere as hs

L = hs.losses
N, D, C = 9, 4, 5

MAKE = {
    "center": lambda **o: L.CenterLoss(L.Softmax(D, C, **o), weight=0.3),
    "contrastive": lambda **o: L.ContrastiveLoss(L.Softmax(D, C, **o), weight=0.3),
    "contrastive_raw": lambda **o: L.ContrastiveLoss(L.Softmax(D, C, **o), weight=0.3, margin=2.0, normalize=False),
    "semihard": lambda **o: L.TripletLoss(D, C, **o),
    "hard": lambda **o: L.TripletLoss(D, C, 0.5, "hard", **o),
}
JOINED = ["center", "contrastive", "contrastive_raw"]


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(1)
    x = 2 * torch.randn(N, D, generator=generator, dtype=torch.float64)
    return x, torch.tensor([0, 1, 0, 2, 1, 0, 3, -100, 1])


def terms(case, x, labels):
    """The term of each sample, from the definition; the centres are 0."""
    x, labels = x.numpy(), labels.tolist()
    if case == "center":
        return [0.0 if y < 0 else 0.5 * float(row @ row) for row, y in zip(x, labels, strict=True)]
    points = x if case == "contrastive_raw" else x / np.linalg.norm(x, axis=1, keepdims=True)
    out = []
    for i, y in enumerate(labels):
        others = [j for j in range(len(labels)) if j != i and y >= 0 and labels[j] >= 0]
        d = {j: float(np.linalg.norm(points[i] - points[j])) for j in others}
        same, different = [j for j in others if labels[j] == y], [j for j in others if labels[j] != y]
        out.append(pair_terms(case, d, same, different))
    return out


def pair_terms(case, d, same, different):
    if case.startswith("contrastive"):
        margin = 2.0 if case == "contrastive_raw" else 1.0
        near = np.mean([d[j] ** 2 for j in same]) if same else 0.0
        far = np.mean([max(0.0, margin - d[j]) ** 2 for j in different]) if different else 0.0
        return 0.5 * (near + far)
    if not same or not different:
        return 0.0
    if case == "hard":
        return max(0.0, max(d[j] ** 2 for j in same) - min(d[j] ** 2 for j in different) + 0.5)
    losses = []
    for p in same:
        beyond = [d[n] for n in different if d[n] > d[p]]
        n = min(beyond) if beyond else max(d[n] for n in different)
        losses.append(max(0.0, d[p] ** 2 - n**2 + 0.2))
    return float(np.mean(losses))


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("case", MAKE)
def test_value_from_the_definition(case, reduction, batch):
    x, y = batch
    loss = MAKE[case](reduction=reduction, dtype=torch.float64)
    want = torch.tensor(terms(case, x, y), dtype=torch.float64)
    if case in JOINED:
        want = L.Softmax.forward(copy.deepcopy(loss.head), x, y) + 0.3 * reduced(want, reduction, y)
    else:
        want = reduced(want, reduction, y)
    torch.testing.assert_close(loss(x, y).detach(), want.detach(), rtol=1e-12, atol=1e-12)


def reduced(values, reduction, y):
    return values if reduction == "none" else values.sum() / (1 if reduction == "sum" else int((y >= 0).sum()))


@pytest.mark.parametrize("case", MAKE)
def test_gradients(case, batch):
    x, y = batch
    loss = MAKE[case](dtype=torch.float64).eval()
    assert torch.autograd.gradcheck(lambda x: loss(x, y), x.requires_grad_())
    assert torch.autograd.gradgradcheck(lambda x: loss(x, y), x, fast_mode=True)


def test_centres_follow_the_features(batch):
    x, y = batch
    loss = MAKE["center"](dtype=torch.float64)
    for _ in range(2):
        before = loss.centers.vectors.clone()
        assert loss(x, y) != loss.head(x, y)
        for j in range(C):
            members = [x[i] for i in range(N) if y[i] == j]
            step = sum((before[j] - m for m in members), torch.zeros(D)) / (1 + len(members))
            torch.testing.assert_close(loss.centers.vectors[j], before[j] - 0.5 * step)
    broken = x.clone()
    broken[0, 1], broken[3, 0] = torch.inf, torch.nan  # a step that a gradient scaler skips: nothing of it may stay
    expected = copy.deepcopy(loss)
    expected(x, torch.where(broken.isfinite().all(1), y, -100))
    loss(broken, y)
    torch.testing.assert_close(loss.centers.vectors, expected.centers.vectors)
    loss.eval()
    kept = loss.centers.vectors.clone()
    loss(x, y)
    assert torch.equal(loss.centers.vectors, kept)


def test_triplets_rank_by_the_class_centres():
    torch.manual_seed(0)
    loss, directions = L.TripletLoss(D, C), torch.eye(C)[:, :D] - 0.1
    y = torch.arange(C).repeat(4)
    for _ in range(10):
        loss(directions[y] + 0.01 * torch.randn(len(y), D), y)
    assert torch.equal(loss.logits(3 * directions).argmax(1), torch.arange(C))
    torch.testing.assert_close(loss.weight.norm(dim=1), torch.ones(C), atol=0.05, rtol=0)
    assert not list(loss.parameters())


@pytest.mark.parametrize("case", MAKE)
def test_learning_brings_samples_of_a_class_together(case):
    torch.manual_seed(0)
    loss, y = MAKE[case](), torch.arange(C).repeat_interleave(6)
    x = torch.randn(len(y), D, requires_grad=True)
    optimizer = torch.optim.SGD([x, *loss.parameters()], lr=1.0)

    def angles():
        unit = torch.nn.functional.normalize(x.detach(), dim=1)
        cos, same = unit @ unit.T, y[:, None] == y
        return cos[same & ~torch.eye(len(y), dtype=bool)].mean() - cos[~same].mean()

    before = angles()
    for _ in range(60):
        optimizer.zero_grad()
        loss(x, y).backward()
        optimizer.step()
    assert angles() > before + 0.3


@pytest.mark.parametrize("case", MAKE)
def test_batches_of_every_kind_are_finite(case):
    batches = {
        "one sample": (torch.randn(1, D), [0]),
        "one class": (torch.randn(4, D), [2, 2, 2, 2]),
        "all different": (torch.randn(4, D), [0, 1, 2, 3]),
        "duplicates": (torch.ones(4, D), [0, 0, 1, 1]),
        "zeros": (torch.zeros(4, D), [0, 0, 1, 1]),
        "opposite": (torch.tensor([[1.0], [-1.0], [1.0], [-1.0]]).expand(4, D), [0, 0, 1, 1]),
        "huge": (1e15 * torch.randn(4, D), [0, 0, 1, 1]),
        "tiny": (1e-30 * torch.randn(4, D), [0, 0, 1, 1]),
    }
    for name, (x, y) in batches.items():
        for dtype in (torch.float32, torch.bfloat16):
            loss = MAKE[case]()
            x = x.detach().to(dtype).requires_grad_()
            value = loss(x, torch.tensor(y))
            value.backward()
            assert torch.isfinite(value), name
            assert value.dtype == torch.float32
            assert torch.isfinite(x.grad).all(), name
            assert torch.isfinite(loss.logits(x)).all(), name


@pytest.mark.parametrize("case", MAKE)
def test_empty_batch(case):
    x, y = torch.zeros(0, D, requires_grad=True), torch.zeros(0, dtype=torch.int64)
    with pytest.raises(ValueError, match="batch is empty"):
        MAKE[case]()(x, y)
    loss = MAKE[case](reduction="sum")
    loss(x, y).backward()
    assert MAKE[case](reduction="none")(x, y).shape == (0,)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 3), min_size=2, max_size=8), st.integers(0, 10**6), st.floats(0.1, 10.0))
def test_the_order_of_samples_and_their_lengths_do_not_matter(labels, seed, scale):
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.randn(len(labels), D, generator=generator, dtype=torch.float64), torch.tensor(labels)
    order = torch.randperm(len(labels), generator=generator)
    for case in ("semihard", "hard"):
        loss = MAKE[case]()
        torch.testing.assert_close(loss(scale * x[order], y[order]), loss(x, y), rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("case", MAKE)
def test_whole_graph(case, batch):
    torch._dynamo.reset()
    x, y = batch[0].float(), batch[1]
    loss = MAKE[case]()
    twin = copy.deepcopy(loss)
    compiled = torch.compile(twin, fullgraph=True, backend="aot_eager")
    for _ in range(2):  # the second time from centres that have moved
        got = []
        for call, module in ((loss, loss), (compiled, twin)):
            features = x.clone().requires_grad_()
            value = call(features, y)
            got.append((value.detach(), *torch.autograd.grad(value, [features, *module.parameters()])))
        torch.testing.assert_close(*got)
    torch.testing.assert_close(twin.state_dict(), loss.state_dict())


@pytest.mark.slow
def test_inductor_reads_the_centres_before_they_move(batch):
    torch._dynamo.reset()
    x, y = batch[0].float(), batch[1]
    loss = MAKE["center"]()
    twin = copy.deepcopy(loss)
    compiled = torch.compile(twin, fullgraph=True)
    for _ in range(2):
        gradients = [torch.autograd.grad(call(z := x.clone().requires_grad_(), y), z)[0] for call in (loss, compiled)]
        torch.testing.assert_close(*gradients)


def test_terms_add_up(batch):
    x, y = batch
    head = L.ASoftmax(D, C, dtype=torch.float64).eval()
    parts = [L.SphereFacePlus(head, 0.5), L.CenterLoss(head, 0.3), L.ContrastiveLoss(head, 0.2)]
    joined = L.ContrastiveLoss(L.CenterLoss(L.SphereFacePlus(head, 0.5), 0.3), 0.2).eval()
    want = head(x, y) + sum(part.eval()(x, y) - head(x, y) for part in parts)
    torch.testing.assert_close(joined(x, y), want)
    assert joined.weight is head.weight
    assert (joined.in_features, joined.num_classes, joined.owner) == (D, C, head)
    torch.testing.assert_close(joined.get_logits(x), head.logits(x))


@pytest.mark.parametrize("case", MAKE)
def test_state_round_trip(case, batch):
    x, y = batch[0].float(), batch[1]
    loss, other = MAKE[case](), MAKE[case]()
    loss(x, y)
    other.load_state_dict(loss.state_dict())
    torch.testing.assert_close(other(x, y), loss(x, y))
    assert repr(loss)


def test_a_batch_seen_in_halves_is_the_whole_batch(batch):
    """What ``everyone`` gives is compared with: anchors of one half, partners from both."""
    x, y = batch[0][:8], batch[1][[0, 1, 2, 3, 4, 5, 6, 8]]
    points = x / x.norm(dim=1, keepdim=True)
    for case in ("contrastive", "semihard", "hard"):
        loss = MAKE[case](dtype=torch.float64)
        whole, halves = loss(x, y), []
        for first, second in itertools.pairwise((0, 4, 8)):
            loss.everyone = lambda rows, labels, first=first: (points, y, first)
            halves.append(loss(x[first:second], y[first:second]))
        torch.testing.assert_close(sum(halves) / 2, whole)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: L.CenterLoss(L.Softmax(D, C), weight=-1.0), "weight=-1"),
        (lambda: L.CenterLoss(L.Softmax(D, C), rate=-1.0), "rate=-1"),
        (lambda: L.ContrastiveLoss(L.Softmax(D, C), margin=0.0), "margin=0"),
        (lambda: L.TripletLoss(D, C, mining="easy"), "mining='easy'"),
        (lambda: L.TripletLoss(D, C, margin=-0.1), "margin=-0.1"),
        (lambda: L.TripletLoss(D, 0), "num_classes=0"),
        (lambda: L.TripletLoss(D, C)(torch.randn(2, D), torch.tensor([0, C])), r"labels contain 5.*\[0, 4\]"),
        (lambda: L.TripletLoss(D, C)(torch.randn(2, D + 1), torch.tensor([0, 1])), "in_features=4"),
        (lambda: L.TripletLoss(D, C)(torch.randn(2, D), torch.tensor([0, 1]), (1, 2, 3)), "mining="),
    ],
)
def test_what_is_wrong_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_only_heads_are_joined():
    with pytest.raises(TypeError, match=r"head must be a head of hypersphere\.losses with class vectors, not Linear"):
        L.CenterLoss(torch.nn.Linear(D, C))
    with pytest.raises(TypeError, match="with class vectors, not TripletLoss: pass"):
        L.ContrastiveLoss(L.TripletLoss(D, C))


@pytest.mark.parametrize(
    "head",
    [
        L.TripletLoss(4, 3),
        L.ContrastiveLoss(L.Softmax(4, 3)),
        L.CenterLoss(L.SphereFacePlus(L.ArcFace(4, 3))),
    ],
    ids=lambda head: type(head).__name__,
)
def test_heads_predict_the_class_of_the_largest_logit(head):
    head(torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2]))
    features = torch.randn(2, 5, 4)
    torch.testing.assert_close(head.predict(features), head.logits(features).argmax(-1))
