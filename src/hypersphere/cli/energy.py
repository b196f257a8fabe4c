"""``hypersphere energy CHECKPOINT``: how evenly the neurons of each layer spread."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import torch
from torch import Tensor

from .._core.checks import check_count
from .._core.neurons import select
from .._core.streams import aligned
from ..functional import energy, refine
from ..runs.files import json_text
from ._checkpoints import computed, find_file, neuron_sets, read_tensors, run_sets, scaled, unlike_ordinary

_NOTE = """energy: mean over the pairs of neurons. random: energy of as many Gaussian vectors.
refined: their energy after {steps} steps of refinement, or the known minimum where there is one
(simplex, orthogonal frame; of angles the lower one)."""


def run(options: argparse.Namespace) -> int:
    """Run ``hypersphere energy`` and return its exit status."""
    check_count("--limit", options.limit, minimum=2)
    check_count("--steps", options.steps, minimum=0)
    options.file = find_file(options.checkpoint)
    tensors = read_tensors(options.file)
    sets = run_sets(options.checkpoint, options.file)
    if sets is None:
        sets = dict(neuron_sets(tensors))
        made = [name.replace("parametrizations.", "") for name in computed(tensors)]
        _say(made, "left out: they are computed from other tensors of the file. hs.energy(model) measures them")
        _say(scaled(tensors), "left out: these 8-bit numbers are scaled by other tensors of the file")
        _say(unlike_ordinary(tensors), "may be grouped or transposed; a file does not tell, but hs.energy(model) does")
    _say([name for name, matrix in sets.items() if matrix.shape[-1] == 1], "left out: one dimension has no directions")
    sets = {name: matrix for name, matrix in sets.items() if matrix.shape[-1] > 1}
    if not sets:
        raise ValueError(
            f"{options.checkpoint} holds no weight with neurons: no floating-point tensor of two or more dimensions"
        )
    kept = select(list(sets), options.include, options.skip)
    if not kept:
        raise ValueError(f"no layer matches --include {options.include} and --skip {options.skip}")
    rows = [_row(name, matrix, options) for name, matrix in sets.items() if name in kept]
    print(json_text(rows, indent=2) if options.json else _table(rows, options))
    return 0


def _say(names: list[str], what: str) -> None:
    """One line about these weights, where there are any."""
    if names:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        print(f"hypersphere energy: {names[0]}{more} {what}", file=sys.stderr)


def _row(name: str, matrix: Tensor, options: argparse.Namespace) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(options.seed)
    groups, count, dim = matrix.shape
    used = min(count, options.limit)
    if used < count:
        matrix = matrix[:, torch.randperm(count, generator=generator, device="cpu")[:used]]
    random = torch.randn(groups, used, dim, generator=generator, device="cpu")
    return {
        "layer": name,
        "neurons": count,
        "sets": groups,
        "sampled": used,
        "dim": dim,
        "energy": _energy(matrix, options),
        "random": _energy(random, options),
        "refined": _refined(random[0], options),
    }


def _energy(matrix: Tensor, options: argparse.Namespace) -> float:
    return float(energy(matrix, options.s, options.distance, options.half_space).mean())


def _refined(random: Tensor, options: argparse.Namespace) -> float:
    """The energy after refinement; the simplex (N ≤ d+1) and the orthogonal frame (half space, N ≤ d) are known.

    For angular distances and small s others have less than these: pairs of opposite neurons, for example.
    """
    count, dim = random.shape
    known = []
    if options.half_space and count <= dim:
        known = [_energy(torch.eye(count, dtype=torch.float64), options)]
    elif not options.half_space and 1 < count <= dim + 1:
        known = [_energy(torch.eye(count, dtype=torch.float64) - 1 / count, options)]
    if known and options.distance == "euclidean":
        return known[0]
    best = refine(random, options.s, options.half_space, options.steps, distance=options.distance, starts=1)
    return min([*known, _energy(best, options)])


def _table(rows: list[dict[str, Any]], options: argparse.Namespace) -> str:
    cells = [["layer", "neurons", "dim", "energy", "random", "refined"]]
    for row in rows:
        sets = f"{row['sets']}×" if row["sets"] != 1 else ""
        sampled = f"{row['sampled']} of " if row["sampled"] != row["neurons"] else ""
        numbers = [f"{row[key]:.6g}" for key in ("energy", "random", "refined")]
        cells.append([str(row["layer"]), f"{sets}{sampled}{row['neurons']}", str(row["dim"]), *numbers])
    space = "half" if options.half_space else "full"
    title = f"Hyperspherical energy of {options.file}: s = {options.s:g}, {options.distance}, {space} space"
    return "\n".join([title, "", *aligned(cells), "", _NOTE.format(steps=options.steps)])
