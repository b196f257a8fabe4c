"""Run under torchrun: ``parallel.py FOLDER`` trains the configurations that the test compares."""

import os
import sys
from pathlib import Path

import torch
from cases import diverging, parallel_cases

from hypersphere.train import Stopped, run

if __name__ == "__main__":
    torch.set_num_threads(1)
    for config in parallel_cases(Path(sys.argv[1])):
        run(config)
    try:
        run(diverging(Path(sys.argv[1])))
    except Stopped as stopped:
        (Path(sys.argv[1]) / f"stopped-{os.environ['RANK']}.txt").write_text(str(stopped))
