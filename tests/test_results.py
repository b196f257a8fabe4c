"""Numbers that are stated are numbers that were measured."""

import importlib.util
import json
import shlex
from pathlib import Path

from hypersphere.cli import arguments, main
from hypersphere.cli.parser import Parser
from hypersphere.config import Config, material
from hypersphere.recipes import results, tables

ROOT = Path(__file__).parents[1]


def page_maker():
    spec = importlib.util.spec_from_file_location("results_page", ROOT / "tools" / "results.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_results_is_made_from_the_results():
    module = page_maker()
    assert module.PAGE.read_text() == module.page(), "run `python tools/results.py`"
    assert module.FOREST.read_text() == module.forest(), "run `python tools/results.py`"
    measured = {path.stem for path in (ROOT / "results").glob("*.json")}
    assert {path.stem for path in module.FINDINGS.iterdir()} <= measured


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
                    assert same, f"{table.name}.{one['cell']}: {group}.{name} was {was}, is {now}"


def test_the_plan_of_headlines_holds_what_is_missing(capsys):
    """Cells that exist, with a seed that is not measured under the line's settings: who measures all takes it away."""
    plan = ROOT / "tools" / "headlines.plan"
    lines = [words for line in plan.read_text().splitlines() if (words := shlex.split(line, comments=True))]
    assert lines
    for words in lines:
        assert main(["reproduce", *words, "--results", str(ROOT / "results"), "--print"]) == 0
        rows = [line.split() for line in capsys.readouterr().out.splitlines()]
        (row,) = (row for row in rows if row[:1] == [words[2]])
        seeds = words[words.index("--seeds") + 1].split(",") if "--seeds" in words else ["2"]  # the plan's own: 0,1,2
        assert row[-1] == "-" or int(row[-1]) <= int(seeds[-1]), words


def test_a_table_without_a_number_is_in_the_plan():
    """Where its data can be had; times are measured alone, and figures train what tables do."""
    plan = (ROOT / "tools" / "headlines.plan").read_text().splitlines()
    planned = {words[0] for line in plan if (words := shlex.split(line, comments=True))}
    unavailable = page_maker()._NOT_HERE.keys()
    for name, table in tables().items():
        printed = name.startswith(("paper.table", "paper.section", "thesis.table", "thesis.section"))
        sets = {cell.make().data.name for cell in table.cells}
        alone = any(cell.is_time for cell in table.cells) or table.metric == "inception score"
        if printed and not (sets & unavailable or alone or (ROOT / "results" / f"{name}.json").exists()):
            assert name in planned
