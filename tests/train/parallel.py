"""Run under torchrun: ``parallel.py FOLDER`` trains the configurations that the test compares."""

import sys
from pathlib import Path

import torch
from cases import parallel_cases

from hypersphere.train import run

if __name__ == "__main__":
    torch.set_num_threads(1)
    for config in parallel_cases(Path(sys.argv[1])):
        run(config)
