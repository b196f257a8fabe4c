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

Numbers = Callable[[Candidate], Mapping[str, float]]


@dataclass(frozen=True)
class Measurement:
    """Something that can be evaluated of a trained network.

    Args:
        name: Name on the command line and in files.
        label: Readable name of its ``accuracy``, or of the whole measurement.
        about: One line of help for the command line and the reference.
        evaluate: Computes numbers by name over the data of all processes; rates are in percent.
        protocol: Whether it may be ``evaluation.protocol``: it then gives an ``accuracy``, higher is better.
        also: Whether it may be in ``evaluation.also``.
        suits: The runs for which ``hypersphere evaluate`` includes it by default: ``"closed"`` sets (the test classes
            are those of training), ``"open"`` ones, a ``"gan"``.
        details: Computes further values for ``hypersphere evaluate`` alone: counts, lists, tables.
        lines: Formats numbers and details as lines of text.
        words: Describes how the network is evaluated, in a sentence of the report.
        check: Raises before training if the evaluation would fail after it.

    Example:
        >>> from hypersphere.evaluation import find
        >>> find("classification").protocol
        True
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

    def numbers(self, candidate: Candidate) -> dict[str, float]:
        """Evaluate a candidate.

        Args:
            candidate: the trained network, its test split and its settings.

        Returns:
            The numbers by name.

        Raises:
            TypeError: If the function gives something else.
        """
        found: Any = self.evaluate(candidate)
        if not isinstance(found, Mapping):
            raise TypeError(f"the measurement {self.name!r} gave a {type(found).__name__}: return numbers by name")
        try:
            return {str(key): float(value) for key, value in found.items()}
        except (TypeError, ValueError, RuntimeError) as error:
            raise TypeError(f"the measurement {self.name!r} gave no numbers by name: {error}") from error


def measurement(
    name: str, *, label: str | None = None, quantities: tuple[Quantity, ...] | None = None, **fields: Any
) -> Callable[[Numbers], Numbers]:
    """Declare the decorated function as a measurement.

    Args:
        name: Name on the command line (``--evaluation.also``, ``--parts``) and in files.
        label: Its name for people; None is the name in words.
        quantities: Labels, units and directions of the numbers that it gives; None is one with its own name and label.
        **fields: Further fields of :class:`Measurement`: ``about`` (one line of help), ``protocol`` (may be
            ``evaluation.protocol``), ``also`` (may be in ``evaluation.also``), ``suits`` (the runs that include it by
            default), ``details`` (computes further values), ``lines`` (formats the numbers), ``words`` (describes the
            evaluation in the report) and ``check`` (raises before training if the evaluation would fail).

    Returns:
        The decorator, which returns the function.

    Example:
        >>> from hypersphere.evaluation import measurement
        >>> @measurement("mean_norm", label="Mean norm")
        ... def mean_norm(candidate):
        ...     return {"mean_norm": float(candidate.embedding()[0].norm(dim=1).mean())}
    """

    def added(evaluate: Numbers) -> Numbers:
        given: dict[str, Any] = {} if quantities is None else {"quantities": quantities}
        MEASUREMENTS.add(name, evaluate, label=label, **given, **fields)
        return evaluate

    return added


def find(name: str, argument: str = "measurement") -> Measurement:
    """Find a measurement.

    Args:
        name: its name, or an address ``package.module:function``.
        argument: name of the argument for the error.

    Returns:
        The measurement with its label, help and functions.

    Raises:
        ValueError: If there is none.

    Example:
        >>> from hypersphere.evaluation import find
        >>> find("retrieval").name
        'retrieval'
    """
    return _of(MEASUREMENTS.entry(name, argument))


def known() -> tuple[Measurement, ...]:
    """List all measurements that are declared.

    Returns:
        All declared measurements, in the order of their declaration.

    Example:
        >>> from hypersphere.evaluation import known
        >>> "verification" in [one.name for one in known()]
        True
    """
    return tuple(_of(entry) for entry in MEASUREMENTS.entries())


def describe(config: Config) -> str:
    """Describe how the settings evaluate a network; code that only has an address is not imported for that.

    Args:
        config: the settings of a run, of which ``evaluation.protocol`` is described.

    Returns:
        A sentence for the report, such as the protocol and its folds.

    Example:
        >>> from hypersphere import evaluation, recipes
        >>> len(evaluation.describe(recipes.get("digits.cnn"))) > 0
        True
    """
    name = config.evaluation.protocol
    words = find(name).words if name in MEASUREMENTS else None
    return MEASUREMENTS.label(name) if words is None else words(config)


def _of(entry: Entry[Any]) -> Measurement:
    if not callable(entry.value):
        raise TypeError(f"the measurement {entry.name!r} is a {type(entry.value).__name__}: name a function")
    taken = {field.name for field in dataclasses.fields(Measurement)}
    fields = {name: value for name, value in entry.extra.items() if name in taken}
    return Measurement(entry.name, entry.label, entry.about, entry.value, **fields)


def number_lines(part: Mapping[str, Any]) -> list[str]:
    """A line for each value, numbers with two digits."""
    width = max([18, *map(len, part)])
    return [
        f"  {key:{width}s} {value:.2f}" if isinstance(value, float) else f"  {key:{width}s} {value}"
        for key, value in part.items()
    ]
