"""Gradient descent that keeps orthogonal matrices orthogonal (thesis 7.3.5)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, overload

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer, ParamsT

from .._core.checks import check_choice, check_count, check_positive
from ..functional import orthogonalize
from ..functional.orthogonalize.algorithms import polish
from ..orthogonal import is_orthogonal
from .muon import check_rate


class TooLong(RuntimeError):
    """A step after which an orthogonal matrix would not be finite, of a gradient that is."""


class OrthogonalSGD(Optimizer):
    """R ← (I − λ/2·W)⁻¹(I + λ/2·W)R for orthogonal matrices (thesis 7.5), SGD with momentum for the rest.

    W = Ŵ − Ŵᵀ with Ŵ = −∇f·Rᵀ − ½R(Rᵀ(−∇f)Rᵀ), which is W = ½(R∇fᵀ − ∇fRᵀ) as R is square. (The printed W of thesis 7.5
    lacks the minus and ascends.) W is skew, so the step multiplies R by a rotation; to first order it is −λ times the
    gradient's projection on the tangent space. Momentum is accumulated like SGD's and projected on the tangent space in
    each step.

    The orthogonal matrices are those of ``attach(model, "gradient")`` and of groups with ``"orthogonal": True`` (stacks
    (..., d, d) are allowed). Use this optimizer for all parameters of a model, or only for the orthogonal ones together
    with another optimizer for the rest: see ``is_orthogonal``.

    Rounding (and the truncated iteration) lets R drift. After every step max|RᵀR − I| is compared with ``tolerance``.
    If it is larger, R is re-orthogonalised: by one Newton-Schulz step (or two), or by Löwdin's map if R is far off.
    ``state[p]["repairs"]`` counts these repairs.

    Args:
        params: parameters or groups of them, as for every torch optimizer.
        lr: λ > 0, a number, or a tensor that holds one.
        momentum: share of the last step that is added to the next, in [0, 1).
        weight_decay: decay of the plain parameters, ≥ 0; it does not affect orthogonal matrices.
        nesterov: look ahead along the momentum, as in ``torch.optim.SGD``; needs a momentum.
        solver: ``"solve"`` is the closed form 7.5; ``"fixed_point"`` iterates 7.6, Y ← R + λ/2·W(R + Y) from Y = R +
            λWR, ``iterations`` times (the thesis: two suffice).
        iterations: steps of the fixed point; the thesis finds that two suffice.
        bounded: limit the step to λ = 1/‖W‖_F, as the authors' code does, which keeps the iteration contracting. Off by
            default, as in the thesis.
        tolerance: largest max|RᵀR − I| that is not repaired; the default suits float32.
        nonfinite: what NaN or infinite gradients of orthogonal matrices do: ``"raise"`` an error before anything is
            changed, or ``"skip"`` the whole step (counted in ``skipped``).

    Raises:
        ValueError: If an orthogonal parameter is not square or does not start orthogonal, or a setting is out of range.
        RuntimeError: In ``step``, if the gradient of an orthogonal matrix is not finite, or a step is too long.

    Example:
        >>> model = hs.orthogonal.attach(nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)), "gradient")
        >>> optimizer = hs.optim.OrthogonalSGD(model.parameters(), lr=0.1, momentum=0.9)
        >>> model(torch.randn(5, 4)).square().mean().backward()
        >>> optimizer.step()
        >>> optimizer.drift() < 1e-5
        True
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor,
        momentum: float = 0.0,
        *,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        solver: str = "solve",
        iterations: int = 2,
        bounded: bool = False,
        tolerance: float = 5e-6,
        nonfinite: str = "raise",
    ) -> None:
        self.nonfinite = check_choice("nonfinite", nonfinite, ("raise", "skip"))
        self.skipped = 0
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "solver": solver,
            "iterations": iterations,
            "bounded": bounded,
            "tolerance": tolerance,
            "orthogonal": None,
        }
        super().__init__(params, defaults)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(param_group)
        try:
            _check_group(self.param_groups[-1])
        except (TypeError, ValueError):
            self.param_groups.pop()
            raise

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "nonfinite": self.nonfinite, "skipped": self.skipped}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("nonfinite", "raise")
        self.__dict__.setdefault("skipped", 0)

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with_grad = [(p, group) for group in self.param_groups for p in group["params"] if p.grad is not None]
        on_manifold = [(p, group) for p, group in with_grad if _on_manifold(p, group)]
        if not _all_finite([p for p, _ in on_manifold]):
            if self.nonfinite == "raise":
                raise RuntimeError(
                    "an orthogonal matrix has a NaN or infinite gradient; nothing was changed. Lower lr, clip "
                    "gradients, or pass nonfinite='skip'"
                )
            self.skipped += 1
            return loss
        manifold_ids = {id(p) for p, _ in on_manifold}
        for p, group in with_grad:
            if id(p) in manifold_ids:
                self._rotate(p, group)
            else:
                self._descend(p, group)
        return loss

    def drift(self) -> float:
        """Compute how far the orthogonal matrices are from orthogonal.

        Returns:
            The largest max|RᵀR − I| of all of them.
        """
        with torch.no_grad():
            found = [p for group in self.param_groups for p in group["params"] if _on_manifold(p, group)]
            return max((_drift(p) for p in found), default=0.0)

    def _descend(self, p: Tensor, group: dict[str, Any]) -> None:
        grad = _gradient(p)
        if group["weight_decay"]:
            grad = grad.add(p, alpha=group["weight_decay"])
        direction, lr = self._with_momentum(p, grad, group), group["lr"]
        if isinstance(lr, Tensor):
            p.sub_(direction * lr.reshape(()))  # alpha would wait for a GPU
        else:
            p.add_(direction, alpha=-lr)

    def _rotate(self, r: Tensor, group: dict[str, Any]) -> None:
        direction = self._with_momentum(r, _gradient(r), group)
        w = r @ direction.mT
        w = 0.5 * (w - w.mT)
        if group["momentum"]:
            buffer = self.state[r]["momentum_buffer"]
            buffer.copy_(0.5 * (buffer - r @ buffer.mT @ r))
        lr = group["lr"]
        lam = torch.ones_like(w[..., :1, :1]) * (lr.reshape(()) if isinstance(lr, Tensor) else lr)
        if group["bounded"]:
            lam = torch.minimum(lam, 1.0 / torch.linalg.matrix_norm(w, keepdim=True))
        half = 0.5 * lam * w
        moved = _solve(r, half) if group["solver"] == "solve" else _iterate(r, half, group["iterations"])
        r.copy_(self._repaired(r, moved, group["tolerance"]))

    def _with_momentum(self, p: Tensor, grad: Tensor, group: dict[str, Any]) -> Tensor:
        if not group["momentum"]:
            return grad
        state = self.state[p]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = grad.clone()
        else:
            state["momentum_buffer"].mul_(group["momentum"]).add_(grad)
        buffer: Tensor = state["momentum_buffer"]
        return grad.add(buffer, alpha=group["momentum"]) if group["nesterov"] else buffer

    def _repaired(self, p: Tensor, moved: Tensor, tolerance: float) -> Tensor:
        defect = _drift(moved)
        if defect <= tolerance:
            return moved
        if not math.isfinite(defect):
            raise TooLong(
                f"the step of an orthogonal matrix {tuple(p.shape)} is too long for {p.dtype}: it was not made. Lower "
                "lr, clip gradients, or pass bounded=True"
            )
        state = self.state[p]
        state["repairs"] = state.get("repairs", 0) + 1
        if defect > 0.01:
            return orthogonalize(moved, "lowdin")
        moved = polish(moved)
        return moved if defect < 1e-3 else polish(moved)


