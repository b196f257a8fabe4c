"""Few-shot classification of classes that training never saw (thesis 7.5.3, F.3)."""

from __future__ import annotations

from ..config import Config
from ..metrics import few_shot as episodes_of
from ..runs import Team
from ..runs.quantities import Quantity
from ..sources import Source
from .candidate import Candidate
from .measurement import measurement


def _words(config: Config) -> str:
    rule = config.evaluation
    shots = " and ".join(map(str, rule.shots))
    return (
        f"{rule.ways}-way few-shot classification of new classes: {shots} shots, {rule.queries} queries, "
        f"{rule.episodes} episodes, {rule.method}"
    )


def _check(config: Config, source: Source, team: Team) -> None:
    if source.own is None:
        return
    rule = config.evaluation
    counts = source.own.test.labels.bincount()
    needed = max(rule.shots) + rule.queries
    usable = int((counts >= needed).sum())
    if usable < rule.ways:
        raise ValueError(
            f"{usable} of the {int((counts > 0).sum())} classes that are held out have the {needed} images that shots "
            f"and queries need, but an episode has {rule.ways} classes: lower --evaluation.ways, --evaluation.shots or "
            "--evaluation.queries, or hold out more with --data.held-out"
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
    check=_check,
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
