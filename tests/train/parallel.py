"""Run under torchrun: ``parallel.py FOLDER [DEVICE]`` trains the configurations that the test compares."""

import os
import sys
from pathlib import Path

import torch
from cases import diverging, parallel_cases

from hypersphere.train import Stopped, run, with_values

if __name__ == "__main__":
    torch.set_num_threads(1)
    folder, device = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "cpu"
    here = {"run.device": device, "run.matmul": "highest"}
    for config in parallel_cases(folder):
        run(with_values(config, here))
    try:
        run(with_values(diverging(folder), here))
    except Stopped as stopped:
        (folder / f"stopped-{os.environ['RANK']}.txt").write_text(str(stopped))
    try:  # a folder that holds a run with other settings
        run(with_values(next(iter(parallel_cases(folder))), {**here, "data.pad": 3}))
    except (ValueError, Stopped) as refused:
        (folder / f"refused-{os.environ['RANK']}.txt").write_text(f"{type(refused).__name__}: {refused}")