def _solve(r: Tensor, half: Tensor) -> Tensor:
    """(I − H)⁻¹(I + H)R with H = λ/2·W: one solve for (I − H)⁻¹·2R, less R."""
    system = -half
    system.diagonal(dim1=-2, dim2=-1).add_(1.0)
    solved, _ = torch.linalg.solve_ex(system, 2.0 * r)  # of a matrix beside which the 1 is lost: not finite
    return solved - r


def _iterate(r: Tensor, half: Tensor, iterations: int) -> Tensor:
    y = r + 2.0 * (half @ r)
    for _ in range(iterations):
        y = r + half @ (r + y)
    return y


def _on_manifold(p: Tensor, group: dict[str, Any]) -> bool:
    return is_orthogonal(p) if group["orthogonal"] is None else bool(group["orthogonal"])


def _gradient(p: Tensor) -> Tensor:
    grad = p.grad
    if grad is None or grad.is_sparse:
        raise RuntimeError("OrthogonalSGD takes dense gradients only: use torch.optim.SGD for sparse embeddings")
    return grad


def _all_finite(parameters: list[Tensor]) -> bool:
    checks = [_gradient(p).isfinite().all() for p in parameters]
    return not checks or bool(torch.stack([check.to(checks[0].device) for check in checks]).all())


def _drift(r: Tensor) -> float:
    """max|RᵀR − I| of a stack, 0 of an empty one."""
    gram = r.mT @ r
    gram.diagonal(dim1=-2, dim2=-1).sub_(1.0)
    return float(gram.abs().max()) if r.numel() else 0.0


def _check_group(group: dict[str, Any]) -> None:
    check_rate(group["lr"])
    if not check_positive("momentum", group["momentum"], zero=True) < 1:
        raise ValueError(f"momentum={group['momentum']} must be less than 1")
    check_positive("weight_decay", group["weight_decay"], zero=True)
    check_positive("tolerance", group["tolerance"])
    check_choice("solver", group["solver"], ("solve", "fixed_point"))
    check_count("iterations", group["iterations"])
    if group["nesterov"] and not group["momentum"]:
        raise ValueError("nesterov=True needs momentum > 0")
    for p in group["params"]:
        if not _on_manifold(p, group):
            continue
        if p.dim() < 2 or p.shape[-1] != p.shape[-2]:
            raise ValueError(f"an orthogonal parameter has shape {tuple(p.shape)}: give square matrices (..., d, d)")
        if p.dtype in (torch.float16, torch.bfloat16):
            raise ValueError(f"an orthogonal parameter has dtype {p.dtype}, too coarse to stay orthogonal: use float32")
        defect = _drift(p.detach())
        if not defect < 1e-3:
            raise ValueError(
                f"an orthogonal parameter starts with max|RᵀR − I| = {defect:.2g}: orthogonalize it first "
                "(hs.functional.orthogonalize), or leave 'orthogonal' off"
            )
