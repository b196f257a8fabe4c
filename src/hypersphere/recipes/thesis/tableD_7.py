"""Thesis Table D.7: SphereFace+ with different m, SphereFace-20 on MegaFace, TAR at FAR 1e-6."""

from __future__ import annotations

from ..table import Table
from ._faces import CASIA, LFW, plus_cells

__all__ = ["TABLES"]

RATES = {  # m → (SphereFace, SphereFace+)
    1: ((42.46, 52.02),),
    2: ((71.79, 80.94),),
    3: ((76.34, 80.58),),
    4: ((82.56, 83.39),),
}

TABLES = (
    Table(
        "thesis.tableD.7",
        "SphereFace+ with different m, SphereFace-20, verification on MegaFace",
        "accuracy",
        plus_cells("thesis.tableD.7", 20, ("tar",), RATES),
        f"{CASIA}{LFW}; megaface/facescrub and megaface/distractors. SphereFace+ starts from the trained SphereFace of "
        "the same m, which comes first.",
    ),
)
