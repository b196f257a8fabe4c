"""What a trained network learned beside its weights: k of each sigmoid and ρ of each h."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor, nn

from .. import angular, magnitude


def learned_k(model: nn.Module) -> dict[str, list[float]]:
    """The curvatures of every learnable sigmoid, by layer."""
    found = {
        _layer(name): module.k
        for name, module in model.named_modules()
        if isinstance(module, angular.Sigmoid) and module.raw_k is not None
    }
    return dict(_numbers(found))


def learned_rho(model: nn.Module) -> dict[str, list[float]]:
    """The radii of every learnable h, by layer."""
    found = {
        _layer(name): module.rho
        for name, module in model.named_modules()
        if isinstance(module, magnitude.Magnitude) and getattr(module, "raw_rho", None) is not None
    }
    return dict(_numbers(found))


def _numbers(found: dict[str, float | Tensor]) -> Iterator[tuple[str, list[float]]]:
    for name, value in found.items():
        yield name, value.detach().float().flatten().tolist() if isinstance(value, Tensor) else [float(value)]


def _layer(name: str) -> str:
    name = name.removeprefix("network.")
    return (
        name.removesuffix(".angular").removesuffix(".magnitude").removesuffix("angular").removesuffix("magnitude")
        or "network"
    )
