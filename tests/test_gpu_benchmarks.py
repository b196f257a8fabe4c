"""The parts of the GPU benchmarks that need no GPU: powers of growth, taking turns, what the one command prints."""

from pathlib import Path

import programs

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
PROGRAM = """
import fcntl, json, sys, tempfile, threading
from pathlib import Path
import gpu, harness

assert harness.exponents([1, 10, 100], [2.0, 20.0, 2000.0]) == [1.0, 2.0]
folder = Path(tempfile.mkdtemp())
tempfile.tempdir = str(folder)
order = []
def measure():
    with harness.alone():
        order.append("alone")
with harness.preparing():
    with harness.preparing():  # several may prepare
        waiting = threading.Thread(target=measure)
        waiting.start()
        waiting.join(0.2)
        order.append("prepared")
waiting.join()
assert order == ["prepared", "alone"], order
(folder / "gpu_energy_cuda.json").write_text(json.dumps({"growth": {"N": [1, 2], "ms": [2.01]}}))
gpu.show_growth(folder)
assert set(gpu.PARTS) == {path.stem[4:] for path in Path(gpu.__file__).parent.glob("gpu_*.py")} - {"networks"}
assert not gpu.finished(["-c", "raise SystemExit(3)"], 60.0)
"""


def test_without_a_gpu():
    done = programs.run(["-c", PROGRAM], cwd=BENCHMARKS)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "time grows as N², memory as N" in done.stdout
    assert "[2.01]" in done.stdout
