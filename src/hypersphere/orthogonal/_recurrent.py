"""Recurrent layers keep their weights a second time, in ``_flat_weights``: read through to the parametrized ones."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize


def read_through(module: nn.Module) -> None:
    """Make a parametrized layer, if it is an RNN, LSTM or GRU, compute with its weights as they are now.

    Changes only the class that the parametrization made for this module; it goes away with it.
    """
    if not isinstance(module, nn.RNNBase):
        return
    parametrized: Any = module.__class__
    parametrized._flat_weights = property(_current_weights, _ignore)
    parametrized.flatten_parameters = _nothing_to_flatten
    parametrized._weights_have_changed = _never
    module.__dict__.pop("_flat_weights", None)


@torch.no_grad()
def restore(module: nn.Module) -> None:
    """After the last parametrization of an RNN, LSTM or GRU is gone: fill the second list again."""
    if isinstance(module, nn.RNNBase) and not parametrize.is_parametrized(module):
        module._init_flat_weights()


def _current_weights(self: nn.RNNBase) -> list[Tensor | None]:
    return [getattr(self, name, None) for name in self._flat_weights_names]


def _ignore(self: nn.RNNBase, weights: object) -> None:
    """Whoever resets the list wants the current weights in it: they always are."""


def _nothing_to_flatten(self: nn.RNNBase) -> None:
    """Computed weights are not views of one buffer."""


def _never(self: nn.RNNBase) -> bool:
    return False
