"""Cayley's map of many matrices from where the last step left it: products only, decided on the device.

R = 2X − I with X = (I − A)⁻¹. Between two steps of training X moves little, so that the X of the last step is
the start of Newton's iteration, two steps of which are enough at usual rates. What was kept is never trusted: each
step computes the residual I − X(I − A), and a start that is too far away (the first one, a jump, other
parameters) is replaced on the device by one that always converges.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...kernels import device as kernels
from .algorithms import cayley
from .from_last import Solved
from .grouped import STAGES, TILE, WARPS, Layout, layout_of, programs
from .rows import Beside, skew_product

_STEPS = 20  # enough for row sums |A| up to 8192 from a cold start
_USUAL = 2  # steps that nearly every call needs
_TOLERANCE = 1.2e-6  # of the largest entry of the residual after the last step; R errs by at most twice as much
_GAIN = 1.0 + 6.9e-4  # the tensor cores cut float32 to TF32: products are too small by that much on average


class WarmCayley:
    """The map and its memory, for stacks of matrices of the given shapes on one device.

    Args:
        shapes: Of the parameters (..., d, d), in the order in which they will be given.
        device: Where they are.

    Attributes:
        failed: One integer a matrix, 1 if any call could not reach the accuracy: its R was NaN.
        kind: The name of the backward pass for :func:`rotate_all`.
    """

    kind = "warm cayley"

    def __init__(self, shapes: Sequence[torch.Size], device: torch.device) -> None:
        self.shapes, self.device = list(shapes), device
        self.layout: Layout = layout_of(shapes, device)
        count = len(self.layout.sizes)

        def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        self._raw = zeros(self.layout.total)
        self._shifted = zeros(self.layout.total)
        self._residual = zeros(self.layout.total)
        self._x = zeros(2, self.layout.total)
        self._x_t = zeros(2, self.layout.total)
        self._control = zeros(_STEPS + 1, count, kernels.cayley.FIELDS)
        self._control[0, :, 0] = 1.0
        self._sums = zeros(_STEPS, 2, self.layout.rows, dtype=torch.int64)
        self._counter = zeros(_STEPS, count, dtype=torch.int32)
        self._sizes = zeros(count, 2)
        self.failed = zeros(count, dtype=torch.int32)

    def forget(self) -> None:
        """Let the next call start from nothing, as the first one did."""
        self._x.zero_()
        self._x_t.zero_()
        self._control[0].zero_()
        self._control[0, :, 0] = 1.0
        self.failed.zero_()

    def outcome(self) -> Tensor:
        """Whether a call failed (0 or 1) and the largest row sum of |I − A| in the last one, on the device."""
        return torch.stack([self.failed.amax().float(), self._sizes[:, 0].amax()])

    def steps(self) -> list[int]:
        """How many steps each matrix took in the last call; waits for the device."""
        return [int(used) for used in self._control[_STEPS, :, 10].tolist()]

    def __call__(self, raw: Sequence[Tensor]) -> list[Tensor]:
        """R of every stack of matrices, views of one new buffer; no autograd."""
        products, steps = kernels.products, kernels.cayley
        layout, tile = self.layout, {**TILE, "num_warps": WARPS, "num_stages": STAGES}
        torch._foreach_copy_(layout.views(self._raw, self.shapes), list(raw))
        for scratch in (self._sums, self._counter, self._sizes):
            scratch.zero_()
        r = torch.empty(layout.total, dtype=torch.float32, device=self._x.device)
        count, number = len(layout.sizes), len(layout.tiles)
        grid, few = (number,), (min(number, programs(r)),)
        gain = _GAIN if r.is_cuda else 1.0
        with torch.cuda.device_of(r):
            products.skew_kernel[(len(layout.stripes),)](
                self._raw, self._shifted, self._sizes, layout.stripes, layout.table, B=32
            )
            for step in range(_STEPS):
                rare = step >= _USUAL
                steps.residual_kernel[few if rare else grid](
                    self._x, self._shifted, self._residual, layout.tiles, layout.table, self._control, self._sums,
                    self._counter, self._sizes, step, layout.total, count, layout.rows, _TOLERANCE, gain, number,
                    **tile, FEW=rare,
                )  # fmt: skip
                steps.update_kernel[few if rare else grid](
                    self._residual, self._x, self._x_t, self._shifted, layout.tiles, layout.table, self._control,
                    step, layout.total, count, number, **tile, FEW=rare,
                )  # fmt: skip
            steps.gram_kernel[grid](
                self._x, self._x_t, self._residual, layout.tiles, layout.table, self._control, self._sizes,
                layout.total, _STEPS, count, **tile,
            )  # fmt: skip
            steps.finish_kernel[grid](
                self._x, self._residual, r, layout.tiles, layout.table, self._control, self._sizes, self.failed,
                layout.total, _STEPS, count, **tile,
            )  # fmt: skip
        return layout.views(r, self.shapes)

    def redo(self, raw: Sequence[Tensor], solved: Sequence[Solved]) -> None:
        """Replace failed matrices in ``solved``, the results of a replayed CUDA graph, by exact ones; waits.

        Those of parameters that are not finite stay NaN: the loss of the step tells.
        """
        failed, p = self.failed.tolist(), 0
        for index, (u, (r, *_)) in enumerate(zip(raw, solved, strict=True)):
            count = u.shape[:-2].numel()
            if any(failed[p : p + count]) and bool(u.isfinite().all()):
                exact = cayley(u.double())[0].float()
                assert r._base is not None  # a view of the buffer of all R, as a call returns it
                self.layout.put(r._base, self.shapes, index, exact, 1.0)
                x = 0.5 * exact
                x.diagonal(dim1=-2, dim2=-1).add_(0.5)
                for flat, start in ((self._x, x), (self._x_t, x.mT)):
                    for side in flat:
                        self.layout.put(side, self.shapes, index, start, 1.0)
            p += count
        self.failed.zero_()


def cayley_gradient(beside: Beside, solved: Sequence[Solved]) -> list[Tensor]:
    """tril(½(N − Nᵀ), −1) of every stack, N = (g + P)ᵀ(w + v) with w = Rv and P = gR."""
    out = skew_product(beside.rows, beside.g + beside.p, beside.w + beside.v, "lower")
    return beside.rows.layout.views(out, [one[0].shape for one in solved])
