"""How many programs share the tiles of a tensor."""

from __future__ import annotations

from typing import Any


def fitting(tiles: int, registers: int, warps: int, device: Any) -> int:
    """How many programs share ``tiles`` on a GPU, from the registers of a thread.

    Twice as many as run at a time, so that none is left over, or another small multiple if that is clearly better.
    """
    threads = 32 * warps
    fit = device.regs_per_multiprocessor // (-(-registers // 8) * 8 * threads)
    at_a_time = max(1, min(fit, device.max_threads_per_multi_processor // threads)) * device.multi_processor_count
    turns = {k: k * -(-tiles // (k * at_a_time)) for k in (1, 2, 3, 4)}
    best = min(turns, key=turns.__getitem__)
    return min(tiles, at_a_time * (best if turns[best] < 0.95 * turns[2] else 2))
