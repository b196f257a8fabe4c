"""Every test here runs the kernels."""

import pytest


@pytest.fixture(autouse=True)
def _kernels(on_kernels: None) -> None:
    """On a GPU, or in Triton's interpreter."""
