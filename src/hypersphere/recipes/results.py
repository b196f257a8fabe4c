"""Numbers we measured: ``results/TABLE.json``, each with seed, steps, settings, versions and device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..train import Config, to_dict
from ..train.files import read_json, write_json
from .table import Table

__all__ = ["ours", "read", "record", "render"]


def read(table: Table, folder: Path) -> list[dict[str, Any]]:
    """Every measurement of a table."""
    path = folder / f"{table.name}.json"
    return list(read_json(path)["measurements"]) if path.exists() else []


def record(table: Table, cell: str, config: Config, result: dict[str, Any], folder: Path) -> None:
    """Add one seed's result, in place of an earlier one of the same cell, seed and number of steps."""
    entry = {"cell": cell, "published": _published(table, cell), **result, "settings": to_dict(config)}
    kept = [old for old in read(table, folder) if _key(old) != _key(entry)]
    measurements = sorted([*kept, entry], key=lambda one: (one["cell"], one["steps"], one["seed"]))
    folder.mkdir(parents=True, exist_ok=True)
    content = {"table": table.name, "title": table.title, "metric": table.metric, "measurements": measurements}
    write_json(folder / f"{table.name}.json", content)


def ours(
    table: Table, cell: str, measurements: list[dict[str, Any]], steps: int | None = None
) -> dict[str, Any] | None:
    """Mean over seeds of final and best, as the table counts; of the full protocol, or of so many steps."""
    full = next(one for one in table.cells if one.name == cell).make().schedule.steps
    found = [m for m in measurements if m["cell"] == cell and m["steps"] == (steps or full)]
    if not found:
        return None
    final, best = (sum(table.ours(m[key]) for m in found) / len(found) for key in ("final_accuracy", "best_accuracy"))
    return {"final": final, "best": best, "seeds": len(found), "steps": steps or full}


def render(table: Table, folder: Path, cells: list[str] | None = None, steps: int | None = None) -> str:
    """The table as text: published | ours | difference (final), best beside it."""
    measurements = read(table, folder)
    rows = [["cell", "published", "ours", "difference", "best", "seeds"]]
    for cell in table.cells:
        if cells is not None and cell.name not in cells:
            continue
        mine = ours(table, cell.name, measurements, steps)
        published = "-" if cell.published is None else f"{cell.published:.2f}"
        if mine is None:
            rows.append([cell.name, published, "-", "-", "-", "-"])
            continue
        gap = "-" if cell.published is None else f"{mine['final'] - cell.published:+.2f}"
        rows.append([cell.name, published, f"{mine['final']:.2f}", gap, f"{mine['best']:.2f}", str(mine["seeds"])])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(
            text.ljust(w) if i == 0 else text.rjust(w) for i, (text, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    title = f"{table.name}: {table.title}; {table.metric} in %" + (f", {steps} steps" if steps else "")
    return "\n".join([title, *lines, *([table.note] if table.note else [])])


def _key(entry: dict[str, Any]) -> tuple[str, int, int]:
    return entry["cell"], entry["steps"], entry["seed"]


def _published(table: Table, cell: str) -> float | None:
    return next(one.published for one in table.cells if one.name == cell)
