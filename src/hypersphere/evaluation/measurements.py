"""How a network is judged: measurements by name, over all processes, in percent.

A measurement takes a :class:`Judged` and gives numbers by name. The one that ``evaluation.protocol`` names is taken at
every evaluation and has an ``accuracy``; those of ``evaluation.also`` are taken of the final network.
"""

from __future__ import annotations

from collections.abc import Callable

from .classification import classes, classification, top5
from .config import EvaluationConfig
from .faces import ON_FACES
from .few_shot import few_shot
from .generation import generation, real_inception
from .identification import identification
from .judged import Judged
from .robustness import ROBUSTNESS
from .verification import verification

__all__ = ["ALSO", "PROTOCOLS", "EvaluationConfig", "Judged", "measure", "measure_all"]

Measure = Callable[[Judged], dict[str, float]]
PROTOCOLS: dict[str, Measure] = {
    "classification": classification,
    "verification": verification,
    "few_shot": few_shot,
    "identification": identification,
    "generation": generation,
}
ALSO: dict[str, Measure] = {
    "top5": top5,
    "classes": classes,
    "real_inception": real_inception,
    **ROBUSTNESS,
    **ON_FACES,
}


def measure(judged: Judged) -> dict[str, float]:
    """The protocol's numbers, with ``accuracy``."""
    with judged.evaluating():
        return PROTOCOLS[judged.config.evaluation.protocol](judged)


def measure_all(judged: Judged) -> dict[str, float]:
    """What is measured of the final network beside the protocol's numbers."""
    with judged.evaluating():
        return {name: value for also in judged.config.evaluation.also for name, value in ALSO[also](judged).items()}
