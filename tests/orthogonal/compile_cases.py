"""The kernels compiled for a Hopper GPU that need not be there: run as a program, prints one JSON object."""

from __future__ import annotations

import json
from typing import Any

import triton
from triton.backends.compiler import GPUTarget

from hypersphere.kernels.device import cayley, products, triangular

POINTERS = {"tiles": "*i32", "counter": "*i32", "table": "*i64", "sums": "*i64", "jobs": "*i32", "widths": "*i64"}
INTEGERS = ("step", "total", "problems", "rows", "number")
NUMBERS = ("tolerance", "gain", "alpha", "beta", "gamma")
CONSTANTS = {
    "BM": 128,
    "BN": 128,
    "BK": 32,
    "B": 64,
    "FEW": False,
    "PRECISE": True,
    "ADDEND": 1,
    "STORE": 1,
    "MIRROR": -1,
    "BEGIN": 1,
    "END": 2,
    "GATED": True,
    "DIVIDED": True,
    "PART": 2,
    "BACK": True,
}


def facts(function: Any) -> dict[str, Any]:
    names = list(function.arg_names)
    signature = {name: kind(name) for name in names}
    chosen = {(names.index(name),): value for name, value in CONSTANTS.items() if name in names}
    aligned = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(names) if signature[name].startswith("*")}
    source = triton.compiler.ASTSource(fn=function, signature=signature, constexprs=chosen, attrs=aligned)
    options = {"num_warps": 8, "num_stages": 3}
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    return {"tensor cores": "wgmma" in compiled.asm["ptx"], "shared": compiled.metadata.shared}


def kind(name: str) -> str:
    if name in CONSTANTS:
        return "constexpr"
    return "i32" if name in INTEGERS else "fp32" if name in NUMBERS else POINTERS.get(name, "*fp32")


if __name__ == "__main__":
    chosen = (
        *(products.product_kernel, products.thin_kernel, products.turn_kernel, triangular.block_kernel),
        *(cayley.residual_kernel, cayley.update_kernel),
    )
    print(json.dumps({function.__name__: facts(function) for function in chosen}))
