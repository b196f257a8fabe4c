"""Averages of the weights of an attached network (EMA): which R stay orthogonal, and what makes the others so."""

from __future__ import annotations

import pytest
import torch
from orthogonal_models import ORTHOGONAL, defect
from torch import nn
from torch.optim.swa_utils import AveragedModel

import hypersphere as hs


@pytest.mark.parametrize("method", [*ORTHOGONAL, "canonical"])
def test_an_average_is_orthogonal_where_the_parameter_of_r_is_averaged(method: str) -> None:
    torch.manual_seed(0)
    model = hs.orthogonal.attach(nn.Sequential(nn.Linear(8, 6), nn.Linear(6, 3)), method, neurons="gaussian")
    averaged = AveragedModel(model)
    optimizer = hs.optim.OrthogonalSGD(model.parameters(), lr=0.5)
    for _ in range(4):
        averaged.update_parameters(model)
        optimizer.zero_grad()
        model(torch.randn(5, 8)).square().mean().backward()
        optimizer.step()
    (r,) = hs.orthogonal.matrices(averaged).values()
    assert (defect(r) < 1e-5) is (method != "gradient")
    with torch.no_grad():
        for parameter in averaged.parameters():
            if hs.orthogonal.is_orthogonal(parameter):
                parameter.copy_(hs.functional.orthogonalize(parameter, "lowdin"))
    (r,) = hs.orthogonal.matrices(averaged).values()
    assert defect(r) < 1e-5
