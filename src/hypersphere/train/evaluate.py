"""Accuracy on the test split, over all processes."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..data.loader import IGNORE
from .data import Source
from .distributed import Team
from .objective import hits

__all__ = ["evaluate"]


@torch.no_grad()
def evaluate(classifier: nn.Module, source: Source, team: Team, precision: str = "float32") -> dict[str, float]:
    """``accuracy`` in percent and mean cross-entropy ``loss`` of the logits; the modes of the modules are restored."""
    modes = {module: module.training for module in classifier.modules()}
    classifier.eval()
    sums = torch.zeros(3, dtype=torch.float64, device=team.device)
    try:
        for inputs, labels in source.test():
            with torch.autocast(team.device.type, torch.bfloat16, enabled=precision == "bfloat16"):
                logits: Tensor = classifier(*inputs)
            loss = F.cross_entropy(logits.float(), labels, ignore_index=IGNORE, reduction="sum")
            counted = (labels != IGNORE).sum()
            sums += torch.stack([hits(logits, labels).double(), loss.double(), counted.double()])
    finally:
        for module, mode in modes.items():
            module.training = mode
    right, loss_sum, samples = team.sum(sums).tolist()
    return {"accuracy": 100 * right / max(samples, 1), "loss": loss_sum / max(samples, 1)}
