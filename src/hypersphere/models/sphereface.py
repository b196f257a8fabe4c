"""The SphereFace networks of thesis Table 2.7."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from .entry import Entry
from .grammar import image_size_of
from .network import Network, image_network
from .plain import triple
from .resnet import draw_branches, face_stages
from .slots import Slots


def sphereface(
    num_classes: int,
    slots: Slots,
    units: tuple[int, int, int, int],
    widths: Sequence[int] = (64, 128, 256, 512),
    feature_dim: int = 512,
    in_channels: int = 3,
    image_size: int | Sequence[int] = (112, 96),
    last_relu: bool = False,
    branch_std: float | None = 0.01,
) -> Network:
    """SphereFace-4/10/20/36/64: four stages, each a 3×3 convolution of stride 2, then residual units; FC1.

    The name counts convolutions. The embedding is FC1's output. PReLU and no BatchNorm by default, as in the authors'
    released networks; both activations of a residual unit are inside its branch. Their weights start there as Xavier
    says, but normal with deviation 0.01 in residual branches: with He's everywhere the features of the 64-layer CNN
    would have lengths of millions.

    Args:
        num_classes: outputs of the classifier; the default 0 leaves it to a head such as
            :class:`hypersphere.losses.ASoftmax`.
        slots: operators, normalisation and activation of all layers (:class:`Slots`).
        units: residual units of each stage.
        widths: filters of the stages.
        feature_dim: size of FC1 (3 for thesis Figure 2.10).
        in_channels: number of channels of the images: 1 for grey, 3 for colour.
        image_size: height and width of the images (aligned faces of 112×96), a number or both.
        branch_std: deviation of the weights of residual branches; None: as ``init`` says.
        last_relu: a ReLU after FC1, as networks had before (thesis Table A.1, CNN A).
    """
    stages = face_stages(triple(widths, 4), units)
    network = image_network(stages, slots, num_classes, in_channels, image_size_of(image_size), (feature_dim,))
    draw_branches(network, branch_std)
    if last_relu:
        network.body.add_module("relu", nn.ReLU())
    return network


_UNITS = {4: (0, 0, 0, 0), 10: (0, 1, 2, 0), 20: (1, 2, 4, 1), 36: (2, 4, 8, 2), 64: (3, 8, 16, 3)}

_DEFAULTS: dict[str, Any] = {"num_classes": 0, "activation": "prelu", "norm": "none", "init": "xavier"}

MODELS: dict[str, Entry] = {
    f"sphereface{depth}": Entry(sphereface, f"thesis Table 2.7, {depth}-layer CNN", {"units": units}, _DEFAULTS)
    for depth, units in _UNITS.items()
}
