"""Deep learning on the hypersphere for PyTorch.

``import hypersphere as hs`` loads next to nothing: each room is loaded when it is first named (``hs.nn``,
``hs.losses``, ``hs.load``, ...).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._core.late import late
from ._core.version import __version__

if TYPE_CHECKING:
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
        runs,
    )
    from .conversion import convert
    from .embedding import embed
    from .energies import energy
    from .pretrained import load_pretrained
    from .registration import register
    from .runs import load

__all__ = [
    "__version__",
    "angular",
    "attacks",
    "convert",
    "data",
    "embed",
    "energy",
    "functional",
    "load",
    "load_pretrained",
    "losses",
    "magnitude",
    "metrics",
    "models",
    "nn",
    "optim",
    "orthogonal",
    "plots",
    "register",
    "regularizers",
    "runs",
]

_FUNCTIONS = {
    "convert": "conversion",
    "embed": "embedding",
    "energy": "energies",
    "load": "runs",
    "load_pretrained": "pretrained",
    "register": "registration",
}
_room = late(__name__)


def __getattr__(name: str) -> Any:
    if name not in _FUNCTIONS:
        return _room(name)
    globals()[name] = value = getattr(_room(_FUNCTIONS[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
