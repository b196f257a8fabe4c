"""The page of names: all that is chosen by name, from the registries in which it is declared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypersphere._core.registries import KINDS


def pages(root: Path) -> dict[str, str]:
    """The page ``reference/names.md``."""
    text = [
        "# Names",
        "",
        "These are all built-in names, as `hypersphere list` prints them. `hs.register(kind, name, value)` adds one of"
        " your own, and an address `package.module:Name` works wherever a name does.",
        "",
    ]
    for kind, table in KINDS.items():
        told = [(entry, _parameters(entry)) for entry in table.entries()]
        has_parameters = any(parameters for _, parameters in told)
        text += [f"## {kind}", "", f"`hs.register({kind!r}, ...)` adds to this table.", ""]
        text += ["| name | label | what it is |" + " parameters |" * has_parameters]
        text += ["| --- | --- | --- |" + " --- |" * has_parameters]
        for entry, parameters in told:
            row = [f"`{entry.name}`", entry.label, entry.about, *[parameters] * has_parameters]
            text.append("| " + " | ".join(_cell(part) for part in row) + " |")
        text.append("")
    return {"reference/names.md": "\n".join(text)}


def _parameters(entry: Any) -> str:
    """What a user may set, with defaults; what the program passes in (a model, the number of classes) is left out."""
    return ", ".join(f"`{one.name}={one.default!r}`" for one in entry.options)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("``", "`").replace("<", "&lt;")
