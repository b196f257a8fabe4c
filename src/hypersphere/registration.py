"""``hs.register`` gives your own classes and functions a name that works like a built-in one."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

from torch import nn

from ._core.checks import check_choice
from ._core.registries import KINDS

__all__ = ["register"]

T = TypeVar("T")
_MADE_BY_NAME = {
    "angular": "a class with from_cos(self, c)",
    "magnitude": "a class with __call__(self, norm)",
    "head": "a class, or a function of in_features and num_classes",
    "regularizer": "a class, or a function of a model",
    "model": "a class, or a function of num_classes",
}
"""Kinds whose value is called to make the thing, each time that its name is used."""
_OF_MEASUREMENTS = {
    "unit",
    "higher_is_better",
    "quantities",
    "protocol",
    "also",
    "suits",
    "details",
    "lines",
    "words",
    "check",
}


def register(
    kind: str, name: str, value: Any = None, *, label: str | None = None, about: str | None = None, **extra: Any
) -> Any:
    """Declare something of your own under a name, which then works wherever the built-in names do.

    The name is a choice on the command line, in :func:`hypersphere.convert`, in recipes, plots and reports. Without a
    declaration the address ``"package.module:Name"`` works in the same places; use it where another process must find
    the object by itself (``hypersphere train`` and resuming).

    Args:
        kind: What it is: ``"angular"`` (a g: a class with ``from_cos``), ``"magnitude"`` (an h: a class whose objects
            are called with the norm), ``"head"`` (called with ``in_features, num_classes``; its objects have the class
            vectors ``weight``, the loss ``head(features, labels)`` and ``head.logits(features)``), ``"regularizer"``
            (called with a model), ``"map"`` (a function from square matrices (blocks, d, d) to orthogonal ones, or an
            :class:`~hypersphere.functional.Orthogonalizer`), ``"optimizer"`` (a ``torch.optim.Optimizer``; called with
            groups of parameters, ``lr``, and ``momentum``, ``nesterov``, ``betas`` and ``eps`` if it takes them),
            ``"model"`` (called with ``num_classes`` and, if it takes
            them, ``in_channels`` and ``image_size``; with ``num_classes=0`` the network returns features, whose number
            is its ``feature_dim``), ``"dataset"`` (a function of ``root`` that returns a
            :class:`hypersphere.data.Dataset`), ``"measurement"`` (a function of an evaluation), ``"plot"`` (a function
            that returns a figure) or ``"panel"`` (a function of a run for the report).
        name: Its name: letters, digits, ``_``, ``.``, ``+`` and ``-``.
        value: The class or function, not an object of the class: a name makes a new object in each layer. A function
            without arguments that returns one, e.g. ``functools.partial(Cubic, scale=2.0)``, works like a class. Left
            out, :func:`register` is a decorator.
        label: Words for it in pictures, reports and cards; the name without underscores by default.
        about: One line of help; the first line of its docstring by default.
        **extra: What only a measurement takes: ``unit`` of its number (``"%"`` or ``""``), ``higher_is_better``,
            ``quantities`` in place of both if it gives several numbers, and ``protocol``, ``also``, ``suits``,
            ``details``, ``lines``, ``words`` and ``check``, the fields of :class:`hypersphere.evaluation.Measurement`.
            The other kinds take nothing more.

    Returns:
        ``value``, or the decorator.

    Raises:
        ValueError: If there is no such kind, or another thing of that kind has the name.
        TypeError: If ``extra`` has something that this kind does not take, or ``value`` is an object where a class is
            needed.

    Example:
        >>> @hs.register("angular", "cubic", label="cos³ θ")
        ... class Cubic:
        ...     def from_cos(self, c):
        ...         return c**3
        >>> hs.nn.SphereLinear(4, 2, angular="cubic").angular.__class__.__name__
        'Cubic'
    """
    table = KINDS[check_choice("kind", kind, KINDS)]
    strange = sorted(set(extra) - (_OF_MEASUREMENTS if kind == "measurement" else set()))
    if strange:
        raise TypeError(f"{strange[0]}={extra[strange[0]]!r} is nothing that a {table.kind} takes: leave it out")

    def declare(thing: T) -> T:
        _check_made(kind, name, thing)
        table.load()  # before: else a built-in name would look free until its module is imported
        table.add(name, thing, label=label, about=about, **extra)
        return thing

    if value is None:
        return declare
    return declare(value)


def _check_made(kind: str, name: str, value: Any) -> None:
    """A TypeError for an object of which a name cannot make another."""
    if kind not in _MADE_BY_NAME or isinstance(value, type):
        return
    bare = kind in ("angular", "magnitude")  # made without arguments
    if isinstance(value, nn.Module) or not callable(value) or (bare and not _takes_nothing(value)):
        raise TypeError(
            f"the {kind} {name!r} is {value!r}: register {_MADE_BY_NAME[kind]}, of which each use of the name makes an "
            f"object{'; an object or function itself is passed without a name, ' + kind + '=...' if bare else ''}"
        )


def _takes_nothing(value: Any) -> bool:
    if hasattr(value, "from_cos"):
        return False
    try:
        inspect.signature(value).bind()
    except TypeError:
        return False
    except ValueError:  # built in C, without a signature
        return True
    return True
