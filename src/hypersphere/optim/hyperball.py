"""Optimizers whose weights stay on a sphere and turn by the learning rate (Wen et al. 2026, arXiv 2606.16899).

    W ← R·N(W − η·‖W‖·N(u)),  N(x) = x/‖x‖,  R = ‖W₀‖, which ‖W‖ is unless something else has rescaled W

u is the step of another optimizer, such as Adam or Muon. Its length does not count: each step turns a weight by at
most about η radians, and the length that weight decay would control is constant.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Adam
from torch.optim.optimizer import Optimizer, ParamsT

from .._core.checks import check_choice
from .._core.modes import placed
from .._core.sphere import norm, unit, upcast
from .muon import Muon


def hyperball(optimizer: Optimizer, params: Iterable[Tensor] | None = None, *, per: str = "matrix") -> Optimizer:
    """Keep the weights of an optimizer on a sphere: W ← R·N(W − η·‖W‖·N(u)), where u is the optimizer's step.

    The optimizer is changed in place, by hooks before and after ``optimizer.step()``: schedules, gradient scalers and
    checkpoints work as before, and R is a part of the optimizer's state. During a step a copy of the weights is kept,
    from which u is computed as a difference. If u is below the rounding errors of the weights, eps·R, as with tiny
    gradients in SGD, its direction is noise, and the weights turn by proportionally less. Copies and pickles of an
    optimizer lose its hooks; those of :class:`AdamH` and :class:`MuonH` keep them.

    Args:
        optimizer: Any optimizer of PyTorch, without weight decay.
        params: The weights that stay on a sphere; None takes all with two dimensions or more. The others get the plain
            step. The paper leaves embeddings and scalars to plain Adam.
        per: What keeps its length: ``"matrix"``, the whole weight as in the paper, or ``"neuron"``, each of its rows.
            A group of parameters may have its own ``per``.

    Returns:
        The optimizer that was given.

    Raises:
        TypeError: If ``optimizer`` is not one of PyTorch.
        ValueError: If a weight is zero, is not in the optimizer or has weight decay, if nothing is left, or if the
            optimizer keeps weights on a sphere already.

    Example:
        >>> layer = nn.Linear(4, 3, bias=False)
        >>> before = layer.weight.norm().item()
        >>> optimizer = hs.optim.hyperball(torch.optim.SGD(layer.parameters(), lr=0.1))
        >>> layer(torch.randn(2, 4)).sum().backward()
        >>> optimizer.step()
        >>> abs(layer.weight.norm().item() - before) < 1e-5
        True
    """
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"optimizer must be a torch.optim.Optimizer, not {type(optimizer).__name__}")
    check_choice("per", per, ("matrix", "neuron"))
    if hasattr(optimizer, "_ball"):
        raise ValueError(f"this {type(optimizer).__name__} keeps weights on a sphere already: call hyperball once")
    known = {id(p) for group in optimizer.param_groups for p in group["params"]}
    chosen = None if params is None else {id(p) for p in params}
    if chosen is not None and not chosen <= known:
        raise ValueError("params has a tensor that the optimizer does not have: give parameters of its groups")
    ball = _Ball(chosen, per)
    found = ball.weights(optimizer)
    if not found or (chosen is not None and len(found) < len(chosen)):
        raise ValueError(
            "hyperball is for weights of two or more dimensions: "
            + ("the optimizer has none" if not found else "params has others, leave them out")
        )
    ball.check(found)
    ball.attach(optimizer)
    return optimizer


class _Ball:
    """The hooks of an optimizer: what its weights were before a step, and where they are put after it."""

    def __init__(self, chosen: set[int] | None, per: str) -> None:
        self.chosen, self.per = chosen, per
        self.checked: set[int] = set()
        self._before: list[tuple[Tensor, dict[str, Any], Tensor]] = []

    def attach(self, optimizer: Optimizer) -> None:
        optimizer._ball = self  # type: ignore[attr-defined]
        optimizer.register_step_pre_hook(self._remember)
        optimizer.register_step_post_hook(self._project)

    def weights(self, optimizer: Optimizer) -> list[tuple[Tensor, dict[str, Any]]]:
        every = ((p, group) for group in optimizer.param_groups for p in group["params"])
        return [(p, g) for p, g in every if p.dim() > 1 and (self.chosen is None or id(p) in self.chosen)]

    def check(self, found: Iterable[tuple[Tensor, dict[str, Any]]]) -> None:
        """Refuse weights that cannot stay on a sphere; each is looked at once."""
        for p, group in found:
            if id(p) in self.checked:
                continue
            if group.get("weight_decay"):
                raise ValueError(
                    f"weight_decay={group['weight_decay']} has no effect on a weight of constant length: set it to 0 "
                    "in the groups of these weights"
                )
            per = check_choice("per", group.get("per", self.per), ("matrix", "neuron"))
            if not bool((self.lengths(p.detach(), group) > 0).all()):
                what = "is zero" if per == "matrix" else "has a row of zeros"
                raise ValueError(
                    f"the weight of shape {tuple(p.shape)} {what}, without a direction: leave it out of params"
                )
            self.checked.add(id(p))

    def lengths(self, weight: Tensor, group: dict[str, Any]) -> Tensor:
        """‖W‖, or that of each row, in float32 or better, with as many dimensions as W."""
        return norm(upcast(weight), _over(weight, group.get("per", self.per) == "neuron"), keepdim=True)

    def _remember(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        found = self.weights(optimizer)
        self.check(found)  # of groups that were added since
        self._before = [(p, group, p.detach().clone()) for p, group in found]

    @torch.no_grad()
    def _project(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        before, self._before = self._before, []
        for p, group, old in before:
            if p.grad is None:
                continue
            state = optimizer.state[p]
            if "radius" not in state:  # in the weight's precision: a checkpoint brings it back unchanged
                state["radius"] = self.lengths(old, group).to(p.dtype)
            radius, start, end = upcast(state["radius"]), upcast(old), upcast(p)
            # a single row: its own length is that of the matrix, but a process of several may hold none of it
            by_row = len(radius) > 1 or (len(p) == 1 and group.get("per", self.per) == "neuron")
            over, step = _over(p, by_row), start - end
            size = norm(step, over, keepdim=True)
            length = norm(start, over, keepdim=True)  # R, but where others have changed it since
            length = torch.where(length > 0, length, radius)
            least = (torch.finfo(p.dtype).eps * length).clamp(min=torch.finfo(radius.dtype).tiny)
            turned = unit(start - group["lr"] * length * (step / size.clamp(min=least)), over) * radius
            moved = torch.where(size != 0, turned, start)  # a step that changes nothing does not even round
            p.copy_(placed(moved, p))


def _over(weight: Tensor, by_row: bool) -> tuple[int, ...]:
    """The dimensions that a length is taken over."""
    return tuple(range(int(by_row), weight.dim()))


class AdamH(Adam):
    """Adam whose weights of two or more dimensions stay on a sphere: see :func:`hyperball`.

    Args:
        params: Parameters or groups of them. Those with fewer than two dimensions get Adam's plain step.
        lr: η, about the angle in radians by which a step turns a weight at most.
        betas: Decay of the running means of the gradient and of its square.
        eps: Added to the root of the second mean.
        per: What keeps its length: ``"matrix"``, the whole weight, or ``"neuron"``, each of its rows.
        **options: Further options of :class:`torch.optim.Adam`, such as ``fused``; not ``weight_decay``.

    Raises:
        ValueError: As for :func:`hyperball`.

    Example:
        >>> layer = nn.Linear(4, 3)
        >>> optimizer = hs.optim.AdamH(layer.parameters(), lr=0.01, per="neuron")
        >>> layer(torch.randn(2, 4)).sum().backward()
        >>> optimizer.step()
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        *,
        per: str = "matrix",
        **options: Any,
    ) -> None:
        super().__init__(params, lr=lr, betas=betas, eps=eps, **options)
        _keep(self, per)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        _attach_again(self)


