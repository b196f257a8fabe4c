"""Tune the methods of a table by the same budget, on what neither training nor the test has: nine settings each.

    python tools/tuning.py plan open.omniglot > tune.txt
    hypersphere reproduce --plan tune.txt --seeds 0 --at-once 8
    python tools/tuning.py chosen open.omniglot > test.txt
    hypersphere reproduce --plan test.txt --seeds 0,1,2,3,4 --at-once 8
    python tools/tuning.py table open.omniglot

``plan`` writes a line for each setting, with ``--data.validate``: of an open set every fifth training class is held out
and evaluated, of a graph the validation nodes are. ``chosen`` reads what came of it in ``results/`` and writes a line
for each method with the setting of the highest mean accuracy there, without ``--data.validate``: those are tested on
the test split. Numbers of other settings than the recipe's are kept as "changed" in the JSON. ``table`` prints what
came of the test (± is the standard error over seeds, brackets hold the 95 % interval of the difference from the tuned
baseline); of an open set with signs of collapse: the accuracy on the training batches, the length of the mean unit
feature, and how many of the settings that were searched diverged, or ended with a warning or with features of one
direction.
Options that the whole search was given besides (``--data.shrink 2``) are those of the recipe's own setting too.
``--steps N`` shortens every training to N steps; ``--cells`` names some of the methods.
"""

from __future__ import annotations

import argparse
import itertools
import math
import shlex
import statistics
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from hypersphere.recipes import results, tables
from hypersphere.recipes.evidence import baseline, welch
from hypersphere.train.collapse import ONE_DIRECTION

Grid = dict[str, dict[str, tuple[str, ...]]]  # of each method: what is searched, and its values
_SCALES = ("16", "30", "64")
_SMALL = ("0.1", "0.3", "0.5")
# A fraction in the place of an annealing preset: the margin grows to its whole during this share of the steps.
_LOSSES: Grid = {
    "softmax": {"loss.label-smoothing": ("0", "0.1", "0.2"), "optim.weight-decay": ("2e-4", "5e-4", "1e-3")},
    "contrastive": {"loss.contrastive": ("0.01", "0.05", "0.2"), "loss.contrastive-margin": ("0.7", "1", "1.4")},
    "triplet": {"loss.margin": ("0.1", "0.2", "0.4"), "data.per-class": ("2", "4", "8")},
    "center": {"loss.center": ("3e-4", "1e-3", "3e-3", "6e-3", "0.01", "0.02", "0.03", "0.06", "0.1")},
    "a-softmax": {"loss.margin": ("2", "3", "4"), "loss.annealing": ("sphereface", "1/4", "1/2")},
    "cosface": {"loss.margin": ("0.1", "0.2", "0.35"), "loss.scale": _SCALES},
    "arcface": {"loss.margin": _SMALL, "loss.scale": _SCALES},
    "sphereface+": {"loss.margin": ("2", "3", "4"), "loss.energy": ("0.1", "1", "10")},
    "adaface": {"loss.margin": ("0.2", "0.4", "0.6"), "loss.scale": _SCALES},
    "magface": {
        "loss.extra": tuple(f"lower_margin={m};upper_margin={2 * float(m):g}" for m in ("0.1", "0.2", "0.4")),
        "loss.scale": _SCALES,
    },
    "sub-center": {"loss.margin": _SMALL, "loss.scale": _SCALES},
}
# E.10 prints no weight of the energy; the graph's own network has its weight decay instead
_ENERGY = {"regularizer.hidden": ("0.1", "0.3", "1", "3", "10", "30", "100", "300", "1000")}
_DECAY = {"optim.weight-decay": ("5e-5", "1e-4", "2e-4", "5e-4", "1e-3", "2e-3", "5e-3", "0.01", "0.02")}
_GRAPHS: Grid = {
    f"{method}.{graph}": _DECAY if method == "baseline" else _ENERGY
    for graph in ("citeseer", "cora", "pubmed")
    for method in ("baseline", "hs-mhe", "rp-comhe", "ap-comhe")
}
# Neither the variance of the fixed neurons nor a rate of R is printed. F.3 keeps the baseline's rate for Cayley's map,
# 0.01; of orthogonal descent `none` is 0.02
_NEURONS = ("none", "1", "3")
_TURNED: Grid = {f"baseline.{graph}": _DECAY for graph in ("cora", "pubmed")} | {
    f"{method}.{graph}": {"orthogonal.std": _NEURONS, "optim.orthogonal-lr": rates}
    for method, rates in (("cp", ("1e-4", "1e-3", "0.01")), ("ogd", ("2e-3", "none", "0.2")))
    for graph in ("cora", "pubmed")
}
GRIDS = {
    "open.lfw": _LOSSES,
    "open.omniglot": _LOSSES,
    "thesis.tableE.6": _GRAPHS,
    "thesis.table7.11": _TURNED,
}


