"""What every network is: features, then a classifier that a margin head may replace."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch.fx
from torch import Tensor, nn

from .._core.checks import check_count
from .grammar import Size, Stages, build_stages
from .slots import Slots


class Network(nn.Module):
    """``classifier(features(x))``: a body that computes the embedding, and a linear classifier on it.

    Args:
        body: inputs to the embedding ``(N, feature_dim)`` that heads of :mod:`hypersphere.losses` take.
        feature_dim: length of the embedding that the classifier or head receives.
        num_classes: outputs of the classifier; 0 makes it the identity, so that the network gives the embedding.
        slots: initialisation and bias of the classifier.

    Example:
        >>> net = hs.models.Network(nn.Flatten(), 12, num_classes=5, slots=hs.models.Slots())
        >>> net(torch.randn(2, 3, 2, 2)).shape
        torch.Size([2, 5])
    """

    def __init__(self, body: nn.Module, feature_dim: int, num_classes: int, slots: Slots) -> None:
        super().__init__()
        self.feature_dim, self.num_classes = feature_dim, num_classes
        self.body = body
        self.classifier = slots.classifier(feature_dim, num_classes)

    def features(self, x: Tensor) -> Tensor:
        """Compute the embedding.

        Args:
            x: a batch of inputs as the network was built for, e.g. images (N, C, H, W).

        Returns:
            The embeddings, ``(N, feature_dim)``.
        """
        return self.body(x)

    def forward_features(self, x: Tensor) -> Tensor:
        """Compute the same as :meth:`features`, under timm's name.

        Args:
            x: a batch of inputs as the network was built for, e.g. images (N, C, H, W).

        Returns:
            The embeddings, ``(N, feature_dim)``.
        """
        return self.features(x)

    def forward(self, x: Tensor) -> Tensor:
        """Compute the class scores.

        Args:
            x: a batch of inputs as the network was built for, e.g. images (N, C, H, W).

        Returns:
            ``(N, num_classes)``, or the embedding for ``num_classes=0``.
        """
        return self.classifier(self.features(x))


def image_network(
    stages: Stages,
    slots: Slots,
    num_classes: int,
    in_channels: int,
    image_size: Size,
    fully_connected: Sequence[int] | None,
    fc_norm: bool = True,
) -> Network:
    """Build a network of stages and fully connected layers.

    Args:
        stages: pairs of a stage's name and its layers, as the tables print them.
        slots: operators, normalisation and activation of all layers (:class:`Slots`).
        num_classes: outputs of the classifier; 0 for none.
        in_channels: number of channels of the images: 1 for grey, 3 for colour.
        image_size: height and width of the images.
        fully_connected: widths of layers on the flattened maps; None takes global average pooling instead.
        fc_norm: whether the normalisation follows the last fully connected layer.

    Returns:
        The network, with ``features``, ``feature_dim`` and ``classifier``.

    Example:
        >>> stages = [("stage1", [hs.models.Conv(8), hs.models.Pool()])]
        >>> net = hs.models.image_network(stages, hs.models.Slots(), 10, 3, (32, 32), [16])
        >>> net.feature_dim
        16
    """
    body, channels, (height, width) = build_stages(stages, slots, in_channels, image_size)
    if fully_connected is None:
        body.add_module("pool", nn.AdaptiveAvgPool2d(1))
        body.add_module("flatten", nn.Flatten())
        return Network(body, channels, num_classes, slots)
    body.add_module("flatten", Flatten((channels, height, width)))
    fc, features = neck(channels * height * width, fully_connected, slots, fc_norm)
    if len(fc):
        body.add_module("fc", fc)
    return Network(body, features, num_classes, slots)


def neck(features: int, widths: Sequence[int], slots: Slots, fc_norm: bool = True) -> tuple[nn.Sequential, int]:
    """Fully connected layers; the last one gives the embedding, so no activation follows it.

    ``fc_norm`` says whether the normalisation follows that last one.
    """
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for i, width in enumerate(widths):
        last = i == len(widths) - 1
        check_count("feature_dim", width)
        layers[str(i)] = slots.block("Linear", features, width, activate=not last, normalize=fc_norm or not last)
        features = width
    return nn.Sequential(layers), features


class Flatten(nn.Module):
    """Maps of one shape to vectors."""

    def __init__(self, shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.shape = shape

    def forward(self, x: Tensor) -> Tensor:
        if not isinstance(x, torch.fx.Proxy) and tuple(x.shape[-3:]) != self.shape:
            raise ValueError(
                f"the last feature maps have shape {tuple(x.shape[-3:])}, not {self.shape}: "
                "give create(..., image_size=(height, width)) the size of your images"
            )
        return x.flatten(-3)

    def extra_repr(self) -> str:
        return f"{self.shape}"
