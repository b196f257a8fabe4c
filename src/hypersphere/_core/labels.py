"""Class indices that callers pass: of any integer type, in range, without the ignored ones."""

from __future__ import annotations

import torch
from torch import Tensor

from .modes import is_plain_eager


def class_indices(
    labels: Tensor, num_classes: int, ignore_index: int = -100, device: torch.device | None = None
) -> tuple[Tensor, Tensor]:
    """(labels as int64 on ``device``, with 0 for the ignored ones; which ones count).

    The range is checked where that needs no wait for a GPU and breaks no graph: eager, on a CPU, outside of tracers and
    ``torch.func`` transforms. Elsewhere a wrong label is caught by the indexing itself (a device-side assertion).
    """
    indices = as_indices(labels, device)
    counts = indices != ignore_index
    if indices.device.type == "cpu" and is_plain_eager(indices):
        wrong = counts & ((indices < 0) | (indices >= num_classes))
        if bool(wrong.any()):
            raise ValueError(
                f"labels contain {int(indices[wrong][0])}: they must lie in [0, {num_classes - 1}] "
                f"or equal ignore_index={ignore_index}"
            )
    return torch.where(counts, indices, 0), counts


def as_indices(labels: Tensor, device: torch.device | None = None) -> Tensor:
    """Labels as int64 on ``device``, of any range."""
    if not isinstance(labels, Tensor):
        raise TypeError(f"labels must be a torch.Tensor of class indices, not {type(labels).__name__}")
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise TypeError(f"labels have dtype {labels.dtype}: pass class indices, e.g. labels.long()")
    return labels.to(device=labels.device if device is None else device, dtype=torch.int64)
