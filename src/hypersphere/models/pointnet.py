"""PointNet, with and without the transformation networks (thesis sec. 6.6, 7.5.5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .._core.checks import check_count, check_positive
from .._core.extremes import largest
from .._core.modes import without_autocast
from .._core.sphere import upcast
from .entry import Entry
from .network import Network
from .slots import Slots


class PointNet(Network):
    """A function of point sets: the same layers on every point, the maximum over points, fully connected layers.

    Thesis Table 6.8 has it with and without T-Nets, Table 7.12 without, both for ModelNet40. Points
    ``(N, P, in_channels)`` → 64, 64 | 64, 128, 1024 → max → 512, 256 → classifier. With ``tnet`` the coordinates are
    multiplied by a 3×3 matrix, and the 64 features by a 64×64 one, which two small networks of the same kind compute.

    Args:
        num_classes: outputs of the classifier, 0 for none.
        slots: operators, normalisation and activation of all layers (:class:`Slots`).
        tnet: whether the two transformation networks (T-Nets) are included.
        in_channels: numbers per point; the first 3 are coordinates.
        dropout: probability after the last hidden layer (256); with ``tnet`` after both (512, 256), as in the authors'
            code.
        width: factor of the number of channels of every layer, > 0; 1 is the published size.

    Raises:
        ValueError: If ``in_channels`` is below 3, or ``width`` is not positive.

    Example:
        >>> net = hs.models.create("pointnet", num_classes=4, width=0.1)
        >>> net(torch.randn(2, 32, 3)).shape
        torch.Size([2, 4])
    """

    def __init__(
        self,
        num_classes: int,
        slots: Slots,
        tnet: bool,
        in_channels: int = 3,
        dropout: float = 0.3,
        width: float = 1.0,
    ) -> None:
        body = _Body(slots, tnet, check_count("in_channels", in_channels, minimum=3), dropout, width)
        super().__init__(body, body.feature_dim, num_classes, slots)

    def features(self, x: Tensor) -> Tensor:
        """Compute the embedding of point clouds.

        Args:
            x: point clouds ``(N, P, in_channels)``; the order of the points does not matter.

        Returns:
            The embeddings of the clouds, ``(N, feature_dim)``.
        """
        features, _ = self.body(x)
        return features

    def forward(self, x: Tensor, penalty: bool = False) -> Any:
        """Compute the class scores, and if asked the penalty of the feature transform.

        Args:
            x: point clouds ``(N, P, in_channels)``; the order of the points does not matter.
            penalty: also return ‖I − AAᵀ‖²_F/2 summed over the batch, A the feature transform. Its weight is 0.001 in
                the authors' released code; it is 0 without T-Nets.

        Returns:
            ``(N, num_classes)``, or that and the penalty.
        """
        features, transform = self.body(x)
        scores: Tensor = self.classifier(features)
        return (scores, _departure(transform, x)) if penalty else scores


class _Body(nn.Module):
    """Clouds to their embedding and the feature transform."""

    def __init__(self, slots: Slots, tnet: bool, cin: int, dropout: float, width: float) -> None:
        super().__init__()
        w = _scaled(width)
        self.input_transform = _TNet(3, w, slots) if tnet else None
        self.lower = slots.chain("Conv1d", (cin, w(64), w(64)))
        self.feature_transform = _TNet(w(64), w, slots) if tnet else None
        self.upper = slots.chain("Conv1d", (w(64), w(64), w(128), w(1024)))
        drops = (dropout if tnet else 0.0, dropout)
        self.head, self.feature_dim = head_of(w(1024), (w(512), w(256)), slots, drops)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        x = x.transpose(1, 2)
        transform: Tensor | None = None
        if self.input_transform is not None:
            xyz = self.input_transform(x[:, :3]) @ x[:, :3]
            x = torch.cat([xyz, x[:, 3:]], 1)
        x = self.lower(x)
        if self.feature_transform is not None:
            transform = self.feature_transform(x)
            x = transform @ x
        return self.head(largest(self.upper(x), -1)), transform


def head_of(cin: int, sizes: Sequence[int], slots: Slots, dropout: Sequence[float]) -> tuple[nn.Sequential, int]:
    """The perceptron after the maximum, each layer with its dropout; the last layer is the embedding."""
    head = nn.Sequential()
    for size, probability in zip(sizes, dropout, strict=True):
        head.append(slots.block("Linear", cin, size))
        if probability:
            head.append(nn.Dropout(probability))
        cin = size
    return head, cin


class _TNet(nn.Module):
    """A k×k matrix for each cloud, the identity at the start."""

    def __init__(self, k: int, w: Any, slots: Slots) -> None:
        super().__init__()
        self.k = k
        self.shared = slots.chain("Conv1d", (k, w(64), w(128), w(1024)))
        self.head, dim = head_of(w(1024), (w(512), w(256)), slots, (0.0, 0.0))
        self.matrix = nn.Linear(dim, k * k)
        nn.init.zeros_(self.matrix.weight)
        with torch.no_grad():
            self.matrix.bias.copy_(torch.eye(k).flatten())

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.matrix(self.head(largest(self.shared(x), -1)))
        return out.unflatten(-1, (self.k, self.k))


def _scaled(width: float) -> Any:
    check_positive("width", width)
    return lambda size: max(1, round(size * width))


def _departure(transform: Tensor | None, x: Tensor) -> Tensor:
    if transform is None:
        return x.new_zeros(())
    a = upcast(transform)
    eye = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    with without_autocast(x.device):
        return (eye - a @ a.mT).square().sum() / 2


_DEFAULTS: dict[str, Any] = {"num_classes": 40, "init": "xavier"}
MODELS: dict[str, Entry] = {
    "pointnet": Entry(PointNet, "thesis Tables 6.8 and 7.12 (vanilla, without T-Net)", {"tnet": False}, _DEFAULTS),
    "pointnet_tnet": Entry(PointNet, "thesis Table 6.8 (with T-Net)", {"tnet": True}, _DEFAULTS),
}
