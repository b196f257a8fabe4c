"""Identification: 3,000 probes against 1,000,000 distractors of 512 dimensions, time and resident memory.

python benchmarks/identification.py [--rounds N] [--threads N]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from harness import arguments, interleave, show, write
from hypersphere.metrics import identification

CASES = (
    ("stream of float32 blocks", "closest"),
    ("stream of float32 blocks", "megaface"),
    ("memory-mapped float16", "closest"),
)
PROBES, CLASSES, DISTRACTORS, DIM, BLOCK = 3_000, 300, 1_000_000, 512, 4096


def faces(count: int = PROBES, classes: int = CLASSES, dim: int = DIM) -> tuple[Tensor, Tensor]:
    """Probes whose mates have cosine 0.2 in the mean: some distractors of a million come as close."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(count) % classes
    centers = torch.randn(classes, dim, generator=generator)
    return centers[labels] + 2 * torch.randn(count, dim, generator=generator), labels


def stream() -> Iterator[Tensor]:
    """The distractors, block by block: what reading them from disk would give."""
    generator = torch.Generator().manual_seed(1)
    for start in range(0, DISTRACTORS, BLOCK):
        yield torch.randn(min(BLOCK, DISTRACTORS - start), DIM, generator=generator)


def child(case: str, protocol: str, path: str, threads: str) -> None:
    """One evaluation in a process of its own; resident memory is the kernel's high-water mark of all of it."""
    torch.set_num_threads(int(threads))
    probes, labels = faces()
    if case == "memory-mapped float16":
        size = DISTRACTORS * DIM
        distractors: object = torch.from_file(path, size=size, dtype=torch.float16).view(DISTRACTORS, DIM)
    else:
        distractors = stream()
    before, cpu = high_water(), time.process_time()
    found = identification(probes, labels, distractors=distractors, protocol=protocol, block=BLOCK)
    row = {
        "cpu_s": round(time.process_time() - cpu, 1),
        "peak_rss_mb": round(high_water(), 1),
        "rss_before_mb": round(before, 1),
        "searches": len(found.ranks),
        "impostor_scores": found.impostors,
        **{f"rank_{k}": round(rate, 6) for k, rate in found.rates.items()},
        "tar_at_far_1e-6": round(found.tar_at(1e-6), 6),
        "tar_at_far_1e-4": round(found.tar_at(1e-4), 6),
    }
    if case == "stream of float32 blocks" and protocol == "closest":
        row["ranks_checked_in_float64"] = check(probes, labels, found.ranks)
    print(json.dumps(row))


def check(probes: Tensor, labels: Tensor, ranks: Tensor, count: int = 8) -> int:
    """Every rank of the first probes against a float64 count; how many were checked."""
    unit = F.normalize(probes.double())
    cosines = unit[:count] @ unit.T
    own = labels[:count, None] == labels
    itself = torch.arange(len(labels)) == torch.arange(count)[:, None]
    mate = cosines.masked_fill(~own | itself, -2).amax(1, keepdim=True)
    ahead = (cosines.masked_fill(own, -2) >= mate).sum(1)
    for block in stream():
        ahead += (unit[:count] @ F.normalize(block.double()).T >= mate).sum(1)
    if (1 + ahead).tolist() != ranks[:count].tolist():
        raise SystemExit(f"ranks {ranks[:count].tolist()} should be {(1 + ahead).tolist()}")
    return count


def high_water() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


def straightforward(probes: Tensor, labels: Tensor, distractors: Tensor) -> Tensor:
    """What one writes first: the whole matrix of cosines."""
    x = F.normalize(probes)
    own = labels[:, None] == labels
    cosines = x @ x.T
    mate = cosines.masked_fill(~own, -2).fill_diagonal_(-2).amax(1, keepdim=True)
    far = x @ F.normalize(distractors).T
    return 1 + (cosines.masked_fill(own, -2) >= mate).sum(1) + (far >= mate).sum(1)


def main() -> None:
    options = arguments(__doc__ or "", rounds=5)
    rows: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "distractors.f16"
        with path.open("wb") as file:
            for block in stream():
                file.write(block.half().numpy().tobytes())
        for case, protocol in CASES:
            command = [sys.executable, __file__, "--child", case, protocol, str(path), str(options.threads)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            rows[f"{case}, {protocol}"] = row = json.loads(done.stdout)
            print(f"{case}, {protocol}: {row}", flush=True)
    probes, labels = faces(1_000, 100, 128)
    distractors = torch.randn(100_000, 128, generator=torch.Generator().manual_seed(2))
    runs = {
        "ours": lambda: identification(probes, labels, distractors=distractors).ranks,
        "ours, tail of 1,000": lambda: identification(probes, labels, distractors=distractors, tail=1000).ranks,
        "whole matrix": lambda: straightforward(probes, labels, distractors),
    }
    if not torch.equal(runs["ours"](), runs["whole matrix"]()):
        raise SystemExit("the two disagree")
    summary = interleave(runs, options.rounds, "whole matrix", warmup=1)
    show("1,000 probes, 100,000 distractors, d=128", summary)
    sizes = {"probes": PROBES, "distractors": DISTRACTORS, "dim": DIM, "block": BLOCK}
    print(write(options.name or "identification", {"sizes": sizes, "million": rows, "speed": summary}))


if __name__ == "__main__":
    if "--child" in sys.argv:
        child(*sys.argv[2:])
    else:
        main()
