"""The top of the page: what came out, against what was published and against one another."""

from __future__ import annotations

from typing import Any

from ..config import to_dict
from ..recipes import Comparison, Published, published
from ..runs.quantities import quantity
from .markup import Html, details, element, join, number, table
from .subject import Seed, Subject, mean_and_spread


def overview(subjects: list[Subject]) -> Html:
    """The result of one run as cards and a table of seeds, or of many as a table of runs and what sets them apart."""
    if len(subjects) == 1:
        parts = [_cards(subjects[0]), _against(subjects[0], named=False), _seed_table(subjects)]
    else:
        recipes = details("Recipe of every run", *(_against(one) for one in subjects))
        seeds = details("Every seed", _seed_table(subjects))
        parts = [_run_table(subjects), _differences(subjects), seeds, recipes]
    return join([*parts, _measurements(subjects)])


def flat(subject: Subject) -> dict[str, Any]:
    """The settings by dotted name."""
    settings = to_dict(subject.run.config)
    groups = {name: value for name, value in settings.items() if isinstance(value, dict)}
    leaves = {name: value for name, value in settings.items() if name not in groups}
    return leaves | {f"{group}.{name}": value for group, values in groups.items() for name, value in values.items()}


def shown(value: Any) -> str:
    """A setting as the command line writes it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, dict):
        return "; ".join(f"{name}={one}" for name, one in value.items()) or "none"
    return "none" if value is None else str(value)


def _cards(subject: Subject) -> Html:
    cards = [_card(subject.score, *_final(subject))]
    bests = [best for seed in subject.seeds if (best := seed.best[0]) is not None]
    if bests:
        cards.append(
            _card("Best during training", f"{number(max(bests))}%", "highest evaluation, chosen on the test set")
        )
    known = published(subject.run.config, subject.results)
    for cell in known.cells if known is not None else ():
        if known is not None and cell.published is not None:
            name = f"Published {cell.metric}" + (f", {cell.cell}" if len(known.cells) > 1 else "")
            cards.append(_card(name, f"{number(cell.published)}{cell.unit}", f"ours {_gap(cell)}"))
    result = next((seed.result for seed in subject.seeds if seed.result is not None), None)
    if result is not None and "parameters" in result:
        cards.append(_card("Parameters", _short(result["parameters"]), f"{result['parameters']:,}"))
    seconds = [float(seed.result["seconds"]) for seed in subject.seeds if seed.result and "seconds" in seed.result]
    if seconds:
        cards.append(
            _card("Training time", _duration(sum(seconds) / len(seconds)), "each seed" if len(seconds) > 1 else "")
        )
    return element("div", *cards, class_="cards")


def _final(subject: Subject) -> tuple[str, str]:
    if subject.finals:
        mean, spread = mean_and_spread(subject.finals)
        count = len(subject.finals)
        of = f"±\u00a0{number(spread)} over {count} seeds" if spread is not None else f"seed {subject.shown_seed}"
        return f"{number(mean)}%", f"final network, {of}"
    seed = subject.seeds[0]
    return f"{number(seed.final())}%", f"so far, at step {seed.step:,} of {subject.run.config.schedule.steps:,}"


def _gap(cell: Comparison) -> str:
    if cell.difference is None:
        return "not measured yet"
    return f"{number(cell.ours)} ({number(cell.difference, 2, sign=True)})"


def _card(name: str, value: str, note: str = "") -> Html:
    return element(
        "div", element("p", name, class_="name"), element("p", value, class_="value"), element("p", note), class_="card"
    )


def _against(subject: Subject, named: bool = True) -> Html:
    known = published(subject.run.config, subject.results)
    if known is None:
        text: Any = (
            f"“{subject.run.recipe}” is not a recipe of the documents, so there is no published number to compare with."
        )
    else:
        where = f"Recipe {subject.run.recipe}, from “{known.title.rstrip('.')}”."
        if all(cell.published is None for cell in known.cells):
            where += " The paper and the dissertation print no number for it."
        text = join([where, _changed(known)], " ")
    return element("p", element("strong", subject.label, ": ") if named else "", text, class_="note")


def _changed(known: Published) -> str:
    if not known.changed:
        return "Trained with the settings of the recipe."
    pairs = [f"{name} = {shown(now)} (recipe: {shown(was)})" for name, (was, now) in list(known.changed.items())[:6]]
    more = f", and {len(known.changed) - 6} more" if len(known.changed) > 6 else ""
    return f"Its settings differ from the recipe: {'; '.join(pairs)}{more}."


def _run_table(subjects: list[Subject]) -> Html:
    rows = []
    for index, subject in enumerate(subjects):
        known = published(subject.run.config, subject.results)
        cell = next((one for one in known.cells if one.published is not None), None) if known is not None else None
        printed = [f"{number(cell.published)} {cell.metric}", _gap(cell)] if cell else ["–", "–"]
        bests = [best for seed in subject.seeds if (best := seed.best[0]) is not None]
        mean, spread = mean_and_spread(subject.finals) if subject.finals else (subject.seeds[0].final(), None)
        done = f"{len(subject.finals)} of {len(subject.seeds)}"
        swatch = element("span", class_=f"swatch c{index % 8}", aria_hidden="true")
        final = number(mean) + (f" ± {number(spread)}" if spread is not None else "")
        rows.append([join([swatch, subject.label], " "), final, number(max(bests, default=None)), done, *printed])
    kinds = {one.score for one in subjects}
    kind = kinds.pop() if len(kinds) == 1 else "Accuracy"
    head = ["run", "final, %", "best, %", "seeds done", "published", "ours (difference)"]
    if all(row[-1] == "–" for row in rows):
        head, rows = head[:-2], [row[:-2] for row in rows]
    return table(head, rows, f"{kind} of every run: mean ± standard deviation over its seeds", "numbers")


def _differences(subjects: list[Subject]) -> Html:
    settings = [flat(subject) for subject in subjects]
    hidden = ("run.folder", "run.name", "run.seeds", "data.root", "run.progress")
    names = [name for name in settings[0] if name not in hidden]
    rows = [
        [element("code", name), *(shown(one.get(name)) for one in settings)]
        for name in names
        if len({shown(one.get(name)) for one in settings}) > 1
    ]
    if not rows:
        return element("p", "All runs have the same settings.", class_="note")
    return table(["setting", *(one.label for one in subjects)], rows, "Settings in which the runs differ")


def _seed_table(subjects: list[Subject]) -> Html:
    rows = [_seed_row(subject, seed, len(subjects) > 1) for subject in subjects for seed in subject.seeds]
    head = ["seed", "final, %", "best, %", "at step", "test loss", "time", "state"]
    return table(head, rows, "Every seed: the final network, and the best of all evaluations", "numbers")


def _seed_row(subject: Subject, seed: Seed, named: bool) -> list[object]:
    best, step = seed.best
    result = seed.result or {}
    total = subject.run.config.schedule.steps
    return [
        f"{subject.label}, seed {seed.number}" if named else f"seed {seed.number}",
        number(seed.final()),
        number(best),
        "–" if step is None else f"{step:,}",
        number(seed.final("test_loss") if seed.result is None else result.get("test_loss"), 4),
        _duration(float(result["seconds"])) if "seconds" in result else "–",
        "done" if seed.result is not None else f"step {seed.step:,} of {total:,}",
    ]


def _measurements(subjects: list[Subject]) -> Html:
    """All other measurements of the final networks, by seed or, of several runs, its mean."""
    done = [(subject, seed) for subject in subjects for seed in subject.seeds if seed.result is not None]
    names = dict.fromkeys(name for _, seed in done for name in (seed.result or {}).get("metrics", {}))
    names = {name: None for name in names if name not in ("accuracy", "loss")}
    if not names:
        return Html("")
    groups = [[seed] for _, seed in done] if len(subjects) == 1 else [list(subject.seeds) for subject in subjects]
    head = [f"seed {seed.number}" for _, seed in done] if len(subjects) == 1 else [one.label for one in subjects]
    rows = [[quantity(name).heading, *(_mean(group, name) for group in groups)] for name in names]
    caption = "Measurements of the final network" + ("" if len(subjects) == 1 else ", mean over the seeds")
    return details("All measurements", table(["measurement", *head], rows, caption, "numbers"))


def _mean(seeds: list[Seed], name: str) -> str:
    values = [seed.final(name) for seed in seeds if seed.result is not None]
    known = [value for value in values if value is not None]
    return number(mean_and_spread(known)[0]) if known else "–"


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _short(count: int) -> str:
    for size, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.3g} {name}"
    return str(count)
