"""The softmax losses of the paper and the thesis: plain, on normalised vectors, and with multiplicative margins."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from .._core.sphere import angle
from ..angular import AngularLike, Cosine, SquareCosine
from ..functional.margins import check_margin, psi
from ._inputs import without, without_margin
from .margin_softmax import MarginSoftmax
from .sample import Sample

__all__ = ["ASoftmax", "GASoftmax", "LSoftmax", "SSoftmax", "Softmax", "SphereFace", "WSoftmax"]


class Softmax(MarginSoftmax):
    """Logits W_j·x + b_j (thesis 2.1): the ordinary linear classifier with cross-entropy, as a head.

    ``bias`` is off by default, as everywhere in the thesis. Other options: :class:`MarginSoftmax`.
    """

    normalize = False

    def __init__(self, in_features: int, num_classes: int, *, bias: bool = False, **options: Any) -> None:
        super().__init__(in_features, num_classes, bias=bias, **without_margin(without(options, "scale", "angular")))


class WSoftmax(MarginSoftmax):
    """Logits ‖x‖·g(θ_j) (paper eq. 10; with the cosine, the modified softmax of thesis 2.18)."""

    def __init__(
        self, in_features: int, num_classes: int, *, angular: str | AngularLike = "cosine", **options: Any
    ) -> None:
        options = without_margin(without(options, "scale"))
        super().__init__(in_features, num_classes, angular=angular, **options)


class SSoftmax(MarginSoftmax):
    """Logits s·g(θ_j) (paper sec. 3, supplement C): features and class vectors both on the sphere; s in 10..70."""

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        scale: float = 30.0,
        angular: str | AngularLike = "cosine",
        **options: Any,
    ) -> None:
        super().__init__(in_features, num_classes, scale=scale, angular=angular, **without_margin(options))


class GASoftmax(MarginSoftmax):
    """Target ‖x‖·g(mθ_y), the others ‖x‖·g(θ_j) (paper eq. 11).

    The linear and the sigmoid g decrease beyond π as they are; the cosine is folded to ψ and the square
    cosine likewise (:func:`hypersphere.functional.psi`). A g of your own is taken at mθ as it is: it
    needs ``from_angle`` and should decrease on [0, mπ].
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        margin: float = 4,
        *,
        angular: str | AngularLike = "linear",
        **options: Any,
    ) -> None:
        margin = check_margin(margin)
        super().__init__(in_features, num_classes, margin, angular=angular, **without(options, "scale"))
        if not hasattr(self.angular, "from_angle"):
            raise TypeError(f"angular={angular!r} needs a method from_angle(theta) for the margin g(mθ)")

    def target(self, cos: Tensor, sample: Sample | AngularLike) -> Tensor:
        return multiplied(cos, sample.g if isinstance(sample, Sample) else sample, self.margin)


class ASoftmax(GASoftmax):
    """A-Softmax, SphereFace: target ‖x‖·ψ(θ_y), the others ‖x‖·cos θ_j (thesis 2.20); the cosine GA-Softmax.

    Trained from scratch it wants ``annealing="sphereface"`` (thesis A.7); the default is the pure margin.
    """

    def __init__(self, in_features: int, num_classes: int, margin: float = 4, **options: Any) -> None:
        super().__init__(in_features, num_classes, margin, angular="cosine", **without(options, "angular"))


class LSoftmax(ASoftmax):
    """L-Softmax: target ‖W_y‖‖x‖·ψ(θ_y), the others W_j·x (thesis 2.4-2.13)."""

    normalize = False


SphereFace = ASoftmax


def multiplied(cos: Tensor, g: AngularLike, margin: float) -> Tensor:
    """g(mθ), monotonically continued, from cos θ."""
    if margin == 1:
        return g.from_cos(cos)
    if isinstance(g, Cosine | SquareCosine):
        return psi(cos, margin, g.kind)
    value: Tensor = g.from_angle(margin * angle(cos))  # type: ignore[attr-defined]
    return value
