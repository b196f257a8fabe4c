"""Numbers that are stated are numbers that were measured."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_page_of_results_is_made_from_the_results():
    spec = importlib.util.spec_from_file_location("results_page", ROOT / "tools" / "results.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.PAGE.read_text() == module.page(), "run `python tools/results.py`"
    assert module.FOREST.read_text() == module.forest(), "run `python tools/results.py`"
