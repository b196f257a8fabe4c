"""When the hand-written eager kernels apply, and when plain differentiable operations must do."""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.utils._python_dispatch import _disable_current_modes


def is_exporting() -> bool:
    """Whether torch.export is at work; torch.compiler's own says so inside torch.compile, too, up to torch 2.12."""
    return torch.compiler._is_exporting_flag


def as_constant(value: Any) -> Any:
    """A number that is part of a compiled graph's code, also where ``dynamic=True`` has made a symbol of it.

    The graph holds for this value: with another one, it is compiled again. Only for code that is being compiled.
    """
    from torch.fx.experimental.symbolic_shapes import guard_scalar  # a large module, which tracers have loaded

    return guard_scalar(value) if isinstance(value, int | float) else value


def class_of(module: nn.Module) -> type:
    """The class that was written: in place of a module that layers share, torch.export puts one of a subclass of it."""
    proxied = is_exporting() and hasattr(module, "reset_proxy_mapping")
    return type(module).__bases__[-1] if proxied else type(module)


def behind(tensor: Tensor) -> Tensor | None:
    """The tensor for which a tracer's stand-in stands, None for one that is computed on the way or cannot be told."""
    mode: Any = getattr(tensor, "fake_mode", None)
    if mode is None:
        return tensor if type(tensor) in PLAIN else None
    try:
        known = mode.fake_tensor_converter.meta_converter
        pairs = list(known.describer.lookup_tensor.items())
        found: list[Tensor] = [real for real, number in pairs if known.tensor_memo.get(number) is tensor]
    except AttributeError:  # these are insides of torch
        return None
    return found[0] if len(found) == 1 else None


def is_nowhere_negative(tensor: Tensor) -> bool:
    """Whether the graph that is being traced says so: the tensor comes out of a ReLU, perhaps through pooling.

    False where that cannot be told, and where something was overwritten since.
    """
    if torch.compiler.is_dynamo_compiling():  # which traces this code, too
        return False
    tracer: Any = sys.modules.get("torch.fx.experimental.proxy_tensor")  # nothing is traced where it is not loaded
    try:
        node = tracer.get_proxy_slot(tensor, tracer.get_proxy_mode().tracer).proxy.node
    except (AttributeError, KeyError, RuntimeError):  # nothing is traced; or the insides of torch have changed
        return False
    while _name(node) in _KEEPS_SIGN:
        node = node.args[0]
    if _name(node) not in _NOT_NEGATIVE:
        return False
    after = itertools.takewhile(lambda one: one is not node, reversed(node.graph.nodes))
    schemas = (getattr(one.target, "_schema", None) for one in after if _name(one) != "detach_")  # of a new constant
    return not any(getattr(schema, "is_mutable", False) for schema in schemas)


def _name(node: Any) -> str:
    """The ATen operator of a node, without its overload."""
    return getattr(getattr(node, "target", None), "_opname", "")


_NOT_NEGATIVE = {"relu", "relu_", "relu6", "relu6_", "sigmoid"}
_KEEPS_SIGN = {
    "adaptive_avg_pool2d", "avg_pool2d", "clone", "contiguous", "dropout", "flatten", "max_pool2d", "reshape", "view",
    "_to_copy", "to",
}  # fmt: skip


def outside_the_tracer() -> AbstractContextManager[object]:
    """A context in which real tensors are computed with while something is being traced."""
    return _disable_current_modes()


def is_plain_eager(*tensors: Tensor) -> bool:
    """True outside compilers, exporters, tracers, torch.func transforms, forward-mode AD and tensor subclasses."""
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active() or _is_traced():
        return False
    dual = forward_ad._current_level >= 0
    for tensor in tensors:
        if type(tensor) not in PLAIN or (dual and forward_ad.unpack_dual(tensor).tangent is not None):
            return False
    return True


PLAIN = (Tensor, torch.nn.Parameter)


def is_transformed_or_dual() -> bool:
    """True under torch.func transforms and tracers, and where forward-mode AD may be at work."""
    return torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0 or _is_traced()


def _is_traced() -> bool:
    """True inside ``torch.jit.trace`` and ``make_fx``."""
    return torch._C._is_tracing() or torch._C._get_dispatch_mode(_PROXY) is not None


_PROXY = torch._C._TorchDispatchModeKey.PROXY


def is_transformed(*tensors: Tensor) -> bool:
    """True under torch.func transforms and in forward-mode AD, outside compilers."""
    if torch.compiler.is_compiling():
        return False
    if torch._C._are_functorch_transforms_active():
        return True
    return any(forward_ad.unpack_dual(tensor).tangent is not None for tensor in tensors)


