"""Steps that change nothing where an orthogonal matrix failed, so that the host may learn of it later.

The device decides: with the flag of :class:`hypersphere.orthogonal.Recorded` set, the optimizers leave weights and
states as they are (as after an overflow under a gradient scaler), and the buffers get back what they held. The flag
stays set, so all steps that were asked for meanwhile change nothing either, and the step in question can be done again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from ..orthogonal import Recorded
from .optimizer import Optimizers

_WATCHED = 64  # steps after a failure for which the host waits: where one matrix fails, others often do


class Matrices:
    """The recorded matrices of a step.

    Args:
        recorded: Their graph and its flag.
        late: Whether the host finds failures out later; else it waits after each replay.
    """

    def __init__(self, recorded: Recorded, late: bool) -> None:
        self.recorded, self._late, self._watched = recorded, late, 0

    def replay(self) -> None:
        """Compute the matrices; while the host waits, those that failed too."""
        self.recorded.replay()
        if not self._late or self._watched:
            self._watched = max(self._watched - 1, 0)
            self.settle()

    def settle(self) -> None:
        """Wait for the matrices, and compute those that failed from scratch."""
        if self.recorded.settle():
            self._watched = _WATCHED

    def failed(self, wait: bool) -> bool:
        """Whether a step was not done, as far as the host knows, or the device if it may ``wait``."""
        return self._late and self.recorded.found(wait)

    @contextmanager
    def undoing(self, modules: list[nn.Module], optimizers: Optimizers, goes: Tensor) -> Iterator[None]:
        """Undo what the work inside does to weights, optimizers and buffers, if a matrix has failed.

        Args:
            modules: Whose buffers the work may write to.
            optimizers: What steps inside.
            goes: Becomes 1 if the step counts, else 0.
        """
        if not self._late:
            yield
            return
        goes.copy_(self.recorded.failed == 0)
        groups = list(_buffers(modules).values())
        before = [_flat(group) for group in groups]
        optimizers.skip_where(self.recorded.failed)
        yield
        optimizers.skip_where(None)
        for group, old in zip(groups, before, strict=True):
            kept = torch.where(goes > 0, _flat(group), old).split([buffer.numel() for buffer in group])
            torch._foreach_copy_(group, [part.view(buffer.shape) for part, buffer in zip(kept, group, strict=True)])


def _flat(group: list[Tensor]) -> Tensor:
    return torch.cat([buffer.reshape(-1) for buffer in group])


def _buffers(modules: list[nn.Module]) -> dict[torch.dtype, list[Tensor]]:
    """The buffers by dtype, without the fixed neurons of attached weights, which no step writes to."""
    found: dict[torch.dtype, dict[int, Tensor]] = {}
    for module in (inner for outer in modules for inner in outer.modules()):
        if not isinstance(module, parametrize.ParametrizationList):
            for buffer in module.buffers(recurse=False):
                found.setdefault(buffer.dtype, {})[id(buffer)] = buffer
    return {dtype: list(group.values()) for dtype, group in found.items()}
