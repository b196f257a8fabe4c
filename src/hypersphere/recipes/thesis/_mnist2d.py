"""Networks with 2-D features on MNIST, to be looked at."""

from __future__ import annotations

from ...train import Config, DataConfig, ModelConfig, OptimConfig, RunConfig, ScheduleConfig

__all__ = ["mnist2d"]


def mnist2d(network: str = "cnn6_mnist2d") -> Config:
    """The 6-layer CNN of C.4, whose embedding has 2 dimensions. No training settings are given: Adam, 20 epochs."""
    return Config(
        data=DataConfig(name="mnist", batch_size=128),
        model=ModelConfig(name=network),
        optim=OptimConfig(name="adam", lr=1e-3, weight_decay=5e-4),
        schedule=ScheduleConfig(steps=9360, milestones=(4680, 7020)),
        run=RunConfig(eval_every=468, checkpoint_every=2340),
    )
