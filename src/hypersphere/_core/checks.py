"""Checks on numbers and names that users pass in: each error names the argument, its value and the fix.

Nothing here needs torch, so that settings and command lines are read before it is imported.
"""

from __future__ import annotations

import difflib
import math
import numbers
import operator
from collections.abc import Iterable
from pathlib import PurePath

_MANY = 40  # names that nobody reads through for the one that is close


def check_choice(argument: str, value: object, choices: Iterable[str], own: str = "") -> str:
    """Return ``value`` if it is one of ``choices``, else say which names there are.

    ``own`` is what the names are for, where users can declare more of them.
    """
    names = sorted(choices)
    if isinstance(value, str) and value in names:
        return value
    near = difflib.get_close_matches(str(value), names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    if own and not near:
        article = "An" if own[0] in "aeiou" else "A"
        hint = f". {article} {own} of your own is known by its address, package.module:Name, or once the module that "
        hint += "registers it is imported"
    if near and len(names) > _MANY:
        raise ValueError(f"{argument}={value!r} is unknown, one of {len(names)} names was expected{hint}")
    raise ValueError(f"{argument}={value!r} is unknown: choose one of {', '.join(map(repr, names))}{hint}")


def check_folder_name(argument: str, value: str) -> str:
    """Return ``value`` if it names a folder below another one: not that folder itself, its parent, or one elsewhere."""
    if not isinstance(value, str):
        raise TypeError(f"{argument}={value!r} must be a name, not {type(value).__name__}")
    path = PurePath(value)
    if not path.parts or path.is_absolute() or ".." in path.parts or "\0" in value:
        raise ValueError(
            f"{argument}={value!r} must be the name of a folder, e.g. 'mine': give the folder above it by run.folder"
        )
    return value


def closest(name: str, known: Iterable[str]) -> str:
    """``; did you mean ...?`` for a misspelt name, or nothing. A name without its group finds those that end in it."""
    names = list(known)
    last = [one for one in names if one.rpartition(".")[2].replace("-", "_") == name.lstrip("-").replace("-", "_")]
    near = last or difflib.get_close_matches(name, names, n=2, cutoff=0.8)
    return f"; did you mean {' or '.join(near[:3])}?" if near else ""


def check_positive(argument: str, value: float, *, zero: bool = False) -> float:
    """Return ``value`` as a float if it is finite and > 0 (or ≥ 0 with ``zero``); numbers of NumPy are welcome."""
    bound = "≥ 0" if zero else "> 0"
    if not is_number(value):
        raise TypeError(f"{argument}={value!r} must be a number {bound}, not {type(value).__name__}")
    if not 0 <= value < math.inf or (value == 0 and not zero) or _beyond(value):  # math.isfinite cannot be traced
        raise ValueError(f"{argument}={value!r} must be finite and {bound}")
    return float(value)


def check_share(argument: str, value: float, *, zero: bool = True) -> float:
    """Return ``value`` as a float if it lies in [0, 1], or in (0, 1] without ``zero``."""
    if check_positive(argument, value, zero=zero) > 1:
        raise ValueError(f"{argument}={value!r} is a share: it must lie in {'[' if zero else '('}0, 1]")
    return float(value)


def check_count(argument: str, value: int, *, minimum: int = 1) -> int:
    """Return ``value`` as an int if it is a whole number of at least ``minimum``; those of NumPy and torch are too."""
    count = value if isinstance(value, int) and not isinstance(value, bool) else _whole_number(value)
    if count is None:
        raise TypeError(f"{argument}={value!r} must be an int, not {type(value).__name__}")
    if count < minimum:
        raise ValueError(f"{argument}={value!r} must be at least {minimum}")
    return count


def is_number(value: object) -> bool:
    """Whether it is a real number, of Python or NumPy, and no bool."""
    return isinstance(value, int | float | numbers.Real) and not isinstance(value, bool)


def _beyond(value: float) -> bool:
    """Whether it is a whole number that no float can hold, as 10**400."""
    return isinstance(value, int) and value >= 2**1024


def _whole_number(value: object) -> int | None:
    """An integer of another type than int, e.g. ``labels.max() + 1``."""
    if isinstance(value, bool) or str(getattr(value, "dtype", "")) in ("bool", "torch.bool"):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None
