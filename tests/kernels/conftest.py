"""Kernels on a CPU: Triton's interpreter runs them, if it is installed and no GPU is there to do it."""

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")
pytest.importorskip("triton")

from hypersphere import kernels


@pytest.fixture(autouse=True)
def interpreter():
    """Every test here runs the kernels; what they launched is counted from 0."""
    torch.manual_seed(0)
    kernels.LAUNCHES.clear()
    with kernels.interpreted():
        yield
