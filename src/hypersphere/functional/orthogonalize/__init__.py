"""Maps from any square matrix to an orthogonal one (thesis 7.3), with closed-form gradients."""

from .algorithms import polish
from .maps import Orthogonalizer, orthogonalize, register_orthogonalizer

__all__ = ["Orthogonalizer", "orthogonalize", "polish", "register_orthogonalizer"]
