"""CoMHE whose projections are learned (thesis 6.6, 6.8, E.8): what they follow, and what flows back through a step."""

import copy

import pytest
import torch
from torch import nn

from hypersphere.functional import energy, unit
from hypersphere.regularizers import CoMHE
from hypersphere.regularizers._views import preservation, preservation_slope, project


@pytest.mark.parametrize("projection", ["angle_preserving", "adversarial", "learned"])
@pytest.mark.parametrize(("unroll", "inner_lr"), [(1, 0.7), (3, 0.7), (3, 0.05)])
def test_unrolled_gradient_is_second_order(projection, unroll, inner_lr):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 5), nn.Linear(5, 2)).double()
    reg = CoMHE(model, projection=projection, unroll=unroll, dim=3, inner_lr=inner_lr, output=0.0, refresh=None).eval()
    weight = model[0].weight.detach().clone()
    start = reg.basis_8.clone()

    def value(w):
        points, bases = unit(w)[None], start.clone().requires_grad_()
        for _ in range(unroll):
            if projection == "angle_preserving":
                inner = preservation(points, bases, "cosine").sum()
            else:
                sign = 1 if projection == "learned" else -1
                inner = sign * energy(project(points, bases), half_space=True).sum()
            (slope,) = torch.autograd.grad(inner, bases, create_graph=True)
            rate = inner_lr
            if projection == "angle_preserving":  # η counts for entries N(0, 1), here N(0, 1/3)
                rate = torch.minimum(torch.tensor(inner_lr / 3), inner / slope.square().sum())
            bases = bases - rate * slope
        return energy(project(points, bases), half_space=True).mean()

    reg().backward()
    numeric = torch.zeros_like(weight)
    for index in range(weight.numel()):  # differences through the whole inner descent
        step = torch.zeros_like(weight).view(-1).index_fill_(0, torch.tensor(index), 1e-6).view_as(weight)
        numeric.view(-1)[index] = (value(weight + step) - value(weight - step)).detach() / 2e-6
    torch.testing.assert_close(model[0].weight.grad, numeric, rtol=1e-5, atol=1e-8)
    constant = energy(project(unit(model[0].weight)[None], start), half_space=True).mean()
    first_order = torch.autograd.grad(constant, model[0].weight)[0]
    assert (numeric - first_order).norm() > 1e-3 * numeric.norm()


def test_preservation_is_thesis_6_6_and_descends():
    torch.manual_seed(0)
    w, basis = torch.randn(1, 6, 9, dtype=torch.float64), torch.randn(1, 4, 9, dtype=torch.float64)
    total = 0.0
    for i in range(6):
        for j in range(6):
            if i != j:
                true = torch.cosine_similarity(w[0, i], w[0, j], dim=0)
                image = torch.cosine_similarity(basis[0] @ w[0, i], basis[0] @ w[0, j], dim=0)
                total += float((true.acos() - image.acos()) ** 2)
    assert preservation(w, basis, "angle").tolist() == [pytest.approx(total)]
    reg = CoMHE(nn.Sequential(nn.Linear(40, 10), nn.Linear(10, 2)), projection="angle_preserving", dim=8)
    weight = reg._hidden[0].matrix().detach()
    before = preservation(weight, reg.basis_40, "cosine")
    for _ in range(10):  # of one step each, at the default rate
        reg()
    assert preservation(weight, reg.basis_40, "cosine") < 0.7 * before


@pytest.mark.parametrize("shape", [(1, 7, 12), (2, 5, 9), (1, 1, 4)])
def test_the_slope_of_the_preservation_is_that_of_autograd(shape):
    torch.manual_seed(0)
    weight, bases = torch.randn(shape, dtype=torch.float64), torch.randn(3, 2, shape[-1], dtype=torch.float64)
    weight[0, -1] = 0  # no direction
    weight.requires_grad_()
    bases[0] = 0  # no image
    leaf, units, seed = bases.clone().requires_grad_(), unit(weight), torch.randn_like(bases)
    value = preservation(units, leaf, "cosine")
    (expected,) = torch.autograd.grad(value.sum(), leaf, create_graph=True)
    found, itself = preservation_slope(units, bases)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(itself, value)
    second = [torch.autograd.grad((one * seed).sum(), weight, retain_graph=True)[0] for one in (found, expected)]
    torch.testing.assert_close(*second)


