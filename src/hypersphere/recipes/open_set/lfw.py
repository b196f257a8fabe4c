"""LFW View 1: learn the 4,038 DevTrain people, verify the 1,000 DevTest pairs of other people."""

from __future__ import annotations

from ...train import Config, DataConfig, EvaluationConfig, ModelConfig, OptimConfig, RunConfig, ScheduleConfig
from ._losses import compared

__all__ = ["TABLES", "lfw"]


def lfw() -> Config:
    """SphereFace-10 on 9,525 aligned faces of 112×96, mirrored and shifted; features of image and mirror.

    All weights start as He et al. say.
    """
    return Config(
        data=DataConfig(name="lfw", hflip=True, pad=4, batch_size=128),
        model=ModelConfig(name="sphereface10", init="he", extra={"branch_std": None}),
        optim=OptimConfig(name="sgd", lr=0.1, momentum=0.9, weight_decay=5e-4, clip=5.0),
        schedule=ScheduleConfig(steps=6000, milestones=(3000, 4800), warmup=200),
        evaluation=EvaluationConfig(protocol="verification", flip=True),
        run=RunConfig(eval_every=1000, checkpoint_every=3000),
    )


TABLES = (
    compared(
        "open.lfw",
        "Verification of people that training never saw, LFW View 1",
        lfw,
        "Accuracy on the DevTest pairs, the threshold of each of ten folds chosen on the other nine.",
        per_class=2,  # half of the people have one image
    ),
)
