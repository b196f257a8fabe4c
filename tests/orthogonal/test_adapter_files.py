"""Adapters as files: which weights an adapter is on, and the map of each."""

from __future__ import annotations

import copy
import json
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


@pytest.mark.parametrize("methods", [("cayley", "lowdin"), ("cayley", "exponential"), ("lowdin", "cayley")])
def test_each_weight_keeps_its_method(methods: tuple[str, str], tmp_path: Path) -> None:
    model = network()
    for method, target in zip(methods, ("0", "2"), strict=True):
        hs.orthogonal.adapter(model, method, target=target)
    hs.orthogonal.save_adapter(moved(model), tmp_path)
    for again in (hs.orthogonal.load_adapter(network(), tmp_path), hs.orthogonal.load_adapter(model, tmp_path)):
        torch.testing.assert_close(again(X), model(X))
    config = json.loads((tmp_path / "adapter.json").read_text())
    assert tuple(about["method"] for about in config["weights"].values()) == methods
    assert config["method"] not in methods  # a reader that knows one method for all refuses the file


def test_files_with_one_method_for_all_weights_are_read(tmp_path: Path) -> None:
    model = moved(hs.orthogonal.adapter(network(), "exponential"))
    file = hs.orthogonal.save_adapter(model, tmp_path) / "adapter.json"
    config = json.loads(file.read_text())
    assert config["method"] == "exponential"
    for about in config["weights"].values():
        del about["method"]
    file.write_text(json.dumps(config))
    torch.testing.assert_close(hs.orthogonal.load_adapter(network(), tmp_path)(X), model(X))