def test_an_angle_preserving_projection_moves_noticeably_at_each_call():
    """At its defaults a call moves P by some percent: with the mean over pairs it was 5e-5, so AP was RP."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(576, 64), nn.Linear(64, 64), nn.Linear(64, 10))
    for settings in ({}, {"unroll": 1}):
        reg = CoMHE(model, projection="angle_preserving", **settings)
        start = reg.basis_576.clone()
        before = preservation(model[0].weight[None], start, "cosine")
        reg()
        assert 0.01 < (reg.basis_576 - start).norm() / start.norm() < 0.5
        for _ in range(9):
            reg()
        assert preservation(model[0].weight[None], reg.basis_576, "cosine") < 0.7 * before


@pytest.mark.parametrize("settings", [{}, {"unroll": 1}, {"preserve": "angle"}])
@pytest.mark.parametrize("cosine", [0.0, 0.2, 0.9])
def test_a_fresh_projection_of_neurons_that_point_alike_does_not_overshoot(cosine, settings):
    """A step of η is too long where all pairs pull the same way: L_P grew twentyfold, and the energy a thousandfold."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1152, 128, bias=False), nn.Linear(128, 10))
    with torch.no_grad():
        weight = unit(torch.randn(128, 1152))
        model[0].weight.copy_((1 - cosine) ** 0.5 * weight + cosine**0.5 * unit(torch.randn(1152)))
    reg = CoMHE(model, projection="angle_preserving", output=0.0, **settings)
    preserve = settings.get("preserve", "cosine")
    weight = model[0].weight[None].detach()
    before, start = preservation(weight, reg.basis_1152, preserve).item(), reg().item()
    assert preservation(weight, reg.basis_1152, preserve).item() < 4 * before
    assert max(reg().item() for _ in range(19)) < 10 * start


@pytest.mark.parametrize("projection", ["angle_preserving", "adversarial"])
def test_alternating_projections_move_at_every_so_many_calls(projection):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(40, 10), nn.Linear(10, 2))
    arguments = {"projection": projection, "dim": 8, "inner_every": 3, "inner_lr": 0.01}
    reg = CoMHE(model, **arguments)
    each = CoMHE(model, **(arguments | {"inner_every": 1}))
    moved = []
    for _ in range(7):
        before = reg.basis_40.clone()
        reg()
        moved.append(not torch.equal(before, reg.basis_40))
    assert moved == [True, False, False, True, False, False, True]
    for _ in range(3):  # as many moves, of the same size
        each()
    assert torch.equal(reg.basis_40, each.basis_40)
    other = CoMHE(model, **arguments)
    other.load_state_dict(reg.state_dict())
    mine = [reg().item() for _ in range(4)]
    assert [other().item() for _ in range(4)] == mine
    reg()  # the 12th call; the 13th would move
    before = reg.basis_40.clone()
    reg.eval()()
    assert torch.equal(before, reg.basis_40)


def test_adversarial_ascends_the_energy():
    torch.manual_seed(0)
    reg = CoMHE(
        nn.Sequential(nn.Linear(40, 10), nn.Linear(10, 2)),
        projection="adversarial",
        dim=8,
        inner_steps=3,
        inner_lr=0.005,
        output=0.0,
    )
    values = [reg().item() for _ in range(6)]
    assert values == sorted(values)
    assert values[-1] > values[0] + 1e-3


def test_learned_projections_descend_the_energy_as_a_parameter_does():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(40, 10), nn.Linear(10, 2)).double()
    reg = CoMHE(model, projection="learned", dim=8, inner_lr=0.005, output=0.0, refresh=None)
    basis = nn.Parameter(reg.basis_40.clone())
    descent = torch.optim.SGD([basis], lr=0.005)
    values = []
    for _ in range(5):
        descent.zero_grad()
        energy(project(unit(model[0].weight.detach())[None], basis), half_space=True).sum().backward()
        descent.step()
        values.append(reg().item())
        torch.testing.assert_close(reg.basis_40, basis.detach())
    assert values == sorted(values, reverse=True)


@pytest.mark.parametrize(
    "options",
    [
        {"projection": "angle_preserving", "preserve": "angle", "unroll": 2},
        {"projection": "angle_preserving", "unroll": 1},
        {"projection": "adversarial", "unroll": 1, "inner_lr": 0.01},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_unrolled_projections_that_are_never_redrawn_compile(options):
    """The backward pass needs the projections from before the step, in whose place the new ones are kept."""
    torch.manual_seed(0)
    start, found = nn.Sequential(nn.Linear(40, 12), nn.Linear(12, 3)), []
    for compiled in (False, True):
        model = copy.deepcopy(start)
        reg = CoMHE(model, dim=6, refresh=None, **options)
        if compiled:
            torch._dynamo.reset()
            reg.compile(backend="aot_eager", fullgraph=True)
        for _ in range(2):
            model.zero_grad()
            reg().backward()
        found.append((model[0].weight.grad, reg.basis_40))
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-6)
