"""A measurement, declared once: name, label, help, the numbers it gives, and what computes them.

The settings, `hypersphere evaluate`, the report and the cards read their choices and words from here. One of your own
is a function from a :class:`Candidate` to numbers by name::

    @hs.evaluation.measurement("median_norm", label="Median feature norm")
    def median_norm(candidate):
        features, _ = candidate.embedding()
        return {"median_norm": float(features.norm(dim=1).median())}

Without a declaration, ``--evaluation.also mypackage.mymodule:median_norm`` names it by its address.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .._core.registries import MEASUREMENTS
from .._core.registry import Entry
from ..config import Config
from ..runs import Team
from ..runs.quantities import Quantity
from ..sources import Source
from .candidate import Candidate

__all__ = ["Measurement", "Numbers", "describe", "find", "known", "measurement"]

Numbers = Callable[[Candidate], Mapping[str, float]]


@dataclass(frozen=True)
class Measurement:
    """What can be evaluated of a trained network.

    Args:
        name: On the command line and in files.
        label: Name of its ``accuracy``, or of the whole, for people.
        about: One line of help.
        evaluate: The numbers by name, of all processes together; rates in percent.
        protocol: Whether it may be ``evaluation.protocol``: it then gives an ``accuracy``, higher is better.
        also: Whether it may be in ``evaluation.also``.
        suits: What ``hypersphere evaluate`` measures without being asked: ``"closed"`` sets (the test classes are those
            of training), ``"open"`` ones, a ``"gan"``.
        details: Further values for ``hypersphere evaluate`` alone: counts, lists, tables.
        lines: Numbers and details as lines of text.
        words: How the network is evaluated, in a sentence of the report.
        check: Raises before training what would fail after it.
    """

    name: str
    label: str
    about: str
    evaluate: Numbers
    protocol: bool = False
    also: bool = True
    suits: tuple[str, ...] = ()
    details: Callable[[Candidate], Mapping[str, Any]] = lambda candidate: {}
    lines: Callable[[Mapping[str, Any]], list[str]] | None = None
    words: Callable[[Config], str] | None = None
    check: Callable[[Config, Source, Team], None] = lambda config, source, team: None


def measurement(
    name: str, *, label: str | None = None, quantities: tuple[Quantity, ...] = (), **fields: Any
) -> Callable[[Numbers], Numbers]:
    """Declare the decorated function: see :class:`Measurement` for the fields.

    Args:
        name: Of the measurement.
        label: For people; None: the name in words.
        quantities: Labels, units and directions of the numbers that it gives.
        fields: Further fields of :class:`Measurement`.
    """

    def added(evaluate: Numbers) -> Numbers:
        MEASUREMENTS.add(name, evaluate, label=label, quantities=quantities, **fields)
        return evaluate

    return added


def find(name: str, argument: str = "measurement") -> Measurement:
    """The measurement of a name, or of an address ``package.module:function``."""
    return _of(MEASUREMENTS.entry(name, argument))


def known() -> tuple[Measurement, ...]:
    """All that are declared."""
    return tuple(_of(entry) for entry in MEASUREMENTS.entries())


def describe(config: Config) -> str:
    """How the settings let a network be evaluated, in words; what has only an address is not imported for that."""
    name = config.evaluation.protocol
    words = find(name).words if name in MEASUREMENTS else None
    return MEASUREMENTS.label(name) if words is None else words(config)


def _of(entry: Entry[Any]) -> Measurement:
    if not callable(entry.value):
        raise TypeError(f"the measurement {entry.name!r} is a {type(entry.value).__name__}: name a function")
    taken = {field.name for field in dataclasses.fields(Measurement)}
    fields = {name: value for name, value in entry.extra.items() if name in taken}
    return Measurement(entry.name, entry.label, entry.about, entry.value, **fields)
