"""BatchNorm's sums over the batches of several processes, with one message in each pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .plan import Plan


def statistics_of_all(plan: Plan, given: tuple[Any, ...], t: Any, track: bool, group: Any, stream: int | None) -> None:
    """BatchNorm's table: see device/statistics.py. ``given`` ends with the sums and the table."""
    e, (sums, table), norm = plan.epilogue, given[-2:], (t.gamma, t.beta, t.mean, t.var, t.tracked)
    e.stats_alone(stream, *given, *norm)
    _sum_over(sums, group, (0, 2), plan)
    (e.finish_tracking if track and t.mean is not None else e.finish)(stream, sums, table, None, *norm, None, None)


def sums_of_gradients(
    plan: Plan, given: tuple[Any, ...], dgamma: Tensor | None, dbeta: Tensor | None, group: Any, stream: int | None
) -> tuple[Tensor | None, Tensor | None]:
    """The backward rows of the table; γ's and β's gradients, of this process alone."""
    e, c, (sums, table, rest) = plan.epilogue, plan.epilogue.channels, given[6:9]
    e.reduce_alone(stream, *given, None, None)
    if dgamma is not None and dbeta is not None:
        own, along = plan.rows(sums)[2:4]
        dgamma, dbeta = ((along - table[:c] * own) * table[c : 2 * c]).to(dgamma.dtype), own.to(dbeta.dtype)
    _sum_over(sums, group, (2, 4), plan)
    e.finish_backward(stream, sums, table, rest, None, None, None, None, None, None, None)
    return dgamma, dbeta


def _sum_over(sums: Tensor, group: Any, rows: tuple[int, int], plan: Plan) -> None:
    """Add up two rows of the sums, and in forward the count, over the processes of ``group``."""
    e = plan.epilogue
    copies = sums[: 8 * e.slots * e.channels].view(8, e.slots, e.channels)[rows[0] : rows[1]]
    message = torch.cat([copies.sum(1).flatten(), sums.new_full((1,), float(e.count))])
    torch.distributed.all_reduce(message, group=group)
    copies.zero_()
    copies[:, 0] = message[:-1].view(2, -1)
    sums[-5:-4] = message[-1:]
