"""User text in Markdown: names of classes, recipes and commands are shown as they are, and mean nothing."""

from __future__ import annotations

import html
import json
import re

_MARKS = re.compile(r"([\\`*_{}\[\]()#+!|~$:@])")


def plain(text: object) -> str:
    """Text that is neither markup, nor HTML, nor a link, nor a second line."""
    return _MARKS.sub(r"\\\1", html.escape(_line(text), quote=False))


def code(text: object) -> str:
    """The same between backquotes, of which it has none of its own; it does not end a table's cell."""
    return f"`{_line(text).replace('`', chr(39)).replace('|', chr(0x2223))}`"


def quoted(text: object) -> str:
    """A YAML string: JSON's are such."""
    return json.dumps(_line(text))


def _line(text: object) -> str:
    """One line, without what cannot be printed or changes the direction of writing."""
    return "".join(letter if letter.isprintable() else " " for letter in " ".join(str(text).split()))
