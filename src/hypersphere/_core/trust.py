"""Which code a file may name by an address ``package.module:Name``: settings from files are checked here.

An address is followed by importing a module and calling what it holds, which can run any code: even
``os:system`` is an address. Addresses from a program or a command line are followed. Addresses from a file are followed
if their module is trusted, or if the same address was registered or named in this process before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .registries import KINDS
from .registry import followed, is_address

_MODULES: set[str] = set()
_TEXTS = frozenset(
    {
        "recipe",
        "adversarial.source",
        "data.root",
        "evaluation.inception",
        "evaluation.root",
        "model.start",
        "run.folder",
        "run.name",
    }
)
"""Settings that hold paths and names of runs, which are never looked up as code."""


def trust(modules: str | Iterable[str] | None) -> None:
    """Let files name the code of these modules and of what is in them, for as long as the process lives.

    Args:
        modules: Names with dots, several in a list or with commas between; None adds nothing.

    Raises:
        ValueError: If one is not the name of a module.
    """
    words = modules.split(",") if isinstance(modules, str) else list(modules or ())
    for word in (str(word).strip() for word in words):
        if not word or not all(part.isidentifier() for part in word.split(".")):
            raise ValueError(f"trust={word!r} is not the name of a module, e.g. mypackage or mypackage.heads")
        _MODULES.add(word)


def named(values: Mapping[str, Any]) -> None:
    """Note the addresses of settings that a program or a command line made: files may name the same ones."""
    followed.update(address for _, address in addresses(values))


def check_trusted(values: Mapping[str, Any], where: object) -> None:
    """Raise ValueError if settings from a file name code that is not trusted.

    Args:
        values: The settings as nested dictionaries.
        where: The file, for the message.

    Raises:
        ValueError: It names the setting, the address and the remedy.
    """
    for name, address in addresses(values):
        module = address.partition(":")[0]
        inside = any(module == one or module.startswith(f"{one}.") for one in _MODULES)
        if not inside and address not in followed and address not in _registered():
            raise ValueError(
                f"{where} names code to run, {name}={address!r}. Code named by a file is not run: if you trust it, "
                f"give --trust {module} (in Python trust={module!r})"
            )


def addresses(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(setting, address) of everything in nested settings that has the form of an address, at any depth."""
    pending: list[tuple[str, Any]] = [("", values)]
    while pending:  # no recursion: files may be nested deeply
        name, value = pending.pop()
        if isinstance(value, Mapping):
            pending += [(f"{name}.{key}" if name else str(key), inner) for key, inner in value.items()]
            pending += [(f"{name} (a key)", key) for key in value]
        elif isinstance(value, list | tuple):
            pending += [(name, inner) for inner in value]
        elif is_address(value) and name not in _TEXTS:
            yield name, value


def _registered() -> set[str]:
    """The addresses of what ``hs.register`` declared."""
    values = (entry.value for table in KINDS.values() for entry in table.present())
    return {f"{getattr(one, '__module__', '')}:{getattr(one, '__qualname__', '')}" for one in values}
