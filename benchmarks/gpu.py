"""All measurements on a GPU, one by one: operators, recurrent layers, heads, energies, maps, several trainings.

    python benchmarks/gpu.py                      everything, into results/*.json
    python benchmarks/gpu.py --only heads energy  some of it
    python benchmarks/gpu.py --quick              fewer heads, sizes and methods

Each part runs in a process of its own, fills the caches of the compilers first and measures then, beside its peers. A
part that fails does not stop the others. At the end: how times and memory grow, from three sizes each, and what failed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import harness

HERE = Path(__file__).parent
PARTS: dict[str, list[list[str]]] = {
    "operators": [["gpu_operators.py", "--warm"], ["gpu_operators.py"]],
    "recurrent": [["gpu_recurrent.py"]],
    "heads": [["gpu_heads.py"]],
    "energy": [["gpu_energy.py"]],
    "orthogonal": [["gpu_orthogonal.py", "--parts", "maps,precision"], ["gpu_orthogonal.py", "--parts", "steps"]],
    "at_once": [["gpu_at_once.py"], ["gpu_at_once.py", "--queues", "8"]],
}
KNOW_QUICK = ("gpu_heads.py", "gpu_orthogonal.py")
EXPECTED = {
    "gpu_heads_cuda.json": "time grows as C¹ where products dominate, memory not at all from one block on",
    "gpu_energy_cuda.json": "time grows as N², memory as N",
    "gpu_orthogonal_cuda.json": "maps grow as d³ at most; small ones are chains of launches",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="which parts (default all)")
    parser.add_argument("--quick", action="store_true", help="fewer heads, sizes and methods")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for each program (default %(default)s)")
    options = parser.parse_args()
    failed = []
    for part in options.only:
        for program, *arguments in PARTS[part]:
            quick = ["--quick"] if options.quick and program in KNOW_QUICK else []
            if not finished([str(HERE / program), *arguments, *quick], options.limit):
                failed.append(" ".join([program, *arguments]))
    show_growth()
    for program in failed:
        print(f"failed: {program}")
    return 1 if failed else 0


def finished(arguments: list[str], limit: float) -> bool:
    """Run one program; whether it came to its end."""
    begin = time.perf_counter()
    print(f"== {Path(arguments[0]).name} {' '.join(arguments[1:])}", flush=True)
    try:
        done = subprocess.run([sys.executable, *arguments], check=False, timeout=limit).returncode == 0
    except subprocess.TimeoutExpired:
        done = False
    print(f"   {'done' if done else 'NOT done'} in {time.perf_counter() - begin:.0f} s", flush=True)
    return done


def show_growth(folder: Path = harness.RESULTS) -> None:
    """Exponents between neighbouring sizes, as the results on disk have them."""
    for name, expected in EXPECTED.items():
        path = folder / name
        growth: dict[str, Any] = json.loads(path.read_text()).get("growth", {}) if path.exists() else {}
        if growth:
            print(f"\n{name}: {expected}")
            for quantity, exponents in growth.items():
                print(f"  {quantity:40s} {exponents}")


if __name__ == "__main__":
    sys.exit(main())
