"""Which test samples the network finds hard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from .. import metrics
from .._core.registries import HEADS
from ..config import Config
from ..runs import Team
from ..runs.quantities import Quantity
from ..sources import Source
from .candidate import Candidate
from .measurement import measurement

_SHOWN = 10


def _values(candidate: Candidate) -> Tensor:
    found = candidate.outputs
    if found.logits is None or found.class_vectors is None:
        raise ValueError("hardness needs one class vector for each test class, which this run does not have")
    return metrics.angular_visual_hardness(found.features, found.class_vectors, found.labels)


def _check(config: Config, source: Source, team: Team) -> None:
    head = () if config.loss.own_classifier else HEADS.entry(config.loss.name, "loss.name").options
    usual = {one.name: one.default for one in head}.get("sub_centers", 1)
    if source.open_set or config.loss.extra.get("sub_centers", usual) != 1:
        raise ValueError("hardness needs one class vector for each test class, which this run would not have")


def _details(candidate: Candidate) -> dict[str, Any]:
    """The hardest samples."""
    found, values = candidate.outputs, _values(candidate)
    assert found.logits is not None  # _values has checked that
    top, predicted = values.topk(min(_SHOWN, len(values))), found.logits.argmax(1)
    return {
        "mean": float(values.mean()),
        "hardest": [
            {
                "sample": index,
                "class": found.classes[int(found.labels[index])],
                "predicted": found.classes[int(predicted[index])],
                "hardness": value,
            }
            for value, index in zip(top.values.tolist(), top.indices.tolist(), strict=True)
        ],
    }


def _lines(part: Mapping[str, Any]) -> list[str]:
    rows = [
        f"    sample {one['sample']:5d}  {one['class']} taken for {one['predicted']}  {one['hardness']:.4f}"
        for one in part["hardest"][:5]
    ]
    return [f"  mean               {part['mean']:.4f}", "  hardest:", *rows]


@measurement(
    "hardness",
    label="Angular visual hardness",
    about="angular visual hardness of the test samples",
    suits=("closed",),
    quantities=(Quantity("hardness", "Mean angular visual hardness", "", False),),
    details=_details,
    lines=_lines,
    check=_check,
)
def hardness(candidate: Candidate) -> dict[str, float]:
    """``hardness``: the mean over the test samples of θ(w_y, x) / Σ_i θ(w_i, x)."""
    return {"hardness": float(_values(candidate).mean())}
