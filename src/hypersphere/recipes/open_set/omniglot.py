"""Omniglot: learn 964 background characters, verify pairs of 659 evaluation characters."""

from __future__ import annotations

from ...train import Config, DataConfig, EvaluationConfig, ModelConfig, OptimConfig, RunConfig, ScheduleConfig
from ._losses import compared

__all__ = ["TABLES", "omniglot"]


def omniglot() -> Config:
    """CNN-9 on drawings of 35×35 (3×3 pixels averaged), shifted by up to 3; 6,000 pairs in ten folds of characters."""
    return Config(
        data=DataConfig(name="omniglot", shrink=3, pad=3, batch_size=128),
        model=ModelConfig(name="cnn9", feature_dim=256),
        optim=OptimConfig(name="sgd", lr=0.1, momentum=0.9, weight_decay=5e-4, clip=5.0),
        schedule=ScheduleConfig(steps=6000, milestones=(3000, 4800), warmup=200),
        evaluation=EvaluationConfig(protocol="verification"),
        run=RunConfig(eval_every=1000, checkpoint_every=3000),
    )


TABLES = (
    compared(
        "open.omniglot",
        "Verification of characters that training never saw, Omniglot",
        omniglot,
        "Accuracy with the threshold of each of ten folds chosen on the other nine; the folds share no character.",
        per_class=4,
    ),
)
