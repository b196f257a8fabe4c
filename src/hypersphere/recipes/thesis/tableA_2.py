"""Thesis Table A.2: SphereFace of different depth on MegaFace; rank-1 among a million distractors, TAR at FAR 1e-6."""

from __future__ import annotations

from ..table import Table
from ._faces import CASIA, LFW, method_cells

__all__ = ["TABLES"]

RATES = {  # rank-1, TAR
    "softmax64": ("softmax", 64, (54.855, 65.925)),
    "sphereface4": ("m4", 4, (57.529, 68.547)),
    "sphereface10": ("m4", 10, (65.335, 78.069)),
    "sphereface20": ("m4", 20, (69.623, 83.159)),
    "sphereface36": ("m4", 36, (71.257, 84.052)),
    "sphereface64": ("m4", 64, (72.729, 85.561)),
}

TABLES = (
    Table(
        "thesis.tableA.2",
        "SphereFace of different depth, MegaFace",
        "accuracy",
        method_cells(("rank1", "tar"), RATES),
        f"{CASIA}{LFW}; megaface/facescrub and megaface/distractors",
    ),
)
