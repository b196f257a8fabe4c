"""The two losses of a GAN."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...config import GanConfig
from ...runs import Gan
from ...runs.gan import to_pixels
from ..objective import Objective

SHOWN = 64  # images of a picture, in a square


class GanObjective(Objective):
    """V(G, D) = E log D(x) + E log(1 − D(G(z))) (thesis D.12), D the sigmoid of the network's logit.

    Called like every objective it gives the discriminator's loss −V on a batch and how many it got right, of real and
    generated images half each; :meth:`fooled` gives the generator's −E log D(G(z)). With ``loss="wasserstein"`` they
    are E D(G(z)) − E D(x) and −E D(G(z)) of the logits themselves. Labels are not looked at.

    Of several processes each draws the noise of the whole batch and takes its rows: their number changes nothing.
    """

    generator: nn.Module

    def __init__(self, discriminator: nn.Module, generator: nn.Module, config: GanConfig) -> None:
        super().__init__(discriminator, None, generator=generator)
        self.config = config
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
