"""Triton's interpreter in half the time: what it looks up again at every call is kept, and what it computes in vain."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from typing import Any


@functools.cache
def hasten() -> None:
    """Once in a process, before kernels run; values stay as they are."""
    from triton.language import core
    from triton.runtime import interpreter as runtime

    # Without `debug` the sums are checked for overflow, and the answer is thrown away.
    builder = runtime.interpreter_builder
    builder.options = dataclasses.replace(builder.options, sanitize_overflow=False)

    # Every call of a function on the device looks through all of triton.language for what is to be replaced.
    @functools.cache
    def builtins_of(package: Any) -> list[str]:
        return [name for name, member in inspect.getmembers(package) if core.is_builtin(member)]

    def patch(package: Any, builder: Any, *scope: Any) -> None:
        for name in builtins_of(package):
            if core.is_builtin(member := getattr(package, name)):
                runtime._patch_attr(package, name, member, builder, *scope)

    runtime._patch_builtin = patch

    # A table of all dtypes is made at every look into it.
    table: dict[str, Any] = {}
    made = runtime._get_np_dtype

    def looked_up(dtype: Any) -> Any:
        name = dtype.scalar.name
        if name not in table:
            table[name] = made(dtype.scalar)
        return table[name]

    runtime._get_np_dtype = looked_up
