"""The final network evaluated on sets of faces beside that of the protocol, each under its own name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from .._core.registries import DATASETS
from ..config import Config
from ..config.evaluation import FACES
from ..metrics import angular_fisher_score
from ..runs import Team
from ..runs.quantities import Quantity
from ..sources import Source, on_faces
from .candidate import Candidate
from .identification import identification
from .measurement import Numbers, measurement
from .verification import verification


def _on(name: str, how: Numbers, candidate: Candidate) -> Mapping[str, float]:
    """``lfw_accuracy`` and all else that the measurement gives."""
    there = replace(candidate, source=on_faces(name, candidate.source, candidate.config, candidate.team))
    return {f"{name}_{key}": value for key, value in how(there).items()}


def _check(name: str, config: Config, source: Source, team: Team) -> None:
    on_faces(name, source, config, team)


for _name in FACES:
    _how = ("identification", identification) if _name == "megaface" else ("verification", verification)
    _label = DATASETS.label(_name)
    measurement(
        _name,
        label=f"{_how[0].capitalize()} on {_label}",
        about=f"{_how[0]} on the faces of {_label}",
        quantities=(Quantity(f"{_name}_*", f"{{}} on {_label}", "%"),),
        check=partial(_check, _name),
    )(partial(_on, _name, _how[1]))


@measurement(
    "fisher",
    label="Angular Fisher score",
    about="angular Fisher score of the test features (thesis A.1), lower is better",
    quantities=(Quantity("fisher", "Angular Fisher score", "", False),),
)
def fisher(candidate: Candidate) -> dict[str, float]:
    """``fisher``: the angular Fisher score of the test features (thesis A.1); lower is better, not in percent."""
    features, labels = candidate.embedding(candidate.config.evaluation.flip)
    return {"fisher": float(angular_fisher_score(features, labels))}
