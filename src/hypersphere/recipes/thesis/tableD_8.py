"""Thesis Table D.8: SphereFace-20 and SphereFace+ trained on other sets of faces, LFW and MegaFace."""

from __future__ import annotations

from functools import partial

from ...train import Config
from ..table import Cell, Table
from ._faces import LFW, MEASURES, fine_tuned, sphereface

__all__ = ["TABLES", "tableD_8"]

# training set → (LFW, MegaFace rank-1) of SphereFace, of SphereFace+
ACCURACY = {
    "imdb_face": ((99.53, 72.89), (99.57, 73.15)),
    "ms_celeb": ((99.48, 73.93), (99.5, 74.16)),
    "casia": ((99.27, 70.68), (99.32, 71.30)),
}


def tableD_8(kind: str, dataset: str) -> Config:
    """D.10: SphereFace-20, m = 4, as on CASIA-WebFace; the steps on larger sets are not printed."""
    config = sphereface("m4", 20, ("megaface",), dataset)
    return config if kind == "sphereface" else fine_tuned(config, f"thesis.tableD.8.sphereface.{dataset}")


TABLES = (
    Table(
        "thesis.tableD.8",
        "SphereFace+ trained on IMDb-Face, MS-Celeb and CASIA-WebFace",
        "accuracy",
        tuple(
            Cell(
                f"{kind}.{dataset}.{column}",
                partial(tableD_8, kind, dataset),
                value,
                measure=MEASURES[column],
                run=f"{kind}.{dataset}",
            )
            for place, kind in enumerate(("sphereface", "sphereface+"))
            for dataset, both in ACCURACY.items()
            for column, value in zip(("lfw", "rank1"), both[place], strict=True)
        ),
        f"needs imdb-face/, ms-celeb-1m/ and casia-webface/ under --data.root, each <identity>/*.jpg aligned 112×96; "
        f"{LFW}; megaface/facescrub and megaface/distractors. SphereFace+ starts from the trained SphereFace.",
    ),
)
