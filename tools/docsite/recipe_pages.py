"""Pages of the recipes: every table of hypersphere.recipes with the published numbers and, where we ran it, ours."""

from __future__ import annotations

import re
from pathlib import Path

from hypersphere.recipes import Table, results, tables


def pages(root: Path) -> dict[str, str]:
    """An index, and a page for each chapter of the documents."""
    index = [
        "# Recipes",
        "",
        "Every table and figure of the paper and the dissertation is a recipe: `hypersphere reproduce TABLE` runs it,"
        " `hypersphere train TABLE.CELL` trains one cell. *Ours* is the mean of the final number over the seeds of our"
        " runs in `results/`; where it is empty, we have not run the cell.",
        "",
        "| recipe | what it is | cells | with a published number | run by us |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    made: dict[str, str] = {}
    for table in tables().values():
        measurements = results.read(table, root / "results")
        ours = {cell.name: results.ours(table, cell, measurements) for cell in table.cells} if measurements else {}
        count = sum(one is not None for one in ours.values())
        published = sum(cell.published is not None for cell in table.cells)
        page = f"recipes/{_chapter(table.name)}.md"
        numbers = f"{len(table.cells)} | {published or ''} | {count or ''}"
        index.append(f"| [{table.name}]({page}#{_anchor(table.name)}) | {_cell(table.title)} | {numbers} |")
        made.setdefault(f"reference/{page}", f"# Recipes: {_chapter(table.name).replace('_', ' ')}\n\n")
        made[f"reference/{page}"] += _section(table, ours) + "\n"
    return made | {"reference/recipes.md": "\n".join(index) + "\n"}


def _section(table: Table, ours: dict[str, dict[str, object] | None]) -> str:
    text = [f"## {table.name}", "", f"{_sentence(table.title)}", ""]
    if table.note:
        text += [_sentence(" ".join(table.note.split())), ""]
    text += [
        "```bash",
        f"hypersphere reproduce {table.name}",
        f"hypersphere train {table.name}.{table.cells[0].name}",
        "```",
    ]
    text += ["", f"The numbers are {_metric(table.metric)}.", ""]
    run = any(one is not None for one in ours.values())
    text += [
        "| cell | published |" + (" ours | seeds |" if run else ""),
        "| --- | ---: |" + (" ---: | ---: |" if run else ""),
    ]
    for cell in table.cells:
        published = "" if cell.published is None else f"{cell.published:g}"
        row = f"| `{cell.name}` | {published} |"
        if run:
            mine = ours.get(cell.name)
            row += " | |" if mine is None else f" {_final(mine)} | {_seeds(mine)} |"
        text.append(row)
    notes = [f"- `{cell.name}`: {_cell(cell.note)}" for cell in table.cells if cell.note]
    if notes:
        text += ["", "Notes on cells:", "", *notes]
    if run:
        text += [
            "",
            f"[Every seed of these runs](../../results.md#{_anchor(table.name)}), with findings.",
        ]
    return "\n".join(text) + "\n"


def _chapter(name: str) -> str:
    """The file of a table: ``paper``, ``thesis_chapter_5``, ``thesis_appendix_D``, ``open``, ..."""
    found = re.match(r"thesis\.(?:table|figure)(\d+|[A-Z])", name)
    if found is None:
        return name.split(".")[0]
    return f"thesis_{'chapter' if found[1].isdigit() else 'appendix'}_{found[1]}"


def _anchor(name: str) -> str:
    """The id that the heading of a table has."""
    return re.sub(r"[^\w\s-]", "", name).lower()


def _final(mine: dict[str, object]) -> str:
    return f"{mine['diverged']} diverged" if mine["final"] is None else f"{mine['final']:.2f}"


def _seeds(mine: dict[str, object]) -> str:
    seeds = mine.get("seeds", "")
    return str(len(seeds)) if isinstance(seeds, list | tuple | set) else str(seeds)


def _metric(metric: str) -> str:
    return {"accuracy": "accuracies in percent", "error": "errors in percent"}.get(metric, f"values of the {metric}")


def _sentence(text: str) -> str:
    return _cell(text if text.endswith(".") else text + ".")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")
