"""An extension of griffe, which reads the docstrings: it words them as mkdocstrings expects them."""

from __future__ import annotations

import re
from typing import Any

import griffe


class Docstrings(griffe.Extension):
    """``Example:`` becomes the section that renders as code; Sphinx roles become plain code."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Reword the docstring of one object, once it is loaded."""
        if obj.docstring is None:
            return
        text = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
        text = re.sub(r":(?:py:)?\w+:`~?([^`<]+)`", r"`\1`", text)
        obj.docstring.value = text.replace("``", "`") if "```" not in text else text
