"""The final network judged on sets of faces beside that of the protocol, each under its own name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from ...metrics import angular_fisher_score
from ..judge_source import on_faces
from .identification import identification
from .judged import Judged
from .verification import verification

__all__ = ["ON_FACES", "fisher"]


def _on(name: str, how: Callable[[Judged], dict[str, float]], judged: Judged) -> dict[str, float]:
    """``lfw_accuracy`` and all else that the measurement gives."""
    there = replace(judged, source=on_faces(name, judged.source, judged.config, judged.team))
    return {f"{name}_{measured}": value for measured, value in how(there).items()}


def fisher(judged: Judged) -> dict[str, float]:
    """``fisher``: the angular Fisher score of the test features (thesis A.1); lower is better, not in percent."""
    features, labels = judged.embedding(judged.config.evaluation.flip)
    return {"fisher": float(angular_fisher_score(features, labels))}


ON_FACES: dict[str, Callable[[Judged], dict[str, float]]] = {
    "lfw": partial(_on, "lfw", verification),
    "ytf": partial(_on, "ytf", verification),
    "megaface": partial(_on, "megaface", identification),
    "fisher": fisher,
}
