"""Recurrent layers keep their weights a second time, in ``_flat_weights``: read through to the parametrized ones."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn


def read_through(module: nn.RNNBase) -> None:
    """Make a parametrized RNN, LSTM or GRU compute with its weights as they are now.

    Changes only the class that the parametrization made for this module; it goes away with it.
    """
    parametrized: Any = module.__class__
    parametrized._flat_weights = property(_current_weights, _ignore)
    parametrized.flatten_parameters = _nothing_to_flatten
    parametrized._weights_have_changed = _never
    module.__dict__.pop("_flat_weights", None)


def restore(module: nn.RNNBase) -> None:
    """After the last parametrization is gone: fill the second list again."""
    module._init_flat_weights()


def _current_weights(self: nn.RNNBase) -> list[Tensor | None]:
    return [getattr(self, name, None) for name in self._flat_weights_names]


def _ignore(self: nn.RNNBase, weights: object) -> None:
    """Whoever resets the list wants the current weights in it: they always are."""


def _nothing_to_flatten(self: nn.RNNBase) -> None:
    """Computed weights are not views of one buffer."""


def _never(self: nn.RNNBase) -> bool:
    return False
