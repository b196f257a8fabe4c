"""Batches for adversarial training (thesis 4.6.2, C.1.2; Goodfellow et al.; Kurakin et al.)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .._core.checks import check_choice
from ._gradient import Model, predicted, untouched


def adversarial_batch(
    model: Model,
    x: Tensor,
    labels: Tensor,
    attack: Callable[[Any, Tensor, Tensor], Tensor],
    *,
    mixture: str = "both",
    fraction: float = 1.0,
    against: str = "labels",
) -> tuple[Tensor, Tensor]:
    """Make the batch of a step of adversarial training, whose mean loss is ½J(x, y) + ½J(x̃, y) by default.

    Args:
        model: the network as it is in training; the attack does not change it.
        x: inputs of the batch, (N, ...), in the normalisation that the model takes.
        labels: class indices of the batch, (N,).
        attack: ``attack(model, x, labels)``, e.g. ``functools.partial(hs.attacks.fgsm, eps=pixels.eps(8),
            clip=pixels.clip, check=False)``. With ``check=False`` nothing waits for the device, and NaN gradients show
            in the loss.
        mixture: ``"both"``: clean samples and then their adversarial twins, so that the mean loss of the 2N is ½J(x, y)
            + ½J(x̃, y) (Goodfellow et al.). ``"replace"``: the first samples of the batch are replaced by their twins,
            a share ``fraction`` of them (Kurakin et al. take ½; 1 trains on adversarial samples only).
        fraction: the share that ``"replace"`` replaces, in (0, 1].
        against: the classes that the attack moves away from: the true ``"labels"``, as in the thesis, or the model's
            ``"predictions"``, so that an adversarial example carries no information on its label (Kurakin et al.).

    Returns:
        Inputs and labels of the batch to train on: 2N samples for ``"both"``, N for ``"replace"``.

    Raises:
        ValueError: If ``mixture`` or ``against`` is unknown, or ``fraction`` is outside (0, 1] or given with
            ``"both"``.

    Example:
        >>> from functools import partial
        >>> model, x, y = nn.Linear(4, 3), torch.randn(8, 4), torch.zeros(8, dtype=torch.long)
        >>> inputs, labels = hs.attacks.adversarial_batch(model, x, y, partial(hs.attacks.fgsm, eps=0.1, clip=None))
        >>> inputs.shape
        torch.Size([16, 4])
    """
    check_choice("mixture", mixture, ("both", "replace"))
    check_choice("against", against, ("labels", "predictions"))
    if isinstance(fraction, bool) or not isinstance(fraction, int | float) or not 0 < fraction <= 1:
        raise ValueError(f"fraction={fraction!r} must be a share of the batch in (0, 1]")
    if mixture == "both" and fraction != 1:
        raise ValueError(f"fraction={fraction!r} belongs to mixture='replace': 'both' keeps every sample and its twin")
    count = len(x) if mixture == "both" else max(1, round(fraction * len(x)))
    some, classes = x[:count], labels[:count]
    if against == "predictions" and len(some):
        classes = torch.where(classes < 0, classes, predicted(untouched(model), some))
    twins = attack(model, some, classes)
    if mixture == "both":
        return torch.cat([x, twins]), torch.cat([labels, labels])
    return torch.cat([twins, x[count:]]), labels
