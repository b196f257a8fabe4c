"""Thesis Table 2.5: L-Softmax on faces, verification on LFW."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ...train import Config, LossConfig, ModelConfig, ScheduleConfig
from ..protocols import edit
from ..table import Cell, Table
from ._faces import CASIA, GROUPED, LFW, sphereface

__all__ = ["TABLES", "table2_5"]


def table2_5(loss: str) -> Config:
    """2.2.7: Table 2.1's network for LFW, batch 256, about 30 epochs of 490k faces; L-Softmax is m2 to m4.

    The rate is 0.1, 0.01, 0.001, "switched when the training loss plateaus": here after half and three quarters.
    """
    config = edit(sphereface("softmax"), data={"batch_size": 256})
    config = replace(config, model=ModelConfig(name="lsoftmax_lfw"))
    config = replace(config, schedule=ScheduleConfig(steps=57_600, milestones=(28_800, 43_200)))
    if loss == "softmax":
        return replace(config, loss=LossConfig(name="softmax"))
    if loss == "contrastive":
        config = edit(config, data={"per_class": GROUPED[loss]})
        return replace(config, loss=LossConfig(name="softmax", contrastive=0.05))
    return replace(config, loss=LossConfig(name="l_softmax", margin=int(loss[1:]), annealing="sphereface"))


ACCURACY = {"softmax": 96.53, "contrastive": 97.31, "m2": 97.81, "m3": 98.27, "m4": 98.71}

TABLES = (
    Table(
        "thesis.table2.5",
        "L-Softmax on CASIA-WebFace, LFW",
        "accuracy",
        tuple(Cell(name, partial(table2_5, name), value) for name, value in ACCURACY.items()),
        f"{CASIA}{LFW}. The documents compress the features by PCA to a dimension that is not printed; here they are "
        "whole. Weight and margin of the contrastive loss are not printed: 0.05 of DeepID2, and 1 on unit features.",
    ),
)
