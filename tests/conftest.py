"""What every process of a test run does; a process that runs tests also takes ``worker.py``.

The process that only hands tests to others imports no torch: they wait for it.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # programs that tests start: one core for each, too
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # and no others of the compiler, each with its own torch

# What is compiled is kept, whatever the environment says: else each worker and each program compiles all of it again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell that starts the tests in the background has them ignore Ctrl-C, and with them the programs they interrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Temporary folders are in memory where there is room: a training waits for the disk at every checkpoint.
MEMORY = "/dev/shm"
if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 4 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "real_data(name): needs the real data set `name` in $HYPERSPHERE_DATA")
    config.addinivalue_line("markers", "browser: needs a Chromium ($HYPERSPHERE_CHROMIUM, else on the path)")
    if hasattr(config, "workerinput") or not config.getoption("tx", None):
        config.pluginmanager.import_plugin("worker")
