"""A command line made of settings: an option for every field, read by its type."""

from __future__ import annotations

import argparse
import dataclasses
import types
import typing
from collections.abc import Callable
from typing import Any

from .options import told, types_of
from .reading import read_text


def add_arguments(parser: argparse.ArgumentParser, kind: type[Any]) -> None:
    """Add an option ``--group.field`` for every field of a dataclass, and a titled group for every part.

    No settings are made for that, and explanations are made only when they are shown.

    Args:
        parser: the parser to add them to.
        kind: the dataclass of settings, such as :class:`Config` or one of its parts.

    Example:
        >>> import argparse
        >>> from hypersphere.config import Config, add_arguments, overridden
        >>> parser = argparse.ArgumentParser()
        >>> add_arguments(parser, Config)
        >>> overridden(parser.parse_args(["--optim.lr", "0.1"]))
        {'optim.lr': 0.1}
    """
    parts = types_of(kind)
    for field in dataclasses.fields(kind):
        part = parts[field.name]
        if not dataclasses.is_dataclass(part):
            continue
        about = (part.__doc__ or "").strip().splitlines()[0]
        group = parser.add_argument_group(field.name, about)
        hints = types_of(part)
        for leaf in dataclasses.fields(part):
            default = leaf.default if leaf.default_factory is dataclasses.MISSING else leaf.default_factory()
            dotted = f"{field.name}.{leaf.name}"
            spellings = list(dict.fromkeys([f"--{dotted.replace('_', '-')}", f"--{dotted}"]))
            group.add_argument(
                *spellings,
                dest=dotted,
                default=argparse.SUPPRESS,
                metavar=_metavar(hints[leaf.name]),
                type=_Reader(dotted, hints[leaf.name]),
                help=LazyHelp(leaf.metadata["help"], f" (default {shown(default)})"),
            )


def overridden(options: argparse.Namespace) -> dict[str, Any]:
    """Return what :func:`add_arguments` found on the command line.

    Args:
        options: the namespace that the parser returned; options that were not given are absent.

    Returns:
        Values by dotted name, of the options that were given.

    Example:
        >>> import argparse
        >>> from hypersphere.config import Config, add_arguments, overridden
        >>> parser = argparse.ArgumentParser()
        >>> add_arguments(parser, Config)
        >>> overridden(parser.parse_args([]))
        {}
    """
    return {name: value for name, value in vars(options).items() if "." in name}


class LazyHelp(str):
    """A text for ``argparse`` that is made when it is shown."""

    _help: str | Callable[[], str]
    _end: str

    def __new__(cls, help: str | Callable[[], str], end: str = "") -> LazyHelp:
        """``help`` and what follows it; both are shown as they are, with every ``%``."""
        made = super().__new__(cls, "%")  # argparse formats texts that have one
        made._help, made._end = help, end
        return made

    def __mod__(self, values: Any) -> str:
        return told(self._help) + self._end


class _Reader:
    """Text to the value of a field, by its type."""

    def __init__(self, name: str, hint: Any) -> None:
        self.name, self.hint = name, hint
        self.__name__ = _metavar(hint)  # argparse shows it in its error messages

    def __call__(self, text: str) -> Any:
        try:
            return read_text(self.hint, text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} must be {_metavar(self.hint)}") from None


def _metavar(hint: Any) -> str:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return "|".join("none" if kind is type(None) else _metavar(kind) for kind in inner)
    if origin is tuple:
        return f"{_metavar(inner[0])},..."
    if origin is dict:
        return "name=value;..."
    return {bool: "yes|no", int: "int", float: "float", str: "text"}.get(hint, str(hint))


def shown(value: Any) -> str:
    """A value as one would type it, so that :func:`read_text` reads it again."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or "none"
    if isinstance(value, dict):
        return ";".join(f"{name}={inner}" for name, inner in value.items()) or "none"
    return "none" if value is None else str(value)
