"""Keeping the norm of the weights in hand (thesis sec. 4.4): it decides how far a gradient step turns a neuron."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.utils.hooks import RemovableHandle

from .._errors import check_count, check_positive
from .._neurons import Neurons, iter_neurons
from ..functional._sphere import norm, unit
from ..nn._layer import Decoupled
from ..nn.recurrent import _DecoupledRNN

__all__ = ["WeightProjection", "parameter_groups", "weighted_gradients"]


class WeightProjection:
    """w ← s·w/‖w‖ for every neuron of the unweighted operators, every n steps (thesis sec. 4.4.1).

    Args:
        model: its hyperspherical and decoupled layers are projected; plain layers are left alone.
        every: how many calls of :meth:`step` make one projection (the released code's 100).
        norm: s; larger means smaller turns for the same gradient.

    Call :meth:`step` after each optimizer step. The forward pass does not change. Weighted operators,
    whose output depends on ‖w‖, are refused. ``state_dict`` holds the step count.
    """

    def __init__(self, model: nn.Module, every: int = 100, norm: float = 1.0) -> None:
        self.every = check_count("every", every)
        self.norm = check_positive("norm", norm)
        self.count = 0
        self._neurons = _directions(model, "WeightProjection")

    def step(self) -> bool:
        """Count a step; project and return True if it is time to."""
        self.count += 1
        if self.count % self.every:
            return False
        self.project()
        return True

    @torch.no_grad()
    def project(self) -> None:
        """Project now. A zero neuron, which has no direction, stays zero."""
        for neurons in self._neurons:
            weight = neurons.weight
            projected = unit(neurons.flatten(weight)) * self.norm
            weight.copy_(neurons.unflatten(projected, weight.shape))

    def state_dict(self) -> dict[str, int]:
        return {"count": self.count}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.count = check_count("count", state["count"], minimum=0)


def weighted_gradients(model: nn.Module) -> list[RemovableHandle]:
    """Multiply each neuron's gradient by ‖w‖ (thesis eq. 4.18), so that it no longer depends on it.

    Returns the handles of the hooks; ``handle.remove()`` undoes it. Weighted operators are refused.
    """
    return [_weigh(neurons) for neurons in _directions(model, "weighted_gradients")]


def _weigh(neurons: Neurons) -> RemovableHandle:
    weight = neurons.weight

    def hook(grad: Tensor) -> Tensor:
        lengths = norm(neurons.flatten(weight.detach()), keepdim=True)
        return neurons.unflatten(neurons.flatten(grad) * lengths.to(grad.dtype), weight.shape)

    handle: RemovableHandle = weight.register_hook(hook)
    return handle


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    """Two optimizer groups: weights that decay, and parameters that must not.

    Not decayed are the directions (weights of unweighted operators, normalised class vectors: decay
    would only change their step size), k and ρ, biases, and everything with fewer than two dimensions,
    as the scales of normalisation layers have.
    """
    check_positive("weight_decay", weight_decay, zero=True)
    free = {id(p) for p in _undecayed(model)}
    decayed: list[Tensor] = []
    kept: list[Tensor] = []
    for parameter in model.parameters():
        if parameter.requires_grad:
            (kept if id(parameter) in free or parameter.dim() < 2 else decayed).append(parameter)
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": kept, "weight_decay": 0.0}]


def _undecayed(model: nn.Module) -> Iterator[Tensor]:
    for module in model.modules():
        if isinstance(module, Decoupled | _DecoupledRNN) and module.weighted is None:
            yield from (p for name, p in module.named_parameters(recurse=False) if name.startswith("weight"))
        if getattr(module, "normalized_weight", False):
            yield module.get_parameter("weight")


def _directions(model: nn.Module, what: str) -> list[Neurons]:
    """The weights of the hyperspherical layers, of which only the direction matters."""
    found = []
    for neurons in iter_neurons(model):
        module = neurons.module
        if not isinstance(module, Decoupled | _DecoupledRNN):
            continue
        if module.weighted is not None:
            raise ValueError(
                f"{what} changes ‖w‖, on which {neurons.module_name or 'the layer'} (weighted={module.weighted!r}) "
                f"depends: use unweighted operators, or leave {what} out"
            )
        if parametrize.is_parametrized(module, neurons.tensor_name):
            raise ValueError(f"{neurons.name} is parametrized: merge the parametrization before {what}")
        found.append(neurons)
    if not found:
        raise ValueError(f"{what} found no hyperspherical layer in the model: see hypersphere.convert")
    return found
