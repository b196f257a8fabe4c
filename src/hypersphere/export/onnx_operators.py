"""ONNX forms of operators that torch.onnx has none for: those of PointNet++. Imported only where onnxscript is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from onnxscript import FLOAT, INT64, opset18, script

op: Any = opset18


def translations() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Operator → function, the ``custom_translation_table`` of ``torch.onnx.export``."""
    return {
        torch.ops.hypersphere.farthest_points.default: farthest_points,
        torch.ops.aten._cdist_forward.default: distances,
    }


@script()
def farthest_points(xyz: FLOAT, count: int) -> INT64:
    """The first point, then always the one farthest from those taken, as a loop."""
    zero, one, two = op.Constant(value_ints=[0]), op.Constant(value_ints=[1]), op.Constant(value_ints=[2])
    shape = op.Shape(xyz)
    distance = op.Expand(op.Constant(value_float=float("inf")), op.Slice(shape, zero, two))
    newest = op.Expand(op.Constant(value_int=0), op.Concat(op.Slice(shape, zero, one), one, axis=0))
    taken = newest
    for _ in range(count - 1):
        step = op.Sub(xyz, op.Unsqueeze(op.GatherND(xyz, newest, batch_dims=1), one))
        distance = op.Min(distance, op.ReduceSumSquare(step, two, keepdims=0))
        newest = op.ArgMax(distance, axis=1, keepdims=1)
        taken = op.Concat(taken, newest, axis=1)
    return taken


def distances(a: Any, b: Any, p: float = 2.0, compute_mode: int | None = None) -> Any:
    """Euclidean distances of all pairs (the only ``p`` the networks use)."""
    if p != 2.0:
        raise ValueError(f"p={p}: only Euclidean distances have an ONNX form here")
    step = op.Sub(op.Unsqueeze(a, op.Constant(value_ints=[-2])), op.Unsqueeze(b, op.Constant(value_ints=[-3])))
    return op.Sqrt(op.ReduceSumSquare(step, op.Constant(value_ints=[-1]), keepdims=0))
