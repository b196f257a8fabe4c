"""Operators that compute the modules after them in a forward pass of the user's own, and what those do then.

out = self.relu(self.bn1(self.conv1(x)))      conv1 computes all three; bn1 and relu hand their input on
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch import Tensor, nn

from .block import Parts, is_activation, is_norm
from .layer import Decoupled, is_rectified


def is_layer(module: Decoupled) -> bool:
    """Whether this is a layer, not only a part of one."""
    return type(module).read is not Decoupled.read


def is_hooked(module: nn.Module) -> bool:
    """Whether a call of this module does more than its class says."""
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        or "forward" in module.__dict__
    )


def absorb(part: Parts, shared: bool) -> None:
    """Let the operator compute what follows it, and let that hand its input on."""
    part.op.follows = (part.norm, part.act)
    for module, called_elsewhere in ((part.norm, False), (part.act, shared)):
        if module is not None and not isinstance(module, _HandsOn):
            change_class(module, _handing_on(type(module), called_elsewhere))


def change_class(module: nn.Module, cls: type[nn.Module]) -> None:
    """Make a module one of another class; what an operator computes with it stays computed there."""
    module.__class__ = _handing_on(cls, module.shared) if isinstance(module, _HandsOn) else cls


class _HandsOn:
    """Mixin of a module that an operator has already computed: it hands its input on."""

    shared = False

    def forward(self, input: Tensor) -> Tensor:
        return input


class _HandsOnWhatIsDone(_HandsOn):
    """Mixin of a ReLU that is called for other inputs, too: those it rectifies."""

    shared = True

    def forward(self: Any, input: Tensor) -> Tensor:
        return input if is_rectified(input) else self.plain.forward(self, input)


def _handing_on(cls: type[nn.Module], shared: bool) -> type[nn.Module]:
    if (cls, shared) not in _MADE:
        bases = (_HandsOnWhatIsDone if shared else _HandsOn, cls)
        names = {"__module__": __name__, "__reduce_ex__": _reduce, "plain": cls}
        _MADE[cls, shared] = type(cls.__name__, bases, names)
    return _MADE[cls, shared]


_MADE: dict[tuple[type[nn.Module], bool], type[nn.Module]] = {}


def _reduce(self: Any, protocol: int) -> Any:
    """Pickled as the plain class and changed back: the class itself is made at run time."""
    return _restore, (self.plain, self.shared), self.__dict__


def _restore(cls: type[nn.Module], shared: bool = False) -> nn.Module:
    made = _handing_on(cls, shared)
    return made.__new__(made)


def rows_of(module: nn.Module, uses: Counter[int]) -> list[tuple[Parts, bool]]:
    """Rows in the forward pass of a module: each link has one reader, each module one call in all of the model.

    Only a ReLU may be called elsewhere, too, as in most ResNets: whether it is comes with the row.
    """
    try:
        graph = _Tracer().trace(module)
    except Exception:  # control flow, other kinds of arguments: nothing can be said about it
        return []
    calls = Counter(node.target for node in graph.nodes if node.op == "call_module")
    children = {
        name: (child, calls[name] > 1 or uses[id(child)] > 1)
        for name, child in module.named_children()
        if not is_hooked(child)
    }

    def after(node: Any, fits: Any) -> tuple[Any, Any, bool]:
        """The module that alone reads a node, if it fits, its own node, and whether it is called elsewhere."""
        reader = node
        while len(reader.users) == 1:
            (reader,) = reader.users
            found, shared = children.get(str(reader.target), (None, False)) if reader.op == "call_module" else (None, 0)
            if type(found) is not nn.Identity:
                known = fits is is_activation and isinstance(found, _HandsOnWhatIsDone)
                taken = known or (found is not None and fits(found) and (not shared or type(found) is nn.ReLU))
                return (found, reader, bool(shared)) if taken else (None, node, False)
        return None, node, False

    rows = []
    for node in graph.nodes:
        op, shared = children.get(str(node.target), (None, True)) if node.op == "call_module" else (None, True)
        if isinstance(op, Decoupled) and is_layer(op) and not shared and op.follows is None:
            norm, last, _ = after(node, is_norm)
            act, _, shared = after(last, is_activation)
            if norm is not None or act is not None:
                rows.append((Parts(op, norm, act), shared))
    return rows


class _Tracer(torch.fx.Tracer):
    """Looks into one forward pass only: every child is a leaf."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return True
