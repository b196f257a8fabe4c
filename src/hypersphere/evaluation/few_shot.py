"""Few-shot classification of classes that training never saw (thesis 7.5.3, F.3)."""

from __future__ import annotations

from ...metrics import few_shot as episodes_of
from .judged import Judged

__all__ = ["few_shot"]


def few_shot(judged: Judged) -> dict[str, float]:
    """A new classifier for each episode of the test classes, on the features of the network, all in percent.

    ``few_shot_5_accuracy`` and half the width of its 95 % interval ``few_shot_5_interval``, for each of
    ``evaluation.shots``; ``accuracy`` is that of the last of them. The episodes are the same at every evaluation.
    """
    config = judged.config.evaluation
    features, labels = judged.embedding(config.flip)
    rules = {"ways": config.ways, "queries": config.queries, "episodes": config.episodes, "method": config.method}
    found: dict[str, float] = {}
    for shots in config.shots:
        result = episodes_of(features.to(judged.team.device), labels, shots=shots, **rules)  # type: ignore[arg-type]
        found[f"few_shot_{shots}_accuracy"] = 100 * result.accuracy
        found[f"few_shot_{shots}_interval"] = 100 * result.interval
    return {"accuracy": found[f"few_shot_{config.shots[-1]}_accuracy"], **found}
