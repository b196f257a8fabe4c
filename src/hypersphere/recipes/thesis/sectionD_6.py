"""Thesis section D.6: AM-Softmax with MHE on the class vectors, SphereFace-20 on LFW."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ...train import Config, LossConfig
from ..table import Cell, Table
from ._faces import CASIA, LFW, sphereface

__all__ = ["TABLES", "section_d6"]


def section_d6(energy: float) -> Config:
    """SphereFace's training with AM-Softmax, m = 0.35 and s = 30 as its authors found best; ``energy`` weighs MHE."""
    loss = LossConfig(name="am_softmax", margin=0.35, scale=30.0, energy=energy)
    return replace(sphereface("softmax", 20), loss=loss)


TABLES = (
    Table(
        "thesis.sectionD.6",
        "AM-Softmax without and with MHE, LFW",
        "accuracy",
        (
            Cell("am-softmax", partial(section_d6, 0.0), 99.26),
            Cell("am-softmax+mhe", partial(section_d6, 1.0), 99.37),
        ),
        f"{CASIA}{LFW}.",
    ),
)
