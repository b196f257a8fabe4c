"""The network of a run, from its settings and the facts of the data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from .. import angular, magnitude, models, orthogonal
from .._core.errors import check_choice, check_positive
from .._core.neurons import iter_neurons
from .._core.output_layer import find_output_layer
from .data import Facts
from .options import about, option

__all__ = ["ModelConfig", "OrthogonalConfig", "attach", "make_angular", "make_model"]


@dataclass(frozen=True)
class ModelConfig:
    """The network: a name of `hypersphere list models` and what fills its slots."""

    name: str = option("cnn9", "network, see `hypersphere list models`")
    widths: str | None = option(None, "width set (paper, code, c1, d1, e3, f1, ...) or numbers 64,96,128")
    conv: str | None = option(None, "operator: plain, sphere, decoupled; none keeps the network's own, mostly plain")
    angular: str | None = option(None, "g of the operator: cosine, linear, sigmoid, square_cosine")
    k: float | None = option(None, "k of the sigmoid; none: 0.3 fixed, 0.5 learnable")
    learnable_k: bool = option(False, "learn k")
    share_k: str = option("filter", "one learnable k for each filter, layer, or network")
    magnitude: str | None = option(None, "h of decoupled operators: sphere ball tanh linear segment log mix")
    alpha: float = option(1.0, "scale of h")
    weighted: str | None = option(None, "how the weight norm enters a decoupled operator: linear, product, separate")
    affine: bool = option(False, "rescale the operator's output per channel")
    norm: str | None = option(None, "batch, sphere, both, none; none keeps the network's own (write 'off' for none)")
    activation: str | None = option(None, "relu, prelu, leaky_relu, off; none keeps the network's own")
    norm_eps: float | None = option(None, "eps of BatchNorm; none: 1e-5")
    init: str | None = option(None, "weights: he, xavier, normal; none keeps the network's own")
    start: str | None = option(
        None, "start from the weights of another run, a folder or the name of a run beside this one, where they fit"
    )
    feature_dim: int | None = option(None, "size of the embedding; none: that of the network")
    extra: dict[str, Any] = field(
        default_factory=dict, metadata=about("further options of the network, name=value;name=value")
    )

    @property
    def operator(self) -> str:
        """``conv``, or the network's own."""
        return self.conv or str(models.options(self.name).get("conv", "plain"))


@dataclass(frozen=True)
class OrthogonalConfig:
    """Orthogonal over-parameterized training (thesis ch. 7)."""

    method: str | None = option(None, "gram_schmidt householder lowdin cayley exponential gradient relaxed free ...")
    blocks: int = option(1, "diagonal blocks of R")
    share_blocks: bool = option(False, "all blocks are one matrix")
    normalize: bool = option(False, "neurons of length 1")
    refine: str | None = option(None, "minimise the energy of the fixed neurons first: full, half")
    init: str = option("random", "R starts random, identity or literal")
    learn_v: bool = option(False, "train the neurons as well")
    beta: float = option(1.0, "weight of the relaxed penalty")
    mean: float = option(
        0.0, "mean of the Gaussian that the neurons are drawn from; not 0: a high energy (thesis Table 7.2)"
    )
    std: float | None = option(None, "standard deviation of that Gaussian; none: He's √(2/d)")
    learn_r: bool = option(True, "train R; no: the neurons stay as drawn, the rest of the network learns")

    def __post_init__(self) -> None:
        if self.std is not None:
            check_positive("orthogonal.std", self.std)


def make_model(config: ModelConfig, facts: Facts, classifier: bool) -> nn.Module:
    """The network for this data; without a classifier where a head owns the class vectors."""
    check_choice("model.name", config.name, models.list_models())
    known = models.options(config.name)
    settings: dict[str, Any] = {"affine": config.affine, **config.extra}
    if config.conv is not None:
        settings["conv"] = config.conv
    if config.angular is not None:
        settings["angular"] = make_angular(config.angular, config.k, config.learnable_k, config.share_k)
    if config.magnitude is not None:
        kind: Any = type(magnitude.resolve(config.magnitude))
        settings["magnitude"] = kind(alpha=config.alpha)
    if config.weighted is not None:
        settings["weighted"] = config.weighted
    for name in ("norm", "activation"):
        value = getattr(config, name)
        if value is not None:
            settings[name] = "none" if value == "off" else value
    for name in ("norm_eps", "init", "feature_dim"):
        if getattr(config, name) is not None:
            settings[name] = getattr(config, name)
    if config.widths is not None:
        settings["widths"] = _widths(config.widths)
    from_data = {"in_channels": facts.in_channels, "image_size": facts.image_size, "in_features": facts.in_features}
    for name, fact in from_data.items():
        if fact is not None and name in known:
            settings.setdefault(name, fact)
    if "in_features" in known and facts.in_features is None and facts.image_size is not None:
        height, width = facts.image_size
        settings.setdefault("in_features", (facts.in_channels or 1) * height * width)
    model: nn.Module = models.create(config.name, facts.num_classes if classifier else 0, **settings)
    return model


def attach(config: OrthogonalConfig, model: nn.Module, head: nn.Module | None, seed: int, keep: bool = False) -> None:
    """Put the orthogonal matrices in, if any are asked for; on fresh neurons, or on the present ones to ``keep``.

    Layers with fewer dimensions than ``blocks`` (a first convolution of three channels) take a block a channel.
    """
    if config.method is None:
        return
    generator = torch.Generator().manual_seed(seed)
    last = find_output_layer(model, head)
    found = [n for n in iter_neurons(model) if last is None or n.module is not last[1]]
    drawn = bool(config.mean) or config.std is not None
    with torch.no_grad():
        for neurons in found if drawn else ():
            std = (2.0 / neurons.matrix().shape[-1]) ** 0.5 if config.std is None else config.std
            neurons.weight.copy_(torch.randn(neurons.weight.shape, generator=generator) * std + config.mean)
    kept = keep or drawn or config.init == "identity"
    small = {n.name: n.weight.shape[1] for n in found if n.matrix().shape[-1] < config.blocks}
    plans: list[tuple[int, list[str] | None]] = [(min(config.blocks, small[name]), [name]) for name in small]
    rest = [n.name for n in found if n.name not in small]
    plans.append((config.blocks, rest if small else None))
    for blocks, include in plans:
        orthogonal.attach(
            model,
            config.method,
            blocks=blocks,
            share_blocks=config.share_blocks,
            normalize=config.normalize,
            refine=config.refine,
            init=config.init,
            neurons="keep" if kept else "gaussian",
            learn_v=config.learn_v,
            head=head,
            include=include,
            generator=generator,
        )
    if not config.learn_r:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(".parametrizations." not in name)


def make_angular(name: str, k: float | None, learnable: bool, share: str = "filter") -> Any:
    """The g of a name; k matters to the sigmoid only."""
    if name == "sigmoid":
        return angular.Sigmoid(k, learnable=learnable, share=share)
    if k is not None or learnable:
        raise ValueError(f"k and learnable_k belong to angular='sigmoid', not {name!r}")
    return angular.resolve(name)


def _widths(text: str) -> str | tuple[int, ...]:
    parts = [part.strip() for part in text.strip("()[]").split(",")]
    return tuple(int(part) for part in parts) if all(part.isdigit() for part in parts) else text
