"""What training asks of an evaluation: the protocol's numbers on the way, everything at the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..config import Config
from ..runs import Team
from ..sources import Source
from .candidate import Candidate
from .measurement import find


def evaluate_protocol(candidate: Candidate) -> dict[str, float]:
    """Compute the numbers of ``evaluation.protocol``.

    Args:
        candidate: the trained network, its test split and its settings.

    Returns:
        Numbers by name, with ``accuracy``.

    Raises:
        ValueError: If the protocol gives no ``accuracy``, by which the best evaluation is chosen.

    Example:
        >>> from hypersphere.evaluation import candidate_of, evaluate_protocol
        >>> "accuracy" in evaluate_protocol(candidate_of(hs.runs.Run("runs/digits")))
        True
    """
    chosen = find(candidate.config.evaluation.protocol, "evaluation.protocol")
    with candidate.evaluating():
        found = chosen.numbers(candidate)
    if "accuracy" not in found:
        raise ValueError(
            f"evaluation.protocol={chosen.name!r} gives {', '.join(found) or 'nothing'}, but the best is chosen "
            "by accuracy: let it give an 'accuracy', or name it in evaluation.also"
        )
    return found


def evaluate_also(candidate: Candidate) -> dict[str, float]:
    """Compute the numbers of ``evaluation.also``, of the final network.

    Args:
        candidate: the trained network, its test split and its settings.

    Returns:
        All numbers of these measurements by name, rates in percent.

    Example:
        >>> from hypersphere.evaluation import candidate_of, evaluate_also
        >>> evaluate_also(candidate_of(hs.runs.Run("runs/digits")))
        {}
    """
    return {key: value for numbers in told_apart(evaluate_each(candidate)).values() for key, value in numbers.items()}


def evaluate_each(candidate: Candidate) -> dict[str, dict[str, float]]:
    """As :func:`evaluate_also`, by the name of the measurement.

    Args:
        candidate: the trained network, its test split and its settings.

    Returns:
        The numbers of each measurement in ``evaluation.also``.

    Example:
        >>> from hypersphere.evaluation import candidate_of, evaluate_each
        >>> evaluate_each(candidate_of(hs.runs.Run("runs/digits")))
        {}
    """
    names = candidate.config.evaluation.also
    with candidate.evaluating():
        return {name: find(name, "evaluation.also").numbers(candidate) for name in names}


def told_apart(also: Mapping[str, Mapping[str, float]], known: Iterable[str] = ()) -> dict[str, dict[str, float]]:
    """Put the name of the measurement before the name of a number that another has, too.

    Args:
        also: the numbers of each measurement.
        known: names that are taken, as those of the protocol.

    Returns:
        The numbers of each measurement, all under names of their own.

    Example:
        >>> from hypersphere.evaluation import told_apart
        >>> told_apart({"mine:score": {"accuracy": 3.0}}, known=["accuracy"])
        {'mine:score': {'mine:score.accuracy': 3.0}}
    """
    taken, found = set(known), {}
    for name, numbers in also.items():
        apart: dict[str, float] = {}
        for key, value in numbers.items():
            new = key
            while new in taken or new in apart or (new != key and new in numbers):
                new = f"{name}.{new}"
            apart[new] = value
        found[name] = apart
        taken.update(apart)
    return found


_UNSEEN = ("verification", "identification", "few_shot")


def check_evaluation(config: Config, source: Source, team: Team) -> None:
    """Raise before the training if the network cannot be evaluated afterwards as the settings say.

    Args:
        config: the settings of the run that is about to start.
        source: the data of the run: classes, shapes and test split.
        team: the processes that will evaluate together.

    Raises:
        ValueError: If the protocol does not suit the data.

    Example:
        >>> from hypersphere.evaluation import candidate_of, check_evaluation
        >>> candidate = candidate_of(hs.runs.Run("runs/digits"))
        >>> check_evaluation(candidate.config, candidate.source, candidate.team)
    """
    rule = config.evaluation
    own = source.own if rule.protocol in _UNSEEN and rule.data is None else None
    if own is not None and own.split_here and not own.unseen:
        raise ValueError(
            f"{rule.protocol} is for classes that training never saw, and data.split=image holds out images of every "
            "class: give --data.split class, or --evaluation.protocol classification"
        )
    for name in config.evaluation.also:
        find(name, "evaluation.also").check(config, source, team)
    find(config.evaluation.protocol, "evaluation.protocol").check(config, source, team)
