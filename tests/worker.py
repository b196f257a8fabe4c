"""One seed and one thread for every test; tests that need a GPU or real data run where these are.

Tests marked ``real_data("name")`` are collected only where ``$HYPERSPHERE_DATA`` holds that set.

With ``HYPERSPHERE_REQUIRE_DATA=1`` they are always collected, so that a missing set is a failure.

Tests marked ``browser`` need a Chromium and playwright; ``HYPERSPHERE_REQUIRE_BROWSER=1`` likewise requires them.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from haste import hasten_compiler, hasten_export, hasten_interpreter, hasten_torch
from hypersphere import data, kernels
from hypersphere._core.registries import KINDS

torch.set_num_threads(1)  # one core for each worker
hasten_torch()
if torch.cuda.is_available():
    kernels.enable(*kernels.FAMILIES)  # also those that do not serve unasked yet
else:
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when Triton is first imported: kernels run on CPU tensors


@pytest.fixture(autouse=True)
def reproducible() -> None:
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("highest")  # a training before this test may have chosen another


@pytest.fixture
def unregistered() -> Iterator[None]:
    """What a test registers is gone after it."""
    before = {kind: {entry.name: entry for entry in table.entries()} for kind, table in KINDS.items()}
    yield
    for kind, entries in before.items():
        KINDS[kind]._entries.clear()
        KINDS[kind]._entries.update(entries)


@pytest.fixture
def on_kernels() -> Iterator[None]:
    """Kernels run: on a GPU, which is then the default device, or on CPU tensors through Triton's interpreter.

    Launches are counted from 0, and float32 products are float32 products.
    """
    pytest.importorskip("triton")
    kernels.LAUNCHES.clear()
    if not torch.cuda.is_available():
        hasten_interpreter()
        with kernels.interpreted():
            yield
        return
    allowed = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        with torch.device("cuda"):
            yield
    finally:
        torch.backends.cudnn.allow_tf32 = allowed


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One headless Chromium for all tests of a process."""
    path = find_chromium()
    if path is None:
        pytest.fail("no Chromium or no playwright here, and HYPERSPHERE_REQUIRE_BROWSER=1 requires them")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield found
        found.close()


def pytest_collection_finish(session: pytest.Session) -> None:
    """What is there before the first test stays: the garbage collector need not look at it again and again."""
    if len(session.items) > 500:  # else it may take longer to import compilers than to wait for them
        hasten_compiler()
        hasten_export()
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)


def find_chromium() -> str | None:
    """The browser that tests drive, if there is one and playwright to drive it."""
    if importlib.util.find_spec("playwright") is None:
        return None
    names = ("chromium", "chromium-browser", "google-chrome")
    return os.environ.get("HYPERSPHERE_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    required = os.environ.get("HYPERSPHERE_REQUIRE_DATA") == "1"
    there: dict[str, bool] = {}

    def wanted(item: pytest.Item) -> bool:
        if item.get_closest_marker("gpu") and not torch.cuda.is_available():
            return False
        if item.get_closest_marker("browser") and not find_chromium():
            return os.environ.get("HYPERSPHERE_REQUIRE_BROWSER") == "1"
        names = [mark.args[0] for mark in item.iter_markers("real_data")]
        for name in names:
            there.setdefault(name, bool(os.environ.get("HYPERSPHERE_DATA")) and data.available(name))
        return required or all(there[name] for name in names)

    keep = [item for item in items if wanted(item)]
    if len(keep) < len(items):
        kept = set(keep)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = keep
