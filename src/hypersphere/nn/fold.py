"""A network ready to be deployed: filters of norm 1 as constants, BatchNorm folded into what follows them.

a·h(‖x‖)·g(θ) + b   with ŵ, a and b computed once
"""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import torch
from torch import Tensor, nn

from .._core.errors import check_floating, check_model, copied
from .._core.modes import autocast_dtype, is_plain_eager
from .._core.precision import FullPrecision
from ..functional.operators.closed_forms import form_of
from ..functional.operators.decoupled import Kernel, decouple
from ..functional.operators.deployed import deployed
from ..functional.operators.geometry import Geometry
from .absorb import is_hooked
from .block import constants_of
from .fuse import Fusion, blocks_of, fuse
from .layer import Decoupled, as_node


def fold(model: nn.Module) -> nn.Module:
    """Return a copy of a model for inference, in which unit filters ŵ and BatchNorm are constants.

    The copy has the outputs of the model in evaluation mode, but takes fewer steps and has fewer nodes when exported.
    It leaves out the rescaling for extreme norms: in float32, patches must have norms between 1e-12 and 1e18; smaller
    ones count as zero. It does not follow later changes of the model, and it is not for training.

    Operators with ``weighted=``, ``padding="same"``, parametrized weights or hooks, and those in front of a BatchNorm
    that has no running statistics, stay as they are. BatchNorm normalises dimension 1, which holds the filters only in
    batches (N, C, ...). A layer with a folded BatchNorm therefore accepts only such batches: no single samples, and no
    (N, T, C) inputs of a linear layer.

    Args:
        model: Any model; it is left as it is.

    Returns:
        The copy, in evaluation mode.

    Raises:
        TypeError: If ``model`` is not a module.
        ValueError: If it cannot be copied.

    Example:
        >>> import hypersphere as hs
        >>> model = nn.Sequential(hs.nn.SphereConv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()).eval()
        >>> ready = hs.nn.fold(model)
        >>> x = torch.randn(2, 3, 8, 8)
        >>> torch.allclose(ready(x), model(x), atol=1e-6)
        True
    """
    check_model(model)
    root = nn.Sequential(fuse(copied(model, "remove them first"))).eval()  # so that the model itself may be a layer
    made: dict[int, nn.Module] = {}
    places = Counter(id(module) for _, module in root.named_modules(remove_duplicate=False))
    for part in blocks_of(root):
        norm = part.norm
        if part.op.follows is None and max(places[id(part.op)], places[id(norm)]) > 1:
            norm = None  # one of them may be elsewhere without the other
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


class Folded(FullPrecision):
    """An operator with constant filters of norm 1, and the BatchNorm after it; :func:`fold` replaces both by it.

    Args:
        op: the layer whose filters are taken.
        norm: the BatchNorm after it, folded into scale and shift; None if there is none.

    Shape:
        - Input: as for the layer; with ``norm`` only batches (N, C, ...).
        - Output: as of the layer.

    Example:
        >>> folded = hs.nn.Folded(hs.nn.SphereLinear(8, 4), None)
        >>> folded(torch.randn(2, 8)).shape
        torch.Size([2, 4])
    """

    def __init__(self, op: Decoupled, norm: nn.Module | None) -> None:
        super().__init__()
        self.magnitude, self.angular, self._read = op.magnitude, op.angular, _Reader(op)
        self._normed = norm is not None
        self.scale: Tensor | None
        self.shift: Tensor | None
        unit, scale, shift = constants_of(op, norm)
        self.register_buffer("weight", unit)
        self.register_buffer("scale", scale)
        self.register_buffer("shift", shift)

    _normed = False  # also of objects that an earlier version saved
    weight: Tensor
    in_full = ("scale", "shift")

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        """Apply the operator with its constant filters.

        Args:
            input: as for the layer that was folded.
            output_size: for a transposed convolution, the size of the output among those that its stride allows.

        Returns:
            The output of that layer and its BatchNorm in evaluation mode.

        Raises:
            ValueError: If a BatchNorm was folded in, and ``input`` is no batch (N, C, ...).
        """
        node: Any = as_node(self, input) if output_size is None else as_node(self, input, output_size)
        if node is not None:
            return node
        check_floating("input", input)
        if self._normed and input.dim() != self.weight.dim():
            raise ValueError(
                f"input has shape {tuple(input.shape)}, and a BatchNorm is folded into this layer for inputs of "
                f"{self.weight.dim()} dimensions, (N, C, ...): pass such a batch, or do not fold this model"
            )
        if input.dim() == self.weight.dim() - 1 > 1:  # one sample
            return self(input.unsqueeze(0), output_size).squeeze(0)
        rows, geometry = self._read(input, self.weight, output_size)
        if self._runs_here(rows):
            kernel = Kernel(self.weight, None, None, 1.0)
            out = decouple(rows, self.weight, geometry, self.magnitude, self.angular, None, kernel)
            out = _affine_(out, self.scale, self.shift)
        else:
            out = deployed(rows, self.weight, geometry, self.magnitude, self.angular, self.scale, self.shift)
        return out if geometry.kernel else out.reshape(*input.shape[:-1], out.shape[-1])

    def _runs_here(self, x: Tensor) -> bool:
        """Whether nothing is traced, differentiated or cast: then each step may overwrite the one before."""
        if torch.is_grad_enabled() or x.device.type != "cpu" or x.dtype != self.weight.dtype:
            return False
        if (
            x.dtype not in (torch.float32, torch.float64)
            or not is_plain_eager(x)
            or autocast_dtype(x.device) is not None
        ):
            return False
        return form_of(self.angular) is not None


def _affine_(out: Tensor, scale: Tensor | None, shift: Tensor | None) -> Tensor:
    """a·F + b in place."""
    shape = (-1, *[1] * (out.dim() - 2))
    if scale is not None and shift is not None:
        return torch.addcmul(shift.view(shape), out, scale.view(shape), out=out)
    if scale is not None:
        return out.mul_(scale.view(shape))
    return out if shift is None else out.add_(shift.view(shape))


class _Reader:
    """How a layer reads its patches, without its parameters."""

    def __init__(self, op: Decoupled) -> None:
        self.op: Any = copy.copy(op)
        self.op._parameters = {}
        self.op._modules = {}
        self.op.follows = None

    def __call__(self, x: Tensor, weight: Tensor, output_size: list[int] | None) -> tuple[Tensor, Geometry]:
        found: tuple[Tensor, Geometry] | None = self.op.read(x, weight)
        if found is None:
            raise ValueError(f"x has shape {tuple(x.shape)}, which filters of shape {tuple(weight.shape)} cannot read")
        if output_size is None:
            return found
        return x, found[1]._replace(output_padding=self.op.outer_padding(x, output_size))


def _can_fold(op: Decoupled, norm: Any) -> bool:
    """Whether nothing depends on the batch or on ‖w‖, and nobody looks."""
    if op.weighted is not None or "parametrizations" in op._modules or getattr(op, "padding", None) == "same":
        return False
    if is_hooked(op):
        return False
    return norm is None or norm.running_mean is not None


def _plain(module: Any) -> nn.Module:
    """A module that handed its input on, as it was before."""
    module.__class__ = getattr(type(module), "plain", type(module))
    return module
