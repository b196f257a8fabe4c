"""Thesis Table 7.3: OPT of an MLP on MNIST, normal and Xavier initialisation."""

from __future__ import annotations

from ...train import Config, DataConfig, ModelConfig, OptimConfig, RunConfig, ScheduleConfig
from .._grid import grid
from ..table import Table
from ._chapter7 import opt

__all__ = ["TABLES", "table7_3"]


def table7_3(method: str, init: str) -> Config:
    """F.3: 784-256-256-10 on MNIST, momentum SGD 0.01 (so also for R under OGD), batch 100, 100 epochs."""
    config = Config(
        data=DataConfig(name="mnist", batch_size=100, normalize="unit"),
        model=ModelConfig(name="mlp", init=init),
        optim=OptimConfig(name="sgd", lr=0.01, momentum=0.9, orthogonal_lr=0.01),
        schedule=ScheduleConfig(steps=60_000, kind="constant", milestones=()),
        run=RunConfig(eval_every=600, checkpoint_every=6000),
    )
    return opt(config, method)


ERROR = {
    "baseline": (6.05, 2.14),
    "gs": (5.11, 1.45),
    "hr": (5.31, 1.60),
    "ls": (5.32, 1.54),
    "cp": (5.14, 1.49),
    "ogd": (5.38, 1.56),
    "or": (5.41, 1.78),
}

TABLES = (
    Table(
        "thesis.table7.3",
        "MLP on MNIST, normal and Xavier initialisation",
        "error",
        grid(table7_3, ("normal", "xavier"), ERROR),
    ),
)
