"""What torch and Triton's interpreter do in vain while tests run is left out; values stay as they are."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import logging
from typing import Any

import torch
import torch.fx.config


def hasten_torch() -> None:
    """Seeds and compilers that note nothing down for messages that no test reads."""
    # A seed keeps a printed stack for each kind of device that could be initialized later: most of its time.
    if not torch.cuda.is_available():
        for kind in (torch.cuda, torch.xpu, torch.mtia):
            kind._is_in_bad_fork = lambda: True

    # To loggers that do not propagate pytest adds its handlers, at every test; one of them then logs all compilations.
    for name, logger in logging.root.manager.loggerDict.items():
        if name.startswith("torch") and isinstance(logger, logging.Logger):
            logger.propagate = True

    # Every operation that is traced keeps its stack.
    torch.fx.config.do_not_emit_stack_traces = True


def hasten_compiler() -> None:
    """``torch.compile`` empties the processor's cache to time its guards; nothing reads the time."""
    from torch._dynamo import guards

    guards.profile_guard_manager = lambda *_: 0.0


@functools.cache
def hasten_interpreter() -> None:
    """Triton's interpreter in half the time: what it looks up again at every call is kept. Before kernels run."""
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
