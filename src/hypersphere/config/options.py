"""Frozen dataclasses as settings: help for each field, JSON and back."""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from .reading import fitted, kinds_of

T = TypeVar("T")

types_of: Callable[[Any], dict[str, Any]] = functools.cache(typing.get_type_hints)
"""The types of a dataclass's fields, by name; they are looked up once."""


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
    return _plain(config, every=True)


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
    hints = types_of(kind)
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
    return _set(config, values)


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
    return _plain(config, every=False)


def told(help: str | Callable[[], str]) -> str:
    """The explanation of a field in words: see :func:`option`."""
    return help if isinstance(help, str) else help()


def _plain(config: Any, every: bool) -> dict[str, Any]:
    """The settings, or the material ones alone, as JSON has them."""
    plain: dict[str, Any] = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            plain[field.name] = _plain(value, every)
        elif every or field.metadata.get("material", True):
            plain[field.name] = list(value) if isinstance(value, tuple) else value
    return plain


def _leaves(config: Any, prefix: str = "") -> Iterator[tuple[str, tuple[Any, bool]]]:
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            yield from _leaves(value, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name, (value, field.metadata.get("material", True))


def _set(config: Any, values: Mapping[str, Any], prefix: str = "") -> Any:
    names = [field.name for field in dataclasses.fields(config)]
    whole: dict[str, Any] = {}
    within: dict[str, dict[str, Any]] = {}
    hints = types_of(type(config))
    for dotted, value in values.items():
        name, dot, rest = dotted.partition(".")
        if name not in names:
            raise ValueError(f"{type(config).__name__} has no setting {name!r}: it has {', '.join(names)}")
        if dot:
            within.setdefault(name, {})[rest] = value
        else:
            named = isinstance(value, str) and str in kinds_of(hints[name])  # which may be "none"
            done = named or dataclasses.is_dataclass(value)
            whole[name] = value if done else fitted(hints[name], value, prefix + name)
            within.pop(name, None)  # what came before it is overwritten
    for name, inner in within.items():
        part = whole.get(name, getattr(config, name))
        if not dataclasses.is_dataclass(part):
            raise ValueError(f"{type(config).__name__}.{name} is a single setting: it has no {next(iter(inner))!r}")
        whole[name] = _set(part, inner, f"{prefix}{name}.")
    return dataclasses.replace(config, **whole)


def _tupled(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _tupled(inner) for name, inner in value.items()}
    return tuple(_tupled(inner) for inner in value) if isinstance(value, list | tuple) else value
