"""What is exported: inputs → (logits, embedding), as one module that tracers understand."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .._core.features import features_and_output, features_of, has_features
from ..models import GCN
from ..models.network import Network
from ..runs import Classifier
from .inputs import Normalization


class Program(nn.Module):
    """``program(input)`` → (logits, embedding), of a graph network ``program(features, adjacency)``.

    The embedding has unit length, x/‖x‖: the cosine of two is their inner product. Logits are those of the network.

    Args:
        model: an evaluation network of :func:`hypersphere.load`.
        embedding: give the embedding alone.
        normalization: make the step from bytes to numbers part of it: the input is then uint8.
    """

    def __init__(
        self, model: nn.Module, *, embedding: bool = False, normalization: Normalization | None = None
    ) -> None:
        super().__init__()
        self.model, self.embedding_only = model, embedding
        self.scale: Tensor | None
        self.shift: Tensor | None
        scale, shift = (None, None) if normalization is None else normalization.affine
        self.register_buffer("scale", None if scale is None else scale.view(-1, 1, 1))
        self.register_buffer("shift", None if shift is None else shift.view(-1, 1, 1))

    def forward(self, input: Tensor, adjacency: Tensor | None = None) -> Tensor | tuple[Tensor, Tensor]:
        if self.scale is not None and self.shift is not None:
            input = torch.addcmul(self.shift, input.float(), self.scale)  # as the loader does
        inputs = (input,) if adjacency is None else (input, adjacency)
        if not has_features(self.model):
            embedding, logits = features_and_output(self.model, *inputs)
        else:
            embedding = features_of(self.model, *inputs)
            logits = embedding if self.embedding_only else self._logits(embedding, *inputs)
        ready = F.normalize(embedding, dim=1)
        return ready if self.embedding_only else (logits, ready)

    def _logits(self, embedding: Tensor, *inputs: Tensor) -> Tensor:
        """From the embedding, so that nothing is computed twice, unless only the network knows how."""
        model: Any = self.model
        if isinstance(model, Classifier):
            return model.head.logits(embedding)  # type: ignore[operator]
        if not isinstance(model, Network | GCN):
            return model(*inputs)
        scores: Tensor = model.classifier(embedding)
        return inputs[1] @ scores if isinstance(model, GCN) and len(inputs) > 1 else scores


def embedding_weights(model: nn.Module) -> dict[str, Tensor]:
    """The weights without class vectors: those of the same network made for ``num_classes=0``."""
    if isinstance(model, Classifier):
        return dict(model.network.state_dict())
    return {name: value for name, value in model.state_dict().items() if not name.startswith("classifier.")}
