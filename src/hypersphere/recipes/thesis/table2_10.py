"""Thesis Table 2.10: losses under SphereFace-64 on MegaFace, rank-1 with a million distractors and TAR at FAR 1e-6."""

from __future__ import annotations

from ..table import Table
from ._faces import CASIA, LFW, OTHERS, method_cells

__all__ = ["TABLES"]

RATES = {  # rank-1, TAR
    "softmax": ("softmax", 64, (54.855, 65.925)),
    "contrastive": ("contrastive", 64, (65.219, 78.865)),
    "triplet": ("triplet", 64, (64.797, 78.322)),
    "l-softmax": ("l-softmax", 64, (67.128, 80.423)),
    "center": ("center", 64, (65.494, 80.146)),
    "sphereface": ("m4", 64, (72.729, 85.561)),
}

TABLES = (
    Table(
        "thesis.table2.10",
        "Losses of face recognition, MegaFace",
        "accuracy",
        method_cells(("rank1", "tar"), RATES),
        f"{CASIA}{LFW}; megaface/facescrub and megaface/distractors. {OTHERS} "
        "The ensemble of three patches (75.766, 89.142) is no cell: Figure A.6 shows them without coordinates.",
    ),
)
