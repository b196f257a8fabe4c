"""Thesis Table 7.9: OPT of CNN-10 on ImageNet, top-1 and top-5."""

from __future__ import annotations

from functools import partial

from ...train import Config
from ..protocols import IMAGENET, edit, imagenet, with_top5
from ..table import Cell, Table
from ._chapter7 import opt

__all__ = ["TABLES", "table7_9"]


def table7_9(method: str) -> Config:
    """Table F.1's CNN-10; F.3: batch 128, rate 0.1, decay 5e-4, 700k steps.

    The rate is divided "when the performance is saturated": here at the shares of D.1. The memory-efficient form of
    Cayley's R is not described: here four independent blocks (F.5), which that section finds a good compromise.
    """
    config = edit(imagenet("cnn10"), data={"batch_size": 128}, optim={"weight_decay": 5e-4})
    config = edit(config, schedule={"steps": 700_000, "milestones": (210_000, 420_000, 560_000)})
    return opt(with_top5(config), method, blocks=4)


ERROR = {"baseline": (44.32, 21.13), "cp": (43.67, 20.26)}

TABLES = (
    Table(
        "thesis.table7.9",
        "CNN-10 on ImageNet, top-1 and top-5",
        "error",
        tuple(
            Cell(f"{method}.{top}", partial(table7_9, method), value, measure=measure, run=method)
            for method, row in ERROR.items()
            for (top, measure), value in zip((("top1", "accuracy"), ("top5", "top5_accuracy")), row, strict=True)
        ),
        IMAGENET,
    ),
)