def plan(name: str, steps: int | None = None, cells: Sequence[str] | None = None) -> list[str]:
    """The lines of the search."""
    length = steps or tables()[name].cells[0].config(name).schedule.steps
    lines = []
    for cell in cells or GRIDS[name]:
        knobs = GRIDS[name][cell]
        for values in itertools.product(*knobs.values()):
            words = [w for knob, value in zip(knobs, values, strict=True) for w in _option(knob, value, length)]
            lines.append(shlex.join([name, "--cells", cell, *words, "--data.validate", "yes", *_short(steps)]))
    return lines


def chosen(name: str, folder: Path, steps: int | None = None, cells: Sequence[str] | None = None) -> list[str]:
    """The lines of the test: of each method that was searched, the setting that is best on what was held out."""
    lines = []
    for cell, found in _searched(name, folder, steps).items():
        if cells is None or cell in cells:
            best, short = _best(found), shlex.join(_short(steps))
            score = _score(found[best])
            line = f"{name} --cells {cell} {best} {short}  # {score:.2f} on what was held out, of {len(found)}"
            lines.append(f"# {name} {cell}: all of {len(found)} diverged" if math.isinf(score) else line)
    return lines


def table(name: str, folder: Path, steps: int | None = None) -> list[str]:
    """What came of the test: the chosen setting of each method and its numbers; of an open set signs of collapse."""
    searched, tested = _searched(name, folder, steps), _runs(name, folder, steps, validated=False)
    finals = {
        cell: [final(one) for one in tested.get(cell, {}).get(_best(found), [])] for cell, found in searched.items()
    }
    shows_collapse = name.startswith("open.")
    against = "softmax" if shows_collapse else "the tuned baseline"
    rows = [["method", "chosen", "test", f"over {against}", "held out", "recipe's"]]
    rows[0] += ["train", "mean feature", "collapsed"] if shows_collapse else []
    cells = {cell.name: cell for cell in tables()[name].cells}
    for cell, found in searched.items():
        best, base = _best(found), baseline(tables()[name], cells[cell])
        own, rest = _apart(GRIDS[name][cell], found[best][0]["changed"])
        runs, plain = (tested.get(cell, {}).get(words, []) for words in (best, rest))
        row = [
            cell,
            f"`{own}`" if own else "the recipe's",
            mean(finals[cell]),
            "" if base is None else gain(finals[cell], finals.get(base, [])),
            mean(final(one) for one in found[best]),
            mean(final(one) for one in plain),
        ]
        rows.append(row + (_collapse(runs, found) if shows_collapse else []))
    return [f"| {' | '.join(row)} |" for row in (rows[0], ["---"] * len(rows[0]), *rows[1:])]


