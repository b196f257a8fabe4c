"""What R may be: the maps from a free parameter to the layer's matrix, each with its start."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import ParametrizationList

from .._core.checks import check_count
from .._core.neurons import KeepsShape
from .._core.registries import MAPS
from ..functional import orthogonalize
from ..functional.orthogonalize import Orthogonalizer, apply_own

# A start draws N(0, 1) of a given shape; attach fixes device, dtype and generator.
Draw = Callable[..., Tensor]

_NOISE = 0.1


class Map:
    """R = map(raw) on blocks; the base class is R = raw itself, without any constraint (thesis 7.5.1, UPT).

    Subclass it for a constraint of your own (generalised OPT, thesis F.6): ``start`` draws the parameter ``raw`` of any
    shape (count, ...), and ``__call__`` computes R (count, dim, dim) from it.

    Example:
        >>> class Scaling(hs.orthogonal.Map):
        ...     def start(self, count, dim, init, draw):
        ...         return torch.ones(count, dim)
        ...     def __call__(self, raw):
        ...         return torch.diag_embed(raw)
        >>> model = hs.orthogonal.attach(nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)), Scaling())
    """

    #: R is kept until backward (see the page on orthogonal training); for maps worth it that allow it
    kept = False
    #: the matrices are tagged for :class:`hypersphere.optim.OrthogonalSGD`
    on_manifold = False
    #: counted by :func:`hypersphere.orthogonal.penalty`
    penalized = False
    #: w = Rv; else :meth:`move` makes w from v, and there is no R
    linear = True

    def start(self, count: int, dim: int, init: str, draw: Draw) -> Tensor:
        """Draw the parameter: the identity, or the orthogonalised N(0, 1) matrix (thesis F.3).

        Args:
            count: number of diagonal blocks of R, one raw matrix for each.
            dim: number of rows and columns of a block.
            init: ``"random"`` or ``"unit"``, ``"identity"``, or ``"literal"`` for N(0, 1) as drawn.
            draw: gives normal random numbers of a shape.

        Returns:
            The parameter (count, ...); here (count, dim, dim).
        """
        if init == "identity":
            return _identity(count, dim)
        gaussian = draw(count, dim, dim)
        if init == "literal" and not self.on_manifold:
            return gaussian
        return orthogonalize(gaussian, "gram_schmidt").contiguous()

    def __call__(self, raw: Tensor) -> Tensor:
        return raw

    def move(self, raw: Tensor, v: Tensor) -> Tensor:
        """Make the neurons w from the neurons v, where the map is not ``linear``.

        Args:
            raw: the learned parameter of the blocks, (blocks, ...).
            v: the fixed neurons, cut into blocks of coordinates, (blocks, n, dim).

        Returns:
            The neurons w, in the shape of v.
        """
        return v @ self(raw).mT


@dataclass(frozen=True)
class Orthogonal(Map):
    """R = orthogonalize(raw, method)."""

    method: str
    kept = True

    def start(self, count: int, dim: int, init: str, draw: Draw) -> Tensor:
        """N(0, 1), as in thesis F.3; smaller for ``"unit"`` and, unless ``"literal"``, for Cayley and exponential.

        Gram-Schmidt, Householder and Löwdin make the same R of cU as of U, for every c > 0. But a step
        of SGD turns R by 1/c² as much, and without weight decay U never shrinks: from σ = 1 R learns at
        a d-th of the rate that it has from ``"unit"``, σ²d = 1, with columns of length 1 on average.

        A skew matrix of N(0, σ²) has eigenvalues ±iμ, μ on a semicircle of radius 2σ√d. Literal
        σ = 1 sends most of them beyond all bounds, and R close to −I by Cayley. The default takes
        the σ at which R has mean diagonal 0 like a uniformly random rotation: σ²d = 2 for Cayley
        (where the mean of (1−μ²)/(1+μ²) vanishes), σ²d = 3.67 for the exponential (of cos μ).
        """
        if init == "identity":
            return torch.zeros(count, dim, dim) if self.method in _SKEW else _identity(count, dim)
        gaussian = draw(count, dim, dim)
        variance = _SKEW.get(self.method, 1.0 if init == "unit" else dim) / dim
        return gaussian if init == "literal" else gaussian * math.sqrt(variance)

    def __call__(self, raw: Tensor) -> Tensor:
        return orthogonalize(raw, self.method)


_SKEW = {"cayley": 2.0, "exponential": 3.6705}


def started(chosen: Map, init: str) -> Map:
    """The map itself, or one that can start so.

    Householder's algorithm gives I at U = I alone: for every other U of even size the determinant is −1, so that the
    first step would turn the last column over. From the identity Gram-Schmidt takes its place, which is the same map
    but for the sign of that column.
    """
    if init == "identity" and isinstance(chosen, Orthogonal) and chosen.method == "householder":
        return Orthogonal("gram_schmidt")
    return chosen


class Relaxed(Map):
    """R free, held near orthogonal by :func:`hypersphere.orthogonal.penalty` in the loss (7.7)."""

    penalized = True


class Manifold(Map):
    """R itself is the parameter and stays orthogonal by the optimizer's step (7.5).

    An average of weights (EMA) is a mean of matrices R, which is not orthogonal: take the nearest orthogonal matrix,
    ``orthogonalize(mean, "lowdin")``. The maps that compute R from a parameter average that parameter instead.
    """

    on_manifold = True


@dataclass(frozen=True)
class Own(Map):
    """A user's function or module from (count, dim, dim) to the same shape."""

    function: Callable[[Tensor], Tensor]

    def __call__(self, raw: Tensor) -> Tensor:
        return apply_own(self.function, raw)


