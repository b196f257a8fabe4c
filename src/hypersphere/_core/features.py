"""The embedding of any network: its method ``features``, else what its output layer is given, else its output."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from .output_layer import find_output_layer


def has_features(model: nn.Module) -> bool:
    """Whether the network has a method ``features``; a submodule of that name is a part of it."""
    method = getattr(model, "features", None)
    return callable(method) and not isinstance(method, nn.Module)


def features_of(model: nn.Module, *inputs: Tensor) -> Tensor:
    """The embedding (N, d) of a batch."""
    network: Any = model
    return network.features(*inputs) if has_features(model) else features_and_output(model, *inputs)[0]


def features_and_output(
    model: nn.Module, *inputs: Tensor, layer: tuple[str, nn.Module] | None = None
) -> tuple[Tensor, Tensor]:
    """The embedding and what the network says of it, in one pass.

    Args:
        model: Any network.
        inputs: What it takes.
        layer: Name and module whose input is the embedding; None: the output layer.

    Raises:
        ValueError: If the network does not call that layer.
    """
    found = layer or find_output_layer(model)
    if found is None:
        output: Tensor = model(*inputs)
        return _rows(output), output
    name, module = found
    seen: list[Tensor] = []
    hook = module.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    try:
        output = model(*inputs)
    finally:
        hook.remove()
    if not seen:
        raise ValueError(f"the model did not call its layer {name!r}: say whose input is the embedding, features=")
    return _rows(seen[-1]), output


def _rows(found: Tensor) -> Tensor:
    """(N, d, 1, 1), which a 1×1 convolution classifies, as (N, d); anything else as it is."""
    return found.flatten(1) if found.dim() > 2 and found[0].numel() == found.shape[1] else found
