"""Deep learning on the hypersphere for PyTorch."""

from . import angular, functional, losses, magnitude, metrics, nn, optim, orthogonal, regularizers

__version__ = "0.1.0"
__all__ = [
    "__version__",
    "angular",
    "functional",
    "losses",
    "magnitude",
    "metrics",
    "nn",
    "optim",
    "orthogonal",
    "regularizers",
]
