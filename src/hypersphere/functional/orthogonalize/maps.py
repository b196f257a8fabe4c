"""Orthogonal matrices from arbitrary ones: the five differentiable maps of thesis 7.3.3-7.3.4 (appendix F.1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..._core.errors import check_floating
from ..._core.modes import Watched
from ..._core.registries import MAPS
from ..._core.sphere import upcast
from . import algorithms as exact
from . import iterations as iterative
from . import polar as kernels
from .precision import in_full


def orthogonalize(u: Tensor, method: str) -> Tensor:
    """R with RᵀR = I from each square matrix of ``u`` (..., d, d), differentiable in ``u``.

    | method           | R                                                   | determinant        |
    | ---------------- | --------------------------------------------------- | ------------------ |
    | ``gram_schmidt`` | Q of U = QT, diag T > 0 (Algorithms 1, 2)           | sign det U         |
    | ``householder``  | H₁H₂⋯H_{d−1} (Algorithm 3): Q up to its last sign   | (−1)^(reflections) |
    | ``lowdin``       | U(UᵀU)^(−1/2), the nearest orthogonal matrix (F.10) | sign det U         |
    | ``cayley``       | (I+A)(I−A)⁻¹ with A = tril(U,−1) − tril(U,−1)ᵀ      | +1                 |
    | ``exponential``  | exp A, same A                                       | +1                 |

    R agrees with the literal algorithms of the thesis up to rounding. In float32 max|RᵀR − I| ≤ 1e-5; ``exponential``
    ends with one Newton-Schulz step to reach this. Each gradient is in closed form, and Löwdin's is finite where
    singular values coincide: (G − Gᵀ)/2 at U = I. For a rank-deficient U the maps have no derivative; R is still
    orthogonal, and the directions that U does not determine get gradient 0. The maps are differentiable once, in
    reverse mode: a second derivative and forward mode raise an error.

    Half-precision inputs are computed in float32 and rounded at the end. After this rounding R is orthogonal only to
    about 1e-2, so keep ``u`` in float32 if R must stay orthogonal. Leading dimensions are blocks, computed in one call.
    The algorithm depends on the device, see :func:`register_orthogonalizer`.

    Args:
        u: square matrices; keep them in float32 where R must stay orthogonal.
        method: the map: one of the names above, the name of a registered map, or an address
            ``"package.module:name"``. A function of your own is called with ``u`` and differentiated by autograd.

    Returns:
        Orthogonal matrices R in the dtype of ``u``.

    Shape:
        - u: (..., d, d).
        - Output: (..., d, d).

    Raises:
        ValueError: If no map has that name, or ``u`` is not square.
        TypeError: If ``u`` is not a floating-point tensor, or the map works only in
            :func:`hypersphere.orthogonal.attach`.

    Example:
        >>> r = hs.functional.orthogonalize(torch.randn(5, 5), "cayley")
        >>> torch.allclose(r.mT @ r, torch.eye(5), atol=1e-5)
        True
    """
    own = MAPS.find(method, "method")
    if not callable(own) or isinstance(own, type):
        algorithm_of(method, u.device.type if isinstance(u, Tensor) else "cpu")
    check_floating("u", u)
    if u.dim() < 2 or u.shape[-1] != u.shape[-2]:
        raise ValueError(f"u has shape {tuple(u.shape)}: pass square matrices (..., d, d)")
    if u.numel() == 0:
        return u.clone()
    if callable(own):
        return apply_own(own, upcast(u)).to(u.dtype)
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active() or u.is_meta:
        from .operator import orthogonalize_op

        return orthogonalize_op(upcast(u), method).to(u.dtype)
    if u.dtype in (torch.float32, torch.float64):
        return _Orthogonalize.apply(u, method)
    return _Orthogonalize.apply(upcast(u), method).to(u.dtype)


def apply_own(function: Callable[[Tensor], Tensor], u: Tensor) -> Tensor:
    """The matrices that a user's function makes of ``u``.

    Raises:
        ValueError: If it does not return a tensor of the same shape.
    """
    matrix = function(u)
    if not isinstance(matrix, Tensor) or matrix.shape != u.shape:
        shape = tuple(matrix.shape) if isinstance(matrix, Tensor) else type(matrix).__name__
        raise ValueError(f"method returned {shape} for blocks {tuple(u.shape)}: return one matrix for each block")
    return matrix


@dataclass(frozen=True)
class Orthogonalizer:
    """An algorithm that makes square matrices orthogonal, for one method on one kind of device.

    ``forward(u)`` returns ``(R, *kept)``. R has the shape of ``u``. ``kept`` are at most three tensors, each with the
    shape of ``u`` ("matrix") or of its diagonal ("vector"), in the order of ``keeps``. ``backward(grad, R, *kept)``
    returns the gradient of ``u``. Both receive float32 or float64 tensors of shape (..., d, d). Autograd records
    nothing inside either function.

    Args:
        forward: computes R and what the backward pass needs.
        backward: computes the gradient of ``u`` from that of R.
        keeps: the kind of each tensor kept for the backward pass, ``"matrix"`` or ``"vector"``; none by default.

    Example:
        >>> def forward(u):
        ...     return (torch.linalg.qr(u).Q,)
        >>> algorithm = hs.functional.Orthogonalizer(forward, lambda grad, r: torch.zeros_like(grad))
        >>> algorithm.keeps
        ()
    """

    forward: Callable[[Tensor], tuple[Tensor, ...]]
    backward: Callable[..., Tensor]
    keeps: tuple[str, ...] = ()


def register_orthogonalizer(method: str, device_type: str, algorithm: Orthogonalizer) -> Orthogonalizer:
    """Compute ``method`` by ``algorithm`` on devices of ``device_type``.

    A new method is declared with ``hs.register("map", name, Orthogonalizer(...))``; this function only chooses how an
    existing one is computed. By default LAPACK-like factorizations are used everywhere, except on ``"cuda"`` for
    Gram-Schmidt (CholeskyQR, twice, in float64) and Löwdin (polynomial iterations in float64), where a GPU's
    factorizations are slow, and on ``"cpu"`` for Gram-Schmidt of small float32 matrices (CholeskyQR in float64,
    checked, where reflections are slow) and the gradient of the exponential (by the eigenvectors of A).

    Args:
        method: name of a map of :func:`orthogonalize`.
        device_type: ``"cpu"``, ``"cuda"``, ...; ``"any"`` means all devices without a special algorithm.
        algorithm: the :class:`Orthogonalizer` with the forward and backward pass to use on this device.

    Returns:
        The algorithm that was used before, so that it can be restored.

    Raises:
        TypeError: If ``algorithm`` is not an :class:`Orthogonalizer`.
        ValueError: If ``method`` is unknown.

    Example:
        >>> def forward(u):
        ...     return (torch.linalg.qr(u).Q,)
        >>> slow = hs.functional.Orthogonalizer(forward, lambda grad, r: torch.zeros_like(grad))
        >>> before = hs.functional.register_orthogonalizer("gram_schmidt", "meta", slow)
        >>> _ = hs.functional.register_orthogonalizer("gram_schmidt", "meta", before)
    """
    if not isinstance(algorithm, Orthogonalizer):
        raise TypeError(f"algorithm must be an Orthogonalizer, not {type(algorithm).__name__}")
    used = algorithm_of(method, device_type)
    _FOR_DEVICE[method, device_type] = algorithm
    return used


_ANY = "any"
MAPS.add(
    "gram_schmidt",
    Orthogonalizer(exact.gram_schmidt, exact.qr_backward, ("matrix",)),
    label="Gram-Schmidt",
    about="Q of U = QT with diag T > 0 (Algorithms 1, 2)",
)
MAPS.add(
    "householder",
    Orthogonalizer(exact.householder, exact.qr_backward, ("matrix",)),
    label="Householder",
    about="H₁⋯H_{d−1} (Algorithm 3): Gram-Schmidt up to the sign of the last column",
)
MAPS.add(
    "lowdin",
    Orthogonalizer(exact.lowdin, exact.lowdin_backward, ("matrix", "matrix", "vector")),
    label="Löwdin",
    about="U(UᵀU)^(−1/2), the nearest orthogonal matrix (F.10)",
)
MAPS.add(
    "cayley",
    Orthogonalizer(exact.cayley, exact.cayley_backward),
    label="Cayley",
    about="(I+A)(I−A)⁻¹ with A = tril(U,−1) − tril(U,−1)ᵀ",
)
MAPS.add(
    "exponential",
    Orthogonalizer(exact.exponential, exact.exponential_backward, ("matrix",)),
    label="exponential",
    about="exp A with A = tril(U,−1) − tril(U,−1)ᵀ",
)

# What replaces the declared algorithm on some devices.
_FOR_DEVICE: dict[tuple[str, str], Orthogonalizer] = {
    ("gram_schmidt", "cpu"): Orthogonalizer(iterative.small_cholesky_qr, exact.qr_backward, ("matrix",)),
    ("gram_schmidt", "cuda"): Orthogonalizer(iterative.cholesky_qr, exact.qr_backward, ("matrix",)),
    ("exponential", "cpu"): Orthogonalizer(exact.exponential, exact.exponential_backward_spectral, ("matrix",)),
    ("lowdin", "cuda"): Orthogonalizer(kernels.polar, kernels.polar_backward, ("matrix",)),
}


def methods() -> tuple[str, ...]:
    """The names of all maps with an :class:`Orthogonalizer`, those that were declared from outside included."""
    return tuple(entry.name for entry in MAPS.entries() if isinstance(entry.value, Orthogonalizer))


def algorithm_of(method: str, device_type: str) -> Orthogonalizer:
    """How ``method`` is computed on devices of ``device_type``.

    Raises:
        ValueError: If there is no such method.
    """
    for device in (device_type, _ANY):
        if (method, device) in _FOR_DEVICE:
            return _FOR_DEVICE[method, device]
    found = MAPS.find(method, "method")
    if not isinstance(found, Orthogonalizer):
        raise TypeError(
            f"method={method!r} works only in hs.orthogonal.attach: orthogonalize takes {', '.join(methods())}"
        )
    return found


def no_forward_mode(ctx: Any, *tangents: Any) -> None:
    """The rule of forward mode: there is none."""
    raise RuntimeError("orthogonalize has no forward mode: use reverse mode (backward, torch.func.grad, vjp or jacrev)")


class _Orthogonalize(torch.autograd.Function):
    """The map in eager mode.

    What it keeps is kept outside of ``save_for_backward``: R may be shared by several graphs, and
    the first backward must not free it for the others. A change of R in place is noticed all the same.
    """

    jvp = staticmethod(no_forward_mode)

    @staticmethod
    def forward(ctx: Any, u: Tensor, method: str) -> Tensor:
        algorithm = algorithm_of(method, u.device.type)
        r, *kept = in_full(algorithm.forward, u)
        ctx.u, ctx.backward_of, ctx.kept = u, algorithm.backward, Watched(r.detach(), *kept)
        return r

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        if not torch.is_grad_enabled():
            return in_full(ctx.backward_of, grad, *ctx.kept()), None
        with torch.no_grad():  # create_graph=True
            out = in_full(ctx.backward_of, grad, *ctx.kept())
        return DifferentiatedOnce.apply(out, grad, ctx.u), None


class DifferentiatedOnce(torch.autograd.Function):
    """Passes ``out`` on and refuses to be differentiated, by ``grad`` or ``u``."""

    generate_vmap_rule = True

    @staticmethod
    def forward(out: Tensor, grad: Tensor, u: Tensor) -> Tensor:
        return out.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, ...]:
        raise RuntimeError("orthogonalize has no second derivative: detach R, or drop create_graph=True")
