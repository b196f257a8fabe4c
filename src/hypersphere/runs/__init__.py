"""Run folders: reading and writing settings, logs, results and trained networks.

``Run(folder)`` says what a run folder holds; ``load(folder)`` gives the trained network.
"""

from .device import usable_device
from .environment import environment
from .facts import Facts
from .gan import Gan
from .loading import is_alive, load
from .logger import Logger
from .model import Classifier
from .networks import Networks, attach, make_networks, merged
from .run import Run
from .run_folder import WARNINGS, beside, open_run, read_config, run_path, write_result
from .seed_folder import SeedFolder
from .team import Team

__all__ = [
    "WARNINGS",
    "Classifier",
    "Facts",
    "Gan",
    "Logger",
    "Networks",
    "Run",
    "SeedFolder",
    "Team",
    "attach",
    "beside",
    "environment",
    "is_alive",
    "load",
    "make_networks",
    "merged",
    "open_run",
    "read_config",
    "run_path",
    "usable_device",
    "write_result",
]
