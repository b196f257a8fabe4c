"""Learnable numbers that stay positive by construction (k of the sigmoid, radius ρ)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from .checks import check_choice, check_positive
from .sphere import compute_dtype

FORMS = ("log", "abs", "square")


def from_raw(raw: Tensor, form: str) -> Tensor:
    """The positive value of a free parameter: exp r; or, as released code has it, |r|+0.05 or r²+1e-4.

    exp r ends at the smallest number whose reciprocal is finite, and does not reach 0.
    """
    if form == "log":
        return raw.exp().clamp_min(torch.finfo(compute_dtype(raw.dtype)).tiny)
    return raw.abs() + 0.05 if form == "abs" else raw.square() + 1e-4


def to_raw(value: float, form: str, argument: str) -> float:
    """The free parameter that stands for ``value`` in ``form``."""
    check_choice("form", form, FORMS)
    check_positive(argument, value)
    lowest = {"log": 0.0, "abs": 0.05, "square": 1e-4}[form]
    if value < lowest:
        raise ValueError(f"{argument}={value!r} cannot be reached with form={form!r}: it must be at least {lowest}")
    return {"log": math.log(value), "abs": value - 0.05, "square": math.sqrt(max(value - 1e-4, 0.0))}[form]


def shape_as(parameter: Tensor | None, state_dict: dict[str, Any], name: str) -> None:
    """Give one saved number the shape of the parameter: older versions had (), which FSDP2 does not take."""
    saved = state_dict.get(name)
    if parameter is not None and saved is not None and saved.numel() == parameter.numel() == 1:
        state_dict[name] = saved.reshape(parameter.shape)