class Watched:
    """Tensors that several graphs share, kept outside of ``save_for_backward``, whose changes in place are noticed.

    Calling it returns them.
    """

    def __init__(self, *tensors: Tensor) -> None:
        self._tensors, self._counts = tensors, [_changes(one) for one in tensors]

    def __call__(self) -> tuple[Tensor, ...]:
        if self._counts != [_changes(one) for one in self._tensors]:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: "
                "change a copy (clone) of this result"
            )
        return self._tensors


def _changes(tensor: Tensor) -> int:
    """How often a tensor was changed in place; nobody counts where no gradient will be asked for."""
    return 0 if tensor.is_inference() else tensor._version


def remembered(make: Any, *parts: Any) -> Any:
    """``make(*parts)``, made once for each value; compilers look into it."""
    return make(*parts) if torch.compiler.is_compiling() else _make(make, *parts)


@functools.lru_cache(maxsize=4096)
def _make(make: Any, *parts: Any) -> Any:
    return make(*parts)


def whole(tensor: Tensor) -> Tensor:
    """A tensor that processes hold in parts (a DTensor, e.g. of FSDP2) as one, gathered; any other as it is.

    Gradients go back to the parts.
    """
    gather: Callable[[], Tensor] | None = getattr(tensor, "full_tensor", None)
    return tensor if gather is None else gather()


def placed(value: Tensor, like: Any) -> Tensor:
    """A DTensor split over the processes as ``like`` is; PyTorch leaves it whole where rows are few. Others as is."""
    split: Callable[..., Tensor] | None = getattr(value, "redistribute", None)
    return value if split is None else split(like.device_mesh, like.placements)


def autocast_dtype(device: torch.device) -> torch.dtype | None:
    """The dtype that autocast would run a matrix product in on this device, None where it is off."""
    kind = device.type
    if kind == "meta" or not torch.is_autocast_enabled(kind):  # meta tensors know no autocast
        return None
    return torch.get_autocast_dtype(kind)


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """A context in which matrix products keep the precision of their operands."""
    return nullcontext() if autocast_dtype(device) is None else torch.autocast(device.type, enabled=False)


@contextmanager
def on_host() -> Iterator[None]:
    """A context, or a decorator, in which new tensors are in main memory, whatever torch's default device is."""
    with torch.device("cpu"):
        yield


def needs_definition(*grads: Tensor | None) -> bool:
    """Whether a backward pass must be plain operations, as its definition has them.

    So it must where a second derivative will be asked for, and where a tensor stands for many gradients at once, as in
    ``torch.autograd.functional.jacobian(..., vectorize=True)``.
    """
    if torch.is_grad_enabled() or torch.compiler.is_compiling():  # compiled backward passes are not batched
        return torch.is_grad_enabled()
    return any(grad is not None and _is_batched(grad) for grad in grads)


_is_batched = torch._C._functorch.is_legacy_batchedtensor


def differentiated(
    define: Callable[..., Sequence[Tensor]],
    inputs: Sequence[Any],
    need: Sequence[bool],
    grads: Sequence[Tensor | None],
) -> list[Tensor | None]:
    """The gradient of each input that needs one, in a form that can be differentiated again.

    Backward passes of hand-written kernels use it under :func:`needs_definition`; ``define`` is the definition, in
    plain operations, as a function of the inputs. It is given views of them: one input may have been computed from
    another, and that way belongs to the graph outside.
    """
    with torch.enable_grad():
        views = [t.view_as(t) if needed else t for t, needed in zip(inputs, need, strict=False)]
        pairs = zip(define(*views, *inputs[len(views) :]), grads, strict=False)
        given = [(out, grad.to(out.dtype)) for out, grad in pairs if grad is not None and out.requires_grad]
        reached, upstream = [out for out, _ in given], [grad for _, grad in given]
        wanted = [view for view, needed in zip(views, need, strict=False) if needed]
        found = iter(torch.autograd.grad(reached, wanted, upstream, create_graph=True, allow_unused=True))
    return [next(found) if needed else None for needed in need]


@contextmanager
def modes_kept(*models: object) -> Iterator[list[nn.Module]]:
    """The modules of all networks among ``models``; each is back in its own mode, training or not, afterwards."""
    modes = {part: part.training for model in models if isinstance(model, nn.Module) for part in model.modules()}
    try:
        yield list(modes)
    finally:
        for part, mode in modes.items():
            part.training = mode
