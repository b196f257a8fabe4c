"""Chapter 7's orthogonal over-parameterized training, and the CNNs of Table F.1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from ...train import Config, OrthogonalConfig
from ..protocols import mhe, sgd
from ..table import Cell

__all__ = ["METHODS", "blocks", "cnn", "opt"]

METHODS = {
    "gs": "gram_schmidt",
    "hr": "householder",
    "ls": "lowdin",
    "cp": "cayley",
    "ogd": "gradient",
    "or": "relaxed",
    "upt": "free",
}


def opt(config: Config, method: str, **settings: Any) -> Config:
    """``config`` trained with OPT, or as it is for ``baseline``.

    Under ``ogd`` orthogonality-preserving descent trains R and the optimizer of ``config`` the other parameters (F.3).
    The text gives R no rate of its own: it is ``optim.orthogonal_lr``, by default 0.02 as in the authors' code.
    """
    if method == "baseline":
        return config
    return replace(config, orthogonal=OrthogonalConfig(METHODS[method], **settings))


def cnn(method: str, network: str = "cnn6", norm: str | None = None, **settings: Any) -> Config:
    """CNN-6 or CNN-9 of Table F.1 on CIFAR-100: ``baseline``, ``hs-mhe``, or a method of OPT."""
    config = sgd("cifar100", network, "f1", 5e-4, norm=norm)
    return mhe(config, half=True) if method == "hs-mhe" else opt(config, method, **settings)


def blocks(rows: Mapping[int, tuple[float, ...]], shared: bool) -> tuple[Cell, ...]:
    """Cells ``method.k2``: R of k diagonal blocks (F.5), CNN-6; and the ``baseline``.

    k counts blocks of the 64 channels; the first convolution has three channels, so at most three blocks.
    """
    return (
        *(
            Cell(f"{method}.k{k}", partial(cnn, method, blocks=k, share_blocks=shared), value)
            for k, row in rows.items()
            for method, value in zip(("cp", "gs", "hr", "ls", "ogd"), row, strict=True)
        ),
        Cell("baseline", partial(cnn, "baseline"), 37.59),
        Cell("fixed", partial(cnn, "cp", learn_r=False), 73.81),  # random neurons that stay as they are
    )
