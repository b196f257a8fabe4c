"""SphereFace+: any head plus the energy of its class vectors, seen from the classes of the batch."""

from __future__ import annotations

from torch import Tensor

from .._core.checks import check_choice, check_positive
from .._core.modes import without_autocast
from .._core.sphere import unit, upcast
from ..functional.energy.duplicates import distinct
from ..functional.energy.kernel import Kernel, pair_energy
from ._classes import block_width, reduce_classes
from .head import ClassHead
from .joined import JoinedHead


class SphereFacePlus(JoinedHead):
    """L = L_head + λ_M·1/(m(C−1))·Σ_i Σ_{j≠y_i} f_s(‖ŵ_{y_i} − ŵ_j‖) (thesis 5.8), f_s as in the energy (5.1).

    The first part draws the features to their class vectors, the second drives the class vectors apart. Near-duplicate
    class vectors have large finite energies (see :func:`hypersphere.functional.energy`). The loss follows the head's
    ``reduction``, ``ignore_index`` and ``chunk``. Each sample adds λ_M/(C−1)·Σ_j, also with "sum" and "none".

    Args:
        head: any head of this package; it stays the owner of the class vectors.
        weight: λ_M ≥ 0. The property ``weight`` of the object is the class vectors, as in every head.
        s: power of the energy, ≥ 0; larger values depend on the closest classes only.
        distance: ``"euclidean"`` takes ‖ŵ_i − ŵ_j‖ as the distance of two neurons, ``"angular"`` the angle between them
            (thesis 5.5).

    Shape:
        - features: (..., in_features) of the head; labels: (...), class indices.
        - Output: scalar, or (...) with the head's ``reduction="none"``; :meth:`logits` gives (..., num_classes).

    Raises:
        ValueError: If the head is sharded or has several vectors per class, ``s`` is negative, or ``distance`` is
            unknown.
        TypeError: If ``head`` is not a head of :mod:`hypersphere.losses`.

    Example:
        >>> head = hs.losses.SphereFacePlus(hs.losses.ASoftmax(64, 10))
        >>> features, labels = torch.randn(4, 64), torch.tensor([0, 1, 2, 9])
        >>> loss = head(features, labels)
        >>> loss.shape, head.logits(features).shape
        (torch.Size([]), torch.Size([4, 10]))
    """

    def __init__(
        self, head: ClassHead | JoinedHead, weight: float = 1.0, s: float = 2.0, distance: str = "euclidean"
    ) -> None:
        super().__init__(head, weight)
        if self.owner.shards is not None:
            raise ValueError("head is sharded: its energy needs all class vectors; use hs.regularizers.MHE beside it")
        if self.owner.sub_centers > 1:
            raise ValueError(f"sub_centers={self.owner.sub_centers}: the energy needs a head with one vector per class")
        self.s = check_positive("s", s, zero=True)
        self.distance = check_choice("distance", distance, ("euclidean", "angular"))

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, s={self.s:g}, distance={self.distance!r}"

    def terms(self, x: Tensor, labels: Tensor, counts: Tensor) -> Tensor:
        """1/(C−1)·Σ_{j≠y_i} f_s of each sample.

        Args:
            x: features of the batch, (N, in_features).
            labels: class index of each sample, (N,).
            counts: which samples are not ignored, (N,).

        Returns:
            What each sample adds to the loss before the weight, (N,).
        """
        w = self.weight
        with without_autocast(w.device):
            own = unit(upcast(w.index_select(0, labels)))
            kernel = Kernel.build(self.s, self.distance, False, None, own.dtype)

            def score(rows: list[Tensor], classes: list[Tensor], shared: list[Tensor]) -> Tensor:
                vectors = unit(upcast(classes[0]))
                return pair_energy(distinct(rows[0] @ vectors.T, rows[0], vectors, kernel), kernel)

            width = block_width(self.owner.chunk, labels.shape[0], w.shape[0], w.device)
            total = reduce_classes(score, [own], [w], [], labels, width=width, logsumexp=False).total
        return total / max(w.shape[0] - 1, 1)
