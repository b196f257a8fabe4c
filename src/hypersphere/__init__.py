"""Deep learning on the hypersphere for PyTorch."""

from . import angular, functional, losses, magnitude, metrics, nn, optim, orthogonal, regularizers
from .conversion import convert

__version__ = "0.1.0"
__all__ = [
    "__version__",
    "angular",
    "convert",
    "functional",
    "losses",
    "magnitude",
    "metrics",
    "nn",
    "optim",
    "orthogonal",
    "regularizers",
]
