"""``--model.*``: the network and what fills its slots."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .._core.registries import ANGULAR, MAGNITUDES
from .options import about, option


@dataclass(frozen=True)
class ModelConfig:
    """The network: a name of `hypersphere list models`, its operators, normalisation and activation.

    Example:
        >>> from hypersphere.config import ModelConfig
        >>> ModelConfig(name="cnn9", conv="sphere", angular="sigmoid").name
        'cnn9'
    """

    name: str = option("cnn9", "network, see `hypersphere list models`, or an address module:function")
    widths: str | None = option(None, "widths: a named set (paper, code, c1, d1, e3, f1, ...) or numbers, 64,96,128")
    conv: str | None = option(None, "operator: plain, sphere, decoupled; none: the network's default, mostly plain")
    angular: str | None = option(None, lambda: f"g of the operator: {', '.join(ANGULAR)}, or an address module:Class")
    k: float | None = option(None, "k of the sigmoid g; none: 0.3 if k is fixed, 0.5 if it is learned")
    learnable_k: bool = option(False, "learn k instead of fixing it")
    share_k: str = option("filter", "what has a learnable k of its own: filter, layer, or network")
    magnitude: str | None = option(
        None, lambda: f"h of decoupled operators: {', '.join(MAGNITUDES)}, or an address module:Class"
    )
    alpha: float = option(1.0, "factor α of h, which scales the operator's output")
    weighted: str | None = option(None, "how the weight norm enters a decoupled operator: linear, product, separate")
    affine: bool = option(False, "rescale the operator's output per channel")
    norm: str | None = option(None, "normalisation: batch, sphere, both, off; none: the network's default")
    activation: str | None = option(None, "activation: relu, prelu, leaky_relu, off; none: the network's default")
    norm_eps: float | None = option(None, "eps of BatchNorm; none: 1e-5")
    init: str | None = option(
        None, "initial weights: he, xavier, normal, standard_normal, unit; none: the network's default"
    )
    start: str | None = option(
        None, "start from those weights of another run that fit: its folder, or its name if it lies beside this run"
    )
    feature_dim: int | None = option(None, "size of the embedding; none: that of the network")
    extra: dict[str, Any] = field(
        default_factory=dict, metadata=about("further options of the network, name=value;name=value")
    )

    @property
    def operator(self) -> str:
        """``conv``, or the network's own."""
        from .. import models  # not before it is asked for: settings are read before torch is imported

        return self.conv or str(models.options(self.name).get("conv", "plain"))
