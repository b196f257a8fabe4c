"""Thesis Table 2.9: losses under SphereFace-64 on LFW and YouTube Faces."""

from __future__ import annotations

from ..table import Table
from ._faces import CASIA, LFW, OTHERS, method_cells

__all__ = ["TABLES"]

ACCURACY = {  # LFW, YTF
    "softmax": ("softmax", 64, (97.88, 93.1)),
    "contrastive": ("contrastive", 64, (98.78, 93.5)),
    "triplet": ("triplet", 64, (98.70, 93.4)),
    "l-softmax": ("l-softmax", 64, (99.10, 94.0)),
    "center": ("center", 64, (99.05, 94.4)),
    "sphereface": ("m4", 64, (99.42, 95.0)),
}

TABLES = (
    Table(
        "thesis.table2.9",
        "Losses of face recognition, LFW and YouTube Faces",
        "accuracy",
        method_cells(("lfw", "ytf"), ACCURACY),
        f"{CASIA}{LFW}; ytf/<person>/<number>/*.jpg with splits.txt. {OTHERS}",
    ),
)
