"""Every Python snippet of the README and the docs runs, top to bottom of its page."""

import re
from pathlib import Path

import pytest

from snippets import blocks

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
CONTRIBUTING = ROOT / "CONTRIBUTING.md"  # test_contributing.py takes its steps


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_snippets_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    snippets = [block for block in blocks(page.read_text()) if block.language == "python"]
    assert len(snippets) == page.read_text().count("```python")
    for block in snippets:
        exec(compile("\n" * block.line + block.text, page.name, "exec"), namespace)


@pytest.mark.parametrize("page", [*PAGES, CONTRIBUTING], ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?://|#|mailto:)([^)#\s]+)", page.read_text()):
        assert (page.parent / target).exists(), target
