"""What a name in the list of networks stands for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from torch import nn

from .._core.registry import Parameter, parameters_of
from .slots import Slots

_ANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
SLOT_OPTIONS = {f.name: f.default for f in fields(Slots)}


@dataclass(frozen=True)
class Entry:
    """A builder, the table it follows, what the name fixes and what it merely starts from.

    ``slots`` says whether the builder takes the choices of :class:`Slots`; one from outside the package takes its own
    arguments alone.
    """

    build: Callable[..., nn.Module]
    table: str
    fixed: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    slots: bool = True

    def options(self) -> dict[str, Any]:
        """Every option a caller may set, with its default."""
        own = {
            name: parameter.default
            for name, parameter in inspect.signature(self.build).parameters.items()
            if name != "slots" and name not in self.fixed and parameter.kind not in _ANY
        }
        return {**own, **(SLOT_OPTIONS if self.slots else {}), **self.defaults}

    @property
    def takes_any(self) -> bool:
        """Whether the builder takes options that it does not name, as ``**options``."""
        return any(one.kind is one.VAR_KEYWORD for one in inspect.signature(self.build).parameters.values())

    def parameters(self) -> tuple[Parameter, ...]:
        """Every option with its default and the help of the docstrings."""
        helps = {one.name: one.help for part in (Slots, self.build) for one in parameters_of(part)}
        return tuple(Parameter(name, default, helps.get(name, "")) for name, default in self.options().items())
