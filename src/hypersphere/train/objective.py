"""The loss of a run: the network's own classifier with cross-entropy, or a head of :mod:`hypersphere.losses`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .. import losses
from .._core.errors import check_choice, check_positive
from .._core.sphere import upcast
from ..data.loader import IGNORE
from ..models.pointnet import PointNet
from .model import make_angular
from .options import about, option

__all__ = ["Classifier", "LossConfig", "Objective", "make_head"]

_OWN = ("cross_entropy", "hinge")  # on the logits of the network's own classifier
_HEADS = {
    "softmax": losses.Softmax,
    "w_softmax": losses.WSoftmax,
    "s_softmax": losses.SSoftmax,
    "ga_softmax": losses.GASoftmax,
    "l_softmax": losses.LSoftmax,
    "a_softmax": losses.ASoftmax,
    "am_softmax": losses.AMSoftmax,
    "arcface": losses.ArcFace,
    "sphereface_r": losses.SphereFaceR,
    "sphereface2": losses.SphereFace2,
    "triplet": losses.TripletLoss,
}


@dataclass(frozen=True)
class LossConfig:
    """The loss: cross_entropy or hinge on the network's plain classifier, or a head with its own class vectors."""

    name: str = option("cross_entropy", f"{', '.join(_OWN)}, {', '.join(_HEADS)}")
    margin: float | None = option(None, "margin m; none: the head's default")
    scale: float | None = option(None, "scale s of heads on normalised features; none: the head's default")
    angular: str | None = option(None, "g of w_softmax, s_softmax and ga_softmax; none: the head's default")
    k: float | None = option(None, "k of the sigmoid")
    learnable_k: bool = option(False, "learn k, one for each class")
    annealing: str | None = option(None, "preset of the margin's annealing: sphereface, l_softmax_cifar10, ...")
    label_smoothing: float = option(0.0, "label smoothing (the authors' SphereNet code has 0.01)")
    bias: bool = option(False, "bias of the softmax head")
    energy: float = option(0.0, "weight of the energy of the class vectors (SphereFace+)")
    energy_s: float = option(2.0, "power of that energy")
    center: float = option(0.0, "weight of the center loss beside the head; its authors' is 0.003")
    contrastive: float = option(0.0, "weight of the contrastive loss beside the head; wants --data.per-class above 1")
    contrastive_margin: float = option(1.0, "distance from which it leaves two classes alone, on unit features")
    extra: dict[str, Any] = field(
        default_factory=dict, metadata=about("further options of the head, name=value;name=value")
    )

    def __post_init__(self) -> None:
        check_choice("loss.name", self.name, (*_OWN, *_HEADS))
        if check_positive("loss.label_smoothing", self.label_smoothing, zero=True) > 1:
            raise ValueError(f"loss.label_smoothing={self.label_smoothing} must lie in [0, 1]")
        beside = bool(self.energy or self.center or self.contrastive)
        if self.own_classifier and (self.margin is not None or self.angular is not None or beside):
            raise ValueError(
                "margin, angular, energy, center and contrastive belong to a head: choose another loss.name than "
                f"{self.name}, e.g. softmax"
            )
        if self.name == "triplet" and beside:
            raise ValueError("energy, center and contrastive stand beside class vectors: loss.name=triplet has none")
        if self.name == "hinge" and self.label_smoothing:
            raise ValueError("label_smoothing is of losses with probabilities: the hinge loss has none")

    @property
    def own_classifier(self) -> bool:
        """Whether the network's own classifier gives the logits, not a head."""
        return self.name in _OWN


def make_head(config: LossConfig, features: int, num_classes: int) -> nn.Module | None:
    """The head, or None for the network's own classifier."""
    if config.own_classifier:
        return None
    settings: dict[str, Any] = dict(config.extra)
    if config.angular is not None:
        settings["angular"] = make_angular(config.angular, config.k, config.learnable_k)
    for name in ("margin", "scale", "annealing"):
        if getattr(config, name) is not None:
            settings[name] = getattr(config, name)
    if config.label_smoothing:
        settings["label_smoothing"] = config.label_smoothing
    if config.bias:
        settings["bias"] = True
    head: Any = _HEADS[config.name](features, num_classes, **settings)
    if config.energy:
        head = losses.SphereFacePlus(head, config.energy, config.energy_s)
    if config.center:
        head = losses.CenterLoss(head, config.center)
    if config.contrastive:
        head = losses.ContrastiveLoss(head, config.contrastive, config.contrastive_margin)
    built: nn.Module = head
    return built


class Objective(nn.Module):
    """(inputs, labels) → loss and how many the logits got right.

    ``transform`` weighs the departure of PointNet's feature transforms from orthogonal ones, mean over the clouds.
    """

    def __init__(
        self,
        model: nn.Module,
        head: nn.Module | None,
        label_smoothing: float = 0.0,
        hinge: bool = False,
        transform: float = 0.0,
    ) -> None:
        super().__init__()
        self.model, self.head, self.label_smoothing, self.hinge = model, head, label_smoothing, hinge
        self.transform = transform
        if transform and not (isinstance(model, PointNet) and model.body.feature_transform is not None):
            raise ValueError(f"regularizer.transform={transform:g} needs T-Nets: use --model.name pointnet_tnet")

    def forward(self, inputs: tuple[Tensor, ...], labels: Tensor) -> tuple[Tensor, Tensor]:
        out, extra = self.model(*inputs, penalty=True) if self.transform else (self.model(*inputs), None)
        if self.head is None:
            loss, right = self._own_loss(out, labels), hits(out.detach(), labels)
        else:
            loss = self.head(out, labels)
            with torch.no_grad():
                right = hits(self.head.logits(out.detach()), labels)  # type: ignore[operator]
        return loss if extra is None else loss + self.transform / len(labels) * extra, right

    def _own_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        if self.hinge:
            return hinge_loss(logits, labels)
        return F.cross_entropy(logits, labels, ignore_index=IGNORE, label_smoothing=self.label_smoothing)

    def classifier(self) -> nn.Module:
        """What is evaluated: inputs → logits."""
        return self.model if self.head is None else Classifier(self.model, self.head)

    def picture(self) -> Tensor | None:
        """What there is to look at after an evaluation, uint8 ``(1 or 3, H, W)``; of classifiers nothing."""
        return None


class Classifier(nn.Module):
    """A network and its head: ``classifier(x)`` gives the logits ranked at test time, ``features(x)`` the embedding."""

    def __init__(self, network: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.network, self.head = network, head

    def features(self, *inputs: Tensor) -> Tensor:
        out: Tensor = self.network(*inputs)
        return out

    def forward(self, *inputs: Tensor) -> Tensor:
        out: Tensor = self.head.logits(self.network(*inputs))  # type: ignore[operator]
        return out


def hinge_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean over the samples of Σ_k max(0, 1 − t_k z_k), t_k = 1 for the label and −1 for the others."""
    logits, counts = upcast(logits), labels != IGNORE
    signs = torch.full_like(logits, -1.0).scatter_(1, labels.clamp_min(0)[:, None], 1.0)
    losses = (1 - signs * logits).clamp_min(0).sum(1)
    return torch.where(counts, losses, 0.0).sum() / counts.sum()


def hits(logits: Tensor, labels: Tensor) -> Tensor:
    """Number of samples whose label has the largest logit (-100 never has)."""
    return (logits.argmax(-1) == labels).sum()
