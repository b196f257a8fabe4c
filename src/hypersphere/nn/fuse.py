"""``fuse(model)``: find operator, BatchNorm and activation in a row, and run each such row as one block.

Nothing is replaced: modules, names, ``state_dict``, hooks and optimizers stay as they are. A
:class:`torch.nn.Sequential` gets a forward pass that takes neighbours together; in a module with a
custom forward pass the operator computes what follows it, which then hands its input on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd

from .._core.errors import check_model
from .absorb import absorb, is_hooked, release, rows_of
from .block import ACTIVATIONS, Parts, is_activation, is_norm, pool, run, wants_channels_last
from .layer import Decoupled

_ANY_ORDER = (  # modules that take maps in any order of their axes in memory
    *ACTIVATIONS, nn.Dropout, nn.Dropout2d, nn.BatchNorm2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.Flatten,
)  # fmt: skip


@dataclass
class Fusion:
    """What :func:`fuse` found in a model.

    Attributes:
        blocks: Names of the modules of each block, operator first.
        alone: Names of operators that kernels run without a following module, because none fits into the block.
        left: Names of operators that no kernel supports, with the reason.

    Example:
        >>> model = hs.nn.fuse(nn.Sequential(hs.nn.SphereConv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()))
        >>> model.fusion.blocks
        [('0', '1', '2')]
    """

    blocks: list[tuple[str, ...]] = field(default_factory=list)
    alone: list[str] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"{len(self.blocks)} blocks fused, {len(self.alone)} operators alone, {len(self.left)} left plain"]
        lines += ["  " + " + ".join(names) for names in (*self.blocks, *((name,) for name in self.alone))]
        lines += [f"  {name}: {why}" for name, why in self.left.items()]
        return "\n".join(lines)


def fuse(model: nn.Module) -> nn.Module:
    """Let a model's operators run together with the BatchNorm and the activation that follow them.

    The model computes the same function. On a GPU with Triton each row of operator, BatchNorm and
    activation becomes a few kernels; elsewhere, and under ``torch.export`` and ``torch.func``, the modules
    run one after the other as before. BatchNorm and the activation may each be missing.

    Rows are found between neighbours in :class:`torch.nn.Sequential`, and in modules whose forward pass
    can be traced, such as residual units with ``conv1``, ``bn1`` and ``relu`` as attributes. There ``conv1`` computes
    all three, also if it is called outside of that forward pass. A forward hook on one of the modules separates them.
    So does a change of a number, bool, string or None that the forward pass reads from an attribute of its module
    (``if self.use_bn``). Values that it reads from elsewhere, such as an object with settings, must be set before you
    fuse.

    Args:
        model: Any model; it is changed in place.

    Returns:
        The same model; what was found is in its attribute ``fusion``, a :class:`Fusion` that can be printed.

    Raises:
        TypeError: If ``model`` is not a module.

    Example:
        >>> import hypersphere as hs
        >>> model = hs.nn.fuse(nn.Sequential(hs.nn.SphereConv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()))
        >>> print(model.fusion)
        1 blocks fused, 0 operators alone, 0 left plain
          0 + 1 + 2
    """
    check_model(model)
    report = Fusion()
    release(model)
    names = {id(module): name for name, module in model.named_modules()}
    taken: set[int] = set()
    for module in list(model.modules()):
        if type(module) is nn.Sequential:
            module.__class__ = FusedSequential
        if isinstance(module, FusedSequential):
            for part in _blocks(_flat(module)):
                if isinstance(part, Parts) and id(part.op) not in taken:
                    taken.add(id(part.op))
                    _note(report, part, names)
    uses = Counter(id(child) for module in model.modules() for child in module._modules.values())
    for module in list(model.modules()):
        if not isinstance(module, FusedSequential) and any(isinstance(m, Decoupled) for m in module.children()):
            rows, read = rows_of(module, uses)
            for part, shared in rows:
                if id(part.op) not in taken:
                    taken.add(id(part.op))
                    absorb(module, part, shared, read)
                    _note(report, part, names)
    for module in model.modules():
        if isinstance(module, Decoupled) and id(module) not in taken:
            _note(report, Parts(module, *(module.follows or ())), names)
    object.__setattr__(model, "fusion", report)
    return model


def blocks_of(model: nn.Module) -> list[Parts]:
    """The operators of a fused model, each once, with what follows it."""
    found: dict[int, Parts] = {}
    for module in model.modules():
        if isinstance(module, FusedSequential):
            for part in _blocks(_flat(module)):
                if isinstance(part, Parts):
                    found.setdefault(id(part.op), part)
    for module in model.modules():
        if isinstance(module, Decoupled) and module.reads_itself:
            found.setdefault(id(module), Parts(module, *(module.follows or ())))
    return list(found.values())


def is_row_of_blocks(model: nn.Module) -> bool:
    """Whether a model is a row of layers in which kernels can compute every operator with what follows it."""
    parts = blocks_of(model)
    taken = {id(module) for part in parts for module in part if module is not None}
    for module in model.modules():
        if isinstance(module, _ConvNd | _BatchNorm) and id(module) not in taken:
            return False
        in_a_row = isinstance(module, nn.Sequential | Decoupled) or module is model
        if not in_a_row and any(True for _ in module.children()):
            return False
    return bool(parts) and all(part.op.why_plain() is None for part in parts)


def _note(report: Fusion, part: Parts, names: dict[int, str]) -> None:
    name = names.get(id(part.op), "")
    why = part.op.why_plain()
    if why is not None:
        report.left[name] = why
    elif part.norm is None and part.act is None:
        report.alone.append(name)
    else:
        report.blocks.append(tuple(names.get(id(m), "") for m in part if m is not None))


class FusedSequential(nn.Sequential):
    """A Sequential whose neighbours run as blocks; it has no parameters itself."""

    def forward(self, input: Tensor) -> Tensor:
        if isinstance(input, torch.fx.Proxy):
            return super().forward(input)  # a graph has a node for each of them
        x, q = input, None
        steps = list(_blocks(_flat(self))) if torch.compiler.is_compiling() else _steps(self)
        move = wants_channels_last(input) and any(isinstance(s, Parts) and s.op.weight.dim() == 4 for s in steps)
        for i, step in enumerate(steps):
            read_on = i + 1 < len(steps) and type(steps[i + 1]) is Parts
            if type(step) is Parts:
                if move and step.op.weight.dim() == 4:
                    x = x.contiguous(memory_format=torch.channels_last)
                x, q = run(step, x, q, read_on)
            elif type(step) is nn.MaxPool2d and not is_hooked(step):
                x, q = pool(step, x, read_on)
            else:
                x, q = step(x.contiguous() if move and type(step) not in _ANY_ORDER else x), None
            move = move and isinstance(x, Tensor) and x.dim() == 4
        return x.contiguous() if move else x

    def _get_name(self) -> str:
        return "Sequential"


def _steps(module: FusedSequential) -> list[Any]:
    """What :func:`_blocks` finds, as long as modules, classes and hooks are the same."""
    known = _STEPS.get(module)
    if known is None or not known.holds(module):
        known = _STEPS[module] = _Steps(module)
    return known.steps


class _Steps:
    """The steps of a Sequential, and what they were found from."""

    __slots__ = ("containers", "members", "own", "steps")

    def __init__(self, module: nn.Module) -> None:
        inner, flat = list(_inner(module)), list(_flat(module))
        self.own = list(module._modules.values())
        self.containers = [(one, list(one._modules.values())) for one in inner]
        self.members = [(one, one.__class__, is_hooked(one)) for one in (*inner, *flat)]
        self.steps = list(_blocks(iter(flat)))

    def holds(self, module: nn.Module) -> bool:
        if list(module._modules.values()) != self.own:
            return False
        for one, before in self.containers:
            if list(one._modules.values()) != before:
                return False
        for module, kind, hooked in self.members:
            if module.__class__ is not kind or is_hooked(module) is not hooked:
                return False
        return True


_STEPS: WeakKeyDictionary[FusedSequential, _Steps] = WeakKeyDictionary()


def _inner(module: nn.Module) -> Iterator[nn.Module]:
    """The Sequentials inside one, at any depth."""
    for child in module._modules.values():
        if child is not None and _runs_in_order(child):
            yield child
            yield from _inner(child)


def _flat(module: nn.Module) -> Iterator[nn.Module]:
    """The modules of a Sequential in order, those of Sequentials inside it among them."""
    for child in module._modules.values():
        if child is None:
            continue
        if _runs_in_order(child) and not is_hooked(child):
            yield from _flat(child)
        else:
            yield child


def _runs_in_order(module: nn.Module) -> bool:
    """Whether the forward pass is that of a Sequential; a scripted class has none to look at."""
    return getattr(type(module), "forward", None) in (nn.Sequential.forward, FusedSequential.forward)


def _blocks(modules: Iterator[nn.Module]) -> Iterator[Any]:
    """The same with rows of operator, BatchNorm, activation as :class:`Parts`."""
    op: Decoupled | None = None
    norm: Any = None
    for module in modules:
        if type(module) is nn.Identity and not is_hooked(module):
            continue
        if op is not None:
            if norm is None and is_norm(module) and not is_hooked(module):
                norm = module
                continue
            if is_activation(module) and not is_hooked(module):
                yield Parts(op, norm, module)
                op = norm = None
                continue
            yield Parts(op, norm)
            op = norm = None
        if isinstance(module, Decoupled) and module.reads_itself and not is_hooked(module) and module.follows is None:
            op = module
        else:
            yield module
    if op is not None:
        yield Parts(op, norm)
