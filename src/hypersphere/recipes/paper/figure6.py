"""Paper Figure 6 (thesis Figure 3.6): top-1 and top-5 validation error over iterations on ImageNet; no numbers."""

from __future__ import annotations

from functools import partial

from ...train import Config
from ..protocols import IMAGENET, imagenet40, spherical, with_top5
from ..table import Cell, Table
from ._losses import with_loss

__all__ = ["TABLES", "figure6"]


def figure6(network: str) -> Config:
    """ResNet-18 with 256-1024 filters, or a SphereResNet-18 of cosine SphereConvs (paper sec. 4.6, B).

    v1 has SphereConvs in its shortcuts and the cosine W-Softmax; v2 has neither.
    """
    if network == "resnet18":
        return with_top5(imagenet40(network, widths="wide"))
    config = with_top5(spherical(imagenet40(network, conv="sphere", angular="cosine")))
    return with_loss(config, "w-cosine" if network.endswith("v1") else "softmax")


TABLES = (
    Table(
        "paper.figure6",
        "ResNet-18 and SphereResNet-18 over iterations on ImageNet (paper Figure 6: curves, no numbers)",
        "error",
        tuple(
            Cell(f"{network}.{top}", partial(figure6, network), None, measure=measure, run=network)
            for network in ("resnet18", "sphere_resnet18_v1", "sphere_resnet18_v2")
            for top, measure in (("top1", "accuracy"), ("top5", "top5_accuracy"))
        ),
        f"{IMAGENET}; the log has top-1 over iterations, top-5 is measured at the end.",
    ),
)
