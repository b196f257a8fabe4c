"""Tables for the standard output and for notebooks, and silence where the reader of the output is gone."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from html import escape


def aligned(rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Rows of cells as lines: the first columns flush left, the others flush right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        [cell.ljust(w) if i < left else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))]
        for row in rows
    )
    return ["  ".join(line).rstrip() for line in lines]


def html_table(title: str, header: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """The same rows as a table of a notebook."""

    def line(tag: str, row: Sequence[str]) -> str:
        sides = ("left" if column < left else "right" for column in range(len(row)))
        cells = (
            f'<{tag} style="text-align:{side}">{escape(cell)}</{tag}>' for side, cell in zip(sides, row, strict=True)
        )
        return f"<tr>{''.join(cells)}</tr>"

    head = f"<thead>{line('th', header)}</thead>" if header else ""
    body = "".join(line("td", row) for row in rows)
    return f"<table><caption>{escape(title)}</caption>{head}<tbody>{body}</tbody></table>"


class Shown:
    """A result whose ``repr`` is ``Name(accuracy=0.9, 20 pairs)``: a notebook shows a table of it."""

    def _repr_html_(self) -> str:
        title, _, inside = repr(self).removesuffix(")").partition("(")
        pairs = (part.partition("=") if "=" in part else part.partition(" ")[::-1] for part in inside.split(", "))
        return html_table(title, (), [(name, value) for name, _, value in pairs])


def hush() -> None:
    """Let the rest of the standard output go nowhere, what is in its buffer too."""
    with suppress(OSError, ValueError, AttributeError):  # a replaced stdout may not have a file descriptor
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def spell() -> None:
    """Let a character that the standard streams cannot show be spelt by its number, and not end the program."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # None where it was closed
            with suppress(OSError):  # of a stream that became a pipe after it was opened
                stream.reconfigure(errors="backslashreplace")
