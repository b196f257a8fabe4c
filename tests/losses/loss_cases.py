"""The family in one table: how to build each head, and the reference that says what it must give."""

from __future__ import annotations

from typing import Any

import hypersphere as hs

L = hs.losses

SOFTMAX: dict[str, tuple[Any, dict[str, Any], str, dict[str, Any]]] = {
    # id: class, its options, name and options of the reference
    "softmax": (L.Softmax, {}, "Softmax", {}),
    "softmax_bias": (L.Softmax, {"bias": True}, "Softmax", {}),
    "w_cosine": (L.WSoftmax, {}, "WSoftmax", {}),
    "w_linear": (L.WSoftmax, {"angular": "linear"}, "WSoftmax", {"kind": "linear"}),
    "w_sigmoid": (L.WSoftmax, {"angular": "sigmoid"}, "WSoftmax", {"kind": "sigmoid"}),
    "w_square": (L.WSoftmax, {"angular": "square_cosine"}, "WSoftmax", {"kind": "square_cosine"}),
    "s_cosine": (L.SSoftmax, {"scale": 10.0}, "SSoftmax", {"scale": 10.0}),
    "s_sigmoid": (L.SSoftmax, {"angular": "sigmoid"}, "SSoftmax", {"scale": 30.0, "kind": "sigmoid"}),
    "ga_cosine": (L.GASoftmax, {"margin": 3, "angular": "cosine"}, "GASoftmax", {"margin": 3}),
    "ga_linear": (L.GASoftmax, {"margin": 4}, "GASoftmax", {"margin": 4, "kind": "linear"}),
    "ga_sigmoid": (
        L.GASoftmax,
        {"margin": 2, "angular": "sigmoid"},
        "GASoftmax",
        {"margin": 2, "kind": "sigmoid"},
    ),
    "ga_square": (
        L.GASoftmax,
        {"margin": 3, "angular": "square_cosine"},
        "GASoftmax",
        {"margin": 3, "kind": "square_cosine"},
    ),
    "l_softmax": (L.LSoftmax, {"margin": 4}, "LSoftmax", {"margin": 4}),
    "l_softmax_real": (L.LSoftmax, {"margin": 2.5}, "LSoftmax", {"margin": 2.5}),
    "a_softmax": (L.ASoftmax, {}, "ASoftmax", {"margin": 4}),
    "am_softmax": (L.AMSoftmax, {}, "AMSoftmax", {"margin": 0.35, "scale": 30.0}),
    "arcface": (L.ArcFace, {}, "ArcFace", {"margin": 0.5, "scale": 64.0}),
    "r_v0": (L.SphereFaceR, {"form": "v0"}, "v0", {"margin": 1.5, "scale": 30.0}),
    "r_v1": (L.SphereFaceR, {"form": "v1"}, "v1", {"margin": 1.5, "scale": 30.0}),
    "r_v2": (L.SphereFaceR, {}, "v2", {"margin": 1.5, "scale": 30.0}),
    "adaface": (L.AdaFace, {}, "adaface", {}),
    "magface": (L.MagFace, {}, "magface", {}),
    "magface_short": (
        L.MagFace,
        {"lower_norm": 0.5, "upper_norm": 2.5, "upper_margin": 1.0, "scale": 30.0, "norm_weight": 2.0},
        "magface",
        {"norms": (0.5, 2.5), "margins": (0.45, 1.0), "s": 30.0, "lam": 2.0},
    ),
    "curricularface": (L.CurricularFace, {}, "curricularface", {}),
    "curricularface_fast": (L.CurricularFace, {"momentum": 0.2}, "curricularface", {"momentum": 0.2}),
    "subcenter": (L.SubcenterArcFace, {}, "subcenter", {}),
}

SEEING = ["adaface", "magface", "curricularface", "subcenter", "elastic"]  # margins that see the sample

LEARNABLE: dict[str, Any] = {
    "w_learnable_k": lambda d, c, **o: L.WSoftmax(d, c, angular=hs.angular.Sigmoid(learnable=True), **o),
    "ga_shared_k": lambda d, c, **o: L.GASoftmax(
        d, c, margin=2, angular=hs.angular.Sigmoid(learnable=True, share="layer"), **o
    ),
    "r_v2_annealed": lambda d, c, **o: L.SphereFaceR(d, c, annealing="sphereface", **o),
    "elastic": lambda d, c, **o: L.ElasticFace(d, c, sort=True, **o),
    "curricular_annealed": lambda d, c, **o: L.CurricularFace(d, c, annealing="sphereface", **o),
    "w_subcenters_k": lambda d, c, **o: L.WSoftmax(
        d, c, sub_centers=2, angular=hs.angular.Sigmoid(learnable=True), **o
    ),
    "l_annealed": lambda d, c, **o: L.LSoftmax(d, c, annealing=L.MarginWarmup(2, 5), **o),
}

OTHER: dict[str, Any] = {
    "sphereface2": lambda d, c, **o: L.SphereFace2(d, c, **o),
    "plus": lambda d, c, **o: L.SphereFacePlus(L.ASoftmax(d, c, **o), weight=0.5),
}


def build(case: str, in_features: int, num_classes: int, **options: Any) -> Any:
    if case in SOFTMAX:
        cls, own, _, _ = SOFTMAX[case]
        return cls(in_features, num_classes, **own, **options)
    return {**LEARNABLE, **OTHER}[case](in_features, num_classes, **options)


ALL = [*SOFTMAX, *LEARNABLE, *OTHER]
