"""The kernels of warm-started maps, on a GPU or in Triton's interpreter; and compiled for a GPU that may be absent."""

from __future__ import annotations

import json
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from warm_cases import everything

import hypersphere as hs
import programs

pytest.importorskip("triton")
from haste import hasten_interpreter
from hypersphere.functional.orthogonalize import warm
from hypersphere.functional.orthogonalize.grouped import TILE
from hypersphere.kernels import interpreted
from hypersphere.orthogonal import _peers


@pytest.fixture(scope="module")
def found() -> Any:
    """What the kernels compute."""
    if torch.cuda.is_available():
        return everything()
    hasten_interpreter()
    with interpreted():
        return everything()


def test_two_steps_follow_what_moved_a_little(found: Any) -> None:
    assert found["cayley"]["moved"]["steps"] == [2, 2]
    assert found["cayley"]["moved"]["gradient"] < 1e-5


@pytest.mark.parametrize("name", ["first", "moved", "literal", "after it"])
def test_every_start_ends_at_the_map(found: Any, name: str) -> None:
    """A first step, jumps and other parameters need more steps and are as right."""
    assert found["cayley"][name]["error"] < 5e-6
    assert found["cayley"][name]["defect"] < 5e-6
    if name in ("first", "literal"):
        assert max(found["cayley"][name]["steps"]) > 4


def test_what_cannot_be_computed_is_nan_and_said_and_done_again(found: Any) -> None:
    assert found["cayley"]["too large"] == {"nan": True, "failed": 2}
    assert found["cayley"]["redone"]["error"] < 1e-6
    assert found["cayley"]["redone"]["failed"] == 0
    assert found["cayley"]["literal"]["failed"] == 0


def test_a_restart_forgets_everything(found: Any) -> None:
    assert found["cayley"]["restarted"] == {"same": True, "failed": 0}


def test_products(found: Any) -> None:
    assert set(found["products"]) == {"plain", "transposed", "transposed addend", "symmetric"}
    assert all(error < 1e-4 for error in found["products"].values())


def test_polar_factors(found: Any) -> None:
    errors = found["polar"]
    assert errors["factor"] < 5e-6
    assert errors["factor"] < 4 * errors["float32 svd"]
    assert errors["gradient"] < 1e-5
    assert errors["defect of a singular one"] < 1e-5
    assert errors["its gradient"] < 1e6


@pytest.mark.parametrize("name", ["gram_schmidt", "householder", "lowdin"])
def test_maps_that_start_from_the_last_step(found: Any, name: str) -> None:
    case = found[name]
    assert case["failed"][1] == 0
    for step in ("moved", "other sign"):
        assert case[step]["defect"] < 5e-6
        assert case[step]["error"] < 1e-5
        assert case[step]["gradient"] < 1e-3


@pytest.mark.parametrize("name", ["gram_schmidt", "householder", "lowdin"])
def test_a_start_that_is_too_far_away_is_nan_and_done_again(found: Any, name: str) -> None:
    assert found[name]["jump"]["failed"] == found[name]["jump"]["nan"]
    assert found[name]["jump"]["failed"][1] == 1
    assert found[name]["redone"] < 1e-5


def test_a_singular_value_that_goes_through_zero_turns_its_direction_around(found: Any) -> None:
    """The iteration would follow the R of before, which is orthogonal as well: the sign of H tells."""
    assert found["through zero"]["before"] == {"failed": [0], "nan": False}
    assert found["through zero"]["after"] == {"failed": [1], "nan": True}
    assert found["through zero"]["error"] < 5e-6


def test_a_network_trains_by_kernels_as_without(monkeypatch: pytest.MonkeyPatch, on_kernels: None) -> None:
    """Layers of padded sizes, turned together and one by one, forward and back."""
    wanted = losses(network(), together=False)
    monkeypatch.setattr(_peers, "usable", lambda raw, family="": True)
    monkeypatch.setattr(_peers.Peers, "_look_later", lambda self, warm: None)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(warm, "_STEPS", 10)
    monkeypatch.setitem(TILE, "BM", 64)
    monkeypatch.setitem(TILE, "BN", 64)
    for together in (True, False):
        model = network()
        assert losses(model, together) == pytest.approx(wanted, rel=1e-5)
        assert model[0].parametrizations.weight[0].active.peers.kind == "warm cayley"


def network() -> nn.Sequential:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.Conv2d(5, 7, 3), nn.Flatten(), nn.Linear(28, 3))
    return hs.orthogonal.attach(model, "cayley", neurons="gaussian", output_layer="4")  # type: ignore[return-value]


def losses(model: nn.Module, together: bool) -> list[float]:
    """Of three steps."""
    optimizer, out = torch.optim.SGD(model.parameters(), lr=0.05), []
    x = torch.randn(16, 3, 6, 6, generator=torch.Generator(torch.get_default_device()).manual_seed(1))
    for _ in range(3):
        optimizer.zero_grad()
        with hs.orthogonal.prepared(model) if together else nullcontext():
            loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        out.append(loss.item())
    return out


def test_kernels_compile_for_hopper() -> None:
    """On its tensor cores and within its shared memory; in a process that does not interpret."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop("TRITON_INTERPRET", None)
    done = programs.run([Path(__file__).with_name("compile_cases.py")], env=environment, bare=True)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert set(found) == {
        *("product_kernel", "residual_kernel", "update_kernel", "thin_kernel", "turn_kernel", "block_kernel")
    }
    for kernel, facts in found.items():
        assert facts["tensor cores"], kernel
        assert facts["shared"] <= 227 * 1024, kernel
