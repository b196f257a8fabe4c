"""Accuracy under attack: white-box, or transferred from another run's network."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from ...attacks import robust_accuracy
from ..adversary import make_attack
from .judged import Judged

__all__ = ["ROBUSTNESS"]


def under_attack(name: str, transfer: bool, judged: Judged) -> dict[str, float]:
    """``fgsm_accuracy`` in percent, or ``fgsm_transfer_accuracy``; of DeepFool also ``deepfool_size``, mean ‖r‖/‖x‖."""
    source = _other(judged) if transfer else None
    attack = make_attack(name, judged.config.adversarial, judged.source)
    batches = ((inputs[0], labels) for inputs, labels in judged.source.test())
    found = robust_accuracy(judged.network, batches, attack, source=source)
    counts = torch.tensor([float(found.held.sum()), found.samples, found.relative], dtype=torch.float64)
    held, samples, size = judged.team.sum(counts.to(judged.team.device)).tolist()
    key = f"{name}_transfer" if transfer else name
    extra = {f"{key}_size": 100 * size / judged.team.world} if name == "deepfool" else {}
    return {f"{key}_accuracy": 100 * held / samples, **extra}


def _other(judged: Judged) -> nn.Module:
    """The network that transferred attacks are made on."""
    from ..loading import load
    from ..start import beside

    name = judged.config.adversarial.source
    if name is None:
        raise ValueError("transferred attacks need --adversarial.source, the run that they are made on")
    return load(beside(judged.config, name), device=judged.team.device)


ROBUSTNESS: dict[str, Callable[[Judged], dict[str, float]]] = {
    f"{name}_transfer" if transfer else name: partial(under_attack, name, transfer)
    for name in ("fgsm", "bim", "pgd", "deepfool")
    for transfer in (False, True)
}
