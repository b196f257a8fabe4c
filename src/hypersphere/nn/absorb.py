"""Operators that compute the modules after them in a forward pass of the user's own, and what those do then.

out = self.relu(self.bn1(self.conv1(x)))      conv1 computes all three; bn1 and relu hand their input on
"""

from __future__ import annotations

import copy
import inspect
import itertools
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import NoneType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook

from .block import Parts, is_activation, is_norm
from .layer import Decoupled, as_node, is_rectified


def is_hooked(module: nn.Module) -> bool:
    """Whether a call of this module does more than its class says."""
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        or "forward" in module.__dict__
        or _has_any_global_hook()  # of torch.nn.modules.module.register_module_forward_hook and its like
    )


class Row:
    """Names of an operator of a module, and of the BatchNorm and the activation of that module that it computes.

    The three stay modules that others may replace or hook: then each computes its own part again. So it does while an
    attribute that the forward pass reads (``read``) has another value than when the row was found, or while another
    module has taken the place of an ``nn.Identity`` over which the row may lead (``passed``), or that is hooked.
    """

    def __init__(self, owner: nn.Module, part: Parts, read: dict[str, Any]) -> None:
        names = {id(child): name for name, child in owner.named_children()}
        self.names = tuple(names.get(id(module)) for module in part)
        self.read = tuple(read.items())
        children = owner.named_children()
        self.passed = tuple(name for name, one in children if type(one) is nn.Identity and not is_hooked(one))
        self._owner: Any = weakref.ref(owner)

    def now(self, caller: nn.Module | None = None) -> tuple[Any, Any] | None:
        """BatchNorm and activation, None where one of the three is no longer what it was, or the caller a replica."""
        owner = self._owner()
        if owner is None or (caller is not None and "_is_replica" in caller.__dict__):  # of torch.nn.DataParallel
            return None
        for name, value in self.read:
            present = getattr(owner, name, self)
            if type(present) is not type(value) or present != value:
                return None
        (op, norm, act), children = self.names, owner._modules
        for name in self.passed:
            child: Any = children.get(name)
            if type(child) is not nn.Identity or is_hooked(child):
                return None
        if not _is_part(children.get(op), self):
            return None
        if norm is not None and not _is_part(children.get(norm), self):
            return None
        if act is not None and not _is_part(children.get(act), self):
            return None
        return children.get(norm), children.get(act)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.now() or (None, None))

    def __getstate__(self) -> tuple[Any, ...]:
        # an operator that is copied or saved by itself does not take its module along
        return self.names, (self.read, self.passed)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.names, rest = state
        self.read, self.passed = rest or ((), ())  # None in files of earlier versions
        self.belongs_to(None)

    def belongs_to(self, owner: nn.Module | None) -> None:
        """The module whose names these are."""
        self._owner = _reference(owner)


class _Rows:
    """The rows of a module, kept in it: a copy of the module, or one read from a file, is the module of its rows."""

    def __init__(self, owner: nn.Module) -> None:
        self._owner: Any = weakref.ref(owner)
        self.rows: list[Row] = []

    def __getstate__(self) -> tuple[Any, ...]:
        return self._owner(), self.rows

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        owner, self.rows = state
        self._owner = _reference(owner)
        for row in self.rows:
            row.belongs_to(owner)


def _reference(owner: nn.Module | None) -> Any:
    """A weak reference to the module of a row, or to none."""
    return _no_owner if owner is None else weakref.ref(owner)


def _no_owner() -> None:
    """In place of a reference to the module of a row."""


def _is_part(module: Any, row: Row) -> bool:
    is_known = getattr(module, "follows", None) is row or isinstance(module, _HandsOnWhatIsDone)
    return is_known and not is_hooked(module)


def absorb(owner: nn.Module, part: Parts, shared: bool, read: dict[str, Any]) -> None:
    """Let the operator compute what follows it in a module, and let that hand its input on."""
    row = part.op.follows = Row(owner, part, read)
    vars(owner).setdefault("_fused_rows", _Rows(owner)).rows.append(row)
    for module, called_elsewhere in ((part.norm, False), (part.act, shared)):
        if module is not None and not isinstance(module, _HandsOn):
            change_class(module, _handing_on(type(module), called_elsewhere))
        if module is not None and not called_elsewhere:
            module.follows = row  # type: ignore[assignment]


def release(model: nn.Module) -> None:
    """Forget the rows of which a module was replaced or hooked."""
    for module in list(model.modules()):
        row = getattr(module, "follows", None)
        if isinstance(row, Row) and row.now() is None:
            module.follows = None  # type: ignore[assignment]
            module.__class__ = getattr(type(module), "plain", type(module))


def change_class(module: nn.Module, cls: type[nn.Module]) -> None:
    """Make a module one of another class; what an operator computes with it stays computed there."""
    module.__class__ = _handing_on(cls, module.shared) if isinstance(module, _HandsOn) else cls


class _HandsOn:
    """Mixin of a module that an operator has already computed: it hands its input on."""

    shared = False
    follows: Row | None = None

    def forward(self: Any, input: Tensor) -> Tensor:
        if isinstance(input, torch.fx.Proxy):
            return as_node(self, input)  # which does the same, also where the graph outlives what it was traced from
        row = self.follows
        return self.plain.forward(self, input) if row is not None and row.now(self) is None else input


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


def rows_of(module: nn.Module, uses: Counter[int]) -> tuple[list[tuple[Parts, bool]], dict[str, Any]]:
    """Rows in the forward pass of a module: each link has one reader, each module one call in all of the model.

    Only a ReLU may be called elsewhere, too, as in most ResNets: whether it is comes with the row. A forward pass may
    ask whether it is training, and which of its optional arguments are given: rows are those that it has either way.
    It may also ask for attributes of the module: the rows hold for the values that come with them.
    """
    found, noted = None, _Noted()
    for training, given in itertools.product((True, False), _ways_to_call(module)):
        rows = _rows(module, uses, training, given, noted)
        found = rows if found is None else [row for row in found if row in rows]
        if not found:
            break
    return found or [], noted.values(module)


