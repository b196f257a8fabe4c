"""Draw the figures of 2-D and 3-D features on MNIST from their runs, for docs/results.md.

    hypersphere reproduce thesis.figure2.7 --data.root DATA --run.folder RUNS
    python tools/feature_pictures.py RUNS [TABLE ...] --root DATA [--keep FOLDER] [--out docs/images]

A panel for each cell: features of the test images by class, with the directions of the class vectors. Above it stands
the mean angle between an image and the mean direction of its class, and the least angle between two such directions.
Figures A.2 and A.3 show the lengths of the class vectors by number of samples, and the biases. ``--keep`` writes
features (float16) and the classifier: the pictures can then be drawn on another machine, from that folder in the place
of RUNS.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

import hypersphere as hs
from hypersphere.recipes import Table, results, tables

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

from gallery import LIMIT, save  # noqa: E402

TABLES = (
    *("thesis.figure2.2", "thesis.figure2.7", "thesis.figure2.10"),
    *("thesis.figureA.1", "thesis.figureA.4", "thesis.figureA.5", "thesis.figureC.2", "thesis.figureC.3"),
)
CLASSIFIERS = ("thesis.figureA.2", "thesis.figureA.3")
COLUMNS = 4
SHOWN = 2000  # points of a panel


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, help="folder of the runs, or of what --keep wrote")
    parser.add_argument(
        "tables", nargs="*", metavar="TABLE", help=f"only these of: {', '.join((*TABLES, *CLASSIFIERS))}"
    )
    parser.add_argument("--root", type=Path, help="folder of the data sets")
    parser.add_argument("--keep", type=Path, help="write the features to this folder instead of drawing them")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    options = parser.parse_args()
    every = (*TABLES, *CLASSIFIERS)
    unknown = [name for name in options.tables if name not in every]
    if unknown:
        parser.error(f"unknown figure {unknown[0]!r}: choose of {', '.join(every)}")
    heavy = False
    for name in options.tables or every:
        found = panels(tables()[name], options.runs, options.root)
        if not found:
            print(f"{name}: no runs in {options.runs}", file=sys.stderr)
        elif options.keep is not None:
            options.keep.mkdir(parents=True, exist_ok=True)
            for cell, panel in found.items():
                np.savez_compressed(options.keep / f"{name}.{cell}.npz", **panel)
        else:
            options.out.mkdir(parents=True, exist_ok=True)
            path = options.out / f"features_{name}.png"
            save(picture(found) if name in TABLES else classifier(name, *found.values()), path)
            size = path.stat().st_size
            print(f"{path} ({size / 1024:.0f} kB)")
            heavy |= size > LIMIT
    return 1 if heavy else 0


def panels(table: Table, runs: Path, root: Path | None) -> dict[str, dict[str, np.ndarray[Any, Any]]]:
    """What is kept or has been trained of the cells: features, labels and class vectors."""
    found = {}
    trained_as = {one["cell"]: one["recipe"] for one in results.read(table, ROOT / "results")}  # maybe of another table
    for cell in table.cells:
        name = trained_as.get(cell.training, f"{table.name}.{cell.training}")
        kept = runs / f"{table.name}.{cell.name}.npz"
        if kept.is_file():
            with np.load(kept) as content:
                found[cell.name] = dict(content)
        elif (runs / name).is_dir():
            found[cell.name] = features(hs.load(runs / name), root)
    return found


def features(model: nn.Module, root: Path | None) -> dict[str, np.ndarray[Any, Any]]:
    """The test images of MNIST in the space of the features."""
    digits = hs.data.load("mnist", root=root)
    x = hs.embed(model, digits.test.images, batch_size=1000)
    weight = [part for part in model.parameters() if part.shape == (10, x.shape[1])][-1].detach()
    biases = [
        part.detach() for name, part in model.named_parameters() if name.endswith(("head.bias", "classifier.bias"))
    ]
    return {
        "features": x.numpy().astype(np.float16),
        "labels": digits.test.labels.numpy().astype(np.uint8),
        "weight": weight.float().numpy(),
        "bias": (biases[0] if biases else torch.zeros(10)).float().numpy(),
        "counts": digits.train.counts.numpy(),
    }


def classifier(name: str, kept: dict[str, np.ndarray[Any, Any]]) -> Figure:
    """What Figures A.2 and A.3 show of the classifier."""
    if name == "thesis.figureA.2":
        return hs.plots.class_norms(kept["weight"], kept["counts"])
    return hs.plots.class_biases(kept["bias"])


def angles(x: Tensor, labels: Tensor) -> tuple[float, float]:
    """Mean angle of a sample to the mean direction of its class; least angle of two of these; in degrees."""
    directions = hs.functional.unit(x)
    centres = hs.functional.unit(torch.stack([directions[labels == index].mean(0) for index in labels.unique()]))
    within = (directions * centres[labels.unique(return_inverse=True)[1]]).sum(1).clamp(-1, 1).acos()
    between = (centres @ centres.T).fill_diagonal_(-1).clamp(-1, 1).acos()
    return within.mean().rad2deg().item(), between.min().rad2deg().item()


def picture(found: dict[str, dict[str, np.ndarray[Any, Any]]]) -> Figure:
    """A panel for each of them, four in a row."""
    columns = min(COLUMNS, len(found))
    rows = -(-len(found) // columns)
    flat = all(panel["features"].shape[1] == 2 for panel in found.values())
    figure = Figure(figsize=(2.9 * columns, 3.0 * rows), layout="constrained")
    places: Sequence[Any] = figure.subplots(
        rows, columns, squeeze=False, subplot_kw={} if flat else {"projection": "3d"}
    ).ravel()
    for (cell, panel), axes in zip(found.items(), places, strict=False):
        x, labels = torch.from_numpy(panel["features"]).float(), torch.from_numpy(panel["labels"]).long()
        within, between = angles(x, labels)
        title = f"{cell}: within {within:.1f}°, between {between:.0f}°"
        draw = hs.plots.features_2d if flat else hs.plots.features_3d
        draw(x[:SHOWN], labels[:SHOWN], panel["weight"], title=title, ax=axes)
        if axes.get_legend() is not None:
            axes.get_legend().remove()
    for axes in places[len(found) :]:
        axes.remove()
    return figure


if __name__ == "__main__":
    sys.exit(main())
