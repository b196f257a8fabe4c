"""The data that a run is trained and evaluated on: resident sets, one graph, folders of images, sets of faces.

All kinds share the interface :class:`Source`; :func:`training_source` and :func:`evaluation_source` make it from
settings.
"""

from .faces import Elsewhere, on_faces
from .make import as_evaluated, as_split, evaluation_source, make_source, read_once, training_moments, training_source
from .resident import Resident
from .source import Batch, Source

__all__ = [
    "Batch",
    "Elsewhere",
    "Resident",
    "Source",
    "as_evaluated",
    "as_split",
    "evaluation_source",
    "make_source",
    "on_faces",
    "read_once",
    "training_moments",
    "training_source",
]
