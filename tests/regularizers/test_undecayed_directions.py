"""parameter_groups sees directions through parametrizations: what makes them does not decay."""

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

import hypersphere as hs


def names_of_groups(model):
    names = {id(p): name for name, p in model.named_parameters()}
    decayed, kept = hs.optim.parameter_groups(model, 5e-4)
    return [{names[id(p)] for p in group["params"]} for group in (decayed, kept)]


@pytest.mark.parametrize("wrap", [parametrizations.weight_norm, parametrizations.spectral_norm])
@pytest.mark.parametrize("make", [
    lambda: hs.nn.SphereLinear(4, 4), lambda: hs.nn.SphereConv2d(3, 4, 3), lambda: hs.losses.ArcFace(4, 3),
])  # fmt: skip
def test_parametrized_directions_do_not_decay(wrap, make):
    model = nn.ModuleDict({"direction": wrap(make()), "plain": wrap(nn.Linear(4, 4))})
    decayed, kept = names_of_groups(model)
    assert {name for name in decayed if name.startswith("direction")} == set()
    assert {name for name in kept if "original" in name} == {
        name for name, _ in model.named_parameters() if name.startswith("direction") and "original" in name
    }
    assert all(name.startswith("plain") for name in decayed)
    assert decayed


def test_old_weight_norm_of_a_head():
    with pytest.warns(FutureWarning, match="weight_norm"):
        head = nn.utils.weight_norm(hs.losses.ArcFace(4, 3))
    assert names_of_groups(head) == [set(), {"weight_g", "weight_v"}]
    with pytest.warns(FutureWarning, match="weight_norm"):
        softmax = nn.utils.weight_norm(hs.losses.Softmax(4, 3))
    assert names_of_groups(softmax) == [{"weight_g", "weight_v"}, set()]


def test_parameters_of_r_decay_and_neurons_v_do_not():
    """The parameters of R in w = Rv are no directions; v is."""
    model = nn.Sequential(hs.nn.SphereLinear(4, 4), nn.Linear(4, 2))
    hs.orthogonal.attach(model, "free", learn_v=True)
    decayed, kept = names_of_groups(model)
    assert "0.parametrizations.weight.original" in kept
    assert any(name.startswith("0.parametrizations.weight.0") for name in decayed)


def test_decay_of_a_direction_changes_nothing_but_its_length():
    """Why: with the groups, steps without gradient leave the function as it is and the parameters too."""
    layer = parametrizations.weight_norm(hs.nn.SphereLinear(4, 4))
    before = {name: p.detach().clone() for name, p in layer.named_parameters()}
    optimizer = torch.optim.SGD(hs.optim.parameter_groups(layer, 0.5), lr=0.1)
    for p in layer.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    assert all(torch.equal(p, before[name]) for name, p in layer.named_parameters())
