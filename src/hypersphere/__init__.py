"""Deep learning on the hypersphere for PyTorch.

``import hypersphere as hs`` loads next to nothing: each room is loaded when it is first named (``hs.nn``,
``hs.losses``, ``hs.load``, ...).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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
_PROGRAM = ("cli", "config", "evaluation", "export", "kernels", "recipes", "report", "sources", "train")
_ROOMS = (*(name for name in __all__ if name not in _FUNCTIONS and name != "__version__"), *_PROGRAM)


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _FUNCTIONS:
        value = getattr(importlib.import_module(f"{__name__}.{_FUNCTIONS[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
