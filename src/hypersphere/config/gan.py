"""``--gan.*``: a generator against the network."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .._core.checks import check_choice, check_count, check_positive
from .options import about, option


@dataclass(frozen=True)
class GanConfig:
    """A generator trained against the network, which becomes its discriminator (thesis D.7).

    Raises:
        ValueError: If a setting is unknown, out of its range or contradicts another one; the message names it.

    Example:
        >>> from hypersphere.config import GanConfig
        >>> GanConfig(generator="sngan_generator").latent
        128
    """

    generator: str | None = option(None, "network that makes images from noise, e.g. sngan_generator; none: no GAN")
    latent: int = option(128, "length of the noise z ~ N(0, I)")
    loss: str = option("standard", "standard (thesis D.12, the generator maximises log D(G(z))) or wasserstein")
    updates: int = option(1, "updates of the discriminator for one of the generator; they divide the batch")
    gradient_penalty: float = option(0.0, "weight of (‖∇D‖ − 1)² between real and generated images")
    clip: float | None = option(None, "clip every weight of the discriminator to ± this value")
    normalization: str = option(
        "none", "normalisation of the discriminator in addition to model.norm: none, layer, weight"
    )
    extra: dict[str, Any] = field(
        default_factory=dict, metadata=about("further options of the generator, name=value;name=value")
    )

    def __post_init__(self) -> None:
        if self.generator is not None:
            from .. import models  # not before it is needed: settings are read before torch is imported

            known = [name for name in models.list_models() if "latent_dim" in models.options(name)]
            check_choice("gan.generator", self.generator, known)
        check_count("gan.latent", self.latent)
        check_choice("gan.loss", self.loss, ("standard", "wasserstein"))
        check_choice("gan.normalization", self.normalization, ("none", "layer", "weight"))
        check_count("gan.updates", self.updates)
        check_positive("gan.gradient_penalty", self.gradient_penalty, zero=True)
        if self.clip is not None:
            check_positive("gan.clip", self.clip)
