"""Thesis Table 5.9: SphereFace+ with different m, SphereFace-64 on LFW and MegaFace."""

from __future__ import annotations

from ..table import Table
from ._faces import CASIA, LFW, plus_cells

__all__ = ["TABLES"]

# m → (SphereFace, SphereFace+) on LFW and MegaFace, rank-1
ACCURACY = {
    1: ((96.93, 97.47), (41.07, 45.55)),
    2: ((99.03, 99.22), (62.01, 67.07)),
    3: ((99.25, 99.35), (69.69, 70.89)),
    4: ((99.42, 99.47), (72.72, 73.03)),
}

TABLES = (
    Table(
        "thesis.table5.9",
        "SphereFace+ with different m, SphereFace-64",
        "accuracy",
        plus_cells("thesis.table5.9", 64, ("lfw", "rank1"), ACCURACY),
        f"{CASIA}{LFW}; megaface/facescrub and megaface/distractors. SphereFace+ starts from the trained SphereFace of "
        "the same m, which comes first.",
    ),
)
