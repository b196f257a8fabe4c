"""Thesis chapter 6: compressive MHE on CIFAR, ImageNet, ModelNet40 and graphs (Tables 6.1-6.8, E.4, E.6)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..train import Config
from .protocols import comhe, edit, gcn, imagenet, mhe, points, sgd
from .table import Cell, Table

__all__ = ["KINDS", "TABLES"]

Kind = Callable[[Config], Config]


def _baseline(config: Config) -> Config:
    return config


def _named(name: str) -> Kind:
    return lambda config: edit(config, regularizer={"name": name})


def _comhe(projection: str, **settings: Any) -> Kind:
    return lambda config: comhe(config, projection, **settings)


KINDS: dict[str, Kind] = {
    "baseline": _baseline,
    "orthogonal": _named("orthogonal"),
    "orthonormal": _named("orthonormal"),
    "srip": _named("srip"),
    "mhe": mhe,
    "hs-mhe": lambda config: mhe(config, half=True),
    "g-comhe": _comhe("group"),
    "adv-comhe": _comhe("adversarial"),
    "rp-comhe": _comhe("random"),
    "rp-comhe-max": _comhe("random", aggregate="max"),
    "ap-comhe-alter": _comhe("angle_preserving"),
    "ap-comhe": _comhe("angle_preserving", extra={"unroll": 1}),
}


def network(kind: Kind, dataset: str = "cifar100", name: str = "cnn9", widths: str = "d1") -> Config:
    return kind(sgd(dataset, name, widths))


TABLE61 = {
    "baseline": 28.03,
    "orthogonal": 27.01,
    "srip": 25.80,
    "mhe": 26.75,
    "hs-mhe": 25.96,
    "g-comhe": 25.08,
    "adv-comhe": 25.09,
    "rp-comhe": 24.39,
    "rp-comhe-max": 24.77,
    "ap-comhe-alter": 24.95,
    "ap-comhe": 24.33,
}
TABLE62 = {
    "rp-comhe": (25.48, 25.32, 24.60, 24.75, 25.46),
    "ap-comhe-alter": (25.21, 24.60, 24.95, 24.97, 24.99),
    "ap-comhe": (25.32, 24.59, 24.33, 24.93, 25.12),
}
TABLE63 = {
    1: (25.11, 24.33),
    5: (24.39, 24.34),
    10: (25.11, 24.36),
    20: (24.60, 24.38),
    30: (24.82, 24.52),
    80: (24.92, 24.56),
}
TABLE64 = {
    "baseline": (47.72, 38.64, 28.13, 24.95, 24.44, 23.77),
    "mhe": (36.84, 30.05, 26.75, 24.05, 23.14, 22.36),
    "hs-mhe": (35.16, 29.33, 25.96, 23.38, 21.83, 21.22),
    "rp-comhe": (34.73, 28.92, 24.39, 22.44, 20.81, 20.62),
    "ap-comhe": (34.89, 29.01, 24.33, 22.6, 20.72, 20.50),
}
TABLE65: dict[str, tuple[float | None, ...]] = {
    "baseline": (32.08, 28.13, None),
    "mhe": (28.16, 26.75, 26.90),
    "hs-mhe": (27.56, 25.96, 25.84),
    "rp-comhe": (26.73, 24.39, 24.21),
    "ap-comhe": (26.55, 24.33, 24.55),
}
TABLE66 = {
    "baseline": (5.19, 22.87),
    "orthogonal": (5.02, 22.36),
    "srip": (4.75, 22.08),
    "mhe": (4.72, 22.19),
    "hs-mhe": (4.66, 22.04),
    "rp-comhe": (4.59, 21.82),
    "ap-comhe": (4.57, 21.63),
}
TABLE67 = {
    "baseline": (32.95, 30.04, 25.30),
    "orthogonal": (32.65, 29.74, 25.19),
    "orthonormal": (32.61, 29.75, 25.21),
    "srip": (32.53, 29.55, 24.91),
    "mhe": (32.50, 29.60, 25.02),
    "hs-mhe": (32.45, 29.50, 24.98),
    "rp-comhe": (31.90, 29.38, 24.51),
    "ap-comhe": (31.80, 29.32, 24.53),
}
TABLE68 = {
    "baseline": (87.1, 89.20, 90.07),
    "mhe": (87.31, 89.33, 90.25),
    "hs-mhe": (87.44, 89.41, 90.31),
    "rp-comhe": (87.82, 89.69, 90.52),
    "ap-comhe": (87.85, 89.70, 90.56),
}
TABLEE6 = {
    "baseline": (70.3, 81.3, 79.0),
    "hs-mhe": (71.5, 82.0, 79.0),
    "rp-comhe": (72.1, 82.7, 79.5),
    "ap-comhe": (72.0, 82.6, 79.5),
}
GRAPHS = ("citeseer", "cora", "pubmed")


def _on(kind: str, make: Callable[[], Config]) -> Callable[[], Config]:
    return lambda: KINDS[kind](make())


def _projected(kind: str, **settings: Any) -> Callable[[], Config]:
    return lambda: edit(network(KINDS[kind]), regularizer=settings)


TABLES = (
    Table(
        "thesis.table6.1",
        "CoMHE variants, CNN-9 on CIFAR-100",
        "error",
        tuple(Cell(kind, partial(network, KINDS[kind]), value) for kind, value in TABLE61.items()),
    ),
    Table(
        "thesis.table6.2",
        "Dimension of the projection, CNN-9 on CIFAR-100 (random: 20 projections)",
        "error",
        tuple(
            Cell(f"{kind}.dim{dim}", _projected(kind, dim=dim, count=20 if kind == "rp-comhe" else None), value)
            for kind, row in TABLE62.items()
            for dim, value in zip((10, 20, 30, 40, 80), row, strict=True)
        ),
    ),
    Table(
        "thesis.table6.3",
        "Number of projections, CNN-9 on CIFAR-100",
        "error",
        tuple(
            Cell(f"{kind}.count{count}", _projected(kind, count=count), value)
            for count, row in TABLE63.items()
            for kind, value in zip(("rp-comhe", "ap-comhe"), row, strict=True)
        ),
    ),
    Table(
        "thesis.table6.4",
        "Width 16t/32t/64t of CNN-9 on CIFAR-100",
        "error",
        tuple(
            Cell(f"{kind}.t{t}", partial(network, KINDS[kind], widths=f"{16 * t},{32 * t},{64 * t}"), value)
            for kind, row in TABLE64.items()
            for t, value in zip((1, 2, 4, 8, 16, 20), row, strict=True)
        ),
    ),
    Table(
        "thesis.table6.5",
        "Depth on CIFAR-100 (none: not converged)",
        "error",
        tuple(
            Cell(f"{kind}.{name}", partial(network, KINDS[kind], name=name), value)
            for kind, row in TABLE65.items()
            for name, value in zip(("cnn6", "cnn9", "cnn15"), row, strict=True)
        ),
    ),
    Table(
        "thesis.table6.6",
        "ResNet-32 on CIFAR-10 and CIFAR-100",
        "error",
        tuple(
            Cell(f"{kind}.{dataset}", partial(network, KINDS[kind], dataset, "resnet32", "d2"), value)
            for kind, row in TABLE66.items()
            for dataset, value in zip(("cifar10", "cifar100"), row, strict=True)
        ),
    ),
    Table(
        "thesis.table6.7",
        "ResNets on ImageNet, top-1",
        "error",
        tuple(
            Cell(f"{kind}.{name}", _on(kind, partial(imagenet, name)), value)
            for kind, row in TABLE67.items()
            for name, value in zip(("resnet18", "resnet34", "resnet50"), row, strict=True)
        ),
        "needs imagenet/train and imagenet/val under --data.root",
    ),
    Table(
        "thesis.table6.8",
        "Point clouds of ModelNet40",
        "accuracy",
        tuple(
            Cell(f"{kind}.{name}", _on(kind, partial(points, name)), value)
            for kind, row in TABLE68.items()
            for name, value in zip(("pointnet", "pointnet_tnet", "pointnet2"), row, strict=True)
        ),
    ),
    Table(
        "thesis.tableE.4",
        "Steps between new random projections (20 of 30 dimensions), CNN-9 on CIFAR-100",
        "error",
        tuple(
            Cell(f"every{every or '-never'}", _projected("rp-comhe", count=20, refresh=every), value)
            for every, value in zip((1, 200, 1000, None), (24.6, 24.84, 24.62, 26.09), strict=True)
        ),
    ),
    Table(
        "thesis.tableE.6",
        "Graph convolutional networks",
        "accuracy",
        tuple(
            Cell(f"{kind}.{graph}", _on(kind, partial(gcn, graph)), value)
            for kind, row in TABLEE6.items()
            for graph, value in zip(GRAPHS, row, strict=True)
        ),
    ),
)
