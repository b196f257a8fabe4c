"""Tensors of a module that ``half()`` and ``bfloat16()`` leave in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from torch import Tensor, nn

from .sphere import compute_dtype, upcast


class FullPrecision(nn.Module):
    """A module with buffers, named in ``in_full``, that do not fit half precision.

    Those are running means, which small steps would no longer move (norms do not even fit float16), and numbers of
    which a function is computed.
    """

    in_full: tuple[str, ...] = ()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        before = {name: self._buffers[name] for name in self.in_full if self._buffers.get(name) is not None}
        super()._apply(fn, recurse)
        for name, value in before.items():
            now = self._buffers[name]
            if value is not None and now is not None and compute_dtype(now.dtype) != now.dtype:
                self._buffers[name] = upcast(value).to(now.device)
        return self
