"""The spectral-norm GAN pair of thesis Table D.5."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from .._core.checks import check_count
from .entry import Entry
from .grammar import image_size_of
from .network import Flatten, Network
from .slots import Slots


class Generator(nn.Module):
    """z ~ N(0, I) → dense 512·M×M → three 4×4 transposed convolutions of stride 2 (256, 128, 64) → 3×3, tanh.

    See thesis Table D.5 (a). BatchNorm and ReLU follow all layers but the last.

    Args:
        slots: operators, normalisation and activation of all layers (:class:`Slots`).
        latent_dim: length of the noise vector z from which an image is made.
        base: M, height and width of the first map (4 for images of 32×32).
        widths: channels of the first map and after each transposed convolution.
        channels: number of channels of the generated images.

    Shape:
        - z: (N, latent_dim).
        - Output: (N, channels, 8·M, 8·M), in [−1, 1].

    Raises:
        ValueError: If ``latent_dim`` is below 1, or ``widths`` is empty.

    Example:
        >>> net = hs.models.create("sngan_generator", latent_dim=16, widths=(32, 16, 8, 4))
        >>> net(torch.randn(2, 16)).shape
        torch.Size([2, 3, 32, 32])
    """

    def __init__(
        self,
        slots: Slots,
        latent_dim: int = 128,
        base: int = 4,
        widths: tuple[int, ...] = (512, 256, 128, 64),
        channels: int = 3,
    ) -> None:
        super().__init__()
        if not widths:
            raise ValueError(
                "widths is empty: pass the channels of the first map and after each transposed convolution"
            )
        self.latent_dim = check_count("latent_dim", latent_dim)
        self.shape = (widths[0], check_count("base", base), base)
        self.dense = slots.operator("Linear", latent_dim, widths[0] * base * base, normed=False)
        self.deconvs = nn.Sequential(
            *(slots.block("ConvTranspose2d", *pair, 4, stride=2, padding=1) for pair in pairwise(widths))
        )
        self.last = slots.operator("Conv2d", widths[-1], channels, 3, normed=False, padding=1)

    def forward(self, z: Tensor) -> Tensor:
        """Generate images.

        Args:
            z: noise vectors (N, latent_dim), drawn from N(0, I).

        Returns:
            The generated images, with values in [−1, 1].
        """
        maps = self.dense(z).unflatten(-1, self.shape)
        return torch.tanh(self.last(self.deconvs(maps)))


def discriminator(
    slots: Slots,
    num_classes: int = 1,
    image_size: int | tuple[int, int] = 32,
    widths: tuple[int, int, int, int] = (64, 128, 256, 512),
    in_channels: int = 3,
) -> Network:
    """The discriminator of thesis Table D.5 (b): 3×3 and 4×4 (stride 2) convolutions with leaky ReLU 0.1, dense → 1.

    The embedding is the last maps, flattened. Every weight is divided by its spectral norm; with
    ``spectral_norm=False`` it is the discriminator of the other rows of Table D.4.

    Args:
        slots: operators, normalisation and activation of all layers (:class:`Slots`).
        num_classes: outputs of the dense layer; 0 for none.
        image_size: sides that are multiples of 8.
        widths: channels of the stages; the last has no 4×4 convolution.
        in_channels: of the images.
    """
    height, width = image_size_of(image_size)
    if height % 8 or width % 8:
        raise ValueError(f"image_size={image_size} must be a multiple of 8")
    body = nn.Sequential()
    cin = in_channels
    for i, channels in enumerate(widths):
        body.append(slots.block("Conv2d", cin, channels, 3))
        if i < len(widths) - 1:
            body.append(slots.block("Conv2d", channels, channels, 4, stride=2))
        cin = channels
    shape = (cin, height // 8, width // 8)
    body.append(Flatten(shape))
    return Network(body, cin * shape[1] * shape[2], num_classes, slots)


MODELS: dict[str, Entry] = {
    "sngan_generator": Entry(Generator, "thesis Table D.5 (a)"),
    "sngan_discriminator": Entry(
        discriminator,
        "thesis Table D.5 (b)",
        {},
        {"norm": "none", "activation": "leaky_relu", "spectral_norm": True},
    ),
}
