"""Adapters as files: which weights an adapter is on, and the map of each."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch import nn

import hypersphere as hs

X = torch.randn(7, 6, generator=torch.Generator().manual_seed(0))


def network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 3))


def moved(model: nn.Module) -> nn.Module:
    """What is learned, away from the identity."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model


@pytest.mark.parametrize(
    ("saved", "present", "message"),
    [("0", None, r"is on 2\.weight, which .* does not adapt: "), (None, "0", r"is not on 2\.weight, as ")],
)
def test_an_adapter_of_that_name_on_other_weights_is_refused(
    saved: str | None, present: str | None, message: str, tmp_path: Path
) -> None:
    source = moved(hs.orthogonal.adapter(network(), target=saved))
    hs.orthogonal.save_adapter(source, tmp_path)
    model = moved(hs.orthogonal.adapter(network(), target=present))
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ValueError, match=message):
        hs.orthogonal.load_adapter(model, tmp_path)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    hs.orthogonal.load_adapter(model, tmp_path, name="other")
    torch.testing.assert_close(model(X), source(X))
