"""The two losses of a GAN, and the pair of networks that a run leaves."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

from ... import models
from ..data import Facts
from ..model import make_model
from ..objective import Objective
from .config import GanConfig

if TYPE_CHECKING:
    from ..config import Config

__all__ = ["Gan", "GanObjective", "make_gan", "to_pixels"]

SHOWN = 64  # images of a picture, in a square


class Gan(nn.Module):
    """``gan(z)`` gives images ``(N, channels, H, W)``, pixels (x − 127.5)/128; ``discriminator(images)`` their logits.

    ``sample(n)`` draws the noise, too.
    """

    def __init__(self, generator: nn.Module, discriminator: nn.Module) -> None:
        super().__init__()
        self.generator, self.discriminator = generator, discriminator

    def forward(self, z: Tensor) -> Tensor:
        out: Tensor = self.generator(z)
        return out

    def sample(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """``count`` images of fresh noise, drawn on the CPU."""
        z = torch.randn(count, int(self.generator.latent_dim), generator=generator)  # type: ignore[arg-type]
        return self(z.to(next(self.parameters()).device))


class GanObjective(Objective):
    """V(G, D) = E log D(x) + E log(1 − D(G(z))) (thesis D.12), D the sigmoid of the network's logit.

    Called like every objective it gives the discriminator's loss −V on a batch and how many it got right, of real and
    generated images half each; :meth:`fooled` gives the generator's −E log D(G(z)). With ``loss="wasserstein"`` they
    are E D(G(z)) − E D(x) and −E D(G(z)) of the logits themselves. Labels are not looked at.

    Of several processes each draws the noise of the whole batch and takes its rows: their number changes nothing.
    """

    def __init__(self, discriminator: nn.Module, generator: nn.Module, config: GanConfig) -> None:
        super().__init__(discriminator, None)
        self.generator, self.config = generator, config
        self.rank, self.world = 0, 1

    def forward(self, inputs: tuple[Tensor, ...], labels: Tensor) -> tuple[Tensor, Tensor]:
        real = inputs[0]
        with torch.no_grad():
            fake = self.generator(self._rows(torch.randn, len(real), real, self.config.latent))
        on_real, on_fake = self._logits(real), self._logits(fake)
        if self.config.loss == "standard":
            loss = F.softplus(-on_real).mean() + F.softplus(on_fake).mean()
        else:
            loss = on_fake.mean() - on_real.mean()
        if self.config.gradient_penalty:
            loss = loss + self.config.gradient_penalty * self._steepness(real, fake)
        return loss, ((on_real > 0).sum() + (on_fake <= 0).sum()) / 2

    def fooled(self, like: Tensor) -> Tensor:
        """The generator's loss on as many images as ``like`` holds."""
        on_fake = self._logits(self.generator(self._rows(torch.randn, len(like), like, self.config.latent)))
        return F.softplus(-on_fake).mean() if self.config.loss == "standard" else -on_fake.mean()

    def classifier(self) -> nn.Module:
        """What is judged and kept: both networks."""
        return Gan(self.generator, self.model)

    def picture(self) -> Tensor:
        """Generated images in a square, always of the same noise, uint8 ``(channels, H, W)``."""
        images = Gan(self.generator, self.model).sample(SHOWN, torch.Generator().manual_seed(0))
        side = round(SHOWN**0.5)
        tiles = F.pad(to_pixels(images).cpu(), (1, 1, 1, 1), value=255).unflatten(0, (side, side))
        return tiles.permute(2, 0, 3, 1, 4).flatten(3, 4).flatten(1, 2).contiguous()

    def _logits(self, images: Tensor) -> Tensor:
        out: Tensor = self.model(images)
        return out.squeeze(1).float()

    def _steepness(self, real: Tensor, fake: Tensor) -> Tensor:
        """E (‖∇D(x̂)‖ − 1)² at x̂ evenly between pairs of real and generated images (Gulrajani et al. 2017)."""
        with torch.enable_grad():
            share = self._rows(torch.rand, len(real), real, 1).view(-1, 1, 1, 1)
            between = (share * real + (1 - share) * fake).requires_grad_()
            (slope,) = torch.autograd.grad(self._logits(between).sum(), between, create_graph=True)
            return (slope.flatten(1).float().norm(dim=1) - 1).square().mean()

    def _rows(self, draw: object, count: int, like: Tensor, width: int) -> Tensor:
        """This process's rows of numbers for the batch of all."""
        every: Tensor = draw(self.world * count, width, device=like.device)  # type: ignore[operator]
        return every[self.rank * count : (self.rank + 1) * count]


def make_gan(config: Config, facts: Facts) -> GanObjective:
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
    return GanObjective(_normalized(discriminator, config.gan.normalization), generator, config.gan)


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
