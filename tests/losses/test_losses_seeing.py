"""Margins that see the sample: the formulae beyond one step, running state, ignored samples, copies and resuming."""

import copy
import io
import math
import pickle

import loss_reference as ref
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from loss_cases import SEEING, build

import hypersphere as hs
from hypersphere.functional.margins import additive_angle, clipped_multiple

L = hs.losses
N, D, C = 8, 5, 6


def batch(seed, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    x = scale * torch.randn(N, D, generator=generator, dtype=torch.float64)
    return x, torch.randint(0, C, (N,), generator=generator)


@pytest.mark.parametrize("case", ["adaface", "magface", "curricularface", "subcenter"])
def test_weights_smoothing_and_ignored_labels(case):
    x, y = batch(1, 20.0)
    y[2] = -100
    q = torch.linspace(0.2, 2.0, C, dtype=torch.float64)
    head = build(case, D, C, dtype=torch.float64, class_weight=q, label_smoothing=0.2, chunk=4)
    w = head.weight.detach().numpy()
    expected = ref.softmax_loss(case, x.numpy(), w, y.tolist(), weight=q.numpy(), smoothing=0.2)
    if case == "magface":  # the regularizer is outside of the smoothing
        assert head(x, y).item() == pytest.approx(expected, rel=1e-12)
    else:
        assert head(x, y).item() == pytest.approx(expected, abs=1e-10)


def test_adaface_follows_the_norms_of_what_counts():
    head = L.AdaFace(D, C, dtype=torch.float64, momentum=0.9)
    mean, std = 20.0, 100.0
    for step in range(3):
        x, y = batch(step, 10.0 * (step + 1))
        y[0] = -100
        expected = ref.softmax_loss(
            "adaface", x.numpy(), head.weight.detach().numpy(), y.tolist(), mean=mean, std=std, momentum=0.9
        )
        assert head(x, y).item() == pytest.approx(expected, abs=1e-9)
        norms = np.clip(np.linalg.norm(x.numpy()[1:], axis=1), 1e-3, 100)
        mean, std = 0.9 * mean + 0.1 * norms.mean(), 0.9 * std + 0.1 * norms.std(ddof=1)
        assert head.norm_mean.item() == pytest.approx(mean)
        assert head.norm_std.item() == pytest.approx(std)
    head.eval()
    head(*batch(9))
    assert head.norm_mean.item() == pytest.approx(mean)


def test_adaface_takes_the_quality_as_a_constant():
    x, y = batch(2, 20.0)
    head = L.AdaFace(D, C, dtype=torch.float64).eval()
    head.norm_mean.fill_(40.0)
    head.norm_std.fill_(9.0)
    x.requires_grad_()
    z = ((x.norm(dim=1) - 40) / 9.001 / 3).clamp(-1, 1).detach()
    cos = F.normalize(x) @ F.normalize(head.weight).T
    theta = cos.clamp(-1, 1).acos()
    target = (theta - 0.4 * z[:, None]).clamp(0, math.pi).cos() - 0.4 * (1 + z[:, None])
    logits = 64 * torch.where(F.one_hot(y, C).bool(), target, cos)
    want = F.cross_entropy(logits, y)
    got = head(x, y)
    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)
    for a, b in zip(
        torch.autograd.grad(got, [x, head.weight]), torch.autograd.grad(want, [x, head.weight]), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("counted", [0, 1])
def test_statistics_of_too_few_samples_stay(counted):
    head = L.AdaFace(D, C, reduction="sum")
    y = torch.full((3,), -100)
    y[:counted] = 1
    loss = head(torch.randn(3, D), y)
    assert torch.isfinite(loss)
    assert head.norm_std == 100
    assert (head.norm_mean == 20) == (counted == 0)
    curricular = L.CurricularFace(D, C, reduction="sum")
    curricular(torch.randn(3, D), torch.full((3,), -100))
    assert curricular.t == 0


def test_magface_rewards_length():
    """The derivative of the regularizer in ‖x‖ is λ(1/u² − 1/a²) within the bounds, and the margin's adds to it."""
    head = L.MagFace(D, C, dtype=torch.float64, upper_margin=0.45)
    x = torch.randn(1, D, dtype=torch.float64)
    x = (30 * x / x.norm()).requires_grad_()
    head(x, torch.tensor([0])).backward()
    along = (x.grad * x.detach()).sum() / x.detach().norm()
    assert along.item() == pytest.approx(35 * (1 / 110**2 - 1 / 30**2), rel=1e-9)


@pytest.mark.parametrize("form", ["arc", "cos"])
def test_elasticface_draws_its_margins(form):
    x, y = batch(3)
    head = L.ElasticFace(D, C, dtype=torch.float64, form=form, std=0.1)
    m = {"arc": 0.5, "cos": 0.35}[form]
    assert head.margin == m
    torch.manual_seed(4)
    got = head(x, y)
    torch.manual_seed(4)
    margins = m + 0.1 * torch.randn(N, dtype=torch.float64)
    rows = []
    for xi, yi, mi in zip(x.numpy(), y.tolist(), margins.tolist(), strict=True):
        w = head.weight.detach().numpy()
        row = [64 * ref.cosine(xi, v) for v in w]
        theta = math.acos(ref.cosine(xi, w[yi]))
        row[yi] = 64 * (ref.arc(theta, mi) if form == "arc" else math.cos(theta) - mi)
        rows.append(np.array(row))
    losses, _ = ref.cross_entropy(rows, y.tolist())
    assert got.item() == pytest.approx(losses.mean(), abs=1e-9)
    plain = (L.ArcFace if form == "arc" else L.CosFace)(D, C, m, scale=64.0, dtype=torch.float64)
    plain.load_state_dict(head.state_dict())
    torch.testing.assert_close(head.eval()(x, y), plain(x, y))


def test_elasticface_plus_gives_the_far_ones_the_larger_margins():
    head = L.ElasticFace(D, C, std=0.2, sort=True)
    cos = torch.tensor([0.3, -0.5, 0.9, 0.1])
    sample = hs.losses.Sample(head.angular, cos, cos, cos > -2, {})
    margins = head.observe(cos, sample)["margin"]
    assert (margins[[2, 0, 3, 1]].diff() > 0).all()
    torch.manual_seed(1)
    drawn = head.margin + 0.2 * torch.randn(4)
    torch.manual_seed(1)
    margins = head.observe(cos, sample._replace(counts=torch.tensor([True, False, True, True])))["margin"]
    torch.testing.assert_close(margins[[2, 0, 3]], drawn[[0, 2, 3]].sort().values)  # none goes to what is ignored
    assert margins.isfinite().all()


def test_curricularface_over_several_steps():
    head, t = L.CurricularFace(D, C, dtype=torch.float64, momentum=0.5, chunk=2), 0.0
    for step in range(4):
        x, y = batch(step)
        w = head.weight.detach().numpy()
        expected = ref.softmax_loss("curricularface", x.numpy(), w, y.tolist(), momentum=0.5, t=t)
        assert head(x, y).item() == pytest.approx(expected, abs=1e-9)
        t = 0.5 * t + 0.5 * np.mean([ref.cosine(xi, w[yi]) for xi, yi in zip(x.numpy(), y.tolist(), strict=True)])
        assert head.t.item() == pytest.approx(t)


def test_subcenters_share_no_gradient():
    """The sub-center that is not the closest of its class is left alone; one of each class moves for a sample."""
    head = L.SubcenterArcFace(D, C, sub_centers=4)
    assert head.weight.shape == (4 * C, D)
    head(torch.randn(1, D), torch.tensor([2])).backward()
    moved = (head.weight.grad.norm(dim=1) > 0).view(C, 4)
    assert moved.sum(1).tolist() == [1] * C
    assert head.logits(torch.randn(3, D)).shape == (3, C)


@pytest.mark.parametrize("make", [L.CosFace, L.SSoftmax, L.SphereFaceR])
def test_every_head_on_the_sphere_takes_subcenters(make):
    one, two = make(D, C, dtype=torch.float64), make(D, C, sub_centers=2, dtype=torch.float64)
    with torch.no_grad():  # twice the same vector is one vector
        two.weight.copy_(one.weight.repeat_interleave(2, 0))
    x, y = batch(5)
    torch.testing.assert_close(two(x, y), one(x, y))
    torch.testing.assert_close(two.logits(x), one.logits(x))
    with pytest.raises(ValueError, match="sub_centers=2"):
        L.Softmax(D, C, sub_centers=2)
    with pytest.raises(ValueError, match="sub_centers=2"):
        L.SphereFacePlus(two)


@pytest.mark.parametrize("case", SEEING)
def test_resuming_copying_and_pickling(case):
    head = build(case, D, C)
    for step in range(2):
        head(*[t.float() if t.is_floating_point() else t for t in batch(step, 9.0)])
    file = io.BytesIO()
    torch.save(head.state_dict(), file)
    file.seek(0)
    resumed = build(case, D, C)
    resumed.load_state_dict(torch.load(file))
    others = [resumed, copy.deepcopy(head), pickle.loads(pickle.dumps(head))]
    x, y = batch(7, 9.0)
    results = []
    for one in [head, *others]:
        torch.manual_seed(3)
        results.append([one(x.float(), y).item() for _ in range(2)])
        assert not [name for name, value in vars(one).items() if isinstance(value, torch.Tensor)]  # nothing is stashed
    assert results[1:] == results[:1] * 3


def test_margins_of_each_class():
    m = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], dtype=torch.float64)
    x, y = batch(6)
    for cls, rule in ((L.CosFace, lambda t, mi: math.cos(t) - mi), (L.ArcFace, ref.arc)):
        head = cls(D, C, m, scale=30.0, dtype=torch.float64, reduction="none")
        w, losses = head.weight.detach().numpy(), head(x, y)
        for xi, yi, got in zip(x.numpy(), y.tolist(), losses, strict=True):
            row = np.array([30 * ref.cosine(xi, v) for v in w])
            row[yi] = 30 * rule(math.acos(ref.cosine(xi, w[yi])), m[yi].item())
            assert got.item() == pytest.approx(ref.cross_entropy([row], [yi])[0][0], abs=1e-9)
        assert "margin" in head.state_dict()
        for wrong in (m[:3], -m, m.long()):
            with pytest.raises(ValueError, match="margin"):
                cls(D, C, wrong)


