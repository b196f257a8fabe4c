"""The multilayer perceptron of thesis sec. F.3."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from .._core.checks import check_count
from .entry import Entry
from .network import Network
from .slots import Slots


def mlp(num_classes: int, slots: Slots, in_features: int = 784, hidden: Sequence[int] = (256, 256)) -> Network:
    """Hidden layers with activations, then the classifier: three layers for MNIST (thesis sec. F.3, Table 7.3).

    Args:
        num_classes: outputs of the classifier, 0 for none.
        slots: operators, normalisation, activation; ``init="normal"`` or ``"xavier"`` for the columns of Table 7.3.
        in_features: numbers in one sample, of any shape.
        hidden: sizes of the hidden layers; the last one is the embedding.
    """
    sizes = [check_count("in_features", in_features), *(check_count("hidden", size) for size in hidden)]
    body = nn.Sequential(nn.Flatten(), *slots.chain("Linear", sizes))
    return Network(body, sizes[-1], num_classes, slots)


MODELS: dict[str, Entry] = {"mlp": Entry(mlp, "thesis sec. F.3 and Table 7.3", {}, {"num_classes": 10, "norm": "none"})}
