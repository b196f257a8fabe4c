"""Frozen dataclasses as settings: help for each field, JSON and back, and a command line made of them."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

__all__ = [
    "LazyHelp",
    "about",
    "add_arguments",
    "changed",
    "from_dict",
    "material",
    "option",
    "overridden",
    "read_text",
    "to_dict",
    "told",
    "with_values",
]

T = TypeVar("T")

_types_of: Callable[[Any], dict[str, Any]] = functools.cache(typing.get_type_hints)  # looking them up takes long


def option(default: Any, help: str | Callable[[], str], *, material: bool = True) -> Any:
    """Declare a setting: a field with its explanation.

    Args:
        default: value of the field where neither recipe nor command line sets it.
        help: the explanation; a function where it lists what other rooms declare, called when it is shown.
        material: whether the setting can change the outcome of a run.

    Returns:
        A dataclass field that holds the explanation as metadata.

    Example:
        >>> from dataclasses import dataclass
        >>> from hypersphere.config import option
        >>> @dataclass(frozen=True)
        ... class Mine:
        ...     width: int = option(64, "channels of every layer")
        >>> Mine().width
        64
    """
    return dataclasses.field(default=default, metadata=about(help, material=material))


def about(help: str | Callable[[], str], *, material: bool = True) -> dict[str, Any]:
    """Return the metadata of a setting, for fields that need a factory.

    Args:
        help: the explanation, or a function that makes it when it is shown.
        material: whether the setting can change the outcome of a run.

    Returns:
        Metadata for ``dataclasses.field``.

    Example:
        >>> from hypersphere.config import about
        >>> about("number of steps")
        {'help': 'number of steps', 'material': True}
    """
    return {"help": help, "material": material}


def to_dict(config: Any) -> dict[str, Any]:
    """Make plain values of settings, for JSON.

    Args:
        config: settings, or a group of them.

    Returns:
        The settings as nested dictionaries of JSON types.

    Example:
        >>> from hypersphere.config import ScheduleConfig, to_dict
        >>> to_dict(ScheduleConfig())["steps"]
        64000
    """
    return {
        field.name: to_dict(value) if dataclasses.is_dataclass(value) else list(value) if _is_tuple(value) else value
        for field in dataclasses.fields(config)
        for value in [getattr(config, field.name)]
    }


def from_dict(kind: type[T], values: Mapping[str, Any]) -> T:
    """Make settings of plain values: the inverse of :func:`to_dict`.

    Args:
        kind: the dataclass of settings, such as :class:`Config` or one of its parts.
        values: nested values; fields that are missing keep their defaults.

    Returns:
        The settings as an object of ``kind``.

    Raises:
        ValueError: If a name is unknown.

    Example:
        >>> from hypersphere.config import Config, from_dict, to_dict
        >>> from_dict(Config, to_dict(Config())) == Config()
        True
    """
    hints = _types_of(kind)
    for name in values:
        if name not in hints:
            raise ValueError(f"{kind.__name__} has no setting {name!r}: the file is of another version")
    return kind(
        **{
            name: from_dict(hints[name], value) if dataclasses.is_dataclass(hints[name]) else _tupled(value)
            for name, value in values.items()
        }
    )


def with_values(config: T, values: Mapping[str, Any]) -> T:
    """Replace settings by dotted name; each group is checked once it has all its values.

    Args:
        config: settings to start from; they are not changed.
        values: new values by dotted name, ``{"optim.lr": 0.1}``.

    Returns:
        A copy of the settings with these values.

    Raises:
        ValueError: If a name is unknown or a value is not allowed.

    Example:
        >>> from hypersphere.config import Config, with_values
        >>> with_values(Config(), {"optim.lr": 0.1, "loss.name": "arcface"}).loss.name
        'arcface'
    """
    changed: T = _set(config, values)
    return changed


def changed(one: Any, other: Any) -> dict[str, tuple[Any, Any]]:
    """Compare two configurations.

    Args:
        one: settings of a run, of any of these dataclasses.
        other: settings of the same dataclass to compare with.

    Returns:
        The dotted names of the material settings in which they differ, with both values.

    Example:
        >>> from hypersphere.config import Config, changed, with_values
        >>> changed(Config(), with_values(Config(), {"schedule.warmup": 10}))
        {'schedule.warmup': (0, 10)}
    """
    ours, theirs = dict(_leaves(one)), dict(_leaves(other))
    return {
        name: (value, theirs[name][0])
        for name, (value, material) in ours.items()
        if material and _tupled(value) != _tupled(theirs[name][0])
    }


def material(config: Any) -> dict[str, Any]:
    """Return the settings that can change the outcome of a run; folders of a machine are not among them.

    Args:
        config: settings of a run; its parts are searched as well.

    Returns:
        The values of these settings by dotted name, as JSON types.

    Example:
        >>> from hypersphere.config import Config, material
        >>> "run.folder" in material(Config())
        False
    """
    plain: dict[str, Any] = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            plain[field.name] = material(value)
        elif field.metadata.get("material", True):
            plain[field.name] = list(value) if isinstance(value, tuple) else value
    return plain


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
    parts = _types_of(kind)
    for field in dataclasses.fields(kind):
        part = parts[field.name]
        if not dataclasses.is_dataclass(part):
            continue
        about = (part.__doc__ or "").strip().splitlines()[0]
        group = parser.add_argument_group(field.name, about)
        hints = _types_of(part)
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
                help=LazyHelp(leaf.metadata["help"], f" (default {_shown(default)})"),
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
        words = {
            "true": True,
            "yes": True,
            "1": True,
            "on": True,
            "false": False,
            "no": False,
            "0": False,
            "off": False,
        }
        if text.lower() not in words:
            raise ValueError(text)
        return words[text.lower()]
    if hint is int:
        return int(text.replace("_", ""))
    return hint(text)


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError):
        return text.strip()


def _metavar(hint: Any) -> str:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return "|".join("none" if kind is type(None) else _metavar(kind) for kind in inner)
    if origin is tuple:
        return f"{_metavar(inner[0])},..."
    if origin is dict:
        return "name=value;..."
    return {bool: "yes|no", int: "int", float: "float", str: "text"}.get(hint, str(hint))


def told(help: str | Callable[[], str]) -> str:
    """The explanation of a field in words: see :func:`option`."""
    return help if isinstance(help, str) else help()


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "none"
    return "none" if value is None or value == {} else str(value)


def _leaves(config: Any, prefix: str = "") -> Iterator[tuple[str, tuple[Any, bool]]]:
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            yield from _leaves(value, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name, (value, field.metadata.get("material", True))


def _set(config: Any, values: Mapping[str, Any]) -> Any:
    names = [field.name for field in dataclasses.fields(config)]
    whole: dict[str, Any] = {}
    within: dict[str, dict[str, Any]] = {}
    for dotted, value in values.items():
        name, dot, rest = dotted.partition(".")
        if name not in names:
            raise ValueError(f"{type(config).__name__} has no setting {name!r}: it has {', '.join(names)}")
        if dot:
            within.setdefault(name, {})[rest] = value
        else:
            whole[name] = value
            within.pop(name, None)  # what came before it is overwritten
    for name, inner in within.items():
        part = whole.get(name, getattr(config, name))
        if not dataclasses.is_dataclass(part):
            raise ValueError(f"{type(config).__name__}.{name} is a single setting: it has no {next(iter(inner))!r}")
        whole[name] = _set(part, inner)
    return dataclasses.replace(config, **whole)


def _is_tuple(value: Any) -> bool:
    return isinstance(value, tuple)


def _tupled(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _tupled(inner) for name, inner in value.items()}
    return tuple(_tupled(inner) for inner in value) if isinstance(value, list | tuple) else value
