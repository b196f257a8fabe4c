"""Thesis Table A.1: what each change to the softmax brings, SphereFace-4 on LFW; accuracy and angular Fisher score."""

from __future__ import annotations

from functools import partial

from ...train import Config
from ..protocols import edit
from ..table import Cell, Table
from ._faces import CASIA, LFW, sphereface

__all__ = ["TABLES", "tableA_1"]

# network → the loss, whether biases and the last ReLU are kept, accuracy, Fisher score
STEPS = {
    "A": ("softmax", True, True, 95.13, 0.3477),
    "B": ("softmax", True, False, 96.37, 0.2835),
    "C": ("softmax", False, False, 96.40, 0.2815),
    "D": ("m1", False, False, 96.63, 0.2462),
    "E": ("m2", False, False, 97.67, 0.2277),
    "F": ("m3", False, False, 97.82, 0.1791),
    "G": ("m4", False, False, 98.20, 0.1709),
}


def tableA_1(name: str) -> Config:
    """A.5: the last ReLU, the biases and the lengths of the class vectors are removed in turn, then m grows."""
    method, bias, relu, *_ = STEPS[name]
    config = edit(sphereface(method, 4, ("fisher",)), loss={"bias": bias})
    return edit(config, model={"extra": {"last_relu": True}}) if relu else config


TABLES = (
    Table(
        "thesis.tableA.1",
        "Removing the last ReLU, biases and lengths, then A-Softmax: LFW accuracy, angular Fisher score",
        "accuracy",
        tuple(
            Cell(f"{name}.{column}", partial(tableA_1, name), value, measure=measure, run=name)
            for name, (*_, accuracy, score) in STEPS.items()
            for column, measure, value in (("lfw", "accuracy", accuracy), ("fisher", "fisher", score))
        ),
        f"{CASIA}{LFW}. On which images the score is taken is not printed: here on those of LFW's pairs.",
    ),
)