def test_what_half_precision_could_not_hold_stays_in_float32():
    """Running means, which steps of a hundredth must move, and numbers of which a cosine is taken."""
    x, y = batch(3, 5.0)
    margins = torch.linspace(0.2, 0.5, C, dtype=torch.float64)
    for make in (L.AdaFace, lambda *a: L.CurricularFace(*a, margins), lambda *a: L.CenterLoss(L.ArcFace(*a, margins))):
        head = make(D, C)
        features = x.bfloat16().float()
        half = copy.deepcopy(head).bfloat16()
        with torch.no_grad():
            for parameter, rounded in zip(head.parameters(), half.parameters(), strict=True):
                parameter.copy_(rounded)
        values = [[one(features, y).detach() for _ in range(3)] for one in (head, half)]
        torch.testing.assert_close(values[1], values[0], rtol=0, atol=0)
        assert values[0][0].dtype == torch.float32
        for one, other in zip(head.buffers(), half.buffers(), strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_functional_margins_take_tensors():
    cos = torch.linspace(-1, 1, 41, dtype=torch.float64)
    m = torch.linspace(1.0, 3.0, 41, dtype=torch.float64)
    for rule, numbers in ((hs.functional.psi, m), (hs.functional.multiple_angle, m), (clipped_multiple, m),
                          (additive_angle, m / 4)):  # fmt: skip
        one_by_one = torch.stack([rule(c, k.item()) for c, k in zip(cos, numbers, strict=True)])
        torch.testing.assert_close(rule(cos, numbers), one_by_one, rtol=1e-9, atol=1e-7)


def test_a_rule_of_ones_own_sees_norm_label_and_state():
    class Mean(L.MarginSoftmax):
        """Target s·(c − m·‖x‖/μ·(1 + y)), μ the mean norm so far; the others s·c·‖x‖/(1 + ‖x‖)."""

        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            self.register_buffer("mu", torch.zeros(()))

        def observe(self, cos, sample):
            if self.training:
                self.mu.lerp_(sample.norm.mean().to(self.mu.dtype), 0.5)
            return {"mu": self.mu.clone()}

        def target(self, cos, sample):
            return cos - self.margin * sample.norm / sample.state["mu"] * (1 + sample.labels)

        def others(self, cos, sample):
            return cos * sample.norm / (1 + sample.norm)

    x, y = batch(8)
    heads = [Mean(D, C, 0.2, scale=20.0, chunk=chunk).double() for chunk in (None, 2)]
    heads[1].load_state_dict(heads[0].state_dict())
    results = []
    for head in heads:
        features = x.clone().requires_grad_()
        loss = head(features, y)
        results.append((loss.detach(), *torch.autograd.grad(loss, [features, head.weight])))
    torch.testing.assert_close(*results)
    norms, w = x.norm(dim=1, keepdim=True), heads[0].weight.detach()
    cos = F.normalize(x) @ F.normalize(w).T
    own = cos - 0.2 * norms / (0.5 * norms.mean()) * (1 + y[:, None])
    logits = 20 * torch.where(F.one_hot(y, C).bool(), own, cos * norms / (1 + norms))
    torch.testing.assert_close(results[0][0], F.cross_entropy(logits, y))


@pytest.mark.parametrize(
    ("build_it", "match"),
    [
        (lambda: L.AdaFace(D, C, momentum=1.5), "momentum=1.5"),
        (lambda: L.AdaFace(D, C, -0.1), "margin=-0.1"),
        (lambda: L.MagFace(D, C, lower_norm=20.0, upper_norm=10.0), "upper_norm=10.0"),
        (lambda: L.MagFace(D, C, upper_margin=0.1), "upper_margin=0.1"),
        (lambda: L.ElasticFace(D, C, form="both"), "form='both'"),
        (lambda: L.ElasticFace(D, C, 28.6), "radians"),
        (lambda: L.SubcenterArcFace(D, C, sub_centers=0), "sub_centers=0"),
    ],
)
def test_bad_arguments(build_it, match):
    with pytest.raises(ValueError, match=match):
        build_it()


def test_every_head_is_declared():
    classes = {getattr(L, name) for name in L.__all__ if isinstance(getattr(L, name), type)}
    heads = {cls for cls in classes if issubclass(cls, L.MarginSoftmax)} | {L.SphereFace2, L.TripletLoss}
    heads |= {L.FlooredSoftmax}
    assert set(L.HEADS.values()) == heads - {L.MarginSoftmax}
