"""Thesis Table 5.8: SphereFace+ with different m, SphereFace-20 on LFW and MegaFace."""

from __future__ import annotations

from ..table import Table
from ._faces import CASIA, LFW, plus_cells

__all__ = ["TABLES"]

# m → (SphereFace, SphereFace+) on LFW and MegaFace, rank-1
ACCURACY = {
    1: ((96.35, 97.15), (39.12, 45.90)),
    2: ((98.87, 99.05), (60.48, 68.51)),
    3: ((98.97, 99.13), (63.71, 66.89)),
    4: ((99.26, 99.32), (70.68, 71.30)),
}

TABLES = (
    Table(
        "thesis.table5.8",
        "SphereFace+ with different m, SphereFace-20",
        "accuracy",
        plus_cells("thesis.table5.8", 20, ("lfw", "rank1"), ACCURACY),
        f"{CASIA}{LFW}; megaface/facescrub and megaface/distractors. SphereFace+ starts from the trained SphereFace of "
        "the same m, which comes first.",
    ),
)