class _Structured(Map):
    """Starts at the identity, ``"random"`` with noise of σ = 0.1/√d on the free entries."""

    def start(self, count: int, dim: int, init: str, draw: Draw) -> Tensor:
        if init == "identity":
            return _identity(count, dim)
        noise = draw(count, dim, dim) * (_NOISE / math.sqrt(dim))
        return _identity(count, dim, noise.device) + noise


class Cholesky(_Structured):
    """R = LLᵀ with L lower triangular: symmetric positive definite, so that vᵀRv > 0 (thesis F.6).

    Example:
        >>> r = hs.orthogonal.Cholesky()(torch.randn(1, 3, 3))
        >>> torch.allclose(r, r.mT)
        True
    """

    def __call__(self, raw: Tensor) -> Tensor:
        lower = raw.tril()
        return lower @ lower.mT


@dataclass(frozen=True)
class Triangular(_Structured):
    """R = tril(U), or triu(U): a triangular matrix (thesis F.6).

    Args:
        upper: take the upper triangle of U instead of the lower one.

    Example:
        >>> hs.orthogonal.Triangular()(torch.ones(1, 2, 2))[0]
        tensor([[1., 0.],
                [1., 1.]])
    """

    upper: bool = False

    def __call__(self, raw: Tensor) -> Tensor:
        return raw.triu() if self.upper else raw.tril()


@dataclass(frozen=True)
class Banded(_Structured):
    """R = U with R_ij = 0 for |i − j| > width: a banded matrix (thesis F.6).

    Args:
        width: number of diagonals kept on each side, ≥ 0; 1 is tridiagonal.

    Raises:
        ValueError: If ``width`` is negative.

    Example:
        >>> int(hs.orthogonal.Banded(width=1)(torch.ones(1, 4, 4)).sum())  # 4 + 3 + 3 entries
        10
    """

    width: int = 1

    def __post_init__(self) -> None:
        check_count("width", self.width, minimum=0)

    def __call__(self, raw: Tensor) -> Tensor:
        return raw.tril(self.width).triu(-self.width)


class Symmetric(Map):
    """R = (U + Uᵀ)/2 (thesis F.6). ``"random"`` gives entries of variance 1/d, which keeps lengths on average.

    Example:
        >>> r = hs.orthogonal.Symmetric()(torch.randn(1, 3, 3))
        >>> torch.equal(r, r.mT)
        True
    """

    def start(self, count: int, dim: int, init: str, draw: Draw) -> Tensor:
        return _identity(count, dim) if init == "identity" else draw(count, dim, dim) * math.sqrt(2.0 / dim)

    def __call__(self, raw: Tensor) -> Tensor:
        return 0.5 * (raw + raw.mT)


class SkewSymmetric(Map):
    """R = (U − Uᵀ)/2 (thesis F.6): Rv ⟂ v, and R is singular for odd d.

    A skew-symmetric matrix is never the identity, so ``init="identity"`` raises a ValueError. ``"random"`` gives
    entries of variance 1/d.

    Raises:
        ValueError: If ``init="identity"`` is given, or if R or one of its blocks has one row, which would make it 0.

    Example:
        >>> r = hs.orthogonal.SkewSymmetric()(torch.randn(1, 3, 3))
        >>> torch.equal(r, -r.mT)
        True
    """

    def start(self, count: int, dim: int, init: str, draw: Draw) -> Tensor:
        if init == "identity":
            raise ValueError("init='identity' with a skew-symmetric R, which is never I: use init='random'")
        if dim == 1:
            raise ValueError("a skew-symmetric R of one row is 0: leave the layer out with skip=, or use fewer blocks")
        return draw(count, dim, dim) * math.sqrt(2.0 / dim)

    def __call__(self, raw: Tensor) -> Tensor:
        return 0.5 * (raw - raw.mT)


@dataclass(frozen=True)
class Hessenberg(_Structured):
    """R = triu(U, −1), or tril(U, 1): a Hessenberg matrix, zero beyond the first diagonal on one side (thesis F.6).

    Args:
        upper: zero below the first subdiagonal; False: zero above the first superdiagonal.

    Example:
        >>> hs.orthogonal.Hessenberg()(torch.ones(1, 3, 3))[0, 2]
        tensor([0., 1., 1.])
    """

    upper: bool = True

    def __call__(self, raw: Tensor) -> Tensor:
        return raw.triu(-1) if self.upper else raw.tril(1)


