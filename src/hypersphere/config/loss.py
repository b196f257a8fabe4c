"""``--loss.*``: the loss, with or without a head of :mod:`hypersphere.losses`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .._core.checks import check_choice, check_count, check_share
from .._core.registries import HEADS
from .._core.registry import is_address
from .options import about, option

OWN_CLASSIFIER = {"cross_entropy": "cross-entropy", "hinge": "hinge loss"}
"""Losses on the logits of the network's own classifier, and their labels."""


@dataclass(frozen=True)
class LossConfig:
    """The loss: cross_entropy or hinge on the network's plain classifier, or a head with its own class vectors.

    Raises:
        ValueError: If a setting is unknown, out of its range or contradicts another one; the message names it.

    Example:
        >>> from hypersphere.config import LossConfig
        >>> LossConfig(name="arcface", margin=0.3, scale=30.0).margin
        0.3
    """

    name: str = option(
        "cross_entropy", lambda: f"{', '.join([*OWN_CLASSIFIER, *HEADS])}, or an address module:Class of your own head"
    )
    margin: float | None = option(None, "margin m; none: the head's default")
    scale: float | None = option(None, "scale s of heads on normalised features; none: the head's default")
    fitting: bool = option(
        False, "arcface, am_softmax, ...: derive margin and scale from the number of classes, where they are not given"
    )
    warmup: int = option(0, "steps over which the margin grows from 0 to its value; 0: the full margin from the start")
    angular: str | None = option(None, "g of w_softmax, s_softmax and ga_softmax; none: the head's default")
    k: float | None = option(None, "k of the sigmoid g, smaller is steeper; none: the head's default")
    learnable_k: bool = option(False, "learn k, one for each class")
    annealing: str | None = option(
        None,
        "how the margin is annealed: a preset (sphereface, l_softmax_cifar10, ...), or values of base, gamma, power "
        "and minimum, e.g. minimum=1;gamma=0.12 (the others as in sphereface)",
    )
    label_smoothing: float = option(0.0, "label smoothing (the authors' SphereNet code has 0.01)")
    bias: bool = option(False, "add a learned bias per class to the logits of a softmax or margin head")
    shard: bool = option(False, "split the class vectors over the processes of torchrun")
    energy: float = option(0.0, "weight of the energy of the class vectors (SphereFace+)")
    energy_s: float = option(2.0, "power of the energy of the class vectors")
    center: float = option(0.0, "weight of the center loss that is added to the head; 0.003 in its paper")
    contrastive: float = option(
        0.0, "weight of the contrastive loss that is added to the head; needs --data.per-class above 1"
    )
    contrastive_margin: float = option(1.0, "distance of unit features beyond which two classes no longer repel")
    extra: dict[str, Any] = field(
        default_factory=dict, metadata=about("further options of the head, name=value;name=value")
    )

    def __post_init__(self) -> None:
        if not is_address(self.name):
            if isinstance(self.name, str):
                object.__setattr__(self, "name", HEADS.canonical(self.name))  # settings are stored under one name
            check_choice("loss.name", self.name, (*OWN_CLASSIFIER, *HEADS), own=HEADS.kind)
        check_count("loss.warmup", self.warmup, minimum=0)
        if self.warmup and self.annealing is not None:
            raise ValueError("loss.warmup and loss.annealing both set how the margin starts: give one of them")
        check_share("loss.label_smoothing", self.label_smoothing)
        beside = bool(self.energy or self.center or self.contrastive)
        if self.own_classifier and (self.margin is not None or self.angular is not None or self.warmup or beside):
            raise ValueError(
                "margin, warmup, angular, energy, center and contrastive belong to a head: choose another loss.name "
                f"than {self.name}, e.g. softmax"
            )
        if self.name == "triplet" and beside:
            raise ValueError("energy, center and contrastive need class vectors, which loss.name=triplet does not have")
        if self.shard and (self.own_classifier or beside or self.name == "triplet"):
            raise ValueError(
                "loss.shard splits the class vectors of one head: choose a loss.name with class vectors, e.g. arcface, "
                "without energy, center and contrastive"
            )
        if self.name == "hinge" and self.label_smoothing:
            raise ValueError("label_smoothing needs a loss with probabilities, which the hinge loss does not have")

    @property
    def own_classifier(self) -> bool:
        """Whether the network's own classifier gives the logits, not a head."""
        return self.name in OWN_CLASSIFIER
