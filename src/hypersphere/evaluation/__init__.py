"""The evaluation protocols, which training, `hypersphere evaluate`, the report and the model cards share.

``evaluate(run)`` measures everything that suits a run; ``outputs_of(run)`` gives features and logits of its test split.
:func:`measurement` declares one of your own.
"""

import warnings
from typing import Any

from . import (  # noqa: F401  (each declares its measurements)
    classification,
    energy,
    faces,
    few_shot,
    generation,
    hardness,
    identification,
    retrieval,
    robustness,
    verification,
)
from .candidate import Candidate, Outputs, class_vectors
from .energy import layer_energies
from .evaluate import candidate_of, evaluate, outputs_of
from .measurement import Measurement, describe, find, known, measurement
from .own_pairs import read_pairs
from .pair_results import evaluate_pairs
from .protocol import check_evaluation, evaluate_also, evaluate_each, evaluate_protocol, told_apart
from .robustness import make_attack
from .verification import Verified, mean_length, verify

__all__ = [
    "Candidate",
    "Measurement",
    "Outputs",
    "Verified",
    "candidate_of",
    "check_evaluation",
    "class_vectors",
    "describe",
    "evaluate",
    "evaluate_also",
    "evaluate_each",
    "evaluate_pairs",
    "evaluate_protocol",
    "find",
    "known",
    "layer_energies",
    "make_attack",
    "mean_length",
    "measurement",
    "outputs_of",
    "read_pairs",
    "told_apart",
    "verify",
]

_FORMER = {"Examination": "Outputs", "examine": "outputs_of", "judge": "evaluate", "judge_pairs": "evaluate_pairs"}


def __getattr__(name: str) -> Any:
    """Former names, which still work."""
    if name not in _FORMER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"evaluation.{name} is now evaluation.{_FORMER[name]}", DeprecationWarning, stacklevel=2)
    return globals()[_FORMER[name]]
