"""An extension of griffe, which reads the docstrings: it words them as mkdocstrings expects them."""

from __future__ import annotations

import importlib
import re
from typing import Any

import griffe

from hypersphere.config.options import told

_SEVERAL = re.compile(r"^( +)(\*{0,2}\w+(?:, \*{0,2}\w+)+): (.*(?:\n\1 +.*)*)$", re.MULTILINE)
_AX = "ax: Matplotlib axes to draw on instead of a new figure; the figure that holds them is returned."


class Docstrings(griffe.Extension):
    """``Example:`` becomes the section that renders as code; Sphinx roles become plain code; ``a, b:`` two entries.

    Settings are listed with the help that their fields declare, and every plot with its ``ax``.
    """

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Reword the docstring of one object, once it is loaded."""
        if obj.docstring is None:
            return
        text = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
        text = re.sub(r":(?:py:)?\w+:`~?([^`<]+)`", r"`\1`", text)
        text = _SEVERAL.sub(_one_by_one, text)
        obj.docstring.value = text.replace("``", "`") if "```" not in text else text

    def on_class(self, *, cls: Any, **_: Any) -> None:
        """Add the help of settings."""
        if not cls.path.startswith("hypersphere.config.") or cls.docstring is None:
            return
        kind = getattr(importlib.import_module(cls.module.path), cls.name, None)
        fields = getattr(kind, "__dataclass_fields__", {}).values()
        lines = [f"    {field.name}: {told(field.metadata['help'])}" for field in fields if "help" in field.metadata]
        if lines:
            head, mark, tail = cls.docstring.value.partition("\n\nExamples:")
            cls.docstring.value = "\n".join([f"{head}\n\nAttributes:", *lines]) + mark + tail

    def on_function(self, *, func: Any, **_: Any) -> None:
        """Add the axes that the decorator of every plot accepts."""
        if func.docstring is not None and any(str(decorator.value) == "picture" for decorator in func.decorators):
            func.docstring.value = func.docstring.value.replace("\n\nReturns:", f"\n    {_AX}\n\nReturns:", 1)
            kind = griffe.ParameterKind.keyword_only
            func.parameters.add(griffe.Parameter("ax", annotation="Axes | None", kind=kind, default="None"))


def _one_by_one(match: re.Match[str]) -> str:
    return "\n".join(f"{match[1]}{name}: {match[3]}" for name in match[2].split(", "))
