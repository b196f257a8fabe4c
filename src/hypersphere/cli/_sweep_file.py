"""``sweep.json``: what a sweep folder holds, so that a later sweep continues it or is told to go elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..config import settings, with_values
from ..config.reading import fitted
from ..runs import Run, run_path
from ..runs.files import read_json, write_json
from ..runs.run_folder import began, check_settings, told_differences
from ..train.own_images import check_root
from ._sweep_plan import Combination, Plan

_BRIEF = ("seed", "final_accuracy", "best_accuracy", "best_step")


@dataclass(frozen=True)
class Stored:
    """The content of ``sweep.json``.

    Earlier versions wrote the rows alone. The names of what was varied are in the rows; recipe and settings are None
    then, and the settings of each run, which its own folder holds, are compared instead.

    Attributes:
        recipe: Name of the recipe.
        settings: The settings that all runs share and that differ from the recipe's, by name.
        varied: The options that are varied.
        runs: One row for each run.
    """

    recipe: str | None
    settings: dict[str, Any] | None
    varied: list[str]
    runs: list[dict[str, Any]]

    def check(self, plan: Plan) -> None:
        """Refuse a sweep that does not continue this one.

        Raises:
            ValueError: If the recipe, the options that are varied, or the other settings differ.
        """
        elsewhere = "choose another folder with --name"
        if self.recipe is not None and self.recipe != plan.base.recipe:
            raise ValueError(
                f"{plan.folder} holds a sweep of the recipe {self.recipe!r}, not of {plan.base.recipe!r}: {elsewhere}"
            )
        if self.varied != plan.varied:
            ours, theirs = (", ".join(names) or "no option" for names in (plan.varied, self.varied))
            raise ValueError(f"{plan.folder} holds a sweep of {theirs}, and this one varies {ours}: {elsewhere}")
        if self.settings is None:
            return
        before, now, usual = self.settings, plan.settings(), plan.usual()
        pairs = {name: (before.get(name, usual.get(name)), now.get(name, usual.get(name))) for name in before | now}
        differences = {name: (was, wanted) for name, (was, wanted) in pairs.items() if was != wanted}
        if differences:
            raise ValueError(
                f"{plan.folder} holds a sweep with other settings: {told_differences(differences)}: {elsewhere}"
            )

    def others(self, plan: Plan, asked: Iterable[Combination]) -> list[Combination]:
        """The runs of earlier sweeps that are not asked for now and have results, with all seeds that are done.

        Raises:
            ValueError: If the folder of one holds a run with other settings.
        """
        names, hints = {one.name for one in asked}, settings()
        found = []
        for row in self.runs:
            if row["run"] in names:
                continue
            try:
                one = plan.combination({name: fitted(hints[name], row["varied"][name], name) for name in plan.varied})
            except (ValueError, KeyError):  # the row was changed by hand
                continue
            path = run_path(one.config)
            if one.error is None and one.name == row["run"] and any(path.glob("seed-*/result.json")):
                check_run(one)
                one.config = with_values(one.config, {"run.seeds": Run(path).finished})
                one.error = row.get("error")
                found.append(one)
        return found


def read(folder: Path) -> Stored | None:
    """What the folder says of the sweep in it; None if it holds none, or one of which no training has begun.

    Raises:
        ValueError: If the folder is that of a run, or the file is damaged.
    """
    if (folder / "config.json").exists():
        raise ValueError(f"{folder} holds a run, not a sweep: choose another folder with --name")
    path = folder / "sweep.json"
    if not path.exists() or not any(began(run) for run in folder.iterdir()):  # e.g. the data were missing
        return None
    damaged = f"{path} is damaged: remove it, or choose another folder with --name"
    try:
        content = read_json(path)
    except ValueError as error:
        raise ValueError(f"{damaged} ({error})") from error
    rows = content.get("runs") if isinstance(content, dict) else content
    if not isinstance(rows, list) or not all(_is_row(row) for row in rows):
        raise ValueError(damaged)
    if isinstance(content, list):  # of an earlier version
        return Stored(None, None, list(rows[0]["varied"]), rows) if rows else None
    recipe, shared, varied = (content.get(name) for name in ("recipe", "settings", "varied"))
    if not isinstance(recipe, str) or not isinstance(shared, dict) or not isinstance(varied, list):
        raise ValueError(damaged)
    return Stored(recipe, shared, varied, rows)


def check_run(one: Combination) -> None:
    """Refuse a run whose folder holds one with other settings or images.

    Raises:
        ValueError: If it does; the message names the differences.
    """
    try:
        check_settings(one.config)
        check_root(run_path(one.config), one.config)
    except ValueError as error:
        raise ValueError(in_a_sweep(str(error))) from error


def in_a_sweep(error: str) -> str:
    """A message about one run, with the option that names the folder of a sweep: ``--run.name`` is refused there."""
    return error.replace("--run.name", "--name")


def write(plan: Plan, found: Iterable[Combination]) -> None:
    """Write what the sweep is about, and a row with the results of each of its runs."""
    rows = []
    for one in found:
        brief = [{name: result.get(name) for name in _BRIEF} for result in one.results()]
        rows.append({"run": one.name, "varied": one.varied, "error": one.error, "seeds": brief})
    content = {"recipe": plan.base.recipe, "settings": plan.settings(), "varied": plan.varied, "runs": rows}
    write_json(plan.folder / "sweep.json", content)


def _is_row(row: Any) -> bool:
    return isinstance(row, dict) and isinstance(row.get("run"), str) and isinstance(row.get("varied"), dict)
