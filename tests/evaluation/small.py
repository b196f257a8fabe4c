"""A run of a few steps on digits."""

from dataclasses import replace

from hypersphere.train import Config, DataConfig, ModelConfig, RunConfig, ScheduleConfig


def settings(folder, name, **parts):
    base = Config(
        recipe=name,
        data=DataConfig(name="digits", batch_size=32),
        model=ModelConfig(name="cnn3", widths="4,4,4", feature_dim=8),
        schedule=ScheduleConfig(steps=4, milestones=()),
        run=RunConfig(folder=str(folder), device="cpu", eval_every=4, progress="off", tensorboard=False),
    )
    return replace(base, **parts)
