"""From what a person writes to the value of a setting: texts of a command line, entries of files, objects of Python."""

from __future__ import annotations

import ast
import os
import types
import typing
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any


def read_text(hint: Any, text: str) -> Any:
    """Convert the text of the command line to a value.

    Args:
        hint: type of the field, from its annotation; it decides how the text is read.
        text: what was typed; ``none`` is None where the type allows it.

    Returns:
        The value, in the type that ``hint`` asks for.

    Raises:
        ValueError: If the text is not of that type.

    Example:
        >>> from hypersphere.config import read_text
        >>> read_text(tuple[int, ...], "100,200")
        (100, 200)
    """
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        if type(None) in inner and text.lower() in ("none", ""):
            return None
        return read_text(next(kind for kind in inner if kind is not type(None)), text)
    if origin is tuple:
        if text.lower() == "none":
            return ()
        return tuple(read_text(inner[0], item.strip()) for item in text.strip("()[]").split(",") if item.strip())
    if origin in (dict, Mapping, types.MappingProxyType) or hint is dict:
        pairs = [item.partition("=") for item in text.split(";") if item.strip() and text.lower() != "none"]
        if not all(name.strip() and equals for name, equals, _ in pairs):
            raise ValueError(text)
        return {name.strip(): _literal(value) for name, _, value in pairs}
    if hint is bool:
        if text.lower() not in _WORDS:
            raise ValueError(text)
        return _WORDS[text.lower()]
    if hint is int:
        return int(text.replace("_", ""))
    return hint(text)


_WORDS = dict.fromkeys(("true", "yes", "1", "on"), True) | dict.fromkeys(("false", "no", "0", "off"), False)


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError):
        return text.strip()


def fitted(hint: Any, value: Any, where: str) -> Any:
    """The value as its field has it; a text is read as on the command line.

    Args:
        hint: type of the field, from its annotation.
        value: what a file or a program gives.
        where: what to call it in the message.

    Raises:
        ValueError: If the value is not of that type.
    """
    kinds = kinds_of(hint)
    for kind in kinds:
        whole = typing.get_origin(kind) or kind
        if kind is type(None):
            if value is None:
                return None
        elif whole is tuple and isinstance(value, list | tuple):
            return tuple(fitted(typing.get_args(kind)[0], one, where) for one in value)
        elif kind is float and isinstance(value, Real) and not isinstance(value, bool):
            return float(value)
        elif kind is int and isinstance(value, Integral) and not isinstance(value, bool):
            return int(value)  # those of NumPy, too
        elif whole is dict and isinstance(value, Mapping):
            return dict(value)
        elif whole is str and isinstance(value, os.PathLike):
            return os.fspath(value)
        elif whole is str and isinstance(value, list | tuple) and all(type(one) is int for one in value):
            return ",".join(map(str, value))  # widths
        elif whole in (bool, str) and type(value) is whole and (whole is not str or value != "none"):
            return value
    if isinstance(value, str):
        try:
            return read_text(hint, value)
        except ValueError:
            pass
    wanted = " or ".join(getattr(kind, "__name__", str(kind)) for kind in kinds).replace("NoneType", "none")
    raise ValueError(f"{where}={value!r} must be {wanted}")


def kinds_of(hint: Any) -> tuple[Any, ...]:
    """The types that a field may have."""
    return typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)
