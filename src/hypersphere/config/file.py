"""Settings in a file, JSON or TOML: all of them, as a run folder keeps them, or those that differ from a recipe."""

from __future__ import annotations

import dataclasses
import json
import tomllib
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .._core.checks import closest
from .._core.trust import check_trusted
from .config import Config
from .options import types_of
from .reading import fitted


def read_values(path: str | Path) -> tuple[str | None, dict[str, Any]]:
    r"""Read a file of settings.

    Groups are nested (``[loss]`` and ``margin = 0.3``), or names dotted (``"loss.margin": 0.3``). TOML has no null: the
    text ``"none"`` stands for it. A value may also be the text that the command line takes.

    Args:
        path: ``FILE.json``, ``FILE.toml``, or a run folder, whose ``config.json`` is read.

    Returns:
        The recipe that the file names, or None, and its values by dotted name.

    Raises:
        ValueError: If the file cannot be read, names code that is not trusted, or holds an unknown setting or a value
            of another type. The message names the setting and the closest known one.

    Example:
        >>> from pathlib import Path
        >>> from hypersphere.config import read_values
        >>> _ = Path("mine.toml").write_text("[loss]\nmargin = 0.3\n")
        >>> read_values("mine.toml")
        (None, {'loss.margin': 0.3})
    """
    file = Path(path).expanduser()
    file = file / "config.json" if file.is_dir() else file
    content = _content(file)
    recipe = content.pop("recipe", None)
    if recipe is not None and not isinstance(recipe, str):
        raise ValueError(f"{file}: recipe={recipe!r} must be a name")
    known = settings()
    found: dict[str, Any] = {}
    for name, value in _flat(content, known):
        plain = name.replace("-", "_")
        if plain not in known:
            if any(one.startswith(f"{plain}.") for one in known):
                raise ValueError(f"{file}: {name}={value!r} must be a group of settings: {_example(plain, known)}")
            raise ValueError(f"{file} has an unknown setting {name!r}{closest(plain, known)}")
        if plain in found:
            raise ValueError(f"{file} has the setting {plain!r} twice: keep one of them")
        found[plain] = fitted(known[plain], value, f"{file}: {name}")
    check_trusted(found, file)
    return recipe, found


def settings() -> dict[str, Any]:
    """List every setting.

    Returns:
        The type of every setting, by dotted name.

    Example:
        >>> from hypersphere.config import settings
        >>> settings()["optim.lr"]
        <class 'float'>
    """
    groups = {name: kind for name, kind in types_of(Config).items() if dataclasses.is_dataclass(kind)}
    return {f"{group}.{name}": hint for group, kind in groups.items() for name, hint in types_of(kind).items()}


def _content(file: Path) -> dict[str, Any]:
    if file.suffix not in (".json", ".toml"):
        raise ValueError(f"--config {file} must be a .json or .toml file, or a run folder that exists")
    try:
        text = file.read_text(encoding="utf-8-sig")  # editors of Windows write a mark at the start
        content = json.loads(text, object_pairs_hook=_once) if file.suffix == ".json" else tomllib.loads(text)
    except FileNotFoundError:
        raise ValueError(f"--config {file} does not exist") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"--config {file} is not a {file.suffix[1:].upper()} file: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"--config {file} holds {type(content).__name__}, not settings by name")
    return content


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, in which a name may not stand twice, as in TOML."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} stands twice in one object")
    return found


def _example(group: str, known: Mapping[str, Any]) -> str:
    """The names that a group takes, a few of them."""
    names = [name for name in known if name.startswith(f"{group}.")]
    return f"{', '.join(names[:3])}{', ...' if len(names) > 3 else ''}"


def _flat(content: Mapping[str, Any], known: Mapping[str, Any], prefix: str = "") -> typing.Iterator[tuple[str, Any]]:
    """Names with dots; a mapping that is itself the value of a setting (``model.extra``) stays whole."""
    for name, value in content.items():
        dotted = f"{prefix}{name}"
        if isinstance(value, Mapping) and dotted.replace("-", "_") not in known:
            yield from _flat(value, known, f"{dotted}.")
        else:
            yield dotted, value
