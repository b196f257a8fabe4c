"""The two networks of a GAN (thesis D.7)."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from .. import models
from ..config import Config
from .facts import Facts
from .model import make_model


class Gan(nn.Module):
    """A generator and its discriminator: ``gan(z)`` gives images, ``discriminator(images)`` their logits.

    Args:
        generator: noise ``(N, latent_dim)`` to images ``(N, channels, H, W)``, pixels (x − 127.5)/128.
        discriminator: network from images to logits: large for real images.

    Example:
        >>> generator = hs.models.create("sngan_generator", latent_dim=16, widths=(32, 16, 8, 4))
        >>> gan = hs.runs.Gan(generator, nn.Flatten())
        >>> gan.sample(2).shape
        torch.Size([2, 3, 32, 32])
    """

    def __init__(self, generator: nn.Module, discriminator: nn.Module) -> None:
        super().__init__()
        self.generator, self.discriminator = generator, discriminator

    def forward(self, z: Tensor) -> Tensor:
        """Generate images.

        Args:
            z: noise vectors ``(N, latent_dim)``, one for each image.

        Returns:
            The generated images, ``(N, channels, H, W)``.
        """
        return self.generator(z)

    def sample(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Generate images of fresh noise, drawn on the CPU.

        Args:
            count: number of images to generate from new noise.
            generator: source of the noise; None is torch's own.

        Returns:
            The generated images, ``(count, channels, H, W)``.
        """
        place = None if generator is None else generator.device
        z = torch.randn(count, int(self.generator.latent_dim), generator=generator, device=place)  # type: ignore[arg-type]
        return self(z.to(next(self.parameters()).device))


def make_gan(config: Config, facts: Facts) -> Gan:
    """Discriminator and generator with fresh weights for images of these facts."""
    if facts.image_size is None or facts.in_channels is None:
        raise ValueError(f"a GAN makes images: data.name={config.data.name!r} has none")
    height, width = facts.image_size
    if height != width or height % 8:
        raise ValueError(f"gan.generator makes squares with sides that are multiples of 8, not {height}×{width}")
    if config.loss.name != "cross_entropy":
        raise ValueError(f"loss.name={config.loss.name!r} belongs to classifiers: a GAN has gan.loss")
    discriminator = make_model(config.model, replace(facts, num_classes=1), classifier=True)
    own = {"latent_dim": config.gan.latent, "base": height // 8, "channels": facts.in_channels}
    generator = models.create(str(config.gan.generator), **{**own, **config.gan.extra})
    return Gan(generator, _normalized(discriminator, config.gan.normalization))


def to_pixels(images: Tensor) -> Tensor:
    """Images as networks see them, (x − 127.5)/128, back to bytes."""
    return (images.float() * 128 + 127.5).round().clamp(0, 255).to(torch.uint8)


def _normalized(network: nn.Module, kind: str) -> nn.Module:
    """Layer normalisation between each operator and its activation, or weight normalisation of each operator."""
    if kind == "weight":
        for module in list(network.modules()):
            if isinstance(module, nn.Conv2d | nn.Linear):
                parametrizations.weight_norm(module)
    if kind == "layer":
        for name, module in list(network.named_modules()):
            if isinstance(module, nn.Sequential) and isinstance(getattr(module, "op", None), nn.Conv2d):
                parts = OrderedDict(module.named_children())
                norm = nn.GroupNorm(1, parts["op"].out_channels)  # type: ignore[arg-type]
                network.set_submodule(name, nn.Sequential(OrderedDict(op=parts.pop("op"), norm=norm, **parts)))
    return network
