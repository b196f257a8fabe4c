"""What the documents do not print: unseen classes of sets that can be had, and GANs without an Inception network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from ..config import (
    Config,
    DataConfig,
    EvaluationConfig,
    LossConfig,
    ModelConfig,
    OptimConfig,
    RunConfig,
    ScheduleConfig,
)
from .appendices import GANS
from .protocols import edit, gan, mhe
from .table import Cell, Table
from .thesis7 import classifier, opt

# Margins, scales and weights are the published ones; the λ of A-Softmax is SphereFace's schedule (thesis A.7).
LOSSES: dict[str, dict[str, Any]] = {
    "softmax": {"name": "softmax"},
    "contrastive": {"name": "softmax", "contrastive": 0.05},
    "triplet": {"name": "triplet"},
    "center": {"name": "softmax", "center": 0.003},
    "a-softmax": {"name": "a_softmax", "margin": 4, "annealing": "sphereface"},
    "cosface": {"name": "am_softmax", "margin": 0.35, "scale": 30.0},
    "arcface": {"name": "arcface", "margin": 0.5, "scale": 30.0},
    "sphereface+": {"name": "a_softmax", "margin": 4, "annealing": "sphereface", "energy": 1.0},
    "adaface": {"name": "adaface", "margin": 0.4, "scale": 64.0},
    "magface": {"name": "magface", "scale": 64.0},
    "sub-center": {"name": "subcenter_arcface", "margin": 0.5, "scale": 64.0},
}
_PAIRS = ("contrastive", "triplet")  # compare samples of a batch


def lfw() -> Config:
    """SphereFace-10 on 9,525 aligned faces of 112×96, mirrored and shifted; features of image and mirror.

    The 4,038 DevTrain people are learned, the 1,000 DevTest pairs of other people verified. All weights start as
    He et al. say.
    """
    return Config(
        data=DataConfig(name="lfw", hflip=True, pad=4, batch_size=128),
        model=ModelConfig(name="sphereface10", init="he", extra={"branch_std": None}),
        optim=OptimConfig(name="sgd", lr=0.1, momentum=0.9, weight_decay=5e-4, clip=5.0),
        schedule=ScheduleConfig(steps=6000, milestones=(3000, 4800), warmup=200),
        evaluation=EvaluationConfig(protocol="verification", flip=True),
        run=RunConfig(eval_every=1000, checkpoint_every=3000),
    )


def omniglot() -> Config:
    """CNN-9 on drawings of 35×35 (3×3 pixels averaged), shifted by up to 3; 6,000 pairs in ten folds of characters.

    The 964 background characters are learned, pairs of the 659 evaluation characters verified.
    """
    return Config(
        data=DataConfig(name="omniglot", shrink=3, pad=3, batch_size=128),
        model=ModelConfig(name="cnn9", feature_dim=256),
        optim=OptimConfig(name="sgd", lr=0.1, momentum=0.9, weight_decay=5e-4, clip=5.0),
        schedule=ScheduleConfig(steps=6000, milestones=(3000, 4800), warmup=200),
        evaluation=EvaluationConfig(protocol="verification"),
        run=RunConfig(eval_every=1000, checkpoint_every=3000),
    )


def few_shot(method: str, training: str) -> Config:
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


def scored_gan(method: str) -> Config:
    """A GAN of thesis Table D.4 in 20,000 steps, scored by the run of paper.table1.original.softmax beside it."""
    return edit(
        gan(method),
        schedule={"steps": 20_000},
        evaluation={"inception": "paper.table1.original.softmax"},
        run={"eval_every": 5000},
    )


def _compared(make: Callable[[], Config], per_class: int) -> tuple[Cell, ...]:
    """A cell for each loss; where it compares samples, ``per_class`` of a class stand together in a batch."""
    return tuple(Cell(loss, partial(_with_loss, make, loss, per_class), None) for loss in LOSSES)


def _with_loss(make: Callable[[], Config], loss: str, per_class: int) -> Config:
    config = replace(make(), loss=LossConfig(**LOSSES[loss]))
    return edit(config, data={"per_class": per_class}) if loss in _PAIRS else config


TABLES = (
    Table(
        "open.lfw",
        "Verification of people that training never saw, LFW View 1",
        "accuracy",
        _compared(lfw, per_class=2),  # half of the people have one image
        "Accuracy on the DevTest pairs. The threshold of each of ten folds is chosen on the other nine.",
    ),
    Table(
        "open.omniglot",
        "Verification of characters that training never saw, Omniglot",
        "accuracy",
        _compared(omniglot, per_class=4),
        "The threshold of each of ten folds is chosen on the other nine; the folds share no character.",
    ),
    Table(
        "open.omniglot_few_shot",
        "Five characters that training never saw, told apart after one and five drawings each, Omniglot",
        "accuracy",
        tuple(
            Cell(
                f"{method}.{training}.{shots}shot",
                partial(few_shot, method, training),
                None,
                measure=f"few_shot_{shots}_accuracy",
                run=f"{method}.{training}",
            )
            for method in ("baseline", "baseline++")
            for training in ("plain", "mhe", "opt")
            for shots in (1, 5)
        ),
        "Mean over 600 episodes of 15 drawings of each character; training learns 964 others.",
    ),
    Table(
        "open.cifar10_gan",
        "Unsupervised image generation on CIFAR-10, scored by a CIFAR-10 classifier",
        "classifier score",
        (
            *(Cell(name, partial(scored_gan, name), None, measure="classifier_score") for name in GANS),
            Cell("real", partial(scored_gan, "sn"), None, measure="real_classifier_score", run="sn"),
        ),
        "The score is exp E KL(p(y|x) ‖ p(y)), at most 10. Train its classifier, paper.table1.original.softmax, in the "
        "same --run.folder first.",
    ),
)
