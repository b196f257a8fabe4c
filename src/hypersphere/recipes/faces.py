"""How chapters 2 and 5 train on faces: CASIA-WebFace for training, LFW, YouTube Faces and MegaFace for evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from .protocols import edit
from .table import Cell

LFW = "lfw/ with its lists"
YTF = "ytf/<person>/<number>/*.jpg with splits.txt."
MEGAFACE = "megaface/facescrub and megaface/distractors"
CLIPPED = "The gradient's norm is clipped at 5."
CASIA = (
    f"{CLIPPED} It needs these files under --data.root: casia-webface/<identity>/*.jpg, aligned to 112×96, with "
    "excluded.txt, which names the people who are also in a test set; "
)
OTHERS = (
    "The thesis does not print the weights and margins of contrastive, triplet and center loss: the recipes use those "
    "of the original papers. Contrastive and triplet loss get batches with four faces of a person."
)
PLUS = f"{CASIA}{LFW}; {MEGAFACE}. SphereFace+ starts from the trained SphereFace of the same m: train that first."
# column → the measurement it prints
MEASURES = {"lfw": "accuracy", "ytf": "ytf_accuracy", "rank1": "megaface_rank1", "tar": "megaface_tar"}
# what is trained under one name; the λ of L-Softmax on faces is not printed: SphereFace's (A.7)
METHODS: dict[str, dict[str, Any]] = {
    "softmax": {"name": "softmax", "bias": True},
    "l-softmax": {"name": "l_softmax", "margin": 4, "annealing": "sphereface"},
    "contrastive": {"name": "softmax", "bias": True, "contrastive": 0.05},
    "triplet": {"name": "triplet"},
    "center": {"name": "softmax", "bias": True, "center": 0.003},
    "cosineface": {"name": "am_softmax", "margin": 0.35, "extra": {"scale": None}},  # features as they are (D.1)
    **{f"m{m}": {"name": "a_softmax", "margin": m, "annealing": "sphereface"} for m in (1, 2, 3, 4)},
}
# losses that compare samples: how many of a class stand together
GROUPED = {"contrastive": 4, "triplet": 4}


def sphereface(method: str, depth: int = 64, also: tuple[str, ...] = (), dataset: str = "casia") -> Config:
    """Thesis 2.3.6: batch 128, rate 0.1 divided by 10 at 16k and 24k of 28k steps, faces mirrored; (x − 127.5)/128.

    Evaluated by the cosine of the features of image and mirror side by side; LFW View 2 at each evaluation. ``method``
    is ``softmax``, ``l-softmax`` (m = 4), A-Softmax with ``m1`` to ``m4`` (m = 1: unit class vectors, no margin), or a
    loss that it is compared with. Momentum 0.9, weight decay 5e-4 and λ of the authors' released solver and A.7. The
    gradient's norm is clipped at 5: without normalisation and without that, these networks diverged at rate 0.1 in
    short trials.
    """
    return Config(
        data=DataConfig(
            name=dataset, batch_size=128, per_class=GROUPED.get(method, 1), hflip=True, eval_batch_size=256
        ),
        model=ModelConfig(name=f"sphereface{depth}"),
        loss=LossConfig(**METHODS[method]),
        optim=OptimConfig(name="sgd", lr=0.1, momentum=0.9, weight_decay=5e-4, clip=5.0),
        schedule=ScheduleConfig(steps=28_000, milestones=(16_000, 24_000)),
        evaluation=EvaluationConfig(protocol="verification", data="lfw", flip=True, also=also),
        run=RunConfig(eval_every=2000, checkpoint_every=2000),
    )


def fine_tuned(config: Config, start: str) -> Config:
    """D.1: SphereFace+ continues from the trained SphereFace, with the energy of the class vectors (s = 2, λ_M = 1).

    How long is not printed: here the last two stages of the schedule again, 8k steps at 0.01 and 4k at 0.001.
    """
    config = edit(config, model={"start": start}, loss={"energy": 1.0}, optim={"lr": 0.01})
    return replace(config, schedule=ScheduleConfig(steps=12_000, milestones=(8_000,)))


def method_cells(text: str) -> tuple[Cell, ...]:
    """Cells ``row.column`` of a printed table; a row has a method, the depth of its network, and its numbers."""
    (_, _, _, *columns), *rows = (line.split() for line in text.strip().splitlines())
    also = _needed(columns)
    return tuple(
        Cell(
            f"{row}.{column}",
            partial(sphereface, method, int(depth), also),
            None if number == "none" else float(number),
            measure=MEASURES[column],
            run=row,
        )
        for row, method, depth, *numbers in rows
        for column, number in zip(columns, numbers, strict=True)
    )


def plus_cells(
    table: str, depth: int, columns: Sequence[str], rows: Mapping[int, Sequence[tuple[float, float]]]
) -> tuple[Cell, ...]:
    """Cells ``sphereface.m1.lfw`` and ``sphereface+.m1.lfw``; a row is m, then both numbers of each column."""
    also = _needed(columns)

    def make(kind: str, m: int) -> Config:
        config = sphereface(f"m{m}", depth, also)
        return config if kind == "sphereface" else fine_tuned(config, f"{table}.sphereface.m{m}")

    return tuple(
        Cell(f"{kind}.m{m}.{column}", partial(make, kind, m), both[place], measure=MEASURES[column], run=f"{kind}.m{m}")
        for place, kind in enumerate(("sphereface", "sphereface+"))
        for m, row in rows.items()
        for column, both in zip(columns, row, strict=True)
    )


def _needed(columns: Sequence[str]) -> tuple[str, ...]:
    """What the final network is evaluated on beside LFW."""
    names = {MEASURES[column].partition("_")[0] for column in columns} & {"ytf", "megaface"}
    return tuple(sorted(names))