def _best(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """The setting that was best on what was held out."""
    return max(found, key=lambda words: _score(found[words]))


def _score(runs: Sequence[Mapping[str, Any]]) -> float:
    """The mean; a setting of which a seed diverged is below every other."""
    found = statistics.fmean(final(one) for one in runs)
    return -math.inf if math.isnan(found) else found


def final(one: Mapping[str, Any]) -> float:
    """The final accuracy of a run; NaN if it diverged."""
    return math.nan if "diverged" in one else float(one["final_accuracy"])


def _collapse(runs: Sequence[Mapping[str, Any]], found: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """Of the chosen setting what training knows and how long the mean feature is; how many settings collapsed."""
    return [
        mean(one["train_accuracy"] for one in runs if "train_accuracy" in one),
        mean(one["metrics"]["mean_length"] for one in runs if "mean_length" in one.get("metrics", {})),
        f"{sum(any(map(_collapsed, every)) for every in found.values())} of {len(found)}",
    ]


def _collapsed(one: Mapping[str, Any]) -> bool:
    """Whether training diverged or warned, or all features of the held-out images point in one direction."""
    return (
        not {"warning", "diverged"}.isdisjoint(one) or one.get("metrics", {}).get("mean_length", 0.0) >= ONE_DIRECTION
    )


def besides(name: str, folder: Path, steps: int | None = None) -> str:
    """The options that every setting of the search was given besides those that were searched."""
    every = [runs[0] for found in _searched(name, folder, steps).values() for runs in found.values()]
    return " or ".join(sorted({_apart(GRIDS[name][one["cell"]], one["changed"])[1] for one in every}))


def seeds(name: str, folder: Path, steps: int | None = None) -> int:
    """With how many seeds the settings were searched, 0 if they were not."""
    runs = (runs for found in _searched(name, folder, steps).values() for runs in found.values())
    return len({one["seed"] for every in runs for one in every})


def _apart(knobs: Mapping[str, Any], changed: Mapping[str, Any]) -> tuple[str, str]:
    """The options of a setting: those that are searched, and the others."""
    searched = {knob.replace("-", "_") for knob in knobs} | ({"loss.warmup"} if "loss.annealing" in knobs else set())
    parts: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    for option, value in changed.items():
        if option != "data.validate":
            parts[option not in searched][option] = value
    return words(parts[0]), words(parts[1])


def _searched(name: str, folder: Path, steps: int | None) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """The runs on what is held out, by method and by setting, in the order of the table."""
    found = _runs(name, folder, steps, validated=True)
    return {cell.training: found[cell.training] for cell in tables()[name].cells if cell.training in found}


def _runs(name: str, folder: Path, steps: int | None, validated: bool) -> dict[str, dict[str, list[dict[str, Any]]]]:
    scores: dict[str, dict[str, list[dict[str, Any]]]] = {}
    length = steps or tables()[name].cells[0].config(name).schedule.steps
    for one in results.read(tables()[name], folder):
        changed = dict(one.get("changed", {}))
        earlier = validated and "optim.undecayed" in changed  # the first search of Table 7.11: all layers decayed
        if bool(changed.pop("data.validate", False)) == validated and one["steps"] == length and not earlier:
            scores.setdefault(one["cell"], {}).setdefault(words(changed), []).append(one)
    return scores


def _option(knob: str, value: str, steps: int) -> list[str]:
    """One setting of the grid as words of the command line."""
    if knob == "loss.annealing" and "/" in value:
        return ["--loss.annealing", "none", "--loss.warmup", str(round(Fraction(value) * steps))]
    return [f"--{knob}", value]


def _short(steps: int | None) -> list[str]:
    return [] if steps is None else ["--steps", str(steps)]


def gain(values: Sequence[float], base: Sequence[float]) -> str:
    """The difference of the means, with its 95 % interval; neither where a seed diverged."""
    interval = welch(values, base) if values and base else None
    if interval is None or any(map(math.isnan, interval)):
        return "-"
    return f"{statistics.fmean(values) - statistics.fmean(base):+.2f} [{interval[0]:+.2f}, {interval[1]:+.2f}]"


def mean(values: Iterable[float]) -> str:
    """Mean and standard error, or how many diverged, which are NaN."""
    found = list(values)
    if not found:
        return "-"
    if lost := sum(map(math.isnan, found)):
        return f"{lost} diverged"
    error = statistics.stdev(found) / len(found) ** 0.5 if len(found) > 1 else None
    return f"{statistics.fmean(found):.2f}" + ("" if error is None else f" ± {error:.2f}")


def words(changed: Mapping[str, Any]) -> str:
    """The options that make these changes."""
    return shlex.join(results.options(changed))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("plan", "chosen", "table"))
    parser.add_argument("table", choices=GRIDS)
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--steps", type=int, help="of every training; default: those of the recipe")
    parser.add_argument("--cells", nargs="+", metavar="CELL", help="methods by their cell; default: all")
    options = parser.parse_args()
    if unknown := set(options.cells or ()) - set(GRIDS[options.table]):
        parser.error(f"--cells: {', '.join(sorted(unknown))} is none of {', '.join(GRIDS[options.table])}")
    if options.what == "plan":
        lines = plan(options.table, options.steps, options.cells)
    elif options.what == "chosen":
        lines = chosen(options.table, options.results, options.steps, options.cells)
    else:
        lines = table(options.table, options.results, options.steps)
    print(*lines, sep="\n")


if __name__ == "__main__":
    main()
