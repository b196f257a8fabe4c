"""Maps of many matrices that start from the last step, and what they do if that start is too far away."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from .algorithms import is_captured
from .grouped import layout_of

Solved = tuple[Tensor, ...]  # R, then what else the map's backward pass needs


class FromLast(ABC):
    """A map and its memory, for stacks of matrices of the given shapes on one device.

    Every call checks its own result. Outside CUDA graphs the host reads the outcome and computes failed matrices from
    scratch. Inside a graph, a failed R is NaN, and :meth:`redo` computes it after the replay.

    Args:
        shapes: Shapes (..., d, d) of the parameters, in the order in which they will be passed.
        device: The device of the parameters.

    Attributes:
        failed: One integer per matrix, 1 if a call since the last start did not reach the required accuracy.
        kind: The name of the backward pass for :func:`rotate_all`.
    """

    kind: str

    def __init__(self, shapes: Sequence[torch.Size], device: torch.device) -> None:
        self.shapes, self.device = list(shapes), device
        self.layout = layout_of(shapes, device)
        self.failed = torch.zeros(len(self.layout.sizes), dtype=torch.int32, device=device)
        self.started = False

    def forget(self) -> None:
        """Make the next call start from scratch, as the first one did."""
        self.started = False
        self.failed.zero_()

    def __call__(self, raw: Sequence[Tensor]) -> list[Solved]:
        """Return R of every stack of matrices and what backward needs, without autograd."""
        if not self.started:
            self.failed.fill_(1)
            self.started = True
            return self._again(raw, [()] * len(raw))
        solved = self._from_last(raw)
        if is_captured(self.failed):
            return solved
        return self._again(raw, solved)

    def redo(self, raw: Sequence[Tensor], solved: Sequence[Solved]) -> None:
        """Replace failed matrices in ``solved``, the results of a replayed CUDA graph, by correct ones."""
        for index, (old, new) in enumerate(zip(solved, self._again(raw, solved), strict=True)):
            if new is not old:
                for one, other in zip(old, new, strict=True):
                    if one._base is not None and one._base.shape == (self.layout.total,):  # its padding is NaN, too
                        self.layout.put(one._base, self.shapes, index, other)
                    else:
                        one.copy_(other)

    def _again(self, raw: Sequence[Tensor], solved: Sequence[Solved]) -> list[Solved]:
        """Return the results with failed matrices computed from scratch; waits for the device.

        Results of parameters that are not finite stay NaN: the loss of the step tells.
        """
        failed = self.failed.tolist()
        if not any(failed):
            return list(solved)
        out, p = list(solved), 0
        for index, u in enumerate(raw):
            count = u.shape[:-2].numel()
            if any(failed[p : p + count]) and (not out[index] or bool(u.isfinite().all())):
                out[index] = self.start(index, u.detach())
            p += count
        self.failed.zero_()
        return out

    def _put(self, flat: Tensor, index: int, matrices: Tensor) -> None:
        """Make stack ``index`` inside a buffer of the layout these matrices."""
        self.layout.put(flat, self.shapes, index, matrices)

    @abstractmethod
    def start(self, index: int, u: Tensor) -> Solved:
        """Compute the result of stack ``index`` from the parameter alone, in float64; the next call starts from it."""

    @abstractmethod
    def _from_last(self, raw: Sequence[Tensor]) -> list[Solved]:
        """Compute the results from those of the last call; sets ``failed``."""
