"""The fenced blocks of a Markdown page: what its tests run."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Block:
    """A fenced block: the heading it stands under, its language, the line of its fence, its text."""

    heading: str
    language: str
    line: int
    text: str

    @property
    def file(self) -> str | None:
        """The file that a block of Python is, if its first line is a comment with nothing but that file's name."""
        found = re.match(r"# (\w[\w/]*\.py)\n", self.text)
        return found[1] if found and self.language == "python" else None


def blocks(page: str) -> list[Block]:
    """Every fenced block of a page, from top to bottom."""
    found: list[Block] = []
    heading, opened, language, inner = "", 0, "", []
    for number, line in enumerate(page.splitlines(), 1):
        if opened and line.rstrip() == "```":
            found.append(Block(heading, language, opened, "\n".join(inner) + "\n"))
            opened = 0
        elif opened:
            inner.append(line)
        elif line.startswith("```"):
            opened, language, inner = number, line[3:].strip(), []
        elif line.startswith("#"):
            heading = line.lstrip("#").strip()
    if opened:
        raise ValueError(f"the block that opens in line {opened} never ends")
    return found
