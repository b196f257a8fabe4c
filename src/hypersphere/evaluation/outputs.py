"""What a network says of its test split: features, logits, pictures."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from .._core.output_layer import find_output_layer


@dataclass(frozen=True, eq=False)
class Outputs:
    """What a network computes for its test split, everything on the CPU.

    Args:
        labels: class index of each test sample, ``(N,)``.
        features: the embedding of each test sample, ``(N, d)`` float32.
        logits: ``(N, C)`` float32; None where the test classes are not those of training (open set).
        class_vectors: ``(C, d)`` of the head or the last linear layer; None if the network has none of that size.
        images: ``(N, channels, H, W)`` uint8; None where the data are not images in memory.
        classes: names of the test classes, by label.

    Example:
        >>> from hypersphere.evaluation import outputs_of
        >>> outputs = outputs_of(hs.runs.Run("runs/digits"))
        >>> outputs.logits.shape[1], outputs.classes[:2]
        (10, ('0', '1'))
    """

    labels: Tensor
    features: Tensor
    logits: Tensor | None
    class_vectors: Tensor | None
    images: Tensor | None
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)


def class_vectors(model: nn.Module, dim: int) -> Tensor | None:
    """Find the weight that turns features into logits.

    Args:
        model: a trained network with a classifier or a head.
        dim: length of its features; weights of another width are not class vectors.

    Returns:
        ``(C, dim)`` on the CPU, or None if there is none of that size.

    Example:
        >>> from hypersphere.evaluation import class_vectors
        >>> class_vectors(hs.load("runs/digits"), 64).shape
        torch.Size([10, 64])
    """
    head = getattr(model, "head", None)
    last = find_output_layer(model, head if isinstance(head, nn.Module) else None)
    weight = None if last is None else getattr(last[1], "weight", None)
    if not isinstance(weight, Tensor) or weight.dim() != 2 or weight.shape[1] != dim:
        return None
    return weight.detach().float().cpu()