class Canonical(Map):
    """Λ = UVd^(−1/2), where V diagonalizes the Gram matrix: UᵀU = V diag(d) Vᵀ (thesis F.11).

    R is orthogonal: its columns are the left singular vectors of U, by descending singular value. The signs of the
    columns of V are arbitrary; here the entry of largest absolute value in each column is positive. R jumps where two
    singular values coincide or the position of that entry changes, and its gradient is unbounded where singular values
    nearly coincide. Löwdin's symmetric orthogonalization (F.10) has neither problem.

    Example:
        >>> r = hs.orthogonal.Canonical()(torch.randn(1, 4, 4))
        >>> torch.allclose(r.mT @ r, torch.eye(4), atol=1e-4)
        True
    """

    def start(self, count: int, dim: int, init: str, draw: Draw) -> Tensor:
        """Draw N(0, 1), N(0, 1/d) for ``"unit"``, or for ``"identity"`` the diagonal matrix of d, d − 1, ..., 1.

        Args:
            count: number of diagonal blocks of R, one raw matrix for each.
            dim: number of rows and columns of a block.
            init: how R starts: ``"random"``, ``"unit"``, ``"identity"`` or ``"literal"``, see :func:`attach`.
            draw: gives normal random numbers of a shape.

        Returns:
            The initial parameter U, (count, dim, dim).
        """
        if init != "identity":
            return draw(count, dim, dim) * (dim**-0.5 if init == "unit" else 1.0)
        return torch.diag(torch.arange(dim, 0.0, -1.0)).repeat(count, 1, 1)

    def __call__(self, raw: Tensor) -> Tensor:
        left, _, right = torch.linalg.svd(raw)
        places = right.detach().abs().argmax(-1, keepdim=True)
        return left * right.detach().gather(-1, places).sign().mT


@dataclass(frozen=True)
class LowRank(Map):
    """R = I + ABᵀ: a change of low rank (thesis F.6). B starts at 0 for ``init="identity"``, else with small entries.

    Args:
        rank: number of columns of A and B, ≥ 1, limited to d. 8 keeps the number of parameters at 16·d.

    Raises:
        ValueError: If ``rank`` is below 1.

    Example:
        >>> model = nn.Sequential(nn.Linear(16, 8), nn.Linear(8, 2))
        >>> _ = hs.orthogonal.attach(model, hs.orthogonal.LowRank(rank=2))
        >>> [tuple(parameter.shape) for parameter in hs.orthogonal.rotation_parameters(model)]
        [(1, 2, 16, 2)]
    """

    rank: int = 8

    def __post_init__(self) -> None:
        check_count("rank", self.rank)

    def start(self, count: int, dim: int, init: str, draw: Draw) -> Tensor:
        factors = draw(count, 2, dim, min(self.rank, dim)) / math.sqrt(dim)
        factors[:, 1] *= 0.0 if init == "identity" else _NOISE
        return factors

    def __call__(self, raw: Tensor) -> Tensor:
        a, b = raw.unbind(-3)
        return torch.eye(a.shape[-2], dtype=raw.dtype, device=raw.device) + a @ b.mT


# What R may be besides the orthogonal maps of functional.orthogonalize, which stand in the same table.
for _name, _kind in {
    "free": Map,
    "relaxed": Relaxed,
    "gradient": Manifold,
    "cholesky": Cholesky,
    "triangular": Triangular,
    "banded": Banded,
    "symmetric": Symmetric,
    "skew_symmetric": SkewSymmetric,
    "hessenberg": Hessenberg,
    "canonical": Canonical,
    "low_rank": LowRank,
}.items():
    MAPS.add(_name, _kind)


def resolve(method: object, address: str = "") -> Map:
    """The map that ``attach(method=...)`` means: a name, a :class:`Map`, or a function of the parameter.

    ``address`` is where ``method`` was found, for the message.
    """
    if isinstance(method, Map):
        return method
    if isinstance(method, type) and issubclass(method, Map):
        return method()
    if isinstance(method, str):
        found = MAPS.find(method, "method")
        return Orthogonal(method) if isinstance(found, Orthogonalizer) else resolve(found, method)
    if isinstance(method, KeepsShape | ParametrizationList):
        raise TypeError(
            f"method={address or type(method).__name__!r} is what computes the weight of a layer, not a map: pass the "
            "name of its map, e.g. 'cayley'"
        )
    if callable(method) and not isinstance(method, type):
        return Own(method)
    said = f"{address!r} is {method!r}, which" if address else f"{method!r}"
    if isinstance(method, Orthogonalizer):
        raise TypeError(f"method={said} has no name here: declare it by hs.register('map', name, algorithm)")
    fix = "; pass an object of this class" if isinstance(method, type) else ""
    raise TypeError(f"method={said} must be a name, a Map or a function of a (blocks, d, d) tensor{fix}")


def module_of(method: Map) -> nn.Module | None:
    """The user's module inside a map, if there is one: its parameters are to be trained as well."""
    return method.function if isinstance(method, Own) and isinstance(method.function, nn.Module) else None


def _identity(count: int, dim: int, device: torch.device | None = None) -> Tensor:
    return torch.eye(dim, device=device).repeat(count, 1, 1)
