"""What the network of a run says of its test split: features, logits, pictures."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .._core.output_layer import find_output_layer
from ..data.loader import IGNORE
from ..train import Run, load
from ..train.judge_source import test_source
from ..train.loading import usable_device
from ..train.options import with_values

__all__ = ["Examination", "class_vectors", "examine"]


@dataclass(frozen=True, eq=False)
class Examination:
    """The test split through a network, everything on the CPU.

    Args:
        labels: ``(N,)``.
        features: the embedding, ``(N, d)`` float32.
        logits: ``(N, C)`` float32; None where the test classes are not those of training (open set).
        class_vectors: ``(C, d)`` of the head or the last linear layer; None if the network has none of that size.
        images: ``(N, channels, H, W)`` uint8; None where the data are no images in memory.
        classes: names of the test classes, by label.
    """

    labels: Tensor
    features: Tensor
    logits: Tensor | None
    class_vectors: Tensor | None
    images: Tensor | None
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)


@torch.no_grad()
def examine(
    run: Run, seed: int | None = None, *, root: str | None = None, device: torch.device | str = "cpu"
) -> Examination:
    """Load the network of a seed (None: the first) and its data, and run the whole test split once, in float32.

    Args:
        root: folder of the data, if it lies elsewhere than at training.
    """
    if run.config.gan.generator is not None:
        raise ValueError(f"{run.path} is a GAN: it has no features and classes, only what it generates can be measured")
    device = usable_device(device)
    number = run.seeds[0] if seed is None else seed
    model = load(run.path, seed=number, device=device)
    config = run.config if root is None else with_values(run.config, {"data.root": root, "evaluation.root": root})
    source = test_source(config, run.facts(number), number, device)
    rows: list[tuple[Tensor, Tensor, Tensor]] = []
    for inputs, labels in source.test():
        counted = labels != IGNORE
        features: Tensor = model.features(*inputs)  # type: ignore[operator]
        logits: Tensor = model(*inputs)
        rows.append(tuple(part[counted].float().cpu() for part in (features, logits, labels)))  # type: ignore[arg-type]
    if not rows:
        name = config.evaluation.data or config.data.name
        raise ValueError(f"the test split of {name} is empty: there is nothing to examine")
    features, logits, numbers = (torch.cat(column) for column in zip(*rows, strict=True))
    bad = ~features.isfinite().all(1)
    if bool(bad.any()):
        raise ValueError(
            f"{run.path} gives features that are not finite, first for test sample {int(bad.nonzero()[0])}"
        )
    return Examination(
        labels=numbers.long(),
        features=features,
        logits=None if source.open_set else logits,
        class_vectors=class_vectors(model, features.shape[1]),
        images=source.pictures,
        classes=source.test_classes,
    )


def class_vectors(model: nn.Module, dim: int) -> Tensor | None:
    """The weight ``(C, dim)`` that turns features into logits, on the CPU, or None."""
    head = getattr(model, "head", None)
    last = find_output_layer(model, head if isinstance(head, nn.Module) else None)
    weight = None if last is None else getattr(last[1], "weight", None)
    if not isinstance(weight, Tensor) or weight.dim() != 2 or weight.shape[1] != dim:
        return None
    return weight.detach().float().cpu()
