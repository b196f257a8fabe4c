"""Trainings that take a second: digits, a network of a few filters, every kind of state that must survive."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hypersphere.train import (
    Config,
    DataConfig,
    EvaluationConfig,
    GanConfig,
    LossConfig,
    ModelConfig,
    OptimConfig,
    RegularizerConfig,
    RunConfig,
    ScheduleConfig,
)


def tiny(folder: Path, name: str = "tiny", steps: int = 24, **parts: object) -> Config:
    base = Config(
        recipe=name,
        data=DataConfig(name="digits", batch_size=32, pad=1),
        model=ModelConfig(name="cnn3", widths="4,4,4", feature_dim=8),
        schedule=ScheduleConfig(steps=steps, milestones=(12, 18)),
        run=RunConfig(
            folder=str(folder),
            device="cpu",
            log_every=2,
            eval_every=8,
            checkpoint_every=4,
            progress="off",
            tensorboard=False,
        ),
    )
    return replace(base, **parts)


def everything(folder: Path, name: str = "everything", steps: int = 24) -> Config:
    """A head with annealing, a regularizer that redraws, projection, Adam: all of it must come back."""
    return tiny(
        folder,
        name,
        steps,
        model=ModelConfig(
            name="cnn3", widths="4,4,4", feature_dim=8, conv="sphere", angular="sigmoid", learnable_k=True
        ),
        loss=LossConfig(name="ga_softmax", margin=2, angular="linear", annealing="sphereface"),
        regularizer=RegularizerConfig(name="comhe", dim=4, refresh=5, half_space=True),
        optim=OptimConfig(projection_every=5, lr=5e-3),
    )


def tiny_gan(folder: Path, name: str = "gan", steps: int = 6, **gan: object) -> Config:
    """On digits of 8×8: discriminator of a few filters, generator of a few more."""
    config = tiny(folder, name, steps)
    shape = {"generator": "sngan_generator", "latent": 8, "updates": 2, "extra": {"widths": (16, 8, 8, 4)}}
    return replace(
        config,
        data=replace(config.data, pad=0),
        model=ModelConfig(name="sngan_discriminator", extra={"widths": (4, 4, 8, 8)}),
        optim=OptimConfig(lr=2e-3, beta1=0.5),
        schedule=ScheduleConfig(steps=steps, milestones=()),
        gan=GanConfig(**{**shape, **gan}),
        evaluation=EvaluationConfig(protocol="generation", samples=40, splits=4),
        run=replace(config.run, eval_every=3, checkpoint_every=2),
    )