class MuonH(Muon):
    """Muon whose weights stay on a sphere: see :func:`hyperball`.

    Args:
        params: Weights of two or more dimensions, or groups of them; filters are rows. Use Adam for all others.
        lr: η, about the angle in radians by which a step turns a weight at most.
        momentum: Decay of the running mean of the gradient.
        per: What keeps its length: ``"matrix"``, the whole weight, or ``"neuron"``, each of its rows.

    Raises:
        ValueError: As for :func:`hyperball`, and if a parameter has fewer than two dimensions.

    Example:
        >>> layer = hs.nn.SphereConv2d(3, 8, 3)
        >>> optimizer = hs.optim.MuonH(layer.parameters(), lr=0.02)
        >>> layer(torch.randn(2, 3, 8, 8)).sum().backward()
        >>> optimizer.step()
    """

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 0.02, momentum: float = 0.95, *, per: str = "matrix"
    ) -> None:
        super().__init__(params, lr=lr, momentum=momentum)
        _keep(self, per)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        _attach_again(self)


def _keep(optimizer: Optimizer, per: str) -> None:
    """Begin, and note in ``defaults``, which copies and pickles have, how."""
    optimizer.defaults["per"] = per
    hyperball(optimizer, per=per)


def _attach_again(optimizer: Optimizer) -> None:
    """Copies and pickles have no hooks; loading a state leaves them."""
    if not hasattr(optimizer, "_ball"):
        ball = _Ball(None, optimizer.defaults["per"])
        ball.checked = {id(p) for p, _ in ball.weights(optimizer)}
        ball.attach(optimizer)
