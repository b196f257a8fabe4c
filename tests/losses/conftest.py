import os

import pytest
import torch

if not torch.cuda.is_available():  # kernels then run in Triton's interpreter, which wants to know before its import
    os.environ.setdefault("TRITON_INTERPRET", "1")


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)
