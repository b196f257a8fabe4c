import copy
import math

import numpy as np
import pytest
import torch
from torch import nn

from hypersphere.functional import energy, largest_cosine, polarization, uniformity
from hypersphere.regularizers import (
    SRIP,
    HiddenRegularizer,
    Orthogonal,
    Orthonormal,
    Polarization,
    Regularizer,
    Separation,
    Uniformity,
)

ALL = [Orthonormal, Orthogonal, SRIP, Uniformity, Separation, Polarization]


def network():
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 8, 3, groups=1), nn.Flatten(), nn.Linear(6, 20), nn.Linear(20, 5)
    return nn.Sequential(*layers).double()


def hidden(model):
    return [model[0].weight.flatten(1).detach().numpy(), model[2].weight.detach().numpy()]  # N < d and N > d


def test_orthonormal_and_orthogonal():
    model = network()
    grams = [w @ w.T for w in hidden(model)]
    expected = sum(np.linalg.norm(g - np.eye(len(g))) ** 2 for g in grams)
    assert Orthonormal(model, 0.5)().item() == pytest.approx(0.5 * expected)
    expected = sum(np.linalg.norm(g - np.diag(np.diag(g))) ** 2 for g in grams)
    assert Orthogonal(model, 2.0)().item() == pytest.approx(2 * expected)


@pytest.mark.parametrize(("of", "power"), [("cosines", 1), ("cosines_squared", 2)])
def test_orthogonal_of_cosines(of, power):
    """Thesis 5.3.7: the sum of the cosines between all kernels; Rodriguez et al. square them."""
    model = network()
    expected = 0.0
    for w in hidden(model):
        for i in range(len(w)):
            for j in range(len(w)):
                if i != j:
                    expected += (w[i] @ w[j] / np.linalg.norm(w[i]) / np.linalg.norm(w[j])) ** power
    reg = Orthogonal(model, 2.0, of=of)
    assert reg().item() == pytest.approx(2 * expected)
    reg().backward()
    model.append(nn.Linear(3, 2))  # the output layer now
    model[-2].weight.data.zero_()  # of what was the last layer: such neurons have no direction, and add nothing
    assert Orthogonal(model, 2.0, of=of)().item() == pytest.approx(2 * expected)
    weight = model[2].weight
    assert (weight.grad * weight).sum(1).abs().max() < 1e-12  # lengths are free
    assert torch.autograd.gradcheck(lambda w: reg.value(w, None), torch.randn(2, 4, 3).double().requires_grad_())
    with pytest.raises(ValueError, match="of='angles'"):
        Orthogonal(model, of="angles")


def test_grouped_layers_are_orthonormal_group_by_group():
    model = nn.Sequential(nn.Conv2d(4, 6, 3, groups=2), nn.Flatten(), nn.Linear(6, 3)).double()
    groups = model[0].weight.detach().numpy().reshape(2, 3, -1)
    expected = sum(np.linalg.norm(g @ g.T - np.eye(3)) ** 2 for g in groups)
    assert Orthonormal(model, 1.0)().item() == pytest.approx(expected)


def test_srip_is_not_lost_at_orthonormal_weights():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    nn.init.eye_(model[0].weight)
    reg = SRIP(model, 1.0)
    assert reg() == 0
    with torch.no_grad():
        model[0].weight.mul_(2)
    torch.testing.assert_close(reg().item(), 3.0)  # of 4·I − I


