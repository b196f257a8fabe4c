"""Thesis Table E.5: seconds for 100 training steps with CoMHE, CNN-9 on CIFAR-100."""

from __future__ import annotations

from functools import partial

from ...train import Config
from ..protocols import edit
from ..table import Cell, Table
from ._chapter6 import network

__all__ = ["TABLES", "tableE_5"]


def tableE_5(kind: str) -> Config:
    """Table 6.1's training for 1,000 steps, evaluated only at the end."""
    config = edit(network(kind), schedule={"steps": 1000, "kind": "constant", "milestones": ()})
    return edit(config, run={"eval_every": 1000, "checkpoint_every": 1000, "energy": False})


SECONDS = {
    "baseline": 5.61,
    "hs-mhe": 6.46,
    "rp-comhe": 7.62,
    "ap-comhe": 7.48,
    "adv-comhe": 6.37,
    "g-comhe": 11.12,
}

TABLES = (
    Table(
        "thesis.tableE.5",
        "Time of training with CoMHE, CNN-9 on CIFAR-100",
        "seconds for 100 steps",
        tuple(
            Cell(kind, partial(tableE_5, kind), value, measure="seconds_per_100_steps")
            for kind, value in SECONDS.items()
        ),
        "The device of the published times is not named: compare the ratios to the baseline.",
    ),
)
