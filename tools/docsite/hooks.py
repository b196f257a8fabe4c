"""Hooks of mkdocs: they add the generated pages, run the tutorials, and lead links out of docs/ to copies in the site.

Set ``HYPERSPHERE_DOCS_EXECUTE=0`` to build without running the tutorials (their blocks then stand without output).
"""

from __future__ import annotations

import gc
import logging
import os
import re
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))

from mkdocs.structure.files import File, Files

from docsite import api, benchmarks, command_line, names, recipe_pages, tutorials

gc.set_threshold(200_000, 50, 100)  # of what a build makes little is garbage: looking for it is a fifth of its time
log = logging.getLogger("mkdocs.hooks.docsite")
ROOT = Path(__file__).resolve().parents[2]
COPIED = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
_EXECUTED: dict[
    str, tutorials.Page
] = {}  # by text, so that `make docs-serve` runs a tutorial again only when it changes


def on_files(files: Files, config: Any) -> Files:
    """Add every page that is made from something else than docs/."""
    for path, source in COPIED.items():
        _add(files, config, path, _outward((ROOT / source).read_text(), "", files, config))
    for maker in (api.pages, command_line.pages, names.pages, recipe_pages.pages, benchmarks.pages):
        for path, content in maker(ROOT).items():
            _add(files, config, path, content)
    for file in [file for file in files if file.src_uri.startswith("tutorials/") and file.src_uri.endswith(".md")]:
        if file.src_uri != "tutorials/index.md":
            notebook = tutorials.notebook(Path(file.abs_src_path or "").read_text())
            _add(files, config, file.src_uri.removesuffix(".md") + ".ipynb", notebook)
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Run a tutorial; copy what a page links to outside of docs/."""
    path = page.file.src_uri
    if path.startswith("tutorials/") and path != "tutorials/index.md":
        markdown = _tutorial(markdown, path, config, files)
    return _outward(markdown, os.path.dirname(path), files, config)


def _tutorial(markdown: str, path: str, config: Any, files: Files) -> str:
    name = Path(path).stem
    if os.environ.get("HYPERSPHERE_DOCS_EXECUTE", "1") != "0":
        if markdown not in _EXECUTED:
            _EXECUTED[markdown] = executed = tutorials.execute_apart(markdown, name)
            log.info(f"Tutorial {name}: {executed.seconds:.0f} s, {len(executed.pictures)} pictures")
        executed = _EXECUTED[markdown]
        for picture, content in executed.pictures.items():
            _add(files, config, f"tutorials/{picture}", content)
        markdown = executed.markdown
    title, rest = markdown.split("\n", 1)
    return f"{title}\n\n[Download as a notebook]({name}.ipynb){{ .md-button download }}\n{rest}"


def _outward(markdown: str, folder: str, files: Files, config: Any) -> str:
    """Links to files of the project that do not lie in docs/ lead to a copy in the site."""
    up = os.path.relpath(".", folder or ".")
    origin = (ROOT / "docs" / folder) if folder else None

    def replaced(match: re.Match[str]) -> str:
        target = match[2]
        bases = [origin] if origin else [ROOT / "docs", ROOT]
        for base in bases:
            found = (base / target).resolve()
            if not found.exists() or not found.is_relative_to(ROOT):
                continue
            if found.is_relative_to(ROOT / "docs"):
                inside = found.relative_to(ROOT / "docs").as_posix()
                return f"{match[1]}({os.path.normpath(f'{up}/{inside}')}{match[3]})"
            outside = found.relative_to(ROOT).as_posix()
            page = {"results": "results.md", "benchmarks": "benchmarks.md", "README.md": "index.md"} | {
                source: path for path, source in COPIED.items()
            }
            if outside in page:
                return f"{match[1]}({os.path.normpath(f'{up}/{page[outside]}')}{match[3]})"
            if found.is_file():
                copy = f"source/{outside}" + (".txt" if found.suffix in (".md", "") else "")
                _add(files, config, copy, found.read_bytes())
                return f"{match[1]}({os.path.normpath(f'{up}/{copy}')})"
        return match[0]

    return re.sub(r"(\])\((?!https?://|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)", lambda m: replaced(_Groups(m)), markdown)


class _Groups:
    """A match whose absent groups are empty strings."""

    def __init__(self, match: re.Match[str]) -> None:
        self._match = match

    def __getitem__(self, group: int) -> str:
        return self._match[group] or ""


def _add(files: Files, config: Any, path: str, content: str | bytes) -> None:
    old = files.get_file_from_path(path)
    if old is not None:
        files.remove(old)
    files.append(File.generated(config, path, content=content))
