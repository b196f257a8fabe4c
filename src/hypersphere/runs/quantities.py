"""The numbers of logs and results as people read them: label, unit, and whether more is better."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from .._core.registries import MEASUREMENTS
from .._core.registry import Entry


@dataclass(frozen=True)
class Quantity:
    """One number of a log or result.

    Args:
        key: Its name there. A ``*`` stands for any part of a name, which takes the place of ``{}`` in the label.
        label: Its name for people.
        unit: ``"%"``, or nothing.
        higher_is_better: None where neither is.
        factor: What the logged value is multiplied by to be in that unit.
        short: How live progress shows it, e.g. ``"loss {:.4f}"``; empty where it does not.
    """

    key: str
    label: str
    unit: str = ""
    higher_is_better: bool | None = None
    factor: float = 1.0
    short: str = ""

    @property
    def heading(self) -> str:
        """Label, unit and direction, for the head of a row or column: ``Equal error rate, %, lower is better``."""
        better = {True: "higher is better", False: "lower is better", None: ""}[self.higher_is_better]
        return ", ".join(filter(None, (self.label, self.unit, better)))


def declared() -> tuple[Quantity, ...]:
    """Those of the log, then those of every measurement."""
    return (*LOGGED, *(one for entry in MEASUREMENTS.entries() for one in given_by(entry)))


def quantity(key: str) -> Quantity:
    """The declared quantity of a key, by its name or pattern; else one that is made from the key."""
    every = declared()
    for known in every:
        if known.key == key:
            return known
    for known in every:
        found = re.fullmatch(re.escape(known.key).replace(r"\*", "(.+?)"), key) if "*" in known.key else None
        if found is not None:
            label = known.label.format(*(part.removesuffix(".weight") for part in found.groups()))
            return replace(known, key=key, label=label)
    unit = "%" if key.endswith("accuracy") else ""
    return Quantity(key, key.replace("_", " "), unit, True if unit else None)


def given_by(entry: Entry[Any]) -> tuple[Quantity, ...]:
    """What a measurement gives: the quantities it declares, else one with its own name."""
    if "quantities" in entry.extra:
        return tuple(entry.extra["quantities"])
    about = {name: entry.extra[name] for name in ("unit", "higher_is_better") if name in entry.extra}
    return (Quantity(entry.name, entry.label, **about),)


LOGGED = (
    Quantity("accuracy", "Test accuracy", "%", True, short="test {:.2f}%"),
    Quantity("train_accuracy", "Training accuracy", "%", True, factor=100.0),
    Quantity("loss", "Training loss", higher_is_better=False, short="loss {:.4f}"),
    Quantity("generator_loss", "Generator loss", short="generator {:.4f}"),
    Quantity("test_loss", "Test loss", higher_is_better=False),
    Quantity("energy", "Energy", higher_is_better=False, short="energy {:.4f}"),
    Quantity("penalty", "Penalty", higher_is_better=False, short="penalty {:.3g}"),
    Quantity("lambda", "Margin λ", short="λ {:.3g}"),
    Quantity("lr", "Learning rate"),
    Quantity("rate", "Steps per second", higher_is_better=True),
    Quantity("best_accuracy", "Best test accuracy so far", "%", True, short="best {:.2f}%"),
    Quantity("energy/*", "{}", higher_is_better=False),
    Quantity("initial_energy", "Half-space energy at the start, all hidden layers", higher_is_better=False),
    Quantity("seconds_per_100_steps", "Seconds for 100 steps", higher_is_better=False),
)
