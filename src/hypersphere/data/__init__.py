"""Data sets in their official formats, and loaders whose batches stay on the device.

``load`` reads a set; :class:`Loader` serves small ones from device memory, :class:`FolderLoader` large ones from disk.
NumPy, Pillow, scikit-learn and rich are imported only where a set needs them.
"""

from .._core.pixels import MEASURED
from ._store import default_root
from .align import FIVE_POINTS, align_faces, similarity
from .augment import Augment, PointAugment, augment, normalize
from .faces import MegaFace, Videos
from .folder import FolderLoader, ImageFolder, ImageTree
from .imbalance import imbalance, imbalance_counts
from .lfw import Faces
from .listing import list_images
from .loader import Loader
from .own import OwnImages
from .pairs import Pairs, make_pairs
from .registry import available, describe, list_datasets, load
from .table import write_table
from .types import CloudSplit, Dataset, Graph, PointClouds, Split

__all__ = [
    "FIVE_POINTS",
    "MEASURED",
    "Augment",
    "CloudSplit",
    "Dataset",
    "Faces",
    "FolderLoader",
    "Graph",
    "ImageFolder",
    "ImageTree",
    "Loader",
    "MegaFace",
    "OwnImages",
    "Pairs",
    "PointAugment",
    "PointClouds",
    "Split",
    "Videos",
    "align_faces",
    "augment",
    "available",
    "default_root",
    "describe",
    "imbalance",
    "imbalance_counts",
    "list_datasets",
    "list_images",
    "load",
    "make_pairs",
    "normalize",
    "similarity",
    "write_table",
]
