"""GANs on CIFAR-10 without an Inception network: a CIFAR-10 classifier scores what they generate."""

from __future__ import annotations

from functools import partial

from ...train import Config
from ..protocols import edit
from ..table import Cell, Table
from ..thesis.tableD_4 import SCORE, tableD_4

__all__ = ["TABLES", "cifar10_gan"]


def cifar10_gan(method: str) -> Config:
    """A GAN of thesis Table D.4 in 20,000 steps, scored by the run of paper.table1.original.softmax beside it."""
    return edit(
        tableD_4(method),
        schedule={"steps": 20_000},
        evaluation={"inception": "paper.table1.original.softmax"},
        run={"eval_every": 5000},
    )


TABLES = (
    Table(
        "open.cifar10_gan",
        "Unsupervised image generation on CIFAR-10, scored by a CIFAR-10 classifier",
        "classifier score",
        (
            *(Cell(name, partial(cifar10_gan, name), None, measure="classifier_score") for name in SCORE),
            Cell("real", partial(cifar10_gan, "sn"), None, measure="real_classifier_score", run="sn"),
        ),
        "exp E KL(p(y|x) ‖ p(y)), at most 10. Wants a trained paper.table1.original.softmax in the same --run.folder.",
    ),
)
