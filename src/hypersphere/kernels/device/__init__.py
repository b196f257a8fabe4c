"""Device code: kernels in Triton's language. Imported only when a kernel runs, and only if Triton is installed."""

from typing import TYPE_CHECKING

from ..._core.late import late

if TYPE_CHECKING:
    from . import cayley, polar, products, recurrent, triangular  # noqa: F401

__getattr__ = late(__name__)
