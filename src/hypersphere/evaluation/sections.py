"""The parts of an evaluation: each takes what was examined and gives JSON values, rates in percent."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .. import metrics
from ..data import Pairs, make_pairs
from ..regularizers import MHE
from ..train.measures.verification import in_percent
from .examine import Examination

__all__ = ["classification", "energy", "hardness", "identification", "retrieval", "verification"]

_MATRIX = 200  # classes up to which confusion matrices are written out


def classification(found: Examination) -> dict[str, Any]:
    """Accuracy, top-5, per-class errors, confusion; mean cosines of each class's features with each class vector."""
    if found.logits is None:
        raise ValueError("the test classes are others than those of training: evaluate verification or retrieval")
    result = metrics.classification(found.logits, found.labels, found.classes)
    errors = zip(result.classes, (100 * result.class_errors).tolist(), result.counts.tolist(), strict=True)
    out: dict[str, Any] = {
        "accuracy": 100 * result.accuracy,
        "balanced_accuracy": 100 * result.balanced_accuracy,
        "top5_accuracy": 100 * result.top(min(5, found.logits.shape[1])),
        "classes": [{"name": name, "error": error, "samples": count} for name, error, count in errors if count],
    }
    if len(found.classes) <= _MATRIX:
        out["confusion"] = result.confusion.tolist()
        out["cosine_confusion"] = _cosines(found).tolist()
    return out


def hardness(found: Examination, count: int = 10) -> dict[str, Any]:
    """Angular visual hardness: its mean, and the hardest samples."""
    if found.logits is None or found.class_vectors is None:
        raise ValueError("hardness is measured against class vectors of the test classes, which this run has not")
    values = metrics.angular_visual_hardness(found.features, found.class_vectors, found.labels)
    top = values.topk(min(count, len(values)))
    predicted = found.logits.argmax(1)
    return {
        "mean": float(values.mean()),
        "hardest": [
            {
                "sample": index,
                "class": found.classes[int(found.labels[index])],
                "predicted": found.classes[int(predicted[index])],
                "hardness": value,
            }
            for value, index in zip(top.values.tolist(), top.indices.tolist(), strict=True)
        ],
    }


def energy(model: nn.Module) -> dict[str, Any]:
    """Hyperspherical energy of each layer with neurons, s = 2, mean over pairs."""
    head = getattr(model, "head", None)
    meter = MHE(model, head if isinstance(head, nn.Module) else None, output=0.0)
    layers = {name: float(value) for name, value in meter.layers().items()}
    return {"mean": sum(layers.values()) / len(layers), "layers": layers}


def verification(features: Tensor, labels: Tensor, pairs: Pairs | None, folds: int, center: bool) -> dict[str, Any]:
    """LFW's protocol on given pairs, or on pairs drawn from the labels, in no more folds than there are class pairs."""
    if pairs is None:
        classes = int((labels.bincount() > 1).sum())
        drawn = make_pairs(labels, max(2, min(folds, classes // 2)))
    else:
        drawn = pairs.folded(folds)
    return {"pairs": len(drawn), **in_percent(metrics.verify_pairs(features, drawn, center=center))}


def retrieval(features: Tensor, labels: Tensor) -> dict[str, Any]:
    """Every test sample queries all others: mean average precision and recall at k."""
    found = metrics.retrieval(features, labels)
    recall = {f"recall@{k}": 100 * value for k, value in found.recall.items()}
    return {"map": 100 * found.map, "map@r": 100 * found.map_at_r, "r_precision": 100 * found.r_precision, **recall}


def identification(features: Tensor, labels: Tensor) -> dict[str, Any]:
    """The first sample of each class is its gallery, the others are probes: rank-k rates and open-set TAR."""
    order = torch.argsort(labels, stable=True)
    first = torch.ones(len(labels), dtype=torch.bool)
    first[1:] = labels[order][1:] != labels[order][:-1]
    gallery, probes = order[first], order[~first]
    if len(gallery) < 2 or not len(probes):
        raise ValueError("identification needs two classes, and a class with two samples or more")
    found = metrics.identification(features[probes], labels[probes], features[gallery], labels[gallery])
    ranks = {f"rank{k}": 100 * value for k, value in found.rates.items()}
    return {"probes": len(probes), "gallery": len(gallery), **ranks, "tar@0.01": 100 * found.tar_at(1e-2)}


def _cosines(found: Examination) -> Tensor:
    return metrics.cosine_confusion(found.features, found.labels, found.class_vectors)
