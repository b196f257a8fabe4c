"""Deep learning on the hypersphere for PyTorch."""

from . import (
    angular,
    attacks,
    data,
    functional,
    losses,
    magnitude,
    metrics,
    models,
    nn,
    optim,
    orthogonal,
    plots,
    regularizers,
)
from .conversion import convert
from .embedding import embed
from .train import load

__version__ = "0.1.0"
__all__ = [
    "__version__",
    "angular",
    "attacks",
    "convert",
    "data",
    "embed",
    "functional",
    "load",
    "losses",
    "magnitude",
    "metrics",
    "models",
    "nn",
    "optim",
    "orthogonal",
    "plots",
    "regularizers",
]
