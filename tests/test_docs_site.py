"""The site builds without a warning, every link of it leads somewhere, and pages open in silence in a browser."""

import importlib
import os
import re
from pathlib import Path

import pytest

import programs
from sharing import made_once

ROOT = Path(__file__).parent.parent
pytest.importorskip("mkdocs", reason="the site is built with the extra [docs]")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site without the output of its tutorials, which `make docs` runs, and with code in one colour; built once."""
    return made_once(tmp_path_factory, "site", build)


# Signatures are broken into lines by a process of ruff each; without ruff mkdocstrings leaves them as they are.
MKDOCS = "import sys; sys.modules['ruff'] = None; from mkdocs.__main__ import cli; cli()"


def build(folder: Path) -> None:
    environment = {**os.environ, "HYPERSPHERE_DOCS_EXECUTE": "0", "HYPERSPHERE_DOCS_COLOURS": "false"}
    environment["NO_MKDOCS_2_WARNING"] = "1"
    done = programs.run(
        ["-c", MKDOCS, "build", "--strict", "--quiet", "--site-dir", folder], cwd=ROOT, env=environment, timeout=280
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_the_reference_describes_names_not_modules(site):
    """A function that is called like its module (``functional.energy``) must not be taken for that module."""
    pages = sorted((site / "reference" / "api").glob("*.html"))
    assert len(pages) > 20
    assert not [page.name for page in pages if "doc-module-name" in page.read_text()]


def test_links_lead_somewhere_and_nothing_comes_from_a_network(site, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    check = importlib.import_module("check_site")
    assert check.problems(site) == []
    page = '<a href="gone.html">x</a><a href="#no">y</a><img src="https://example.org/a.png"><img src="b.png">'
    (tmp_path / "index.html").write_text(page)
    assert len(check.problems(tmp_path)) == 4


SCRIPT = re.compile(r'<script src="(?:\.\./)*([^"]+)"')


def test_pages_run_the_same_scripts(site):
    """So that one page of a folder stands for all of them in the browser."""
    pages = [path for path in site.rglob("*.html") if path.name != "404.html"]
    assert len(pages) > 60
    assert len({tuple(SCRIPT.findall(path.read_text())) for path in pages}) == 1


WIDE = ("index", "concepts/margins", "reference/api/losses", "reference/command_line", "start/choose")


@pytest.mark.browser
def test_pages_open_in_silence_and_fit_a_phone(site, browser):
    """Every page with a formula, which a script of ours renders; one of each folder; and the widest."""
    context = browser.new_context(viewport={"width": 390, "height": 200}, color_scheme="light")  # little to paint
    page, errors = context.new_page(), []

    def failed(request):
        if request.failure != "net::ERR_ABORTED":  # the page was left before its icon came
            errors.append(f"not loaded: {request.url}")

    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("requestfailed", failed)
    pages = sorted(path for path in site.rglob("*.html") if path.name != "404.html")  # which is for a server's root
    formulas = {path for path in pages if "arithmatex" in path.read_text()}
    wide = {site / f"{name}.html" for name in WIDE}
    seen = formulas | wide
    first = {path.parent: path for path in reversed(pages) if path.parent not in {one.parent for one in seen}}
    chosen = sorted({*first.values(), *seen})
    assert formulas
    assert len(chosen) >= 10
    for path in chosen:
        page.goto(path.as_uri(), wait_until="load")
        missing = page.evaluate("[...document.images].filter(i => !i.naturalWidth).map(i => i.src)")
        assert not missing, f"{path.relative_to(site)}: {missing}"
        if path in formulas:
            page.wait_for_selector(".katex")
        assert page.locator(".katex-error").count() == 0
        if path in wide:
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path.relative_to(site)
        assert not errors, f"{path.relative_to(site)}: {errors}"
    assert brightness(page) > 380
    context.close()


@pytest.mark.browser
def test_search_finds_a_name_without_a_server_and_colours_are_those_asked_for(site, browser):
    page = browser.new_page(color_scheme="dark")
    page.goto((site / "index.html").as_uri(), wait_until="load")
    assert brightness(page) < 380
    page.click(".md-search__input")
    page.keyboard.type("ArcFace")
    page.wait_for_selector(".md-search-result__item", timeout=20_000)
    assert "arcface" in page.inner_text(".md-search-result__list").lower()
    page.close()


def brightness(page):
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return sum(map(int, ground[4:-1].split(",")))
