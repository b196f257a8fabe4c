"""Checks on what users pass in: each error names the argument, its value and the fix."""

from __future__ import annotations

import copy

from torch import Tensor, nn


def check_model(model: nn.Module, head: nn.Module | None = None) -> None:
    """Raise TypeError unless it is an nn.Module."""
    for argument, value in (("model", model), ("head", head)):
        if not isinstance(value, nn.Module) and (argument == "model" or value is not None):
            raise TypeError(f"{argument} must be a torch.nn.Module, not {type(value).__name__}")


def copied(model: nn.Module, remedy: str) -> nn.Module:
    """A deep copy, or a ValueError that says what to do about weights that hooks compute."""
    try:
        return copy.deepcopy(model)
    except RuntimeError as error:
        raise ValueError(
            f"model cannot be copied, as with the weights that torch.nn.utils.weight_norm and prune compute: {remedy}"
        ) from error


def check_floating(argument: str, tensor: Tensor) -> None:
    """Refuse integer, bool and complex tensors, for which no angle is defined here."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{argument} must be a torch.Tensor, not {type(tensor).__name__}")
    if not tensor.is_floating_point():
        raise TypeError(f"{argument} has dtype {tensor.dtype}: pass a floating-point tensor, e.g. {argument}.float()")
