"""Adapters as files: which weights an adapter is on, and the map of each."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import hypersphere as hs
from hypersphere._core.registries import MAPS


def halved(u: Tensor) -> Tensor:
    """The Cayley transform of a quarter of U − Uᵀ."""
    a = (u - u.mT) / 4
    identity = torch.eye(u.shape[-1]).to(u)
    return torch.linalg.solve(identity - a, identity + a)


def turned_over(u: Tensor) -> Tensor:
    return -halved(u)


def jumping(u: Tensor) -> Tensor:
    r = halved(u)
    return torch.where((r.diagonal(dim1=-2, dim2=-1).mean(-1) == 1)[..., None, None], r, -r)


class Learned(nn.Module):
    """A map with a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, u: Tensor) -> Tensor:
        return halved(self.scale * u)


learned = Learned()
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


@pytest.mark.parametrize("method", ["adapter_halved", f"{__name__}:halved", "canonical"])
def test_maps_of_ones_own_are_adapters(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MAPS, "_entries", dict(MAPS._entries))
    hs.register("map", "adapter_halved", halved)
    model = network()
    before = model(X)
    hs.orthogonal.adapter(model, method, blocks=2)
    torch.testing.assert_close(model(X), before, atol=1e-5, rtol=0)
    model(X).square().sum().backward()
    assert all(p.grad is not None and bool(p.grad.any()) for p in model.parameters() if p.requires_grad)
    hs.orthogonal.save_adapter(moved(model), tmp_path)
    torch.testing.assert_close(model[0].weight.norm(dim=1), network()[0].weight.norm(dim=1))
    torch.testing.assert_close(hs.orthogonal.load_adapter(network(), tmp_path)(X), model(X))


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (f"{__name__}:turned_over", "must start at R = I"),
        (f"{__name__}:jumping", "this map jumps away"),
        (f"{__name__}:learned", "has parameters or buffers of its own"),
        ("free", "must give orthogonal matrices"),
        ("gradient", "must give orthogonal matrices"),
        ("nonlinear", "must make a matrix R"),
        (halved, "must be a name"),
    ],
)
def test_maps_that_cannot_be_adapters_are_refused(method: str, message: str) -> None:
    model = network()
    with pytest.raises(ValueError, match=message):
        hs.orthogonal.adapter(model, method)
    assert all(p.requires_grad for p in model.parameters())
    assert not any(hasattr(module, "parametrizations") for module in model)


ATTACHED = hs.orthogonal.attach(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)), neurons="keep")[
    0
].parametrizations.weight
ROTATION = ATTACHED[0]
ALGORITHM = hs.functional.Orthogonalizer(lambda u: (u,), lambda grad, r: grad)


@pytest.mark.parametrize("verb", [hs.orthogonal.attach, hs.orthogonal.adapter])
@pytest.mark.parametrize(
    ("method", "message"),
    [
        (f"{__name__}:ROTATION", "_files:ROTATION' is what computes the weight of a layer, not a map"),
        (f"{__name__}:ATTACHED", "_files:ATTACHED' is what computes the weight of a layer, not a map"),
        ("torch.nn:Identity", "'torch.nn:Identity' is <class .*>, which must be a name.*pass an object of this class"),
        ("math:pi", "'math:pi' is 3.14.*, which must be a name, a Map or a function"),
    ],
)
def test_an_address_that_is_no_map(verb: Callable[..., object], method: str, message: str) -> None:
    model = network()
    with pytest.raises(TypeError, match=message):
        verb(model, method)
    assert not any(hasattr(module, "parametrizations") for module in model)


@pytest.mark.parametrize(("method", "message"), [(ROTATION, "method='Rotation' is what"), (ALGORITHM, "declare it by")])
def test_an_object_that_is_no_map(method: object, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        hs.orthogonal.attach(network(), method)


def test_a_file_names_no_code_that_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "strange_maps.py").write_text(Path(__file__).read_text().split("X = torch")[0])
    monkeypatch.syspath_prepend(str(tmp_path))
    file = hs.orthogonal.save_adapter(moved(hs.orthogonal.adapter(network(), f"{__name__}:halved")), tmp_path)
    text = (file / "adapter.json").read_text().replace(f"{__name__}:halved", "strange_maps:halved")
    (file / "adapter.json").write_text(text)
    with pytest.raises(ValueError, match="names code to run, method='strange_maps:halved'"):
        hs.orthogonal.load_adapter(network(), tmp_path)
    assert "strange_maps" not in sys.modules
    hs.orthogonal.load_adapter(network(), tmp_path, trust="strange_maps")
