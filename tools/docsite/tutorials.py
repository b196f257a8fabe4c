"""Tutorials are Markdown whose Python blocks run when the site is built, top to bottom, as in a notebook.

What a block prints stands under it; so does the value of its last expression: a figure as a picture, anything else as
text. A block that raises ends the build. The same pages can be had as notebooks.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from typing import Any

_BLOCK = re.compile(r"^```python\n(.*?)^```\n?", re.MULTILINE | re.DOTALL)


@dataclass
class Page:
    """A tutorial with its output, its pictures by file name, and the seconds that it took."""

    markdown: str
    pictures: dict[str, bytes] = field(default_factory=dict)
    seconds: float = 0.0


def execute(markdown: str, name: str) -> Page:
    """Run the blocks of a page in one namespace and an empty folder; raise RuntimeError where one fails."""
    page, namespace, began = Page(""), {"__name__": "__main__"}, time.perf_counter()
    at, parts = 0, []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for match in _BLOCK.finditer(markdown):
            parts += [markdown[at : match.end()]]
            at = match.end()
            printed, value = _run(match[1], namespace, name, markdown[: match.start()].count("\n") + 1)
            parts += _shown(printed, value, page, name)
    page.markdown = "".join([*parts, markdown[at:]])
    page.seconds = time.perf_counter() - began
    return page


def execute_apart(markdown: str, name: str) -> Page:
    """The same in a process of its own, so that what a page registers or seeds does not reach another one."""
    environment = {"OMP_NUM_THREADS": "1", **os.environ}  # small tensors: more threads wait for each other
    command = [sys.executable, __file__, name]
    done = subprocess.run(command, input=markdown, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"tutorial {name} failed:\n{done.stderr[-4000:]}")
    made = json.loads(done.stdout)
    pictures = {picture: base64.b64decode(content) for picture, content in made["pictures"].items()}
    return Page(made["markdown"], pictures, made["seconds"])


def notebook(markdown: str) -> str:
    """The page as a notebook (nbformat 4), without output."""
    cells, at = [], 0
    for match in _BLOCK.finditer(markdown):
        cells += [_cell("markdown", markdown[at : match.start()]), _cell("code", match[1])]
        at = match.end()
    cells.append(_cell("markdown", markdown[at:]))
    content = {
        "cells": [cell for cell in cells if cell["source"]],
        "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
        "nbformat": 4,
        "nbformat_minor": 4,
    }
    return json.dumps(content, indent=1, ensure_ascii=False)


def _cell(kind: str, text: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind, "metadata": {}, "source": text.strip().splitlines(keepends=True)}
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def _run(code: str, namespace: dict[str, Any], name: str, line: int) -> tuple[str, Any]:
    tree = ast.parse(code, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    out, value = io.StringIO(), None
    os.environ.setdefault("COLUMNS", "100")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            exec(compile(tree, name, "exec"), namespace)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), name, "eval"), namespace)
    except Exception as error:
        trace = traceback.format_exc(limit=-3)
        raise RuntimeError(f"tutorial {name}, block at line {line}:\n{out.getvalue()}\n{trace}") from error
    return out.getvalue(), value


def _shown(printed: str, value: Any, page: Page, name: str) -> list[str]:
    figures = [one for one in (value if isinstance(value, list | tuple) else [value]) if hasattr(one, "savefig")]
    text = printed.rstrip("\n")
    if value is not None and not figures:
        text = f"{text}\n{value!r}".strip("\n")
    parts = [f"\n``` {{ .text .no-copy .tutorial-output }}\n{text}\n```\n"] if text else []
    for figure in figures:
        picture, content = f"{name}_{len(page.pictures) + 1}.png", io.BytesIO()
        figure.savefig(content, format="png", dpi=110, bbox_inches="tight")
        page.pictures[picture] = content.getvalue()
        parts.append(f"\n![Picture {len(page.pictures)} of this tutorial]({picture})\n")
    return parts


def main() -> None:
    """Run the page on stdin under the name of the first argument; write it with its pictures as JSON to stdout."""
    page = execute(sys.stdin.read(), sys.argv[1])
    pictures = {name: base64.b64encode(content).decode() for name, content in page.pictures.items()}
    json.dump({"markdown": page.markdown, "pictures": pictures, "seconds": page.seconds}, sys.stdout)


if __name__ == "__main__":
    main()
