"""What learned projections descend, and their steps (thesis 6.3.4, 6.3.5, E.8)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .._core.extremes import largest
from .._core.modes import without_autocast
from ..functional import energy
from ..functional.energy import set_energies
from ._views import preservation, preservation_slope, project, tangent_rate


class Descent(NamedTuple):
    """Gradient descent on projections; the fields are the options of :class:`CoMHE` of the same names."""

    projection: str
    preserve: str
    aggregate: str
    dim: int
    inner_lr: float
    s: float
    distance: str
    half_space: bool

    def __call__(self, bases: Tensor, weights: list[Tensor], steps: int, differentiable: bool = False) -> Tensor:
        """Take ``steps`` steps from ``bases`` (C, k, d), which the layers with these unit neurons share."""
        if steps and looked_at():  # a slope needs tensors that gradients can be taken of
            with torch.inference_mode(False):
                return self(bases.clone(), [weight.clone() for weight in weights], steps)
        moved = bases.detach()
        with without_autocast(bases.device):
            for _ in range(steps):
                slope, value = self.slope(moved, weights, differentiable)
                moved = moved - self.rate(slope, value) * slope
        return moved if differentiable else moved.detach()

    def rate(self, slope: Tensor, value: Tensor) -> Tensor | float:
        """η, or less where the tangent of L_P would pass 0, below which L_P never is."""
        if self.projection != "angle_preserving":
            return self.inner_lr
        return tangent_rate(slope, value).clamp(max=self.inner_lr / self.dim)[:, None, None]

    def slope(self, bases: Tensor, weights: list[Tensor], differentiable: bool) -> tuple[Tensor, Tensor]:
        """The slope of :meth:`objective`, and its value."""
        if self.projection == "angle_preserving" and self.preserve == "cosine":
            with torch.set_grad_enabled(differentiable):
                slopes, values = zip(*(preservation_slope(weight, bases) for weight in weights), strict=True)
                return torch.stack(slopes).sum(0), torch.stack(values).sum(0)
        if torch.compiler.is_compiling():  # compilers know this form alone

            def total(bases: Tensor) -> tuple[Tensor, Tensor]:
                value = self.objective(bases, weights)
                return value.sum(), value

            slope, value = torch.func.grad(total, has_aux=True)(bases)
            return (slope, value) if differentiable else (slope.detach(), value.detach())
        with torch.enable_grad():
            leaf = bases if bases.requires_grad else bases.detach().requires_grad_()
            value = self.objective(leaf, weights)
            (slope,) = torch.autograd.grad(value.sum(), leaf, create_graph=differentiable)
        return slope, value if differentiable else value.detach()

    def objective(self, bases: Tensor, weights: list[Tensor]) -> Tensor:
        """What steps on each projection descend, (C,), summed over the layers that share it."""
        if self.projection == "angle_preserving":
            terms = [preservation(weight, bases, self.preserve) for weight in weights]
        else:
            found = [energies.mean(1) for energies in self._energies([project(weight, bases) for weight in weights])]
            if self.projection == "adversarial":
                terms = [-energies for energies in found]
            elif self.aggregate == "max":  # as back-propagation: the penalty depends on the largest alone
                terms = [largest(energies, 0) for energies in found]
            else:
                terms = found
        return torch.stack(terms).sum(0)

    def _energies(self, images: list[Tensor]) -> list[Tensor]:
        if torch.compiler.is_compiling():  # inside torch.func.grad: plain operations
            return [energy(one, self.s, self.distance, self.half_space) for one in images]
        return set_energies(images, self.s, self.distance, [self.half_space] * len(images))


def looked_at() -> bool:
    """Whether the call is made in inference mode, where projections stay as they are."""
    return not torch.compiler.is_compiling() and torch.is_inference_mode_enabled()
