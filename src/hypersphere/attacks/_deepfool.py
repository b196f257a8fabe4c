"""DeepFool: the distance to the nearest decision boundary, by linearising the classifier (thesis C.3)."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from .._core.checks import check_choice, check_count, check_positive
from ..functional import norm as norm_of
from ._gradient import Model, differentiable, untouched
from ._inputs import Bounds, check_inputs, check_labels, check_logits, clamped


def deepfool(
    model: Model,
    x: Tensor,
    labels: Tensor | None = None,
    *,
    clip: Bounds | None,
    norm: str = "l2",
    iterations: int = 50,
    overshoot: float = 0.02,
    classes: int | None = 10,
) -> Tensor:
    """Change each input slightly, until its prediction changes (Moosavi-Dezfooli et al., thesis C.3).

    With w_k = ∇z_k − ∇z_y and f_k = z_k − z_y at the present point, the nearest boundary of the linearised classifier
    is that of l = argmin_k |f_k|/‖w_k‖_q, and the step is

        l2 (q = 2):    r = |f_l|/‖w_l‖²₂ · w_l          linf (q = 1):    r = |f_l|/‖w_l‖₁ · sign(w_l)

    until the prediction for x̃ = clip(x + (1 + overshoot)·Σr) differs. On a linear classifier one step is exact.

    Each step computes only the samples whose prediction has not changed yet. The function therefore waits for the
    device after each step and cannot be captured in a graph.

    Args:
        model: inputs to logits; it is not changed, see :func:`fgsm`.
        x: inputs ``(N, ...)`` in the normalisation that the model takes; ``clip`` is in the same units.
        labels: classes to move away from; samples with another prediction, and those labelled -100, stay unchanged.
            None takes the predictions of the model, as in the original.
        clip: lowest and highest value of an input; None for inputs without bounds.
        norm: which norm of the perturbation is kept small, ``"l2"`` or ``"linf"``.
        iterations: largest number of steps. A sample whose prediction still holds is returned as the last step left it.
        overshoot: how far beyond the boundary to go, ≥ 0, as a share of the perturbation.
        classes: how many classes to consider, the likeliest ones for the unchanged sample; None considers all.

    Returns:
        The changed inputs x̃, in the shape of ``x``.

    Raises:
        ValueError: If ``x`` lies outside ``clip``, a label is out of range, or the model or its gradient gives NaN.

    Example:
        >>> model, x = nn.Linear(4, 3), torch.randn(8, 4)
        >>> changed = hs.attacks.deepfool(model, x, clip=None)
        >>> bool((model(changed).argmax(1) != model(x).argmax(1)).all())
        True
    """
    check_inputs(x, clip, check=True)
    check_choice("norm", norm, ("l2", "linf"))
    check_count("iterations", iterations)
    check_positive("overshoot", overshoot, zero=True)
    if classes is not None:
        check_count("classes", classes, minimum=2)
    if labels is not None:
        check_labels(labels, x)
    if len(x) == 0:
        return x.detach().clone()
    forward = untouched(model)
    batchwise = isinstance(model, nn.Module) and any(part.training for part in model.modules())
    with differentiable():
        original = x.detach().clone()
        found, total = original.clone(), torch.zeros_like(original, dtype=_wide(x.dtype))
        logits = _logits(forward, original, labels)
        start = logits.argmax(1) if labels is None else labels.to(x.device, torch.int64)
        candidates = _candidates(logits, start, classes)
        rows = (logits.argmax(1) == start).nonzero().flatten()
        for _ in range(iterations):
            if len(rows) == 0:
                break
            # a layer in training mode mixes the samples of a batch: there the batch must stay whole
            chosen = torch.arange(len(x), device=x.device) if batchwise else rows
            step = _step(forward, found[chosen], candidates[chosen], norm)
            total[rows] += step[rows] if batchwise else step
            moved = original[rows].to(total.dtype) + (1 + overshoot) * total[rows]
            found[rows] = clamped(moved.to(x.dtype), _rows_of(clip, rows, x))
            answers = _answers(forward, found if batchwise else found[rows])
            rows = rows[(answers[rows] if batchwise else answers) == start[rows]]
    return found


def _step(forward: Model, x: Tensor, candidates: Tensor, norm: str) -> Tensor:
    """r for each sample: to the nearest of the linearised boundaries between ``candidates[:, 0]`` and the others."""
    leaf = x.detach().requires_grad_(True)
    scores = forward(leaf).gather(1, candidates)
    scores = scores if scores.dtype == torch.float64 else scores.float()
    if not scores.requires_grad:
        raise ValueError("the model's output does not depend on x by differentiable operations: nothing to attack")
    last = candidates.shape[1] - 1

    def slope(k: int) -> Tensor:
        (gradient,) = torch.autograd.grad(scores[:, k].sum(), leaf, retain_graph=k < last)
        return gradient.to(_wide(x.dtype))

    at, home = scores.detach(), slope(0)
    tie = 4 * torch.finfo(at.dtype).eps * (1 + at.abs().amax(1, keepdim=True))
    gap = (at - at[:, :1]).abs().maximum(tie).to(home.dtype)  # on a boundary, the next number beyond it
    nearest = torch.full_like(gap[:, 0], torch.inf)
    step = torch.zeros_like(home)
    for k in range(1, last + 1):
        normal = slope(k) - home
        flat = normal.flatten(1)
        length = norm_of(flat) if norm == "l2" else flat.abs().sum(1)
        distance = torch.where(length > 0, gap[:, k] / length, torch.inf)
        direction = normal / _each(length, normal) if norm == "l2" else normal.sign()
        better = distance < nearest
        nearest = torch.where(better, distance, nearest)
        step = torch.where(_each(better, normal), _each(distance, normal) * direction, step)
    if bool(step.isnan().any()) or bool(gap.isnan().any()):
        raise ValueError("the model or its backward pass gives NaN: DeepFool has no direction to go")
    return step


def _candidates(logits: Tensor, start: Tensor, classes: int | None) -> Tensor:
    """The class to leave, then the likeliest others: ``(N, classes)``."""
    count = logits.shape[1] if classes is None else min(classes, logits.shape[1])
    first = logits.scatter(1, start.clamp_min(0).unsqueeze(1), torch.inf)
    return first.topk(count, dim=1).indices


@torch.no_grad()
def _logits(forward: Model, x: Tensor, labels: Tensor | None) -> Tensor:
    logits = forward(x)
    check_logits(logits, torch.zeros(len(x), dtype=torch.int64, device=x.device) if labels is None else labels, True)
    if bool(logits.isnan().any()):
        raise ValueError("the model gives NaN logits: DeepFool has no direction to go")
    return logits.float()


@torch.no_grad()
def _answers(forward: Model, x: Tensor) -> Tensor:
    return forward(x).argmax(1)


def _rows_of(clip: Bounds | None, rows: Tensor, x: Tensor) -> Bounds | None:
    """Bounds that differ between samples, for some of the samples."""
    if clip is None:
        return None
    each = (
        bound[rows] if isinstance(bound, Tensor) and bound.dim() == x.dim() and len(bound) > 1 else bound
        for bound in clip
    )
    return cast(Bounds, tuple(each))


def _each(value: Tensor, like: Tensor) -> Tensor:
    """One number a sample, shaped to multiply samples."""
    return value.view(-1, *[1] * (like.dim() - 1))


def _wide(dtype: torch.dtype) -> torch.dtype:
    return dtype if dtype == torch.float64 else torch.float32
