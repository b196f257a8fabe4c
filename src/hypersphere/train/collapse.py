"""A warning that names the cause when a margin collapses.

Two signs are looked at after warm-up: the accuracy on the training batches is that of chance, 1/C, or no better than
that of always naming the most frequent class, and the unit features û have a mean of length R = ‖mean û‖ near 1, so
that all of them point in one direction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .. import losses

EARLIEST = 100
"""No step before this one tells anything."""
ONE_DIRECTION = 0.95
_WARM = "--schedule.warmup or clip gradients with --optim.clip"
_FITTED = (losses.ArcFace, losses.AMSoftmax, losses.AdaFace, losses.ElasticFace, losses.CurricularFace)
"""Heads whose margin and scale :func:`hypersphere.losses.fitting_margin` and ``fitting_scale`` are for."""


@dataclass(frozen=True)
class Collapse:
    """What is known when the signs are read.

    Args:
        step: How many steps were trained.
        warmup: The last step of the warm-ups of rate and margin.
        classes: C.
        accuracy: On the training batches since the last line of the log, in [0, 1].
        samples: How many samples that was.
        frequent: Share of the most frequent class.
    """

    step: int
    warmup: int
    classes: int
    accuracy: float
    samples: int
    frequent: float = 0.0

    @property
    def at_chance(self) -> bool:
        """Whether warm-up is over and the accuracy is at most twice that of chance.

        Three standard errors are allowed for, so that few samples do not decide by luck.
        """
        chance = 1 / self.classes
        return self._begun and self.accuracy <= min(2 * chance, self._most(chance))

    @property
    def one_answer(self) -> bool:
        """Whether warm-up is over and always naming the most frequent class would be as good.

        A network that learns many rare classes passes through such accuracies too: only with features of one direction
        it is a sign.
        """
        return self._begun and self.accuracy <= self._most(self.frequent)

    @property
    def _begun(self) -> bool:
        return self.step >= max(self.warmup + 1, EARLIEST)

    def _most(self, share: float) -> float:
        """What an accuracy of ``share`` may look like on so many samples."""
        return share + 3 * math.sqrt(share * (1 - share) / max(self.samples, 1))


def sign_of_collapse(signs: Collapse, length: float, head: nn.Module | None) -> str:
    """What to tell the user of a training whose accuracy is that of chance, or of one answer; "" if it is no sign.

    Args:
        signs: What was read.
        length: R of :func:`hypersphere.evaluation.mean_length`, on test samples.
        head: The head, whose margin and scale are named; None: the network has its own classifier.
    """
    text = (
        f"step {signs.step}: after warm-up the accuracy on the training batches is {100 * signs.accuracy:.2f} %, that "
        f"of chance for {signs.classes} classes is {100 / signs.classes:.2f} %"
    )
    if not signs.at_chance:
        text += f", and always naming the most frequent one gives {100 * signs.frequent:.2f} %"
    head = _with_margin(head)
    margin = _number(head, "margin") or _number(head, "upper_margin")
    if 0 < length < ONE_DIRECTION and not signs.at_chance:
        return ""
    if length == 0:
        return f"{text}, and every feature is 0: no unit of the last layer answers. Lower --optim.lr, lengthen {_WARM}"
    if length < ONE_DIRECTION:
        return (
            f"{text}. The features do not collapse (the mean of the unit features has length {length:.2f}): nothing "
            "was learned yet. Raise --optim.lr or --schedule.steps, and look at the labels"
        )
    text += f", and all features point in one direction (the mean of the unit features has length {length:.3f})"
    if not margin:
        return f"{text}. Lower --optim.lr, lengthen {_WARM}"
    cause, cure = _cause(head, margin, signs.classes)
    slowly = "a longer --loss.warmup"
    if isinstance(getattr(head, "annealing", None), losses.Annealing):  # it has the place of a warm-up
        slowly = "an --loss.annealing that falls more slowly or has a larger minimum"
    return f"{text}: the margin has collapsed; {cause}. Use {cure}, {slowly}, and a lower --optim.lr"


def _with_margin(head: nn.Module | None) -> nn.Module | None:
    """The head whose margin it is: energies of class vectors, centers and pairs are added to one."""
    while isinstance(inner := getattr(head, "head", None), nn.Module):
        head = inner
    return head


def _cause(head: nn.Module | None, margin: float, classes: int) -> tuple[str, str]:
    """Why the margin is too much, and the settings of this head that change it."""
    scale, least = _number(head, "scale"), math.sqrt(2) * math.log(max(classes - 1, 2))
    fits = {}
    if isinstance(head, _FITTED) and classes > 1:
        fits = {"scale": losses.fitting_scale(classes), "margin": losses.fitting_margin(classes)}
    if scale is not None and scale < least:
        cause = f"the scale {scale:g} is below {least:.1f} = √2·log(C − 1), which {classes} classes need"
        return cause, "a larger --loss.scale" + (f", e.g. {fits['scale']:.1f}" if fits else "")
    cause = f"the margin {margin:g} is more than this network can follow"
    if not _number(head, "margin"):
        return cause, "smaller margins, --loss.extra 'lower_margin=...;upper_margin=...'"
    return cause, "a smaller --loss.margin" + (
        f", e.g. {fits['margin']:.2g}" if fits.get("margin", margin) < margin else ""
    )


def _number(head: nn.Module | None, name: str) -> float | None:
    value = getattr(head, name, None)
    if isinstance(value, Tensor):
        value = float(value) if value.numel() == 1 else float(torch.max(value))
    return float(value) if isinstance(value, int | float) else None
