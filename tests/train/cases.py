"""What one and two processes must agree on."""

from dataclasses import replace
from pathlib import Path

from tiny import tiny, tiny_gan

from hypersphere.train import (
    Config,
    LossConfig,
    ModelConfig,
    OptimConfig,
    OrthogonalConfig,
    RegularizerConfig,
    with_values,
)

# heads with running numbers, or with random ones for each sample
OBSERVING = {"curricularface": {"momentum": 0.5}, "adaface": {"momentum": 0.5}, "elasticface": {"sort": True}}


def parallel_cases(folder: Path) -> list[Config]:
    small = ModelConfig(name="cnn3", widths="4,4,4", feature_dim=8)
    return [
        every_step(folder, "no_batchnorm", model=replace(small, norm="off", conv="sphere", angular="cosine")),
        every_step(
            folder,
            "batchnorm",
            model=small,
            loss=LossConfig(name="a_softmax", margin=2, annealing="sphereface"),
            regularizer=RegularizerConfig(name="mhe"),
            optim=OptimConfig(name="sgd", lr=0.05),
        ),
        every_step(
            folder,
            "running_norm",
            model=replace(small, conv="decoupled", magnitude="tanh"),
            optim=OptimConfig(name="sgd", lr=0.05),
        ),
        tiny_gan(folder, "gan", 12, gradient_penalty=1.0),
        pairs(folder, "pairs", LossConfig(name="softmax", center=0.1, contrastive=0.5)),
        pairs(folder, "triplet", LossConfig(name="triplet")),
        every_step(
            folder,
            "orthogonal_descent",
            model=replace(small, norm="off"),
            orthogonal=OrthogonalConfig(method="gradient"),
            optim=OptimConfig(name="sgd", lr=0.05, orthogonal_lr=0.1),
        ),
        *(
            every_step(
                folder,
                name,
                model=replace(small, norm="off"),
                loss=LossConfig(name=name, scale=8.0, extra=options),
                optim=OptimConfig(name="sgd", lr=0.01),
            )
            for name, options in OBSERVING.items()
        ),
    ]


def every_step(folder: Path, name: str, **parts: object) -> Config:
    """Six steps, of which every one is compared."""
    return with_values(tiny(folder, name, 6, **parts), {"run.log_every": 1})


def pairs(folder: Path, name: str, loss: LossConfig) -> Config:
    """Losses that compare samples with samples: also with those of the other process."""
    config = every_step(folder, name, model=ModelConfig(name="cnn3", widths="4,4,4", feature_dim=8, norm="off"))
    return replace(config, data=replace(config.data, per_class=4), loss=loss, optim=OptimConfig(name="sgd", lr=0.05))


def diverging(folder: Path) -> Config:
    """A rate at which the weights leave the range of float32 within a few steps."""
    return tiny(
        folder,
        "diverging",
        12,
        model=ModelConfig(name="cnn3", widths="4,4,4", feature_dim=8, norm="off"),
        optim=OptimConfig(name="sgd", lr=1e13),
    )
