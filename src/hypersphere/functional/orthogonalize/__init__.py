"""Maps from any square matrix to an orthogonal one (thesis 7.3), with closed-form gradients."""

from .algorithms import polish
from .beside import side_by_side
from .from_last import FromLast, Solved
from .grouped import usable
from .maps import Orthogonalizer, apply_own, methods, orthogonalize, register_orthogonalizer
from .precision import is_reduced
from .rotation import connect, rotate, rotate_all, solve
from .warm import WarmCayley
from .warm_polar import WarmPolar
from .warm_qr import WarmQR

__all__ = [
    "FromLast",
    "Orthogonalizer",
    "Solved",
    "WarmCayley",
    "WarmPolar",
    "WarmQR",
    "apply_own",
    "connect",
    "is_reduced",
    "methods",
    "orthogonalize",
    "polish",
    "register_orthogonalizer",
    "rotate",
    "rotate_all",
    "side_by_side",
    "solve",
    "usable",
]
