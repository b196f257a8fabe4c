"""The network and its head by the settings ``model`` and ``loss``, and the facts of the data."""

from __future__ import annotations

from operator import index
from typing import Any

from torch import Tensor, nn

from .. import angular, losses, magnitude, models
from .._core.registries import HEADS, MODELS
from ..config import LossConfig, ModelConfig
from .facts import Facts


def make_model(config: ModelConfig, facts: Facts, classifier: bool) -> nn.Module:
    """The network for this data; without a classifier where a head owns the class vectors."""
    MODELS.check("model.name", config.name)
    known = models.options(config.name)
    settings: dict[str, Any] = {**({"affine": True} if config.affine else {}), **config.extra}
    given = ("conv", "weighted", "norm", "activation", "norm_eps", "init", "feature_dim")
    settings |= {name: value for name in given if (value := getattr(config, name)) is not None}
    settings |= {name: "none" for name in ("norm", "activation") if getattr(config, name) == "off"}
    if config.angular is not None:
        settings["angular"] = _angular(config.angular, config.k, config.learnable_k, config.share_k)
    if config.magnitude is not None:
        h: Any = magnitude.resolve(config.magnitude)
        settings["magnitude"] = h if config.alpha == 1.0 else type(h)(alpha=config.alpha)
    if config.widths is not None:
        settings["widths"] = _widths(config.widths)
    if strange := [name for name in settings if name not in known and name not in config.extra]:
        off = " ".join(f"--model.{name.replace('_', '-')} {'no' if name == 'affine' else 'none'}" for name in strange)
        raise ValueError(
            f"model.name={config.name!r} does not take {', '.join(strange)}, which recipe or command line set: "
            f"leave it to the network with {off}, or start from the recipe `custom`"
        )
    from_data = {"in_channels": facts.in_channels, "image_size": facts.image_size, "in_features": facts.in_features}
    for name, fact in from_data.items():
        if fact is not None and name in known:
            settings.setdefault(name, fact)
    if "in_features" in known and facts.in_features is None and facts.image_size is not None:
        height, width = facts.image_size
        settings.setdefault("in_features", (facts.in_channels or 1) * height * width)
    return models.create(config.name, facts.num_classes if classifier else 0, **settings)


def feature_dim(model: nn.Module, name: str) -> int:
    """The number of features that a head gets from a network."""
    dim: Any = getattr(model, "feature_dim", None)
    if not hasattr(dim, "__index__") or dim < 1:
        raise ValueError(
            f"model.name={name!r} has feature_dim={dim!r}: a head classifies features, so the network, made with "
            "num_classes=0, must return them and have their number in its attribute `feature_dim`"
        )
    return index(dim)


def make_head(config: LossConfig, features: int, num_classes: int) -> nn.Module | None:
    """The head, or None for the network's own classifier."""
    if config.own_classifier:
        return None
    settings: dict[str, Any] = dict(config.extra)
    if config.angular is not None:
        settings["angular"] = _angular(config.angular, config.k, config.learnable_k)
    if config.fitting:
        settings |= {"margin": losses.fitting_margin(num_classes), "scale": losses.fitting_scale(num_classes)}
    for name in ("margin", "scale", "annealing"):
        if getattr(config, name) is not None:
            settings[name] = getattr(config, name)
    if config.warmup:
        settings["annealing"] = losses.MarginWarmup(1, config.warmup)
    if config.label_smoothing:
        settings["label_smoothing"] = config.label_smoothing
    if config.bias:
        settings["bias"] = True
    kind: Any = HEADS.find(config.name, "loss.name")
    try:
        head = kind(features, num_classes, **settings)
    except (TypeError, ValueError) as error:
        derived = [*["--loss.fitting no"] * config.fitting, *["--loss.warmup 0"] * bool(config.warmup)]
        if isinstance(error, ValueError) and not derived:
            raise
        fix = "Leave that setting of --loss out, or let the head take it"
        fix = f"Give {' '.join(derived)} to leave them to the head" if derived else fix
        raise ValueError(
            f"loss.name={config.name!r} is called with in_features, num_classes"
            f"{''.join(f', {name}' for name in settings)}: {error}. {fix}"
        ) from error
    if not callable(getattr(head, "logits", None)):
        raise ValueError(
            f"loss.name={config.name!r} has no method logits(features) -> (N, num_classes), which are ranked at test "
            "time: a head has it beside the loss, head(features, labels)"
        )
    if config.energy:
        head = losses.SphereFacePlus(head, config.energy, config.energy_s)
    if config.center:
        head = losses.CenterLoss(head, config.center)
    if config.contrastive:
        head = losses.ContrastiveLoss(head, config.contrastive, config.contrastive_margin)
    return head


class Classifier(nn.Module):
    """A network and its head: ``classifier(x)`` gives the logits ranked at test time, ``features(x)`` the embedding.

    Args:
        network: network from inputs to features, to which the head adds logits.
        head: a head of :mod:`hypersphere.losses`, or a module with ``logits``.

    Example:
        >>> model = hs.runs.Classifier(nn.Linear(4, 8), hs.losses.ArcFace(8, 3))
        >>> model(torch.randn(2, 4)).shape, model.features(torch.randn(2, 4)).shape
        (torch.Size([2, 3]), torch.Size([2, 8]))
    """

    def __init__(self, network: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.network, self.head = network, head

    def features(self, *inputs: Tensor) -> Tensor:
        """Compute the embedding.

        Args:
            *inputs: what the network takes: one tensor, or a graph's features and adjacency.

        Returns:
            The embeddings, ``(N, feature_dim)``.
        """
        return self.network(*inputs)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Compute the logits ranked at test time.

        Args:
            *inputs: what the network takes: one tensor, or a graph's features and adjacency.

        Returns:
            The logits, ``(N, num_classes)``.
        """
        return self.head.logits(self.network(*inputs))  # type: ignore[operator]


def _angular(name: str, k: float | None, learnable: bool, share: str = "filter") -> Any:
    """The g of a name; k matters to the sigmoid only."""
    if name == "sigmoid":
        return angular.Sigmoid(k, learnable=learnable, share=share)
    if k is not None or learnable:
        raise ValueError(f"k and learnable_k belong to angular='sigmoid', not {name!r}: give k none and learnable_k no")
    return angular.resolve(name)


def _widths(text: str) -> str | tuple[int, ...]:
    parts = [part.strip() for part in text.strip("()[]").split(",")]
    return tuple(int(part) for part in parts) if all(part.isdigit() for part in parts) else text
