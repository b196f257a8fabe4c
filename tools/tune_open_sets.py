"""Tune every loss of an open set by the same budget, on classes held out of training: nine settings each.

    python tools/tune_open_sets.py plan open.omniglot > tune.txt
    hypersphere reproduce --plan tune.txt --seeds 0 --at-once 8
    python tools/tune_open_sets.py chosen open.omniglot > test.txt
    hypersphere reproduce --plan test.txt --seeds 0,1,2,3,4 --at-once 8

``plan`` writes a line for each setting, with ``--data.validate``: every fifth training class is held out and judged.
``chosen`` reads what came of it in ``results/`` and writes a line for each loss with the setting of the highest mean
accuracy there, without ``--data.validate``: those are tested on the classes of the test split. Numbers of other
settings than the recipe's are kept as "changed" in the JSON.
"""

from __future__ import annotations

import argparse
import itertools
import shlex
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hypersphere.recipes import results, tables

_SCALES = ("16", "30", "64")
_SMALL = ("0.1", "0.3", "0.5")
GRID: dict[str, dict[str, tuple[str, ...]]] = {
    "softmax": {"loss.label-smoothing": ("0", "0.1", "0.2"), "optim.weight-decay": ("2e-4", "5e-4", "1e-3")},
    "contrastive": {"loss.contrastive": ("0.01", "0.05", "0.2"), "loss.contrastive-margin": ("0.7", "1", "1.4")},
    "triplet": {"loss.margin": ("0.1", "0.2", "0.4"), "data.per-class": ("2", "4", "8")},
    "center": {"loss.center": ("3e-4", "1e-3", "3e-3", "6e-3", "0.01", "0.02", "0.03", "0.06", "0.1")},
    "a-softmax": {
        "loss.margin": ("2", "3", "4"),
        "loss.annealing": ("sphereface", "l_softmax_cifar10", "l_softmax_mnist"),
    },
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


def plan(name: str) -> list[str]:
    """The lines of the search."""
    lines = []
    for loss, knobs in GRID.items():
        for values in itertools.product(*knobs.values()):
            words = [word for knob, value in zip(knobs, values, strict=True) for word in (f"--{knob}", value)]
            lines.append(shlex.join([name, "--cells", loss, *words, "--data.validate", "yes"]))
    return lines


def chosen(name: str, folder: Path) -> list[str]:
    """The lines of the test: of each loss that was searched, the best setting on the held-out classes."""
    table = tables()[name]
    scores: dict[str, dict[str, list[float]]] = {}
    for one in results.read(table, folder):
        changed = dict(one.get("changed", {}))
        if changed.pop("data.validate", False):
            words = shlex.join(_words(changed))
            scores.setdefault(one["cell"], {}).setdefault(words, []).append(one["final_accuracy"])
    lines = []
    for cell in table.cells:
        found = {words: statistics.fmean(values) for words, values in scores.get(cell.training, {}).items()}
        if found:
            best = max(found, key=lambda words: found[words])
            lines.append(
                f"{name} --cells {cell.training} {best}  # {found[best]:.2f} on held-out classes, of {len(found)}"
            )
    return lines


def _words(changed: Mapping[str, Any]) -> list[str]:
    """The options that make these changes."""
    words = []
    for option, value in sorted(changed.items()):
        text = ";".join(f"{key}={one}" for key, one in value.items()) if isinstance(value, dict) else str(value)
        words += [f"--{option.replace('_', '-')}", text]
    return words


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("plan", "chosen"))
    parser.add_argument("table", choices=("open.lfw", "open.omniglot"))
    parser.add_argument("--results", type=Path, default=Path("results"))
    options = parser.parse_args()
    print(*(plan(options.table) if options.what == "plan" else chosen(options.table, options.results)), sep="\n")


if __name__ == "__main__":
    main()
