"""The tables of all kinds: each room fills its own, every other room reads its choices, labels and help from here."""

from __future__ import annotations

from typing import Any

from .registry import Registry

ANGULAR: Registry[Any] = Registry("angular function", "hypersphere.angular")
MAGNITUDES: Registry[Any] = Registry("magnitude function", "hypersphere.magnitude")
HEADS: Registry[Any] = Registry("head", "hypersphere.losses")
REGULARIZERS: Registry[Any] = Registry("regularizer", "hypersphere.regularizers")
MAPS: Registry[Any] = Registry("orthogonal map", "hypersphere.orthogonal")
OPTIMIZERS: Registry[Any] = Registry("optimizer", "hypersphere.optim")
MODELS: Registry[Any] = Registry("network", "hypersphere.models")
DATASETS: Registry[Any] = Registry("data set", "hypersphere.data")
MEASUREMENTS: Registry[Any] = Registry("measurement", "hypersphere.evaluation")
PLOTS: Registry[Any] = Registry("plot", "hypersphere.plots")
PANELS: Registry[Any] = Registry("panel of the report", "hypersphere.report")

KINDS: dict[str, Registry[Any]] = {
    "angular": ANGULAR,
    "magnitude": MAGNITUDES,
    "head": HEADS,
    "regularizer": REGULARIZERS,
    "map": MAPS,
    "optimizer": OPTIMIZERS,
    "model": MODELS,
    "dataset": DATASETS,
    "measurement": MEASUREMENTS,
    "plot": PLOTS,
    "panel": PANELS,
}
