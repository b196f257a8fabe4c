"""Examinations made of random numbers."""

from __future__ import annotations

import torch

from hypersphere.evaluation import Examination


def examination(
    count: int = 60,
    classes: int = 5,
    dim: int = 8,
    images: tuple[int, int, int] | None = (1, 8, 8),
    names: tuple[str, ...] | None = None,
    **changes,
) -> Examination:
    generator = torch.Generator().manual_seed(3)
    labels = torch.arange(count) % classes
    vectors = torch.randn(classes, dim, generator=generator)
    features = vectors[labels] + torch.randn(count, dim, generator=generator)
    pictures = None if images is None else torch.randint(0, 256, (count, *images), generator=generator).to(torch.uint8)
    values = {
        "labels": labels,
        "features": features,
        "logits": features @ vectors.mT,
        "class_vectors": vectors,
        "images": pictures,
        "classes": names or tuple(f"class {i}" for i in range(classes)),
    }
    return Examination(**{**values, **changes})
