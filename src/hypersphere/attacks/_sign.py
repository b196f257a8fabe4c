"""Fast gradient sign method and its iterations: BIM, and PGD from a random start (thesis C.1.2)."""

from __future__ import annotations

import torch
from torch import Tensor

from .._core.checks import check_count
from ._gradient import Loss, Model, input_gradient, per_sample_loss, predicted, untouched
from ._inputs import Bounds, Number, check_inputs, check_labels, check_number, clamped, values


def fgsm(
    model: Model,
    x: Tensor,
    labels: Tensor | None,
    eps: Number,
    *,
    clip: Bounds | None,
    targeted: bool = False,
    loss: Loss = "log_odds",
    update_statistics: bool = False,
    check: bool = True,
) -> Tensor:
    """x̃ = clip(x + ε·sign ∇ₓJ(x, y)): one step to the corner of the ε-cube that increases the loss (thesis C.1.2).

    Args:
        model: inputs to logits, or to what ``loss`` takes. It runs in its present modes and under the present autocast;
            modes, ``requires_grad``, ``.grad`` and buffers stay unchanged. Unwrap ``DistributedDataParallel``.
        x: inputs ``(N, ...)`` in the normalisation that the model takes; ``eps`` and ``clip`` are in the same units.
        labels: true classes ``(N,)``; -100 leaves a sample unchanged. None takes the model's predictions, so that an
            adversarial example carries no information on the label (label leaking, Kurakin et al.).
        eps: size ε of the step in units of ``x``, a number or a tensor that broadcasts (one for each channel, ...);
            :func:`pixels` converts 8 of 255.
        clip: lowest and highest value of an input, numbers or tensors; None for inputs without bounds.
        targeted: ``labels`` are classes to move to: the loss is decreased.
        loss: J, whose gradient is taken. ``"log_odds"``, log Σ_{j≠y} exp z_j − z_y, has exactly the gradient of the
            cross-entropy divided by 1 − p_y, hence the same signs, but does not vanish where p_y rounds to 1. The signs
            differ only if BatchNorm in training mode mixes the samples of a batch, because ``"log_odds"`` gives them
            equal weights. ``"cross_entropy"`` is the cross-entropy itself, in float32 as in other libraries. A function
            of the model's output and ``labels`` (e.g. a head of :mod:`hypersphere.losses` on embeddings) works too; its
            mean or sum is taken.
        update_statistics: let training-mode layers see the attack's batches (BatchNorm, running norms, annealing); not
            within ``torch.compile``.
        check: look at the values and raise ValueError for inputs outside ``clip``, labels out of range and NaN
            gradients. On a GPU this waits for the device. It is skipped while compiling or capturing, where NaN
            gradients become NaN inputs.

    Returns:
        The changed inputs x̃, in the shape of ``x``.

    Raises:
        ValueError: If ``check`` is on and inputs lie outside ``clip``, labels are out of range or gradients are NaN.

    Example:
        >>> model, x, y = nn.Linear(4, 3), torch.randn(8, 4), torch.zeros(8, dtype=torch.long)
        >>> changed = hs.attacks.fgsm(model, x, y, eps=0.1, clip=None)
        >>> torch.allclose((changed - x).abs(), torch.full_like(x, 0.1), atol=1e-6)
        True
    """
    return _climb(model, x, labels, eps, eps, 1, clip, targeted, loss, update_statistics, check)


