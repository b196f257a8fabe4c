"""Angular functions g: identities, edges, objects; their values and gradients are in test_operators.py."""

import copy
import math
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_reference import ANGULAR

import hypersphere as hs

F = hs.functional
KINDS = sorted(ANGULAR)


@settings(deadline=None, max_examples=30)
@given(st.floats(0.02, 20), st.floats(-1, 1))
def test_the_sigmoid_is_odd_bounded_and_increasing_in_c_for_every_k(k, c):
    points = torch.tensor([c, -c, min(1.0, c + 0.05), 1.0, -1.0, 0.0], dtype=torch.float64)
    g = F.angular(points, "sigmoid", k).tolist()
    assert g[0] == pytest.approx(-g[1], abs=1e-12)
    assert g[2] >= g[0]
    assert g[3:] == pytest.approx([1.0, -1.0, 0.0])


def test_the_sigmoid_tends_to_the_linear_one():
    c = torch.linspace(-1, 1, 21, dtype=torch.float64)
    torch.testing.assert_close(F.angular(c, "sigmoid", 1e4), F.angular(c, "linear"), atol=1e-7, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_finite_at_the_edges_in_every_dtype(kind, dtype):
    c = torch.tensor([1.0, -1.0, 0.0], dtype=dtype, requires_grad=True)
    g = F.angular(c, kind)
    (grad,) = torch.autograd.grad(g.sum(), c)
    assert g.dtype == dtype
    assert g.tolist() == pytest.approx([1.0, -1.0, 0.0])
    assert grad.isfinite().all()
    assert grad[:2].gt(0).all()


def test_the_derivative_of_the_sigmoid_has_its_constant_factor():
    """Erratum 2: the printed derivative omits 1/tanh(π/(4k))."""
    k, c = 0.3, 0.2
    x = torch.tensor(c, dtype=torch.float64, requires_grad=True)
    (grad,) = torch.autograd.grad(F.angular(x, "sigmoid", k), x)
    t = math.tanh(math.asin(c) / (2 * k))
    expected = (1 - t * t) / (2 * k * math.tanh(math.pi / (4 * k))) / math.sqrt(1 - c * c)
    assert grad.item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("share", ["filter", "layer", "network"])
def test_learnable_k_is_shared_as_asked(share):
    g = hs.angular.Sigmoid(learnable=True, share=share)
    first, second = g.for_layer(5), g.for_layer(5)
    assert first.raw_k.shape == ((5,) if share == "filter" else (1,))  # FSDP2 takes no parameter of shape ()
    assert first.k.shape == ((5,) if share == "filter" else ())
    if share != "filter":  # older versions saved it so
        first.load_state_dict({"raw_k": torch.tensor(0.5).log()})
    assert (first is second) == (share == "network")
    assert torch.as_tensor(first.k).flatten()[0].item() == pytest.approx(0.5)
    assert hs.angular.Sigmoid().k == 0.3


@pytest.mark.parametrize("form", ["log", "abs"])
def test_k_stays_positive_whatever_the_optimizer_does(form):
    g = hs.angular.Sigmoid(k=0.7, learnable=True, form=form)
    assert torch.as_tensor(g.k).item() == pytest.approx(0.7)
    with torch.no_grad():
        g.raw_k.fill_(-30.0)
    assert torch.as_tensor(g.k).item() > 0


def test_objects_survive_copies_and_state_dicts():
    g = hs.angular.Sigmoid(learnable=True).for_layer(3)
    with torch.no_grad():
        g.raw_k.copy_(torch.tensor([0.1, 0.2, 0.3]))
    c = torch.rand(2, 3, 4) * 2 - 1
    other = hs.angular.Sigmoid(learnable=True).for_layer(3)
    other.load_state_dict(g.state_dict())
    for twin in (copy.deepcopy(g), pickle.loads(pickle.dumps(g)), other):
        torch.testing.assert_close(twin.from_cos(c), g.from_cos(c))
    per_filter = torch.stack([F.angular(c[:, i], "sigmoid", g.k[i]) for i in range(3)], 1)
    torch.testing.assert_close(g.from_cos(c), per_filter)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: F.angular(torch.ones(1), "cosinus"), r"kind='cosinus'.*did you mean 'cosine'"),
        (lambda: F.angular(torch.ones(1), "sigmoid", 0.0), r"k=0.0 must be finite and > 0"),
        (lambda: hs.angular.Sigmoid(k=-1.0), r"k=-1.0 must be"),
        (lambda: hs.angular.Sigmoid(share="world"), r"share='world'.*'filter'"),
        (lambda: hs.angular.Sigmoid(k=0.01, learnable=True, form="abs"), r"k=0.01 cannot be reached.*0.05"),
        (lambda: hs.angular.resolve("sine"), r"angular='sine' is unknown"),
        (lambda: hs.angular.Sigmoid(learnable=True).for_layer(3).for_layer(5), r"k for 3 filters.*has 5: pass a new"),
    ],
)
def test_wrong_values_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_wrong_types_are_named():
    with pytest.raises(TypeError, match="from_cos"):
        hs.angular.resolve(3)
    with pytest.raises(TypeError, match=r"k='0\.3'"):
        hs.angular.Sigmoid(k="0.3")
