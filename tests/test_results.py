"""Numbers that are stated are numbers that were measured."""

import importlib.util
import json
import re
import shlex
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path

import pytest

from hypersphere.cli import arguments, main
from hypersphere.cli.parser import Parser
from hypersphere.config import Config, material
from hypersphere.recipes import results, tables
from hypersphere.recipes.evidence import VERDICTS, Evidence

ROOT = Path(__file__).parents[1]


def page_maker():
    spec = importlib.util.spec_from_file_location("results_page", ROOT / "tools" / "results.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_results_is_made_from_the_results():
    module = page_maker()
    assert module.PAGE.read_text() == module.page(), "run `python tools/results.py`"
    assert module.GLANCE.read_text() == module.glance(), "run `python tools/results.py`"
    assert module.FOREST.read_text() == module.forest(), "run `python tools/results.py`"
    measured = {path.stem for path in (ROOT / "results").glob("*.json")}
    assert {path.stem for path in module.FINDINGS.iterdir()} <= measured


@pytest.fixture
def pages(monkeypatch):
    """tools/results.py and tools/overview.py."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("results"), importlib.import_module("overview")


def test_the_first_screens_show_every_comparison_once(pages):
    """Each gain that is printed and was run is there, or another table shows the same two trainings."""
    results_page, overview = pages
    shown = overview.once(results_page._measured())
    pairs = Counter()
    for table, measurements in results_page._measured():
        own = [one.one for one in shown if one.table is table]
        for one, pair, _ in overview._recipes(table, measurements):
            if one.gain is not None:
                pairs[pair] += one in own
    assert set(pairs.values()) == {1}
    names = {(one.table.name, one.one.cell.name): one for one in shown}
    assert names["thesis.table7.7", "cp.norm"].base.cell.name == "baseline.norm"  # both stand in other tables, too
    assert ("thesis.table7.7", "cp.plain") not in names  # Table 7.4 has it


def test_the_first_screens_count_what_they_show(pages):
    results_page, overview = pages
    shown = results_page._shown()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in overview.counts(shown).splitlines()]
    numbers = [[int(cell or 0) for cell in row[1:-1]] for row in rows[2:]]
    assert [sum(column) for column in zip(*numbers[:-1], strict=True)] == numbers[-1]
    assert all(row[0] == sum(row[1:]) for row in numbers)
    below = overview.gains(shown)
    head, _, tail = below.partition(f"### {overview.PUBLIC}")
    assert len(re.findall(r"^\| \[.* over ", head, re.MULTILINE)) == numbers[-1][0]
    assert "released." in tail
    assert "released." not in head
    assert {one.family for one in shown if one.table in results_page._documents()} == set(overview.FAMILIES)
    headings = set(re.findall(r"^#+ (.*)$", results_page.page(), re.MULTILINE))
    found = {overview.anchor(heading) for heading in headings}
    assert set(re.findall(r"\]\(#([^)]*)\)", results_page.page())) <= found


@pytest.mark.parametrize(
    ("gain", "interval", "published", "words"),
    [
        (1.3, (0.8, 1.8), 0.5, "reproduced in direction, more"),
        (0.5, (0.1, 0.9), 1.2, "reproduced in direction, less"),
        (-6.3, (-7.2, -5.3), -5.0, "reproduced in direction, more"),  # of an error
        (-0.9, (-1.7, -0.1), -0.9, "reproduced"),
        (0.1, (-0.2, 0.4), 0.9, "not reproduced"),
        (0.1, None, 0.9, "not measured"),
    ],
)
def test_a_gain_in_direction_says_on_which_side(pages, gain, interval, published, words):
    _, overview = pages
    cell = tables()["thesis.table7.11"].cells[0]
    assert overview.side(Evidence(cell, (82.0, 82.5), "baseline.cora", gain, interval, published)) == words
    assert words in overview.COLUMNS


def test_seeds_that_diverged_are_shown_as_such(pages):
    results_page, overview = pages
    table = tables()["thesis.table7.11"]
    cell, base = (next(one for one in table.cells if one.name == name) for name in ("cp.cora", "baseline.cora"))
    seeds = [{"seed": 0, "final_accuracy": 82.5, "best_accuracy": 83.0}, {"seed": 1, "diverged": 1200, "metrics": {}}]
    mine = {"final": None, "best": None, "whole": True}
    one = Evidence(cell, (82.5,), "baseline.cora", None, None, 0.7, 1, 1)
    row = results_page._row(table, cell, seeds, mine, one)
    assert row == "| cp.cora | 82.00 | 82.50, diverged at step 1,200 |  |  |  |  | not reproduced |"
    seeds[1] = {"seed": 1, "final_accuracy": None, "best_accuracy": None}
    assert "| 82.50, not measured |" in results_page._row(table, cell, seeds, mine, one)
    first = overview.gains([overview.Shown(table, one, Evidence(base, (81.0, 81.4), None, None, None, None))])
    assert "| 81.20 (81.30) | +0.70 | 1 diverged | not reproduced | 2 |" in first
    lost = Evidence(base, (), None, None, None, None, 1, 3)
    assert "| 81.30 | **3 diverged** |  | not compatible | 3 |" in overview.gains([overview.Shown(table, lost, None)])


def test_a_cell_without_a_baseline_of_the_table_is_in_no_column(pages):
    _, overview = pages
    assert {name.partition(",")[0] for name in overview.COLUMNS} | {"compatible", "not compatible"} == set(VERDICTS)
    cell = next(cell for cell in tables()["thesis.table7.11"].cells if cell.name == "baseline.cora")
    alone = Evidence(cell, (81.0, 81.6), None, None, None, None)
    assert overview.side(alone) == overview.verdict(alone) == "compatible"


def test_every_number_has_the_command_that_makes_it(capsys):
    """Of its own cell and seed alone, without folders of a machine; all are read, the first of every table is done."""
    parser = Parser()
    arguments.reproduce(parser)
    for path in sorted((ROOT / "results").glob("*.json")):
        table = tables()[path.stem]
        found = results.read(table, path.parent)
        for one in found:
            assert one["environment"]["command"] == results.command(table, one), path
            assert "/" not in one["environment"]["command"], path
            parser.parse_args(shlex.split(one["environment"]["command"])[2:])
        assert main([*shlex.split(found[0]["environment"]["command"])[1:], "--print"]) == 0
    assert capsys.readouterr().out


ONE_AND_THE_SAME = {
    "model.conv": [("plain", None)],  # two names of one operator
    "model.init": [(None, "he")],  # SphereFace networks drew by He's rule without being told: docs/results.md, open.lfw
    "model.extra": [({}, {"branch_std": None})],  # the same networks
    "orthogonal.init": [("random", "unit")],  # of Cayley's map both are one
    "optim.orthogonal_lr": [(0.02, None)],  # the default of orthogonal descent
}
"""Settings that older runs wrote down in another way: what was, and what the recipe says."""


def test_numbers_are_of_the_recipes_as_they_are_today():
    """Who changes a recipe measures again, and marks the older numbers by what was ``changed``.

    A setting that is newer than a number has its default, which is what the older code did.
    """
    defaults = json.loads(json.dumps(material(Config())))
    for path in sorted((ROOT / "results").glob("*.json")):
        table = tables()[path.stem]
        recipes = {cell.training: json.loads(json.dumps(material(cell.config(table.name)))) for cell in table.cells}
        starts = {cell.training for cell in table.cells if cell.at_start}  # their numbers need no training
        for one in results.read(table, path.parent):
            today = recipes[one["cell"]]
            whole = one["steps"] == today["schedule"]["steps"]
            if one.get("changed") or not (whole or one["cell"] in starts):
                continue
            for group in today.keys() - ({"run"} if whole else {"run", "schedule"}):
                for name, now in today[group].items() if isinstance(today[group], dict) else ():
                    was = one["settings"].get(group, {}).get(name, defaults[group].get(name))
                    same = was == now or (was, now) in ONE_AND_THE_SAME.get(f"{group}.{name}", [])
                    same = same or (name == "also" and set(now) < set(was))  # evaluated further under another name
                    same = same or (name == "source" and now is None)
                    assert same, f"{table.name}.{one['cell']}: {group}.{name} was {was}, is {now}"


def test_the_plan_of_headlines_holds_what_is_missing(capsys):
    """Cells that exist, with a seed that is not measured under the line's settings: who measures all takes it away."""
    plan = ROOT / "tools" / "headlines.plan"
    lines = [words for line in plan.read_text().splitlines() if (words := shlex.split(line, comments=True))]
    assert lines
    for words in lines:
        assert main(["reproduce", *words, "--results", str(ROOT / "results"), "--print"]) == 0
        rows = [line.replace(" diverged", "").split() for line in capsys.readouterr().out.splitlines()]
        pattern = words[words.index("--cells") + 1] if "--cells" in words else "*"
        chosen = {cell.name for cell in tables()[words[0]].cells if fnmatch(cell.name, pattern)}
        found = [row for row in rows if len(row) == 6 and row[0] in chosen]  # notes may begin with a cell, too
        assert len(found) == len(chosen) > 0
        seeds = words[words.index("--seeds") + 1].split(",") if "--seeds" in words else ["2"]  # the plan's own: 0,1,2
        assert any(row[-1] == "-" or int(row[-1]) <= int(seeds[-1]) for row in found), words


def test_the_plan_trains_whatever_has_no_three_seeds():
    """Of every table whose data can be had, under the settings of the recipe; a picture needs one seed."""
    plan = (ROOT / "tools" / "headlines.plan").read_text().splitlines()
    lines = [words for line in plan if (words := shlex.split(line, comments=True))]
    unavailable = page_maker()._NOT_HERE.keys()
    for name, table in tables().items():
        alone = any(cell.is_time for cell in table.cells) or table.metric == "inception score"
        if alone or not name.startswith(("paper.", "thesis.", "released.")):
            continue
        pictures = all(cell.published is None for cell in table.cells)
        seeds = Counter(m["cell"] for m in results.read(table, ROOT / "results") if not m.get("changed"))
        for cell in table.cells:
            missing = seeds[cell.training] < (1 if pictures else 3) and cell.make().data.name not in unavailable
            mine = [words for words in lines if words[0] == name and {*words[1::2]} <= {"--cells", "--seeds"}]
            patterns = [words[words.index("--cells") + 1] if "--cells" in words else "*" for words in mine]
            assert not missing or any(fnmatch(cell.name, pattern) for pattern in patterns), cell.name