def bim(
    model: Model,
    x: Tensor,
    labels: Tensor | None,
    eps: Number,
    step: Number | None = None,
    iterations: int = 20,
    *,
    clip: Bounds | None,
    targeted: bool = False,
    random_start: bool = False,
    generator: torch.Generator | None = None,
    loss: Loss = "log_odds",
    update_statistics: bool = False,
    check: bool = True,
) -> Tensor:
    """x̃ ← clip_ε(x̃ + τ·sign ∇ₓJ(x̃, y)), N times: the basic iterative method (thesis C.1.2).

    clip_ε keeps x̃ within ε of x and within ``clip``.

    Args:
        model: inputs to logits, or to what ``loss`` takes; see :func:`fgsm`.
        x: inputs ``(N, ...)`` in the normalisation that the model takes; ``eps`` and ``clip`` are in the same units.
        labels: true classes ``(N,)``; -100 leaves a sample unchanged. None takes the model's predictions for the
            unchanged inputs.
        eps: radius ε of the cube in units of ``x``, a number or a tensor that broadcasts.
        step: τ > 0; None is ε/4, the thesis' 2 at ε = 8.
        iterations: N ≥ 1; the thesis takes 20.
        clip: lowest and highest value of an input, numbers or tensors; None for inputs without bounds.
        targeted: ``labels`` are classes to move to: the loss is decreased.
        random_start: start at a uniformly random point of the cube: projected gradient descent (PGD).
        generator: source of that point; None is torch's own.
        loss: J, the loss that the attack increases: ``"log_odds"``, ``"cross_entropy"`` or a function, as in
            :func:`fgsm`.
        update_statistics: let training-mode layers see the attack's batches, as in :func:`fgsm`.
        check: look at the values and raise ValueError, as in :func:`fgsm`.

    Returns:
        The changed inputs x̃, in the shape of ``x``.

    Raises:
        ValueError: If ``x`` lies outside ``clip``, a label is out of range, ``eps`` or ``step`` is negative, or, with
            ``check``, a gradient is NaN.

    Example:
        >>> model, x, y = nn.Linear(4, 3), torch.randn(8, 4), torch.zeros(8, dtype=torch.long)
        >>> changed = hs.attacks.bim(model, x, y, eps=0.1, clip=None)
        >>> bool(((changed - x).abs() <= 0.1 + 1e-6).all())
        True
    """
    check_count("iterations", iterations)
    start = (generator,) if random_start else None
    return _climb(model, x, labels, eps, step, iterations, clip, targeted, loss, update_statistics, check, start)


def _climb(
    model: Model,
    x: Tensor,
    labels: Tensor | None,
    eps: Number,
    step: Number | None,
    iterations: int,
    clip: Bounds | None,
    targeted: bool,
    loss: Loss,
    update_statistics: bool,
    check: bool,
    start: tuple[torch.Generator | None] | None = None,
) -> Tensor:
    check_inputs(x, clip, check)
    check_number("eps", eps, x, check)
    step = eps / 4 if step is None else step
    check_number("step", step, x, check)
    if update_statistics and torch.compiler.is_compiling():
        raise ValueError("update_statistics=True is not possible within torch.compile: call the attack outside of it")
    if labels is None and targeted:
        raise ValueError("targeted=True needs labels: the classes to move to")
    if labels is not None:
        check_labels(labels, x)
    if len(x) == 0:
        return x.detach().clone()
    forward = untouched(model, update_statistics)
    objective = loss if isinstance(loss, str) else untouched(loss, update_statistics)
    x = x.detach()
    labels = predicted(forward, x) if labels is None else labels.long()
    if not torch.compiler.is_compiling() and labels.is_inference():
        with torch.inference_mode(False):
            labels = labels.clone()  # autograd keeps it for the backward pass

    def total(at: Tensor) -> Tensor:
        return per_sample_loss(objective, forward(at), labels, check)

    low, high = (clamped(bound.to(x.dtype), clip) for bound in (x - eps, x + eps))
    found = x
    if start is not None:
        ignored = (labels < 0).view(-1, *[1] * (x.dim() - 1))
        found = torch.where(ignored, x, _uniform(low, high, start[0]))
    for _ in range(iterations):
        direction = _sign(input_gradient(total, found)) * step
        found = (found - direction if targeted else found + direction).to(x.dtype).clamp(low, high)
    if check and values(found):
        _refuse_nan(found)
    return found.detach()


def _sign(gradient: Tensor) -> Tensor:
    """The sign of a number, and NaN of NaN, which torch.sign takes for 0."""
    return torch.where(gradient.isnan(), gradient, gradient.sign())


def _uniform(low: Tensor, high: Tensor, generator: torch.Generator | None) -> Tensor:
    share = torch.rand(low.shape, generator=generator, dtype=low.dtype, device=low.device)
    return torch.lerp(low, high, share)


def _refuse_nan(found: Tensor) -> None:
    bad = found.isnan().flatten(1).any(1)
    if bool(bad.any()):
        where = bad.nonzero().flatten().tolist()
        raise ValueError(
            f"the gradient of the loss is NaN for {len(where)} of {len(found)} samples (first: sample {where[0]}): "
            "the model or its backward pass gives NaN there"
        )
