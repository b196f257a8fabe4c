"""The orthogonal matrices of a model that a GPU computes together, each starting from its result of the last step.

Layers ask for their R one by one. The first request of a step computes all matrices that were requested in earlier
steps; the other layers then find theirs ready. A layer's first request ever is computed alone, by an exact solve.
Mistakes here cannot make R wrong: the computation checks every start it is given.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..functional.orthogonalize import FromLast, Solved, WarmCayley, WarmPolar, WarmQR, usable

if TYPE_CHECKING:
    from ._blocks import BlockMatrix

_FROM_LAST: dict[str, Callable[..., FromLast]] = {
    "gram_schmidt": WarmQR,
    "householder": partial(WarmQR, householder=True),
    "lowdin": WarmPolar,
}
JOINT = {"cayley": "orthogonal", "gram_schmidt": "qr", "householder": "qr", "lowdin": "lowdin"}
"""Maps that start from the last step, and the family of their kernels."""

Key = list[tuple[Tensor, int, int]]  # parameter, version, address
_PATIENCE = 8  # for how many steps a matrix that is no longer read is still computed
_WIDEST = 4096.0  # row sums of |A| beyond which a cold start needs too many steps: exact solves from there on

_log = logging.getLogger("hypersphere")


class Peers:
    """Which matrices are computed together, and their state on the device.

    A copy or a pickle is empty: the copied layers form a new group when they request their R.
    """

    def __init__(self) -> None:
        self._together: list[weakref.ref[BlockMatrix]] = []
        self._asked: dict[int, weakref.ref[BlockMatrix]] = {}
        self._idle: dict[int, int] = {}
        self._results: dict[int, tuple[Key, list[Solved]]] = {}
        self._warm: WarmCayley | FromLast | None = None
        self._watch: tuple[Tensor, torch.cuda.Event] | None = None
        self._alone = False
        self._recorded: list[Solved] | None = None  # what a graph computes

    def solve(self, blocks: BlockMatrix) -> list[Solved] | None:
        """R of ``blocks``, one for each size; None if it must be computed alone."""
        if self._alone or not _fits(blocks):
            return None
        found = self._results.get(id(blocks))
        if found is not None and is_same(found[0], blocks.key()):
            self._asked.setdefault(id(blocks), weakref.ref(blocks))
            return found[1]
        begun = id(blocks) in self._asked  # requested before, so this is another step
        if begun and self._regroup(torch.cuda.is_current_stream_capturing(), blocks):
            self._compute()
        self._asked.setdefault(id(blocks), weakref.ref(blocks))
        found = self._results.get(id(blocks))
        return None if found is None else found[1]

    def join(self, blocks: BlockMatrix) -> None:
        """Announce that ``blocks`` will be requested in this step, so that it is computed with the others at once."""
        if not self._alone and _fits(blocks):
            self._asked.setdefault(id(blocks), weakref.ref(blocks))

    def forget(self) -> None:
        """Drop the matrices of this step, but keep what the next step starts from."""
        self._results.clear()

    def restart(self) -> None:
        """Make the next step depend on the parameters alone."""
        self._results.clear()
        self._alone = False
        warm, members = self._warm, [ref() for ref in self._together]
        if warm is not None:
            warm.forget()
        if isinstance(warm, FromLast) and None not in members:  # a replayed graph cannot start from scratch
            with torch.no_grad():
                warm([raw.detach() for blocks in members if blocks is not None for raw in blocks.raw])

    def failed(self) -> bool:
        """Whether a step since the last :meth:`restart` could not be computed; waits for the device."""
        return self._warm is not None and bool(self._warm.failed.any())

    @property
    def kind(self) -> str:
        """How the gradients of what :meth:`solve` returned are computed."""
        return getattr(self._warm, "kind", "cayley")

    @property
    def can_be_recorded(self) -> bool:
        """Whether a CUDA graph can compute the matrices from those of the last step (and :meth:`settle` the others)."""
        started = self._warm is not None and getattr(self._warm, "started", True) and not self._alone
        return started and all(ref() is not None for ref in self._together)

    def record(self) -> Tensor:
        """Compute all matrices inside the CUDA graph being recorded; a flag on the device, 1 if one failed."""
        self._recorded = self._compute()
        assert self._warm is not None  # it can be recorded
        return self._warm.failed.amax()

    def settle(self) -> None:
        """Compute the matrices that failed in a replay of what :meth:`record` recorded; waits for the device."""
        members = [ref() for ref in self._together]
        if self._warm is not None and self._recorded is not None:
            with torch.no_grad():
                raw = [raw.detach() for blocks in members if blocks is not None for raw in blocks.raw]
                self._warm.redo(raw, self._recorded)

    def _regroup(self, captured: bool, first: BlockMatrix) -> bool:
        """Add blocks requested since the last computation, drop those long unused; False if nothing can be computed."""
        if captured:  # what a graph records must not be replaced
            members = [ref() for ref in self._together]
            return self._warm is not None and first in members and None not in members
        members = [ref() for ref in self._together]
        for blocks in members:
            if blocks is not None:
                self._idle[id(blocks)] = 0 if id(blocks) in self._asked else self._idle.get(id(blocks), 0) + 1
        kept = [b for b in members if b is not None and self._idle[id(b)] < _PATIENCE and _fits(b)]
        for ref in self._asked.values():
            blocks = ref()
            if blocks is not None and blocks not in kept:
                kept.append(blocks)
        kept = [b for b in kept if b.raw[0].device == first.raw[0].device and b.name == first.name]
        self._asked = {}
        shapes = [raw.shape for blocks in kept for raw in blocks.raw]
        warm = self._warm
        if warm is None or kept != members or warm.shapes != shapes or warm.device != first.raw[0].device:
            self._together = [weakref.ref(blocks) for blocks in kept]
            self._idle = {id(blocks): 0 for blocks in kept}
            self._watch = None
            if first.name != "cayley":
                self._warm = _FROM_LAST[first.name](shapes, first.raw[0].device)
                return True
            self._warm = WarmCayley(shapes, first.raw[0].device)
            self._alone = not _widest(kept) < _WIDEST  # the host waits here, once for each group
            return not self._alone
        return not self._looks_bad()

    def _compute(self) -> list[Solved]:
        warm, members = self._warm, [ref() for ref in self._together]
        if warm is None:
            return []
        alive = [blocks for blocks in members if blocks is not None]
        with torch.no_grad():
            found = warm([raw.detach() for blocks in alive for raw in blocks.raw])
        solved: list[Solved] = [(one,) if isinstance(one, Tensor) else one for one in found]
        self._results.clear()
        rest = solved
        for blocks in alive:
            own, rest = rest[: len(blocks.raw)], rest[len(blocks.raw) :]
            self._results[id(blocks)] = blocks.key(), own
        if isinstance(warm, WarmCayley) and not torch.cuda.is_current_stream_capturing():
            self._look_later(warm)
        return solved

    def _look_later(self, warm: WarmCayley) -> None:
        """Start copying the outcome to the host, without waiting for it."""
        host = torch.empty(2, device="cpu", pin_memory=True)
        host.copy_(warm.outcome(), non_blocking=True)
        event = torch.cuda.Event()
        event.record()
        self._watch = host, event

    def _looks_bad(self) -> bool:
        """Whether the last outcome that has arrived says that exact solves are needed from now on."""
        if self._watch is None or not self._watch[1].query():
            return False
        failed, widest = self._watch[0].tolist()
        if failed:
            _log.warning("a Cayley matrix changed too much in one step to be computed; it was NaN in that step")
        self._alone = bool(failed) or not widest < _WIDEST
        return self._alone

    def __deepcopy__(self, memo: dict[int, Any]) -> Peers:
        memo[id(self)] = fresh = Peers()
        return fresh

    def __reduce__(self) -> tuple[Any, ...]:
        return Peers, ()


def _widest(members: list[BlockMatrix]) -> float:
    """The largest row sum of |A|."""
    sums = []
    for blocks in members:
        for raw in blocks.raw:
            lower = raw.detach().tril(-1).abs()
            sums.append((lower + lower.mT).sum(-1).amax())
    return float(torch.stack(sums).amax())


def _fits(blocks: BlockMatrix) -> bool:
    return all(usable(raw, JOINT[blocks.name]) for raw in blocks.raw)


def is_same(old: Key, new: Key) -> bool:
    return len(old) == len(new) and all(
        a is b and (v, p) == (w, q) for (a, v, p), (b, w, q) in zip(old, new, strict=True)
    )
