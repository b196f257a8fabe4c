"""What a run learns from and is evaluated on: resident sets, one graph, folders of images, sets of faces.

Every kind has one face, :class:`Source`; :func:`training_source` and :func:`evaluation_source` make it from settings.
"""

from .faces import FACES, Elsewhere, on_faces
from .make import evaluation_source, make_source, training_source
from .resident import Resident
from .source import Batch, Source

__all__ = [
    "FACES",
    "Batch",
    "Elsewhere",
    "Resident",
    "Source",
    "evaluation_source",
    "make_source",
    "on_faces",
    "training_source",
]
