"""Thesis Figure 2.11: SphereFace and softmax networks of different depth on LFW and YouTube Faces."""

from __future__ import annotations

from functools import partial

from ..table import Cell, Table
from ._faces import CASIA, LFW, MEASURES, needed, sphereface

__all__ = ["TABLES"]

DEPTHS = (4, 10, 20, 36, 64)
# the text prints the shallowest and the deepest (2.3.6)
ACCURACY = {
    "m4": {"lfw": {4: 98.20, 64: 99.42}, "ytf": {4: 93.4, 64: 95.0}},
    "softmax": {"lfw": {4: 96.60, 64: 97.75}, "ytf": {4: 91.1, 64: 93.1}},
}

TABLES = (
    Table(
        "thesis.figure2.11",
        "Depth of the network, A-Softmax (m = 4) and softmax, LFW and YouTube Faces",
        "accuracy",
        tuple(
            Cell(
                f"{method}.{depth}.{column}",
                partial(sphereface, method, depth, needed(("lfw", "ytf"))),
                ACCURACY[method][column].get(depth),
                measure=MEASURES[column],
                run=f"{method}.{depth}",
            )
            for method in ACCURACY
            for depth in DEPTHS
            for column in ("lfw", "ytf")
        ),
        f"{CASIA}{LFW}; ytf/<person>/<number>/*.jpg with splits.txt.",
    ),
)
