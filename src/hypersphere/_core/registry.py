"""One table for each kind of thing that has a name: what is built in, and what users register.

A table knows the module that declares its built-in entries and imports it at the first look-up, so that a low room
(the settings, say) can list the choices of a higher one without importing it.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar

from .checks import check_choice

T = TypeVar("T")
followed: set[str] = set()
"""The addresses that this process has imported, or was told by a program or a command line that it may."""
_ADDRESS = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


@dataclass(frozen=True)
class Parameter:
    """One argument of an entry, as its signature and its docstring declare it."""

    name: str
    default: Any
    help: str


@dataclass(frozen=True)
class Entry(Generic[T]):
    """A named thing, and the words that describe it."""

    name: str
    value: T
    label: str
    about: str
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def options(self) -> tuple[Parameter, ...]:
        """The parameters that have a default: a user may set them, the program passes the others."""
        return tuple(one for one in self.parameters if one.default is not inspect.Parameter.empty)

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """What the value is called with; ``extra["parameters"]`` tells it of a value that is not called itself."""
        told = self.extra.get("parameters")
        return parameters_of(self.value) if told is None else told()


def parameters_of(target: Any) -> tuple[Parameter, ...]:
    """Names and defaults of the signature of a class or function, help from the Args of its docstring."""
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):
        return ()
    described = _described(target)
    return tuple(
        Parameter(name, parameter.default, described.get(name, ""))
        for name, parameter in signature.parameters.items()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    )


class Registry(Mapping[str, T]):
    """Things of one kind by name; where a name is taken, ``package.module:Name`` is taken as well."""

    def __init__(self, kind: str, home: str | None = None) -> None:
        self.kind = kind
        self._home = home
        self._entries: dict[str, Entry[T]] = {}
        self._others: dict[str, str] = {}

    def add(self, name: str, value: T, *, label: str | None = None, about: str | None = None, **extra: Any) -> T:
        """Declare ``value`` under ``name``; declaring the same value again changes nothing.

        Raises:
            ValueError: if another value has that name, or the name cannot be written on a command line.
        """
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][\w.+-]*", name):
            raise ValueError(f"name={name!r} of the {self.kind} must be letters, digits, '_', '.', '+' or '-'")
        known = self._entries.get(name)
        if known is not None and known.value is not value and _origin(known.value) != _origin(value):
            raise ValueError(f"the {self.kind} {name!r} is declared already, as {known.value!r}: choose another name")
        summary = about if about is not None else _summary(value)
        words = label if label is not None else name.replace("_", " ")
        self._entries[name] = Entry(name, value, words, summary, extra)
        return value

    def also(self, **names: str) -> None:
        """Let ``other=name`` be found as well; ``name`` alone is listed, and what is declared as ``other`` wins."""
        self._others |= names

    def canonical(self, name: str) -> str:
        """The name that a thing is declared under, of any that it is known by; another name is returned as it is."""
        if name not in self._entries:
            self.load()
        return name if name in self._entries else self._others.get(name, name)

    def entry(self, name: str, argument: str | None = None) -> Entry[T]:
        """The entry of a name or of an address ``package.module:Name``.

        Raises:
            ValueError: if there is no such name, module or attribute; it lists the names there are.
        """
        name = self.canonical(name)
        if name not in self._entries and is_address(name):
            return self._imported(name, argument or self.kind)
        return self._entries[check_choice(argument or self.kind, name, self._entries, own=self.kind)]

    def find(self, name: str, argument: str | None = None) -> T:
        """The value of a name or address: see :meth:`entry`."""
        return self.entry(name, argument).value

    def check(self, argument: str, name: str) -> str:
        """Return ``name`` if it is known or an address, which is imported only where the thing is made."""
        if isinstance(name, str) and is_address(name):
            return name
        self.load()
        return check_choice(argument, name, self._entries, own=self.kind)

    def label(self, name: str) -> str:
        """The words for a name in pictures, reports and cards; of an address, the name of the object."""
        return self.entry(name).label if name in self else name.rpartition(":")[2]

    def __getitem__(self, name: str) -> T:
        self.load()
        return self._entries[name].value

    def __iter__(self) -> Iterator[str]:
        self.load()
        return iter(self._entries)

    def __len__(self) -> int:
        self.load()
        return len(self._entries)

    def entries(self) -> tuple[Entry[T], ...]:
        """All entries, in the order of their declaration."""
        self.load()
        return tuple(self._entries.values())

    def present(self) -> tuple[Entry[T], ...]:
        """The entries that are declared so far; the module of the built-in ones is not imported for it."""
        return tuple(self._entries.values())

    def load(self) -> None:
        """Import the module that declares the built-in entries, unless that was done or is under way."""
        if self._home is not None:
            home, self._home = self._home, None
            importlib.import_module(home)

    def _imported(self, address: str, argument: str) -> Entry[T]:
        return Entry(address, value := follow(address, argument), address.rpartition(":")[2], _summary(value))


def follow(address: str, argument: str) -> Any:
    """Import what an address ``package.module:Name`` names.

    Raises:
        ValueError: if there is no such module or attribute; it names the argument and the remedy.
    """
    module, _, path = address.partition(":")
    try:
        value: Any = importlib.import_module(module)
    except ImportError as error:
        absent = isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}.")
        fix = "run this in the folder that holds it, or install it" if absent else "correct what it imports"
        raise ValueError(f"{argument}={address!r}: module {module!r} cannot be imported ({error}): {fix}") from None
    for part in path.split("."):
        if not hasattr(value, part):
            raise ValueError(f"{argument}={address!r}: {module!r} has no {path!r}")
        value = getattr(value, part)
    followed.add(address)
    return value


def is_address(name: object) -> bool:
    """Whether ``name`` has the form ``package.module:Name``."""
    return isinstance(name, str) and _ADDRESS.fullmatch(name) is not None


def _origin(value: Any) -> tuple[str, str]:
    """Where a value is defined: a module that is imported again defines the same thing again."""
    return getattr(value, "__module__", repr(value)), getattr(value, "__qualname__", repr(value))


def _described(value: Any) -> dict[str, str]:
    """Help by argument, from the ``Args:`` sections of docstrings: of a class also those of what it inherits from."""
    parts = (*reversed(getattr(value, "__mro__", (value,))), getattr(value, "__init__", None))
    found: dict[str, str] = {}
    for text in (inspect.cleandoc(part.__doc__) for part in parts if getattr(part, "__doc__", None)):
        section = re.search(r"^Args:\n((?:[ \t]+.*\n?|\n)+)", text, flags=re.M)
        if section is None:
            continue
        names: list[str] = []
        for line in inspect.cleandoc("\n" + section.group(1)).splitlines():
            head = re.match(r"(\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: \([^)]*\))?: *(.*)", line)
            if head is not None:
                names = head.group(1).replace("*", "").split(", ")
                found.update(dict.fromkeys(names, head.group(2)))
            elif line.strip():
                found.update({name: f"{found[name]} {line.strip()}".strip() for name in names})
    return {name: _plain(text) for name, text in found.items()}


def _summary(value: Any) -> str:
    """The first line of a docstring, in plain text."""
    return _plain((inspect.getdoc(value) or "").partition("\n")[0])


def _plain(text: str) -> str:
    return re.sub(r":\w+:`[~.]?([^`]+)`", r"\1", text).replace("``", "")
