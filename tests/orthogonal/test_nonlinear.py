"""A nonlinear function of the neurons in the place of R, against the formula written out."""

import copy

import pytest
import torch
from orthogonal_models import IMAGES, convnet
from torch import nn

import hypersphere as hs


def pair():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(9, 5), nn.Linear(5, 2)).double()


@pytest.mark.parametrize("blocks", [1, 2])
def test_weights_are_the_formula(blocks):
    model = hs.orthogonal.attach(pair(), hs.orthogonal.Nonlinear(rank=3), blocks=blocks)
    rotation = model[0].parametrizations.weight[0]
    v, start, expected = model[0].parametrizations.weight.original, 0, []
    for raw in rotation.active.raw:
        for a, b in raw:
            part = v[:, start : start + len(a)]
            expected.append(torch.stack([row + b @ torch.tanh(a.T @ row) for row in part]))
            start += len(a)
    torch.testing.assert_close(model[0].weight, torch.cat(expected, 1))


def test_it_starts_from_the_weights_of_before_and_learns():
    model = pair()
    before = model[0].weight.detach().clone()
    hs.orthogonal.attach(model, "nonlinear", init="identity", neurons="keep")
    assert torch.equal(model[0].weight, before)
    (parameter,) = hs.orthogonal.rotation_parameters(model)
    x = torch.randn(4, 9, dtype=torch.float64)

    def loss(raw):
        return torch.func.functional_call(model, {"0.parametrizations.weight.0.tasks.0.raw.0": raw}, (x,)).sin().sum()

    start = (parameter.detach() + 0.1 * torch.randn_like(parameter)).requires_grad_()
    assert torch.autograd.gradcheck(loss, (start,))


def test_it_disappears_when_merged():
    torch.manual_seed(0)
    model = hs.orthogonal.attach(convnet(), "nonlinear").eval()
    outputs = model(IMAGES)
    merged = hs.orthogonal.merge(copy.deepcopy(model))
    torch.testing.assert_close(merged(IMAGES), outputs)
    assert not any("parametrizations" in name for name in merged.state_dict())


def test_a_nonlinear_map_has_no_matrix_to_return():
    model = hs.orthogonal.attach(pair(), "nonlinear")
    with pytest.raises(ValueError, match="no matrix R"):
        hs.orthogonal.matrices(model)
    with pytest.raises(ValueError, match="rank=0"):
        hs.orthogonal.Nonlinear(rank=0)
