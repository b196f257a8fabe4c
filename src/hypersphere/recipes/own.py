"""One's own images: ``hypersphere train faces --data.root DIR``, and the same for products, few shots and classes.

Of faces and products margin and scale follow the number of classes, and the margin grows over the first steps.
Gradients are clipped. That is what works before anything is tuned.
"""

from __future__ import annotations

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
from .protocols import edit
from .table import Cell, Table


def faces() -> Config:
    """People by their faces: ArcFace on images of 112×112, verified on people that training never saw."""
    return Config(
        data=DataConfig(name="folder", split="class", image_size=112, resize=128, hflip=True, pad=4, batch_size=128),
        model=ModelConfig(name="resnet18"),
        loss=LossConfig(name="arcface", fitting=True, warmup=1000),
        optim=OptimConfig(name="sgd", lr=0.1, momentum=0.9, weight_decay=5e-4, clip=5.0),
        schedule=ScheduleConfig(steps=8000, milestones=(4000, 6400), warmup=400),
        evaluation=EvaluationConfig(protocol="verification", flip=True, pairs=30),
        run=RunConfig(eval_every=1000, checkpoint_every=1000),
    )


def products() -> Config:
    """Things by their pictures: the nearest images among those of classes that training never saw."""
    return edit(faces(), evaluation={"flip": False, "also": ("retrieval",)})


def few_shot() -> Config:
    """Classes from a few images each: episodes of classes that training never saw."""
    return edit(
        faces(),
        data={"image_size": 84, "resize": 92},
        loss={"name": "softmax", "fitting": False, "warmup": 0},
        evaluation={"protocol": "few_shot", "flip": False, "method": "nearest", "queries": 5},
    )


def classify() -> Config:
    """The classes of training on images that were held out: sigmoid SphereConv with weight projection."""
    return edit(
        faces(),
        data={"split": "image"},
        model={"conv": "sphere", "angular": "sigmoid"},
        loss={"name": "cross_entropy", "fitting": False, "warmup": 0, "label_smoothing": 0.01},
        optim={"name": "adam", "lr": 1e-3, "weight_decay": 5e-4, "projection_every": 100},
        evaluation={"protocol": "classification", "flip": False},
    )


TABLES = tuple(
    Table(make.__name__, str(make.__doc__), "accuracy", (Cell("own", make, None, note="your own images"),))
    for make in (faces, products, few_shot, classify)
)
