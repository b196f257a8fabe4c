"""Accuracy on attacked inputs: white-box, or transferred from another model (thesis Tables 4.7, 4.8, Figure C.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from .._core.modes import modes_kept
from ._gradient import Model
from ._inputs import IGNORE, check_labels, check_logits

Attack = Callable[[Any, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Robustness:
    """Accuracies before and after an attack, and the strength of every perturbation, sample by sample on the CPU.

    Attributes:
        clean: Accuracy on the unchanged samples, in percent.
        adversarial: Accuracy on the changed samples, in percent.
        samples: Number of samples that are not ignored, over which the accuracies are taken.
        right: Whether each sample was classified correctly before the attack, (n,).
        held: Whether each sample is classified correctly after the attack, (n,).
        l2: Euclidean norm of each perturbation, (n,).
        linf: Largest entry of each perturbation, (n,).
        size: Euclidean norm of each unchanged sample, (n,).

    Example:
        >>> from functools import partial
        >>> model, x, y = nn.Linear(4, 3), torch.randn(8, 4), torch.zeros(8, dtype=torch.long)
        >>> found = hs.attacks.robust_accuracy(model, [(x, y)], partial(hs.attacks.fgsm, eps=0.5, clip=None))
        >>> found.samples, found.adversarial <= found.clean
        (8, True)
    """

    clean: float
    adversarial: float
    samples: int
    right: Tensor = field(repr=False, compare=False)  # answered correctly before the attack
    held: Tensor = field(repr=False, compare=False)  # and after it
    l2: Tensor = field(repr=False, compare=False)  # ‖r‖₂
    linf: Tensor = field(repr=False, compare=False)  # max |r|
    size: Tensor = field(repr=False, compare=False)  # ‖x‖₂

    @property
    def relative(self) -> float:
        """Mean of ‖r‖₂/‖x‖₂ over the samples that were changed at all: DeepFool's measure of robustness."""
        changed = (self.l2 > 0) & (self.size > 0)
        return float((self.l2[changed] / self.size[changed]).mean()) if bool(changed.any()) else 0.0


def robust_accuracy(
    model: Model,
    batches: Iterable[tuple[Tensor | tuple[Tensor], Tensor]],
    attack: Attack,
    *,
    source: Model | None = None,
) -> Robustness:
    """Evaluate a model on batches before and after an attack.

    Args:
        model: inputs to logits; it is evaluated in evaluation mode, and its modes are restored afterwards.
        batches: ``(x, labels)`` on the model's device; samples labelled -100 are ignored.
        attack: ``attack(model, x, labels)`` gives the changed inputs, e.g. ``functools.partial(hs.attacks.fgsm,
            eps=..., clip=...)``.
        source: the model that the attack sees. None takes the evaluated model itself (white box). With another model,
            the adversarial samples made on it are transferred to ``model`` (black box, thesis C.1.3).

    Returns:
        Both accuracies, and the norms of every perturbation.

    Raises:
        ValueError: If no sample has a label, the model gives NaN, or the attack changes the shape of its inputs.

    Example:
        >>> from functools import partial
        >>> model, x, y = nn.Linear(4, 3), torch.randn(8, 4), torch.zeros(8, dtype=torch.long)
        >>> found = hs.attacks.robust_accuracy(model, [(x, y)], partial(hs.attacks.fgsm, eps=0.5, clip=None))
        >>> found.adversarial <= found.clean
        True
    """
    rows: list[Tensor] = []
    with modes_kept(model, source) as parts:
        for part in parts:
            part.training = False
        for batch in batches:
            if not isinstance(batch, tuple | list) or len(batch) != 2:
                raise TypeError(f"batches gave a {type(batch).__name__}: pass pairs, e.g. [(x, labels)]")
            inputs, labels = batch
            x = inputs if isinstance(inputs, Tensor) else _only(inputs)
            check_labels(labels, x)
            changed = attack(model if source is None else source, x, labels)
            if not isinstance(changed, Tensor) or changed.shape != x.shape:
                shape = tuple(changed.shape) if isinstance(changed, Tensor) else type(changed).__name__
                raise ValueError(
                    f"attack gave {shape} for x of shape {tuple(x.shape)}: it must give inputs of that shape"
                )
            answers = [_answers(model, sample, labels) == labels for sample in (x, changed)]
            before, change = x.flatten(1).double(), (changed.double() - x.double()).flatten(1)
            largest = change.abs().amax(1) if change.shape[1] else change.sum(1)
            numbers = torch.stack([*answers, change.norm(dim=1), largest, before.norm(dim=1)])
            rows.append(numbers[:, labels != IGNORE].cpu())
    table = torch.cat(rows, 1) if rows else torch.zeros(5, 0, dtype=torch.float64)
    if table.shape[1] == 0:
        raise ValueError("batches hold no labelled samples: there is no accuracy to compute")
    right, held, l2, linf, size = table.unbind()
    clean, adversarial = (100 * float(hit.mean()) for hit in (right, held))
    return Robustness(clean, adversarial, table.shape[1], right.bool(), held.bool(), l2, linf, size)


@torch.no_grad()
def _answers(model: Model, x: Tensor, labels: Tensor) -> Tensor:
    logits = model(x)
    check_logits(logits, labels, True)
    if bool(logits.isnan().any()):
        raise ValueError("the model gives NaN logits, which choose no class")
    return logits.argmax(1)


def _only(inputs: tuple[Tensor]) -> Tensor:
    if len(inputs) != 1:
        raise ValueError(f"batches hold {len(inputs)} inputs each: an attack changes models of one input")
    return inputs[0]
