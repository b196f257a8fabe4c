"""Muon against torch's own where both apply, and on filters."""

import pytest
import torch
from torch import nn

from hypersphere.optim.muon import Muon, newton_schulz


def test_matches_torch_on_matrices():
    torch.manual_seed(0)
    one = nn.Parameter(torch.randn(6, 10))
    two = nn.Parameter(one.detach().clone())
    ours = Muon([one], lr=0.05, momentum=0.9, weight_decay=0.1)
    theirs = torch.optim.Muon([two], lr=0.05, momentum=0.9, weight_decay=0.1)
    for _ in range(3):
        gradient = torch.randn(6, 10)
        one.grad, two.grad = gradient.clone(), gradient.clone()
        ours.step()
        theirs.step()
    torch.testing.assert_close(one, two, atol=2e-3, rtol=0)


def test_filters_are_rows_and_updates_nearly_orthogonal():
    torch.manual_seed(0)
    filters = nn.Parameter(torch.randn(8, 3, 3, 3))
    filters.grad = torch.randn_like(filters)
    before = filters.detach().clone()
    Muon([filters], lr=torch.tensor(0.1), momentum=0.0).step()
    values = torch.linalg.svdvals(((before - filters.detach()) / 0.1).reshape(8, -1))
    assert values.min() > 0.5
    assert values.max() < 1.4
    assert torch.linalg.svdvals(newton_schulz(torch.randn(30, 7)).float()).max() < 1.4


def test_vectors_are_refused():
    weight, bias = nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.zeros(3))
    with pytest.raises(ValueError, match="two or more dimensions"):
        Muon([weight, bias])
    optimizer = Muon([weight])
    with pytest.raises(ValueError, match=r"not \(3,\): use Adam"):
        optimizer.add_param_group({"params": bias})
    assert len(optimizer.param_groups) == 1


def test_the_size_of_a_gradient_does_not_matter():
    gradient = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    found = [newton_schulz(scale * gradient) for scale in (1.0, 2.0**-100, 2.0**60, 2.0**120)]
    assert all(torch.equal(one, found[0]) for one in found)
    assert not newton_schulz(torch.zeros(6, 4)).any()
