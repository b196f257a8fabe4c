"""Modules of a package that are imported when they are first named."""

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any


def late(package: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package: ``package.name`` imports that module, the first time that it is read.

    Modules of kernels are reached in this way, since they import Triton. That takes half a second, loads a compiler and
    is not possible everywhere, so it happens where a kernel runs and not before.

    Args:
        package: Name of the package, its ``__name__``.

    Returns:
        A function from a name to the module. It raises AttributeError if the package has no such module.
    """

    def module(name: str) -> Any:
        full = f"{package}.{name}"
        if name.startswith("_") or importlib.util.find_spec(full) is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return importlib.import_module(full)

    return module
