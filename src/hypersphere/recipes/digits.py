"""scikit-learn's digits: a SphereNet and its CNN twin, under a minute on a CPU."""

from __future__ import annotations

from ..config import Config, DataConfig, ModelConfig, OptimConfig, RunConfig, ScheduleConfig
from .protocols import edit
from .table import Cell, Table


def cnn() -> Config:
    """CNN-3 with 32/48/64 filters on 8×8 digits, shifted by up to a pixel."""
    return Config(
        data=DataConfig(name="digits", batch_size=64, pad=1),
        model=ModelConfig(name="cnn3", widths="32,48,64", feature_dim=64),
        optim=OptimConfig(name="adam", lr=2e-3, weight_decay=5e-4),
        schedule=ScheduleConfig(steps=400, milestones=(250, 350)),
        run=RunConfig(eval_every=50, log_every=25, checkpoint_every=200),
    )


def spherenet() -> Config:
    """The same with sigmoid(0.3) SphereConvs and weight projection."""
    return edit(cnn(), model={"conv": "sphere", "angular": "sigmoid", "k": 0.3}, optim={"projection_every": 100})


TABLES = (
    Table(
        "digits",
        "scikit-learn's digits, a first run (no published numbers)",
        "accuracy",
        (Cell("spherenet", spherenet, None), Cell("cnn", cnn, None)),
    ),
)
