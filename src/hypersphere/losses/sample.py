"""What a margin rule may know of a sample besides the cosine to its class."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from ..angular import AngularLike


class Sample(NamedTuple):
    """The samples of a batch, as the rules of a softmax head see them.

    It is the second argument of :meth:`MarginSoftmax.target`, where the cosines are (N,), and of
    :meth:`MarginSoftmax.others`, where they are (N, B). Its tensors are (N,) in the former and (N, 1) in the latter, so
    that they broadcast against the cosines. ``sample.from_cos`` and ``sample.from_angle`` compute g.

    Attributes:
        g: the angular function of the head.
        norm: ‖x‖ of each feature, shape (N,); gradients flow through it.
        labels: class of each sample; 0 for the ignored ones.
        counts: boolean mask (N,): True for samples that are not ignored, so that statistics can leave the others out.
        state: what :meth:`MarginSoftmax.observe` returned, by name.

    Example:
        >>> class Longer(hs.losses.MarginSoftmax):
        ...     def target(self, cos, sample):
        ...         return cos - self.margin * (sample.norm / 10).clamp(max=1)
        >>> loss = Longer(8, 4, margin=0.4, scale=30.0)(torch.randn(2, 8), torch.tensor([0, 3]))
    """

    g: AngularLike
    norm: Tensor
    labels: Tensor
    counts: Tensor
    state: dict[str, Tensor]

    def from_cos(self, c: Tensor) -> Tensor:
        """Compute g from the cosine.

        Args:
            c: cosines c = cos θ, of any shape.

        Returns:
            g(θ), in the shape of ``c``.
        """
        return self.g.from_cos(c)

    def from_angle(self, theta: Tensor) -> Tensor:
        """Compute g from the angle, also beyond π.

        Args:
            theta: angles θ in radians, of any shape; g continues beyond π.

        Returns:
            g(θ), in the shape of ``theta``.
        """
        return self.g.from_angle(theta)  # type: ignore[attr-defined]