def test_srip_converges_to_the_spectral_norm_and_its_gradient():
    model = network()
    reg = SRIP(model, 1.0, iterations=200)
    norms = [np.linalg.norm(w @ w.T - np.eye(len(w)), 2) for w in hidden(model)]
    value = reg()
    assert value.item() == pytest.approx(sum(norms), rel=1e-6)
    value.backward()
    w = model[2].weight.detach().clone().requires_grad_()
    exact = torch.linalg.matrix_norm(w @ w.mT - torch.eye(20, dtype=torch.float64), 2)
    torch.testing.assert_close(model[2].weight.grad, torch.autograd.grad(exact, w)[0], rtol=1e-4, atol=1e-5)
    before = reg.state_dict()["vector_2__weight"].clone()
    with torch.no_grad():
        model[2].weight.mul_(0.9)
    reg.layers()
    reg.eval()
    reg()
    assert torch.equal(before, reg.state_dict()["vector_2__weight"])
    other = SRIP(model, 1.0, iterations=200)
    other.load_state_dict(reg.state_dict())
    assert torch.equal(other.eval()(), reg())


def test_uniformity_separation_and_polarization_by_definition():
    w = torch.randn(7, 4, dtype=torch.float64)
    unit = torch.nn.functional.normalize(w)
    distances = [float((unit[i] - unit[j]).norm()) for i in range(7) for j in range(7) if i != j]
    assert uniformity(w, 3.0).item() == pytest.approx(math.log(sum(math.exp(-3 * d * d) for d in distances) / 42))
    nearest = [max(float(unit[i] @ unit[j]) for j in range(7) if j != i) for i in range(7)]
    assert largest_cosine(w).item() == pytest.approx(sum(nearest) / 7)
    points = torch.randn(5, 4, dtype=torch.float64)
    at = [sum(float((u / u.norm() - v).norm()) ** -2 for v in unit) / 7 for u in points]
    assert polarization(w, points).item() == pytest.approx(min(at))
    with pytest.raises(ValueError, match=r"points \(5, 3\)"):
        polarization(w, points[:, :3])
    for function in (uniformity, largest_cosine):
        assert function(w[:1]) == 0
        assert torch.autograd.gradcheck(function, w.clone().requires_grad_())


@pytest.mark.parametrize("kind", ALL)
def test_frame(kind):
    model = network()
    reg = kind(model, 1.0)
    assert list(reg.layers()) == ["0.weight", "2.weight"]
    torch.testing.assert_close(kind(model, 3.0).eval()(), 3 * kind(model, 1.0).eval()())
    reg().backward()
    assert model[0].weight.grad.norm() > 0
    assert model[3].weight.grad is None  # the output layer is left alone
    assert list(reg.parameters()) == []
    other = copy.deepcopy(reg)
    assert other().item() == reg().item()
    with pytest.raises(ValueError, match="weight=-1"):
        kind(model, -1.0)
    with pytest.raises(ValueError, match="no hidden layer"):
        kind(nn.Linear(3, 2), 1.0)


@pytest.mark.parametrize("kind", ALL)
def test_descent_spreads_neurons(kind):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 8), nn.Linear(8, 2))
    with torch.no_grad():
        model[0].weight.add_(0.5)  # crowded
    before = energy(model[0].weight).item()
    reg = kind(model, 1.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    for _ in range(100):
        optimizer.zero_grad()
        reg().backward()
        optimizer.step()
    assert energy(model[0].weight).item() < before


class Decorrelation(HiddenRegularizer):
    """What CONTRIBUTING promises: one method."""

    def value(self, matrix, neurons):
        unit = torch.nn.functional.normalize(matrix, dim=-1)
        return (unit @ unit.mT).square().mean()


def test_one_method_makes_a_regularizer():
    model = network()
    reg = Decorrelation(model, 0.5)
    values = reg.layers()
    assert [neurons.name for neurons in reg.hidden_neurons] == list(values)
    assert reg.output_neurons is None
    torch.testing.assert_close(reg().detach(), 0.5 * sum(values.values()))
    reg().backward()
    assert model[0].weight.grad.norm() > 0

    class Everywhere(Regularizer):
        value = Decorrelation.value

    assert len(Everywhere(model).layers()) == len(values) + 1
    with pytest.raises(NotImplementedError, match="defines no value"):
        Regularizer(network())()
