"""A network ready to be deployed: filters of norm 1 as constants, BatchNorm folded into what follows them.

a·h(‖x‖)·g(θ) + b   with ŵ, a and b computed once
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from ..functional.operators.decoupled import make_kernel
from ..functional.operators.deployed import deployed
from ..functional.operators.geometry import Geometry
from .block import affine_of
from .fuse import Fusion, blocks_of, fuse
from .layer import Decoupled, as_node

__all__ = ["Folded", "fold"]


def fold(model: nn.Module) -> nn.Module:
    """A copy of a model for inference, whose operators hold ŵ, and BatchNorm with it, as constants.

    The copy gives what the model gives in evaluation mode, in fewer steps and with fewer nodes when exported. It has
    no rescaling of ranges: in float32, patches must have norms between 1e-12 and 1e18; smaller ones count as zero.
    It does not follow later changes of the model, and it is not for training.

    Layers with ``weighted=`` and a BatchNorm that has no running statistics stay as they are.

    Args:
        model: Any model; it is left as it is.

    Returns:
        The copy, in evaluation mode.

    Raises:
        TypeError: If ``model`` is not a module.

    Example:
        >>> import hypersphere as hs
        >>> model = nn.Sequential(hs.nn.SphereConv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()).eval()
        >>> ready = hs.nn.fold(model)
        >>> x = torch.randn(2, 3, 8, 8)
        >>> torch.allclose(ready(x), model(x), atol=1e-6)
        True
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model={model!r} is not a torch.nn.Module: pass the network that is to be deployed")
    root = nn.Sequential(fuse(copy.deepcopy(model))).eval()  # so that the model itself may be a layer
    made: dict[int, nn.Module] = {}
    for part in blocks_of(root):
        norm = part.norm
        if _can_fold(part.op, norm):
            made[id(part.op)] = Folded(part.op, norm)
            if norm is not None:
                made[id(norm)] = nn.Identity()
            if part.op.follows is not None and part.act is not None:
                made[id(part.act)] = _plain(part.act)
    for module in list(root.modules()):
        for name, child in list(module._modules.items()):
            if child is not None and id(child) in made:
                module._modules[name] = made[id(child)]
    folded: nn.Module = root[0]
    if isinstance(getattr(folded, "fusion", None), Fusion):
        object.__delattr__(folded, "fusion")
    return folded.requires_grad_(False)


class Folded(nn.Module):
    """An operator with constant filters of norm 1, and the BatchNorm after it: :func:`fold` puts it in their place.

    Args:
        op: the layer whose filters are taken.
        norm: the BatchNorm after it, folded into scale and shift; None if there is none.

    Shape:
        - Input: as the layer's.
        - Output: as the layer's.

    Example:
        >>> folded = hs.nn.Folded(hs.nn.SphereLinear(8, 4), None)
        >>> folded(torch.randn(2, 8)).shape
        torch.Size([2, 4])
    """

    def __init__(self, op: Decoupled, norm: nn.Module | None) -> None:
        super().__init__()
        weight: Any = op.weight
        self.magnitude, self.angular, self._read = op.magnitude, op.angular, _Reader(op)
        self.scale: Tensor | None
        self.shift: Tensor | None
        with torch.no_grad():
            scale, shift = affine_of(op, norm)
            geometry = Geometry((1,) * (weight.dim() - 2), groups=getattr(op, "groups", 1), transposed=_transposed(op))
            unit = make_kernel(weight.double(), weight.double(), geometry, op.magnitude, op.angular).weight
            if scale is not None and shift is not None and not _transposed(op) and _is_cosine(op.angular):
                unit, scale = unit * scale.double().view(-1, *[1] * (weight.dim() - 1)), None
        self.register_buffer("weight", unit.to(weight.dtype))
        self.register_buffer("scale", scale)
        self.register_buffer("shift", shift)

    weight: Tensor

    def forward(self, input: Tensor) -> Tensor:
        """Apply the operator with its constant filters.

        Args:
            input: as for the layer that was folded.

        Returns:
            The output of that layer and its BatchNorm in evaluation mode.
        """
        node: Any = as_node(self, input)
        if node is not None:
            return node
        read = self._read(input, self.weight)
        rows, geometry = read
        out = deployed(rows, self.weight, geometry, self.magnitude, self.angular, self.scale, self.shift)
        return out if geometry.kernel else out.reshape(*input.shape[:-1], -1)


class _Reader:
    """How a layer reads its patches, without its parameters."""

    def __init__(self, op: Decoupled) -> None:
        self.op = copy.copy(op)
        self.op._parameters = {}
        self.op._modules = {}

    def __call__(self, x: Tensor, weight: Tensor) -> tuple[Tensor, Geometry]:
        found = self.op.read(x, weight)
        if found is None:
            raise ValueError(f"x has shape {tuple(x.shape)}, which filters of shape {tuple(weight.shape)} cannot read")
        return found


def _can_fold(op: Decoupled, norm: Any) -> bool:
    """Whether nothing depends on the batch or on ‖w‖."""
    if op.weighted is not None or "parametrizations" in op._modules or getattr(op, "padding", None) == "same":
        return False
    return norm is None or norm.running_mean is not None


def _is_cosine(g: Any) -> bool:
    closed = getattr(g, "closed_form", lambda: None)()
    return closed is not None and closed[0] == "cosine"


def _transposed(op: Any) -> bool:
    return bool(getattr(op, "transposed", False))


def _plain(module: Any) -> nn.Module:
    """A module that handed its input on, as it was before."""
    module.__class__ = getattr(type(module), "plain", type(module))
    plain: nn.Module = module
    return plain
