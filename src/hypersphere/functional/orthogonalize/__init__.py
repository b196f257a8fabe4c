"""Maps from any square matrix to an orthogonal one (thesis 7.3), with closed-form gradients."""

from .algorithms import polish
from .grouped import usable
from .maps import Orthogonalizer, methods, orthogonalize, register_orthogonalizer
from .precision import is_reduced
from .rotation import Solved, connect, rotate, solve
from .warm import WarmCayley

__all__ = [
    "Orthogonalizer",
    "Solved",
    "WarmCayley",
    "connect",
    "is_reduced",
    "methods",
    "orthogonalize",
    "polish",
    "register_orthogonalizer",
    "rotate",
    "solve",
    "usable",
]
