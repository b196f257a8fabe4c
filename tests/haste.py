"""What torch and Triton's interpreter do in vain while tests run is left out; values stay as they are."""

from __future__ import annotations

import copy
import dataclasses
import functools
import importlib.util
import inspect
import logging
import traceback
import types
import typing
from typing import Any

import torch
import torch.fx.config


def hasten_torch() -> None:
    """Seeds and compilers that note nothing down for messages that no test reads."""
    # A seed keeps a printed stack for each kind of device that could be initialized later: most of its time.
    if not torch.cuda.is_available():
        for kind in (torch.cuda, torch.xpu, torch.mtia):
            kind._is_in_bad_fork = lambda: True

    hasten_loggers()

    # Every operation that is traced keeps its stack.
    torch.fx.config.do_not_emit_stack_traces = True


def hasten_loggers() -> None:
    """To those that do not propagate pytest adds its handlers, at every test; one of them then logs all compilations.

    Compilers have their own, so that it is done again once they are imported.
    """
    for name, logger in logging.root.manager.loggerDict.items():
        if name.startswith("torch") and isinstance(logger, logging.Logger):
            logger.propagate = True


def hasten_compiler() -> None:
    """``torch.compile`` times its guards with an emptied cache of the processor, and looks for garbage at its end.

    And it prints the stack of every operation into its graph.
    """
    from torch._dynamo import config, guards, output_graph

    guards.profile_guard_manager = lambda *_: 0.0
    config.run_gc_after_compile = False

    unprinted = types.SimpleNamespace(from_list=lambda _: types.SimpleNamespace(format=list))
    output_graph.traceback = types.SimpleNamespace(**vars(traceback) | {"StackSummary": unprinted})
    hasten_loggers()


def hasten_export() -> None:
    """Types of saved programs are looked up once, and once what ONNX has for every operation."""
    from torch._export.serde import serialize

    known: dict[type, dict[str, Any]] = {}

    def hints(cls: type, **names: Any) -> dict[str, Any]:
        if cls not in known:
            known[cls] = typing.get_type_hints(cls, **names)
        return known[cls]

    serialize.typing = types.SimpleNamespace(**vars(typing) | {"get_type_hints": hints})

    if importlib.util.find_spec("onnxscript") is None:
        return
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    made = functools.cache(ONNXRegistry.from_torchlib)

    def from_torchlib(*settings: Any, **named: Any) -> Any:
        registry = copy.copy(made(*settings, **named))
        registry.functions = {name: list(functions) for name, functions in registry.functions.items()}
        return registry

    ONNXRegistry.from_torchlib = staticmethod(from_torchlib)


@functools.cache
def hasten_interpreter() -> None:
    """Triton's interpreter in half the time: what it looks up again at every call is kept. Before kernels run."""
    from triton import language
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

    # Every kernel patches the language and restores it at its end; here nothing else reads it.
    patch_language = runtime._patch_lang
    patched: set[Any] = set()

    @functools.cache
    def languages(function: Any) -> frozenset[Any]:
        return frozenset(one for one in function.__globals__.values() if one is language or one is core)

    def patch_once(function: Any) -> Any:
        if not languages(function) <= patched:
            patch_language(function)
            patched.update(languages(function))
        return runtime._LangPatchScope()

    if hasattr(runtime, "_LangPatchScope"):  # older releases restore nothing
        runtime._patch_lang = patch_once

    # Every tensor and every type of a block makes its shape of new constants.
    shapes: dict[tuple[int, ...], Any] = {}
    make_tensor = core.tensor.__init__

    def tensor(self: Any, handle: Any, type: Any) -> None:
        key = tuple(type.shape) if type.is_block() else ()
        if key not in shapes:
            make_tensor(self, handle, type)
            shapes[key] = self.numel, self.shape
        self.handle, self.type, self.dtype = handle, type, type.scalar
        self.numel, self.shape = shapes[key]

    core.tensor.__init__ = tensor

    sizes: dict[tuple[int, ...], Any] = {}
    make_block = core.block_type.__init__

    def block(self: Any, element_ty: Any, shape: Any) -> None:
        key = tuple(one.value if isinstance(one, core.constexpr) else one for one in shape)
        if key not in sizes:
            make_block(self, element_ty, shape)
            sizes[key] = self.shape, self.numel, str(self.shape)
        self.shape, self.numel, text = sizes[key]
        self.element_ty, self.name = element_ty, f"<{text}, {element_ty}>"

    core.block_type.__init__ = block

    # Operands are brought to a common type and shape at every operation, and numbers made arrays of that shape.
    semantic, alike, numbers = type(runtime.interpreter_semantic), set(), {}
    if not hasattr(semantic, "binary_op_type_checking_impl"):  # older releases have functions
        return
    check, broadcast = semantic.binary_op_type_checking_impl, semantic.broadcast_impl_value

    def checked(self: Any, lhs: Any, rhs: Any, *flags: Any, **named: Any) -> Any:
        is_left, is_right = isinstance(lhs, core.tensor), isinstance(rhs, core.tensor)
        if is_left and is_right:
            key = (lhs.type.name, rhs.type.name, flags, *named.items())
            if key in alike:
                return lhs, rhs
            found = check(self, lhs, rhs, *flags, **named)
            if found[0] is lhs and found[1] is rhs:
                alike.add(key)
            return found
        one, number = (lhs, rhs) if is_left else (rhs, lhs)
        if type(number) not in (int, float, bool) or is_left == is_right:
            return check(self, lhs, rhs, *flags, **named)
        key = (one.type.name, repr(number), is_left, flags, *named.items())
        if key not in numbers:
            found = check(self, lhs, rhs, *flags, **named)
            if found[0 if is_left else 1] is not one or len(numbers) > 10_000:
                return found
            numbers[key] = found[1 if is_left else 0]
            numbers[key].handle.data.setflags(write=False)
        return (lhs, numbers[key]) if is_left else (numbers[key], rhs)

    def broadcasted(self: Any, lhs: Any, rhs: Any) -> Any:
        return (lhs, rhs) if lhs.type.name == rhs.type.name else broadcast(self, lhs, rhs)

    semantic.binary_op_type_checking_impl, semantic.broadcast_impl_value = checked, broadcasted

    # Every function of the language is called through two others.
    def patch_attribute(owner: Any, name: str, member: Any, builder: Any, scope: Any) -> None:
        genuine, meaning = getattr(member, "__wrapped__", member), runtime.interpreter_semantic

        def call(*values: Any, **named: Any) -> Any:
            named["_semantic"] = meaning
            return genuine(*values, **named)

        scope.set_attr(owner, name, call)

    runtime._patch_attr = patch_attribute

    # Shapes are compared through new shapes.
    compare, answer = core.tuple.__eq__, type(core.tuple([1]) == [1])

    def equal(self: Any, other: Any) -> Any:
        values = other.values if isinstance(other, core.tuple) else other
        if isinstance(values, list | tuple) and all(type(one) is int for one in values):
            return answer(self.values == list(values))
        return compare(self, other)

    core.tuple.__eq__ = equal
