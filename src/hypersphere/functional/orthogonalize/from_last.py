"""Maps of many matrices that start from the last step, and what they do where that start is too far away."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from .algorithms import is_captured
from .grouped import layout_of

__all__ = ["FromLast", "Solved"]

Solved = tuple[Tensor, ...]  # R, then what the map's backward pass needs besides


class FromLast(ABC):
    """A map and its memory, for stacks of matrices of the given shapes on one device.

    Every call looks at how well it ended. Outside of CUDA graphs the host looks too, and starts again where it did not
    end well. Inside one, the R of such a call is NaN, so that its step can be done again outside.

    Args:
        shapes: Of the parameters (..., d, d), in the order in which they will be given.
        device: Where they are.

    Attributes:
        failed: One integer a matrix, 1 if a call since the last start could not reach the accuracy.
        kind: What :func:`rotate_all` calls the backward pass.
    """

    kind: str

    def __init__(self, shapes: Sequence[torch.Size], device: torch.device) -> None:
        self.shapes, self.device = list(shapes), device
        self.layout = layout_of(shapes, device)
        self.failed = torch.zeros(len(self.layout.sizes), dtype=torch.int32, device=device)
        self.started = False

    def forget(self) -> None:
        """Let the next call start from nothing, as the first one did."""
        self.started = False
        self.failed.zero_()

    def __call__(self, raw: Sequence[Tensor]) -> list[Solved]:
        """R of every stack of matrices and what backward needs; no autograd."""
        if not self.started:
            self.failed.fill_(1)
            self.started = True
            return self._again(raw, [()] * len(raw))
        solved = self._from_last(raw)
        if is_captured(self.failed):
            return solved
        return self._again(raw, solved)

    def redo(self, raw: Sequence[Tensor], solved: Sequence[Solved]) -> None:
        """Put into ``solved``, what a CUDA graph left there, the right results of matrices that failed."""
        for old, new in zip(solved, self._again(raw, solved), strict=True):
            if new is not old:
                torch._foreach_copy_(list(old), list(new))

    def _again(self, raw: Sequence[Tensor], solved: Sequence[Solved]) -> list[Solved]:
        """The same with those from the beginning that failed; waits for the device."""
        failed = self.failed.tolist()
        if not any(failed):
            return list(solved)
        out, p = list(solved), 0
        for index, u in enumerate(raw):
            count = u.shape[:-2].numel()
            if any(failed[p : p + count]):
                out[index] = self.start(index, u.detach())
            p += count
        self.failed.zero_()
        return out

    def _view(self, flat: Tensor, index: int) -> Tensor:
        """Stack ``index`` inside a buffer of the layout."""
        return self.layout.views(flat, self.shapes)[index]

    @abstractmethod
    def start(self, index: int, u: Tensor) -> Solved:
        """The result of stack ``index`` from the parameter alone, in float64; the next call goes on from there."""

    @abstractmethod
    def _from_last(self, raw: Sequence[Tensor]) -> list[Solved]:
        """The result from that of the last call; sets ``failed``."""
