"""Thesis Table 2.8: A-Softmax with different m, SphereFace-64 on LFW and YouTube Faces."""

from __future__ import annotations

from ..table import Table
from ._faces import CASIA, LFW, method_cells

__all__ = ["TABLES"]

ACCURACY = {  # LFW, YTF
    "softmax": ("softmax", 64, (97.88, 93.1)),
    "m1": ("m1", 64, (97.90, 93.2)),
    "m2": ("m2", 64, (98.40, 93.8)),
    "m3": ("m3", 64, (99.25, 94.4)),
    "m4": ("m4", 64, (99.42, 95.0)),
}

TABLES = (
    Table(
        "thesis.table2.8",
        "A-Softmax with different m, LFW and YouTube Faces",
        "accuracy",
        method_cells(("lfw", "ytf"), ACCURACY),
        f"{CASIA}{LFW}; ytf/<person>/<number>/*.jpg with splits.txt. A video is the mean of its frames' features.",
    ),
)
