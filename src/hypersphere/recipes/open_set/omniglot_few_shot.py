"""Omniglot, few shots: learn 964 background characters, then tell five others apart from one or five drawings."""

from __future__ import annotations

from functools import partial

from ...train import Config, DataConfig, EvaluationConfig, ModelConfig, OptimConfig, RunConfig, ScheduleConfig
from ..protocols import mhe
from ..table import Cell, Table
from ..thesis._chapter7 import opt
from ..thesis.table7_10 import classifier

__all__ = ["TABLES", "omniglot_few_shot"]

TRAININGS = ("plain", "mhe", "opt")


def omniglot_few_shot(method: str, training: str) -> Config:
    """CNN-4 on drawings of 35×35 (3×3 pixels averaged), shifted by up to 3; 600 episodes of the evaluation characters.

    Classifiers and optimizer are those of thesis F.3, except c = 10 while training: of 964 classes, 2·cos θ cannot make
    one likely. A character has 20 drawings: five to learn from leave 15.
    """
    config = Config(
        data=DataConfig(name="omniglot", shrink=3, pad=3, batch_size=128),
        model=ModelConfig(name="cnn4"),
        loss=classifier(method, scale=10.0),
        optim=OptimConfig(name="adam", lr=1e-3, weight_decay=5e-4),
        schedule=ScheduleConfig(steps=4000, milestones=(2000, 3200)),
        evaluation=EvaluationConfig(protocol="few_shot", method=method, queries=15),
        run=RunConfig(eval_every=1000, checkpoint_every=2000),
    )
    return mhe(config, half=True) if training == "mhe" else opt(config, "cp" if training == "opt" else "baseline")


TABLES = (
    Table(
        "open.omniglot_few_shot",
        "Five characters that training never saw, told apart after one and five drawings each, Omniglot",
        "accuracy",
        tuple(
            Cell(
                f"{method}.{training}.{shots}shot",
                partial(omniglot_few_shot, method, training),
                None,
                measure=f"few_shot_{shots}_accuracy",
                run=f"{method}.{training}",
            )
            for method in ("baseline", "baseline++")
            for training in TRAININGS
            for shots in (1, 5)
        ),
        "Mean over 600 episodes of 15 drawings of each character; training learns 964 others.",
    ),
)
