"""Magnitude functions h: slopes at 0, identities, learnable radius, running mean; values are in test_operators.py."""

import copy
import pickle

import pytest
import torch
from operator_reference import MAGNITUDE

import hypersphere as hs

F = hs.functional
KINDS = sorted(MAGNITUDE)
CLASSES = {
    cls.kind: cls
    for cls in (getattr(hs.magnitude, n) for n in ["Sphere", "Ball", "Tanh", "Linear", "Segment", "Log", "Mix"])
}
WITH_RADIUS = ["ball", "segment", "tanh"]


@pytest.mark.parametrize(
    ("kind", "limit"), [("sphere", 0.0), ("ball", 4.0), ("tanh", 4.0), ("linear", 2.0), ("segment", 2.0), ("log", 2.0)]
)
def test_the_slope_at_zero_is_its_limit(kind, limit):
    zero = torch.zeros(2, requires_grad=True)
    ratio = F.magnitude_ratio(zero, kind, alpha=2.0, rho=0.5)
    assert ratio.tolist() == [limit, limit]
    assert torch.autograd.grad((ratio + 0 * zero).sum(), zero)[0].isfinite().all()
    assert F.magnitude(zero, kind, alpha=2.0, rho=0.5).eq(0).all()


def test_ball_and_linear_are_segments():
    """Erratum 11: up to the scale α/ρ."""
    n = torch.rand(50, dtype=torch.float64) * 3
    torch.testing.assert_close(F.magnitude(n, "ball", 1.5, rho=0.7), F.magnitude(n, "segment", 1.5 / 0.7, 0.0, 0.7))
    torch.testing.assert_close(F.magnitude(n, "linear", 1.5), F.magnitude(n, "segment", 1.5, 1.5, 0.7))


@pytest.mark.parametrize("kind", KINDS)
def test_huge_and_tiny_norms_stay_finite(kind):
    n = torch.tensor([0.0, 1e-38, 1e-20, 1e20, 1e38], requires_grad=True)
    for function in (F.magnitude, F.magnitude_ratio):
        out = function(n, kind)
        assert out.isfinite().all()
    bounded = F.magnitude(n, kind)
    assert torch.autograd.grad((bounded + 0 * n).sum(), n)[0].isfinite().all()


@pytest.mark.parametrize("kind", WITH_RADIUS)
def test_the_radius_follows_the_mean_norm(kind):
    h = CLASSES[kind]()
    n = torch.tensor([1.0, 3.0])
    torch.testing.assert_close(h(n), F.magnitude(n, kind, rho=2.0))  # batch mean while training
    assert h.running_norm.item() == 2.0  # the first batch sets the average
    h(torch.tensor([4.0, 4.0]))
    assert h.running_norm.item() == pytest.approx(0.9 * 2 + 0.1 * 4)
    h.eval()
    torch.testing.assert_close(h(n), F.magnitude(n, kind, rho=2.2))
    assert h.num_batches_tracked.item() == 2


@pytest.mark.parametrize("kind", WITH_RADIUS)
def test_no_gradient_flows_through_the_mean_but_one_to_the_radius(kind):
    h = CLASSES[kind](rho=0.8)
    n = torch.tensor([1.0, 3.0], requires_grad=True)
    grad_n, grad_rho = torch.autograd.grad(h(n).sum(), (n, h.raw_rho))
    detached = torch.tensor([1.0, 3.0], requires_grad=True)
    expected = torch.autograd.grad(F.magnitude(detached, kind, rho=0.8 * 2.0).sum(), detached)[0]
    torch.testing.assert_close(grad_n, expected)
    assert grad_rho.abs() > 0


@pytest.mark.parametrize("kind", WITH_RADIUS)
@pytest.mark.parametrize("form", ["log", "square"])
def test_the_radius_stays_positive(kind, form):
    h = CLASSES[kind](rho=0.5, form=form)
    assert h.rho.item() == pytest.approx(0.5)
    with torch.no_grad():
        h.raw_rho.fill_(-20.0)
    assert h.rho.item() > 0


def test_zero_empty_and_overflowing_batches_leave_the_mean_usable():
    h = hs.magnitude.Tanh()
    for bad in (torch.zeros(3), torch.zeros(0), torch.full((2,), float("inf"))):
        assert not h(bad).isnan().any()
        assert h.running_norm.item() == 1.0


@pytest.mark.parametrize("kind", KINDS)
def test_copies_and_state_dicts(kind):
    h = CLASSES[kind](alpha=1.5)
    h(torch.rand(4) + 1)
    other = CLASSES[kind](alpha=1.5)
    other.load_state_dict(h.state_dict())
    n = torch.rand(5) * 3
    for twin in (copy.deepcopy(h), pickle.loads(pickle.dumps(h)), other):
        torch.testing.assert_close(twin.eval()(n), h.eval()(n))
    assert h.for_layer(3) is not h
    assert "alpha=1.5" in repr(h)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: F.magnitude(torch.ones(1), "tan"), r"kind='tan'.*did you mean 'tanh'"),
        (lambda: F.magnitude(torch.ones(1), "tanh", rho=0.0), r"rho=0.0 must be finite and > 0"),
        (lambda: F.magnitude(torch.ones(1), "mix", beta=-1.0), r"beta=-1.0 must be finite and ≥ 0"),
        (lambda: hs.magnitude.Tanh(rho=-2.0), r"rho=-2.0"),
        (lambda: hs.magnitude.Sphere(alpha=0.0), r"alpha=0.0"),
        (lambda: hs.magnitude.Ball(momentum=1.5), r"momentum=1.5 is a share: it must lie in \(0, 1\]"),
        (lambda: hs.magnitude.resolve("cube"), r"magnitude='cube' is unknown"),
    ],
)
def test_wrong_values_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_radius_saved_without_dimensions_is_loaded():
    """FSDP2 takes no parameter of shape (), which older versions had."""
    h = hs.magnitude.Tanh(rho=2.0)
    assert h.raw_rho.shape == (1,)
    assert h.rho.shape == ()
    state = {name: value.clone() for name, value in h.state_dict().items()}
    old = {**state, "raw_rho": torch.tensor(0.25)}
    h.load_state_dict(old)
    assert h.raw_rho.item() == 0.25
    h.load_state_dict(state)
    assert h.rho.item() == pytest.approx(2.0)
    with pytest.raises(RuntimeError, match="size mismatch"):
        h.load_state_dict({**state, "raw_rho": torch.zeros(3)})
