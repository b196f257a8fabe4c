"""``merge``: fold R into the weights and leave no trace of it."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from ._adapter import merge_adapters
from ._model import attached, set_task
from ._recurrent import restore
from ._rotation import Rotation, check_alone, dense_strides, iter_rotations, reorder, unshare_class


def merge(model: nn.Module, task: int | None = None) -> nn.Module:
    """Replace every attached weight by w = Rv, an ordinary parameter.

    The outputs do not change; size, speed and ``state_dict`` keys are those of the plain network. The optimizer's state
    of all other parameters stays valid. The merged weights are new parameters, or with ``learn_v`` the same ones as
    before. ``attach`` may be called again on them (thesis F.8).

    Adapters (:func:`adapter`) are multiplied into the weights in the same way. They and the weights they changed are
    kept aside, so that :func:`unmerge` restores both.

    Args:
        model: a network with attached weights or adapters, changed in place.
        task: number of the task whose R is merged; None is the active one.

    Returns:
        ``model`` itself, with plain weights.

    Raises:
        ValueError: If nothing is attached, or a weight has further parametrizations on top of the rotation.

    Example:
        >>> model = hs.orthogonal.attach(nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)))
        >>> list(hs.orthogonal.merge(model).state_dict())
        ['0.weight', '0.bias', '1.weight', '1.bias']
    """
    if task is not None:
        set_task(model, task)  # which refuses a model that has no tasks
    if merge_adapters(model) and not any(True for _ in iter_rotations(model)):
        return model
    found = attached(model)
    check_alone(found, "rotation")
    for _, module, tensor_name, rotation in found:
        _fold(module, tensor_name, rotation)
    return model


def _laid_out(weight: Tensor, strides: tuple[int, ...] | None) -> Tensor:
    """The same numbers with these strides."""
    if strides is None or weight.stride() == strides:
        return weight
    return torch.empty_strided(weight.shape, strides, dtype=weight.dtype, device=weight.device).copy_(weight)


def _fold(module: nn.Module, tensor_name: str, rotation: Rotation) -> None:
    v = module.parametrizations[tensor_name].original  # type: ignore[index, union-attr]
    now, usual = dense_strides(v), torch.empty(v.shape, device="meta").stride()
    strides = rotation.strides if now == usual else now  # attach lays v out as usual: else it was changed since
    unshare_class(module)
    parametrize.remove_parametrizations(module, tensor_name, leave_parametrized=True)
    if not rotation.learn_v:
        folded = module._buffers.pop(tensor_name)
        if folded is None:
            raise RuntimeError(f"{rotation.layout.name} has lost its tensor: was the module changed since attach?")
        folded = _laid_out(folded.detach(), strides)
        module.register_parameter(tensor_name, nn.Parameter(folded, requires_grad=rotation.trained))
    else:
        weight: nn.Parameter = getattr(module, tensor_name)
        with torch.no_grad():
            weight.set_(_laid_out(weight.detach(), strides))  # type: ignore[call-overload]
    reorder(module, rotation.order)
    restore(module)
