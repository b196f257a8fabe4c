"""Few-shot classification of classes that training never saw (thesis 7.5.3, F.3)."""

from __future__ import annotations

from ..config import Config
from ..metrics import few_shot as episodes_of
from ..runs.quantities import Quantity
from .candidate import Candidate
from .measurement import measurement

__all__ = ["few_shot"]


def _words(config: Config) -> str:
    rule = config.evaluation
    shots = " and ".join(map(str, rule.shots))
    return (
        f"{rule.ways}-way few-shot classification of new classes: {shots} shots, {rule.queries} queries, "
        f"{rule.episodes} episodes, {rule.method}"
    )


@measurement(
    "few_shot",
    label="Few-shot accuracy",
    about="episodes of a few samples of unseen classes",
    protocol=True,
    also=False,
    quantities=(
        Quantity("few_shot_*_accuracy", "Few-shot accuracy, {} shots", "%", True),
        Quantity("few_shot_*_interval", "Half the 95% interval, {} shots", "%", False),
    ),
    words=_words,
)
def few_shot(candidate: Candidate) -> dict[str, float]:
    """A new classifier for each episode of the test classes, on the features of the network, all in percent.

    ``few_shot_5_accuracy`` and half the width of its 95 % interval ``few_shot_5_interval``, for each of
    ``evaluation.shots``; ``accuracy`` is that of the last of them. The episodes are the same at every evaluation.
    """
    config = candidate.config.evaluation
    features, labels = candidate.embedding(config.flip)
    rules = {"ways": config.ways, "queries": config.queries, "episodes": config.episodes, "method": config.method}
    found: dict[str, float] = {}
    for shots in config.shots:
        result = episodes_of(features.to(candidate.team.device), labels, shots=shots, **rules)
        found[f"few_shot_{shots}_accuracy"] = 100 * result.accuracy
        found[f"few_shot_{shots}_interval"] = 100 * result.interval
    return {"accuracy": found[f"few_shot_{config.shots[-1]}_accuracy"], **found}
