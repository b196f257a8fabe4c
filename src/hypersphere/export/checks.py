"""Whether a file computes what the network does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .._core.features import features_of
from ..functional import unit
from .inputs import Inputs

Run = Callable[..., tuple[Tensor, ...]]


@dataclass(frozen=True)
class Check:
    """One file compared with the network, over batches of several sizes.

    Attributes:
        difference: Largest |a − b| over logits and embeddings.
        agreement: Share of samples whose largest logit is the same; None without logits.
        limit: What the difference may be: tolerance · max(1, largest |b|).
        samples: Number of samples on which the file was run.
        batches: Sizes of the batches in which they were run, to show that any size works.

    Example:
        >>> from hypersphere.export import Check
        >>> Check(difference=1e-6, agreement=1.0, limit=1e-4, samples=64, batches=(1, 64)).passed
        True
    """

    difference: float
    agreement: float | None
    limit: float
    samples: int
    batches: tuple[int, ...]

    @property
    def passed(self) -> bool:
        """Whether the difference is within the limit."""
        return self.difference <= self.limit  # False for a NaN

    def __str__(self) -> str:
        top = "" if self.agreement is None else f", top-1 agreement {100 * self.agreement:.2f}%"
        sizes = ", ".join(map(str, self.batches))
        return f"max difference {self.difference:.2e} (limit {self.limit:.0e}){top}, batches of {sizes}"


@torch.no_grad()
def reference(model: nn.Module, inputs: Inputs, embedding: bool) -> list[tuple[Tensor, ...]]:
    """What the network itself says of each batch: (logits, unit embedding), or the unit embedding alone."""
    outputs: list[tuple[Tensor, ...]] = []
    for batch in inputs.batches():
        ready = inputs.normalized(batch)
        features = features_of(model, *ready)
        outputs.append((unit(features),) if embedding else (model(*ready), unit(features)))
    for part in outputs[-1]:
        if not bool(part.isfinite().all()):
            raise ValueError(f"the network gives values that are not finite on {inputs.origin}: nothing is exported")
    return outputs


@torch.no_grad()
def compare(run: Run, inputs: Inputs, expected: list[tuple[Tensor, ...]], tolerance: float) -> Check:
    """Run the file on every batch."""
    difference, same, total, sizes = 0.0, 0, 0, []
    for batch, wanted in zip(inputs.batches(), expected, strict=True):
        got = run(*batch)
        sizes.append(len(batch[0]))
        total += sizes[-1]
        for ours, theirs in zip(got, wanted, strict=True):
            if ours.shape != theirs.shape:
                raise ValueError(f"the file gives shape {tuple(ours.shape)} for {tuple(theirs.shape)}")
            gap = float((ours.double() - theirs.double()).abs().max())
            difference = gap if not gap <= difference else difference  # not max(), which would drop a NaN
        same += int((got[0].argmax(-1) == wanted[0].argmax(-1)).sum())
    largest = max(float(part.abs().max()) for wanted in expected for part in wanted)
    agreement = same / total if len(expected[0]) == 2 else None
    return Check(difference, agreement, tolerance * max(1.0, largest), len(inputs.tensors[0]), tuple(sizes))
