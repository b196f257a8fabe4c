"""The kernels of warm-started maps, by Triton's interpreter; and compiled for a GPU that need not be there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

triton = pytest.importorskip("triton")


@pytest.fixture(scope="module")
def found() -> Any:
    """What the program beside this file prints: the interpreter has to be chosen before Triton is imported."""
    program = Path(__file__).with_name("warm_cases.py")
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, env=environment, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    return json.loads(run.stdout)


def test_two_steps_follow_what_moved_a_little(found: Any) -> None:
    assert found["cayley"]["moved"]["steps"] == [2, 2, 2, 2]


@pytest.mark.parametrize("name", ["first", "moved", "jump", "literal", "after it"])
def test_every_start_ends_at_the_map(found: Any, name: str) -> None:
    """A first step, jumps and other parameters need more steps and are as right."""
    assert found["cayley"][name]["error"] < 5e-6
    assert found["cayley"][name]["defect"] < 5e-6
    if name in ("first", "jump", "literal"):
        assert max(found["cayley"][name]["steps"]) > 4


def test_what_cannot_be_computed_is_nan_and_said(found: Any) -> None:
    assert found["cayley"]["too large"] == {"nan": True, "failed": 4}
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


@pytest.mark.parametrize("kernel", ["residual_kernel", "update_kernel", "product_kernel"])
def test_kernels_compile_for_hopper(kernel: str) -> None:
    """On tensor cores, without spilling more than a few registers."""
    from triton.backends.compiler import GPUTarget

    from hypersphere.functional.orthogonalize import device_cayley, device_products

    function = getattr(device_products if kernel == "product_kernel" else device_cayley, kernel)
    if not hasattr(function, "arg_names"):
        pytest.skip("Triton interprets")
    integers = {"tiles": "*i32", "counter": "*i32", "table": "*i64", "sums": "*i64"}
    scalars = {"step", "total", "problems", "rows", "number"}
    real = {"tolerance", "gain", "alpha", "beta", "gamma"}
    constants = {"BM": 128, "BN": 128, "BK": 32, "FEW": False, "PRECISE": True, "ADDEND": 1, "STORE": 1, "MIRROR": -1}
    names = list(function.arg_names)
    signature = {
        name: "constexpr"
        if name in constants
        else integers.get(name, "i32" if name in scalars else "fp32" if name in real else "*fp32")
        for name in names
    }
    chosen = {(names.index(name),): value for name, value in constants.items() if name in names}
    aligned = {
        (index,): [["tt.divisibility", 16]] for index, name in enumerate(names) if signature[name].startswith("*")
    }
    source = triton.compiler.ASTSource(fn=function, signature=signature, constexprs=chosen, attrs=aligned)
    options = {"num_warps": 8, "num_stages": 3}
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    assert "wgmma" in compiled.asm["ptx"]
    assert compiled.metadata.shared <= 227 * 1024
