"""Deep learning on the hypersphere for PyTorch."""

from . import angular, data, functional, losses, magnitude, metrics, models, nn, optim, orthogonal, regularizers
from .conversion import convert

__version__ = "0.1.0"
__all__ = [
    "__version__",
    "angular",
    "convert",
    "data",
    "functional",
    "losses",
    "magnitude",
    "metrics",
    "models",
    "nn",
    "optim",
    "orthogonal",
    "regularizers",
]