class _Noted:
    """Attributes that a forward pass reads, and those that it writes itself, such as a counter of calls."""

    def __init__(self) -> None:
        self.read: set[str] = set()
        self.written: set[str] = set()

    @contextmanager
    def during(self, module: nn.Module) -> Iterator[None]:
        """Note what happens inside. The class is changed for it: reads of plain attributes can be seen nowhere else."""
        kind: Any = type(module)
        usual, is_own, before = kind.__getattribute__, "__getattribute__" in vars(kind), dict(vars(module))

        def look(self_: nn.Module, name: str) -> Any:
            if self_ is module:
                self.read.add(name)
            return usual(self_, name)

        kind.__getattribute__ = look
        try:
            yield
        finally:
            if is_own:
                kind.__getattribute__ = usual
            else:
                del kind.__getattribute__
            self.written |= {name for name, value in vars(module).items() if before.get(name, self) is not value}

    def values(self, module: nn.Module) -> dict[str, Any]:
        """Those that are read only, where they are plain values of the module and not of ``torch.nn.Module``."""
        names = self.read - self.written - _OF_TORCH
        found = {name: inspect.getattr_static(module, name, module) for name in sorted(names)}
        found |= {name: None for name in names if module._modules.get(name, module) is None}
        return {name: value for name, value in found.items() if type(value) in _PLAIN}


_PLAIN = (NoneType, bool, int, float, str)
_OF_TORCH = {*dir(nn.Module())}


def _ways_to_call(module: nn.Module) -> list[dict[str, Any]]:
    """What optional arguments may be: the default, or else anything; each of both, if there are few of them."""
    options = inspect.signature(module.forward).parameters.values()
    plain = [one for one in options if type(one.default) in _PLAIN]
    defaults: list[dict[str, Any]] = [{one.name: one.default} for one in plain]
    others = [{one.name: not one.default} if type(one.default) is bool else {} for one in plain]
    pairs = list(zip(defaults, others, strict=True))
    chosen = itertools.product(*pairs) if len(pairs) <= _FEW else iter((defaults, others))
    return [{name: value for one in way for name, value in one.items()} for way in chosen]


_FEW = 4


@contextmanager
def _untouched(module: nn.Module) -> Iterator[None]:
    """What is noted on a module inside, also in its lists and dictionaries, or counted in its buffers, is undone."""
    before = dict(vars(module))
    inside = [(value, copy.copy(value)) for value in before.values() if type(value) in (list, dict)]
    buffers = [(one, one.clone()) for one in module.buffers(recurse=False) if not one.is_inference()]
    try:
        yield
    finally:
        vars(module).clear()
        vars(module).update(before)
        for value, copied in inside:
            value.clear()
            value.extend(copied) if isinstance(value, list) else value.update(copied)
        with torch.no_grad():
            for buffer, copied in buffers:
                buffer.copy_(copied)


def _rows(
    module: nn.Module, uses: Counter[int], training: bool, given: dict[str, Any], attributes: _Noted
) -> list[tuple[Parts, bool]]:
    with _untouched(module):
        module.training = training
        try:
            with attributes.during(module):
                graph = _Tracer().trace(module, given)
        except Exception:  # control flow, other kinds of arguments: nothing can be said about it
            return []
        noted = _noted_nodes(vars(module).values())
    calls = Counter(node.target for node in graph.nodes if node.op == "call_module")
    children = {
        name: (child, calls[name] > 1 or uses[id(child)] > 1)
        for name, child in module.named_children()
        if not is_hooked(child)
    }

    def after(node: Any, fits: Any) -> tuple[Any, Any, bool]:
        """The module that alone reads a node, if it fits, its own node, and whether it is called elsewhere."""
        reader = node
        while len(reader.users) == 1 and reader not in noted:
            (reader,) = reader.users
            if reader.meta["modes"] != node.meta["modes"]:
                break
            found, shared = children.get(str(reader.target), (None, False)) if reader.op == "call_module" else (None, 0)
            if type(found) is not nn.Identity:
                known = fits is is_activation and isinstance(found, _HandsOnWhatIsDone)
                taken = known or (found is not None and fits(found) and (not shared or type(found) is nn.ReLU))
                return (found, reader, bool(shared)) if taken else (None, node, False)
        return None, node, False

    rows = []
    for node in graph.nodes:
        op, shared = children.get(str(node.target), (None, True)) if node.op == "call_module" else (None, True)
        if isinstance(op, Decoupled) and op.reads_itself and not shared and op.follows is None:
            norm, last, _ = after(node, is_norm)
            act, _, shared = after(last, is_activation)
            if norm is not None or act is not None:
                rows.append((Parts(op, norm, act), shared))
    return rows


def _noted_nodes(values: Iterable[Any]) -> set[torch.fx.Node]:
    """Nodes whose results a forward pass keeps in attributes, or in lists and the like, for others to look at."""
    found: set[torch.fx.Node] = set()
    for value in values:
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else (value,)
        found.update(one.node for one in inner if isinstance(one, torch.fx.Proxy))
    return found


class _Tracer(torch.fx.Tracer):
    """Looks into one forward pass only: every child is a leaf. Notes in which modes each node was made."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return True

    def create_node(self, *args: Any, **kwargs: Any) -> torch.fx.Node:
        node = super().create_node(*args, **kwargs)
        casts = [torch.is_autocast_enabled(device) for device in ("cuda", "cpu")]
        node.meta["modes"] = (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), *casts)
        return node
