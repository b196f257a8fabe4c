"""Every Python snippet of the README and the docs runs, top to bottom of its page; every link leads somewhere."""

import ast
import importlib
import json
import re
import tomllib
from pathlib import Path

import pytest

from snippets import blocks

ROOT = Path(__file__).parent.parent
TUTORIALS = sorted(page for page in (ROOT / "docs" / "tutorials").glob("*.md") if page.name != "index.md")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
CONTRIBUTING = ROOT / "CONTRIBUTING.md"  # test_contributing.py takes its steps


def name(page: Path) -> str:
    return page.relative_to(ROOT).with_suffix("").as_posix()


# Tutorials take a while: `make docs` runs them, and a block that raises ends it.
@pytest.mark.parametrize("page", [page for page in PAGES if page not in TUTORIALS], ids=name)
def test_snippets_run(page, tmp_path, monkeypatch, unregistered):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    snippets = [block for block in blocks(page.read_text()) if block.language == "python"]
    assert len(snippets) == page.read_text().count("```python")
    for block in snippets:
        exec(compile("\n" * block.line + block.text, page.name, "exec"), namespace)


@pytest.mark.parametrize("page", [*PAGES, CONTRIBUTING], ids=name)
def test_links_lead_somewhere(page):
    generated = {"benchmarks.md", "contributing.md", "changelog.md"}
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\((?!https?://|#|mailto:)([^)#\s]+)", prose):
        found = (page.parent / target).resolve()
        made = found.parent == ROOT / "docs" and found.name in generated
        reference = found.is_relative_to(ROOT / "docs" / "reference")
        assert found.exists() or made or reference, target


@pytest.mark.parametrize("page", TUTORIALS, ids=name)
def test_tutorials_name_what_exists(page):
    for block in blocks(page.read_text()):
        if block.language != "python":
            continue
        for node in ast.walk(ast.parse(block.text)):
            path = dotted(node)
            if path and path[0] == "hs":
                exists(["hypersphere", *path[1:]])


def test_tutorials_are_seven_and_in_the_navigation():
    assert len(TUTORIALS) == 7
    site = (ROOT / "mkdocs.yml").read_text()
    index = (ROOT / "docs" / "tutorials" / "index.md").read_text()
    for page in TUTORIALS:
        assert f"tutorials/{page.name}" in site
        assert f"({page.name})" in index


def test_a_tutorial_shows_what_it_prints_and_draws(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    tutorials = importlib.import_module("docsite.tutorials")
    first = "```python\nx = 2\nprint('first')\nx + 1\n```\n"
    second = "```python\nimport hypersphere as hs\nhs.plots.psi_curves()\n```\n"
    page = f"# A page\n\n{first}\nText.\n\n{second}"
    made = tutorials.execute(page, "one")
    assert "tutorial-output }\nfirst\n3\n```" in made.markdown
    assert "![Picture 1 of this tutorial](one_1.png)" in made.markdown
    assert made.pictures["one_1.png"].startswith(b"\x89PNG")
    with pytest.raises(RuntimeError, match=r"block at line 3:[\s\S]*ZeroDivisionError"):
        tutorials.execute("# A page\n\n```python\n1 / 0\n```\n", "two")
    notebook = json.loads(tutorials.notebook(page))
    assert [cell["cell_type"] for cell in notebook["cells"]] == ["markdown", "code", "markdown", "code"]
    assert "".join(notebook["cells"][1]["source"]) == "x = 2\nprint('first')\nx + 1"


def test_numbers_in_prose_are_those_of_the_results(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    ours = importlib.import_module("our_numbers")
    marked = 0
    for page in PAGES:
        text = page.read_text()
        assert ours.filled(text) == text, f"{page.name}: run python tools/our_numbers.py"
        marked += text.count("<!--ours ")
    assert marked > 20
    with pytest.raises(ValueError, match="no cell"):
        ours.number("open.lfw", "nothing")


def test_a_package_index_shows_the_readme_with_addresses(monkeypatch):
    """What the workflows do before they build: nothing relative is left, and the project has its addresses."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    tool, home = importlib.import_module("for_index"), "https://example.org/owner/name"
    text = tool.readme((ROOT / "README.md").read_text(), home)
    assert not re.findall(r"\]\((?!https://|#)", text)
    assert f"({home}/raw/HEAD/docs/images/softmax_and_margin.png)" in text
    assert f"({home}/blob/HEAD/docs/start/choose.md#which-loss)" in text
    settings = tomllib.loads(tool.project((ROOT / "pyproject.toml").read_text(), home))["project"]
    assert settings["urls"]["Issues"] == f"{home}/issues"
    assert settings["scripts"] == {"hypersphere": "hypersphere.cli:main"}


def test_the_version_is_written_down_once():
    number = importlib.import_module("hypersphere").__version__
    assert "version" in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dynamic"]
    for file in ("pyproject.toml", "CITATION.cff", "README.md", "mkdocs.yml"):
        assert not re.search(rf"version\W+{re.escape(number)}\b", (ROOT / file).read_text()), file


def dotted(node: ast.AST) -> list[str] | None:
    if isinstance(node, ast.Attribute):
        rest = dotted(node.value)
        return [*rest, node.attr] if rest else None
    return [node.id] if isinstance(node, ast.Name) else None


def exists(path: list[str]) -> None:
    thing = importlib.import_module(path[0])
    for part in path[1:]:
        thing = getattr(thing, part)
