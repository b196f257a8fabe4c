"""The kernels of warm-started maps, on a GPU or in Triton's interpreter; and compiled for a GPU that may be absent."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from warm_cases import everything

import programs

pytest.importorskip("triton")
from haste import hasten_interpreter
from hypersphere.kernels import interpreted


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
