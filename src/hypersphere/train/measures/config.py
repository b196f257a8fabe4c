"""The settings of an evaluation."""

from __future__ import annotations

from dataclasses import dataclass

from ..._errors import check_choice, check_count
from ..options import option

__all__ = ["EvaluationConfig"]

_PROTOCOLS = ("classification", "verification")
_ALSO = ("top5", *(f"{name}{way}" for name in ("fgsm", "bim", "pgd", "deepfool") for way in ("", "_transfer")))


@dataclass(frozen=True)
class EvaluationConfig:
    """How the network is judged."""

    protocol: str = option(
        "classification", "what is measured at each evaluation: classification, or verification of unseen classes"
    )
    also: tuple[str, ...] = option((), f"further measurements of the final network: {', '.join(_ALSO)}")
    flip: bool = option(False, "verification: features of each image and its mirror, concatenated")
    center: bool = option(False, "verification: subtract the mean feature of the other folds")
    folds: int = option(10, "verification: folds, the threshold of each chosen on the others")
    pairs: int = option(300, "verification: pairs of either kind in a fold, where the data set names no pairs")

    def __post_init__(self) -> None:
        check_choice("evaluation.protocol", self.protocol, _PROTOCOLS)
        for name in self.also:
            check_choice("evaluation.also", name, _ALSO)
        check_count("evaluation.folds", self.folds, minimum=2)
        check_count("evaluation.pairs", self.pairs)
