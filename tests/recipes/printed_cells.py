"""What the rows and columns of the tables name: rows (word, recipes, settings), as in ``printed_settings``.

With them no two trainings of a table can be exchanged unnoticed. Patterns may match nothing: not every word is in every
table.
"""

from typing import Any

Settings = dict[str, Any]


def _named(words: dict[str, Settings], patterns: str) -> list[tuple[str, str, Settings]]:
    """A row for each word, which stands at ``{}`` in the patterns."""
    return [(word, patterns.replace("{}", word), settings) for word, settings in words.items()]


def _sigmoid(k: float) -> Settings:
    return {"network.conv": "sphere", "model.angular": "sigmoid", "model.k": k}


def _energy(half: bool, distance: str = "euclidean") -> Settings:
    return {"regularizer.name": "mhe", "regularizer.half_space": half, "regularizer.distance": distance}


def _projected(projection: str, **more: Any) -> Settings:
    found = {"regularizer.name": "comhe", "regularizer.projection": projection, "regularizer.half_space": True}
    return found | {f"penalty.{name}": value for name, value in more.items()}


def _margin(name: str, margin: int | None = None) -> Settings:
    return {"loss.name": name, "loss.margin": margin}


_SETS = ("cifar10", "cifar100", "cora", "citeseer", "pubmed")
_CIFAR10: Settings = {"data.name": "cifar10", "data.pad": 0}
_CIFAR100: Settings = {"data.name": "cifar100"}
_PLAIN: Settings = {"network.conv": "plain"}
_NOTHING: Settings = {"regularizer.name": "none"}
_COSINES = {"regularizer.name": "orthogonal", "penalty.of": "cosines"}
_ORTHONORMAL = {"regularizer.name": "orthonormal"}
_M = {f"m{m}": _margin("a_softmax", m) for m in (1, 2, 3, 4)}

OPERATORS = {
    "original": _PLAIN,
    "sigmoid0.1": _sigmoid(0.1),
    "sigmoid0.3": _sigmoid(0.3),
    "sigmoid0.7": _sigmoid(0.7),
    "linear": {"network.conv": "sphere", "model.angular": "linear"},
    "cosine": {"network.conv": "sphere", "model.angular": "cosine"},
}
LOSSES = {
    "softmax": {"loss.name": "cross_entropy"},
    **{f"w-sigmoid{k}": {"loss.name": "w_softmax", "loss.angular": "sigmoid", "loss.k": k} for k in (0.1, 0.3, 0.7)},
    "w-linear": {"loss.name": "w_softmax", "loss.angular": "linear"},
    "w-cosine": {"loss.name": "w_softmax", "loss.angular": "cosine"},
    "a-softmax": {"loss.name": "a_softmax"},
    "ga-softmax": {"loss.name": "ga_softmax", "loss.angular": "linear"},
}
WIDE_TABLE = {
    "resnet32": _PLAIN | LOSSES["softmax"],
    "s-sw": OPERATORS["sigmoid0.3"] | LOSSES["w-sigmoid0.3"],
    "l-lw": OPERATORS["linear"] | LOSSES["w-linear"],
    "c-cw": OPERATORS["cosine"] | LOSSES["w-cosine"],
    "s-g": OPERATORS["sigmoid0.3"] | LOSSES["ga-softmax"],
}
NORMS = {
    "batch": {"network.norm": "batch", "network.affine": False},
    "sphere": {"network.norm": "sphere", "network.affine": False},
    "both": {"network.norm": "both", "network.affine": False},
    "sphere-orthogonal": {"network.norm": "sphere", "network.affine": False},
    "sphere-rescaled": {"network.norm": "sphere", "network.affine": True},
}
MAGNITUDES = {
    "baseline": _PLAIN | _NOTHING,
    **{
        name: {"network.conv": "decoupled", "model.magnitude": name}
        for name in ("sphere", "ball", "tanh", "linear", "segment", "log", "mix")
    },
}
WEIGHTED = {
    "linearly-weighted": {"model.weighted": "linear"},
    "product-weighted": {"model.weighted": "product"},
    "separately-weighted": {"model.weighted": "separate"},
    **{
        name: {"model.weighted": None, "optim.projects": projects, "optim.weighted_gradients": weighted}
        for name, projects, weighted in (
            ("standard-gradients", False, False),
            ("weight-projection", True, False),
            ("weighted-gradients", False, True),
        )
    },
}
ENERGIES = {
    "baseline": _NOTHING,
    "orthogonal": _COSINES,
    "orthonormal": _ORTHONORMAL,
    "mhe": _energy(False),
    "half-mhe": _energy(True),
    "a-mhe": _energy(False, "angular"),
    "half-a-mhe": _energy(True, "angular"),
}
COMPRESSED = {
    "baseline": _NOTHING,
    "standard": _NOTHING,
    "orthogonal": _COSINES,
    "orthonormal": _ORTHONORMAL,
    "srip": {"regularizer.name": "srip"},
    "mhe": _energy(False),
    "hs-mhe": _energy(True),
    "g-comhe": _projected("group"),
    "adv-comhe": _projected("adversarial", count=1),
    "rp-comhe": _projected("random", aggregate="mean"),
    "rp-comhe-max": _projected("random", aggregate="max"),
    "ap-comhe-alter": _projected("angle_preserving", unroll=0),
    "ap-comhe": _projected("angle_preserving", unroll=1),
}
PLACES = {
    "*mhe.output": {"regularizer.output": 1.0, "regularizer.hidden": 0.0},
    "mhe.hidden": {"regularizer.output": 0.0, "penalty.hidden": 10.0},
    "a-mhe.hidden": {"regularizer.output": 0.0, "penalty.hidden": 10.0},
    "half-*.hidden": {"regularizer.output": 0.0, "penalty.hidden": 1.0},
    "mhe.both": {"regularizer.output": 1.0, "penalty.hidden": 10.0},
    "a-mhe.both": {"regularizer.output": 1.0, "penalty.hidden": 10.0},
    "half-*.both": {"regularizer.output": 1.0, "penalty.hidden": 1.0},
}
METHODS = {
    name: {"orthogonal.method": method} | _NOTHING
    for name, method in (
        ("baseline", None),
        ("gs", "gram_schmidt"),
        ("hr", "householder"),
        ("ls", "lowdin"),
        ("cp", "cayley"),
        ("ogd", "gradient"),
        ("or", "relaxed"),
    )
} | {"hs-mhe": {"orthogonal.method": None, **_energy(True)}}
FACES = {
    **{name: _margin("softmax") for name in ("softmax", "contrastive", "center")},
    "triplet": {"loss.name": "triplet"},
    "l-softmax": _margin("l_softmax", 4),
    "sphereface": _margin("a_softmax", 4) | {"loss.energy": 0.0},
}
REMOVED = {
    name: {"loss.name": "a_softmax" if margin else "softmax", "loss.margin": margin, "loss.bias": bias}
    | {"model.extra": {"last_relu": True} if relu else {}}
    for name, margin, bias, relu in (
        ("A", None, True, True),
        ("B", None, True, False),
        ("C", None, False, False),
        *((name, m, False, False) for m, name in enumerate("DEFG", start=1)),
    )
}
_FREE = {"network.spectral_norm": False}
GANS = {
    "clipping": _FREE | _NOTHING,
    "gp": _FREE | _NOTHING | {"gan.loss": "standard"},
    "wgan-gp": _FREE | _NOTHING | {"gan.loss": "wasserstein"},
    "batch": _FREE | _NOTHING | {"network.norm": "batch"},
    "layer": _FREE | _NOTHING | {"gan.normalization": "layer"},
    "weight": _FREE | _NOTHING | {"gan.normalization": "weight"},
    "orthonormal": _FREE | _ORTHONORMAL,
    "sn": {"network.spectral_norm": True, **_NOTHING},
    "mhe": _FREE | _energy(True),
    "mhe+sn": {"network.spectral_norm": True, **_energy(True)},
}

_OF_OPERATORS = "paper.table1.{}.* paper.table2.{}.* paper.table3.{} paper.figure3[ac].{}.* paper.figure3[bd].{}"
_OF_MAGNITUDES = "thesis.table4.[2-4].{} thesis.table4.[2-4].{}.* thesis.table4.5.{}-* thesis.table4.[678].{}.*"
_OF_MAGNITUDES += " thesis.figure4.4.{} thesis.tableC.2.{} thesis.tableC.2.{}.* thesis.figureC.[123].{}"
_OF_ENERGIES = "thesis.table5.[1-7].{} thesis.table5.[1-7].{}.* thesis.tableD.[36].{}.* thesis.figure5.4.{}"
_OF_COMPRESSED = "thesis.table6.[1-8].{} thesis.table6.[1-8].{}.* thesis.figure6.2.{} thesis.tableE.5.{}"
_OF_COMPRESSED += " thesis.tableE.6.{}.* thesis.figureE.[2-5].{}"
_OF_METHODS = "thesis.table7.[345678].{} thesis.table7.[345678].{}.* thesis.table7.9.{}.* thesis.table7.1[12].{}"
_OF_METHODS += " thesis.table7.11.{}.* thesis.figure7.3.{} thesis.tableF.[45].{} thesis.tableF.[45].{}.*"

CELLS: list[tuple[str, str, Settings]] = [
    *_named({name: {"data.name": name} for name in _SETS}, "paper.*.{} thesis.*.{} thesis.table2.3.{}.*"),
    *_named({"cifar10+": {"data.name": "cifar10", "data.pad": 4}}, "paper.*.{} thesis.table2.3.{}.*"),
    # tables of one set
    ("CIFAR-10", "paper.table[123].* paper.figure3[bcd].* paper.figure[45].* paper.section4.3.*", _CIFAR10),
    ("CIFAR-10", "paper.figure3a.*.cifar10", _CIFAR10),
    ("CIFAR-10", "thesis.table4.[78].* thesis.table5.7.* thesis.figureC.1.*", {"data.name": "cifar10"}),
    ("CIFAR-100", "thesis.table2.4.* thesis.table4.[1-4].* thesis.figure4.4.* thesis.tableC.2.*", _CIFAR100),
    ("CIFAR-100", "thesis.table5.[234].* thesis.table6.[1-5].* thesis.tableE.[45].* thesis.sectionE.8.*", _CIFAR100),
    # the paper
    *_named(OPERATORS, _OF_OPERATORS),
    *_named({name: OPERATORS[name] for name in ("cosine", "linear", "sigmoid0.3")}, "paper.figure3b.{}.orthogonal"),
    *_named({"sigmoid0.3": OPERATORS["sigmoid0.3"] | {"model.learnable_k": False}}, "paper.section4.3.{}"),
    *_named(LOSSES, "paper.table1.*.{}"),
    *_named(WIDE_TABLE, "paper.table4.{}.*"),
    *_named({f"batch{size}": {"data.batch_size": size} for size in (4, 8, 16, 32)}, "paper.figure5.{}.*"),
    *_named(NORMS, "paper.figure5.*.{}"),
    *_named(
        {name: {"model.widths": name.replace("-", ",")} for name in ("32-64-96", "64-96-128", "128-192-256")},
        "paper.figure3c.*.{}",
    ),
    # chapter 2 and appendix A
    *_named(
        {"hinge": _margin("hinge"), "softmax": _margin("softmax")}
        | {f"m{m}": _margin("l_softmax", m) for m in (2, 3, 4)},
        "thesis.table2.[24].{} thesis.table2.3.*.{} thesis.table2.5.{} thesis.figure2.2.{}",
    ),
    *_named(
        {"softmax": _margin("softmax")} | _M,
        "thesis.figure2.7.{} thesis.figure2.10.{} thesis.figureA.5.{} thesis.table2.8.{}.* thesis.table2.8.{}",
    ),
    *_named({"m4": _M["m4"], "softmax": _margin("softmax")}, "thesis.figure2.11.{}.*"),
    *_named(
        {str(depth): {"model.name": f"sphereface{depth}"} for depth in (4, 10, 20, 36, 64)},
        "thesis.figure2.11.*.{}.* thesis.tableA.2.sphereface{}.*",
    ),
    *_named({"softmax64": {"loss.name": "softmax", "model.name": "sphereface64"}}, "thesis.tableA.2.{}.*"),
    *_named(FACES, "thesis.table2.9.{}.* thesis.table2.10.{}.* thesis.table5.10.{}.*"),
    *_named(REMOVED, "thesis.tableA.1.{}.*"),
    *_named({"relu": {"model.extra": {"last_relu": True}}}, "thesis.figureA.1.{}"),
    *_named({"no-relu": {"model.extra": {"last_relu": False}}}, "thesis.figureA.1.{}"),
    *_named({"bias": {"loss.bias": True}, "no-bias": {"loss.bias": False}}, "thesis.figureA.4.{}"),
    # chapter 4 and appendix C
    *_named(MAGNITUDES, _OF_MAGNITUDES),
    *_named(
        {name: {"model.angular": name} for name in ("linear", "cosine", "square_cosine")},
        "thesis.table4.[24].*.{} thesis.tableC.2.*.{} thesis.table4.5.*-{}.*",
    ),
    *_named({name: {"model.angular": name} for name in ("cosine", "square_cosine")}, "thesis.table4.3.*.{}.*"),
    *_named(
        {"no-relu": {"network.activation": "none"}, "relu": {"network.activation": "relu"}}, "thesis.table4.3.*.{}"
    ),
    *_named(WEIGHTED, "thesis.table4.1.{}"),
    *_named({"no-bn": {"network.norm": "none"}}, "thesis.table4.6.*.modified-{}"),
    *_named({name: {"network.norm": "batch"} for name in ("standard", "modified")}, "thesis.table4.6.*.{}"),
    *(
        row
        for operator in ("baseline", "sphere", "ball", "tanh")
        for row in _named(
            {"natural": {"adversarial.train": None}, "fgsm": {"adversarial.train": "fgsm"}},
            f"thesis.table4.[78].{operator}.{{}}.*",
        )
    ),
    # chapter 5 and appendix D
    *_named(ENERGIES, _OF_ENERGIES),
    *_named({f"s{s}": {"regularizer.s": float(s)} for s in (0, 1, 2)}, "thesis.table5.1.*.{}.* thesis.tableD.3.*.{}.*"),
    *_named(PLACES, "thesis.table5.4.{}"),
    *_named({"baseline": _NOTHING}, "thesis.figure5.3.{}"),
    *(
        row
        for weight in (0.01, 0.1, 1, 10, 100)
        for row in _named(
            {
                "mhe-o": {"regularizer.output": weight, "regularizer.hidden": 0.0, **_energy(False)},
                "mhe-h": {"regularizer.hidden": weight, "regularizer.output": 0.0, **_energy(False)},
                "half-mhe-h": {"regularizer.hidden": weight, "regularizer.output": 0.0, **_energy(True)},
            },
            f"thesis.figure5.3.{{}}.weight{weight}",
        )
    ),
    *_named(_M, "thesis.table5.[89].*.{}.* thesis.tableD.7.*.{}.*"),
    *_named(
        {"sphereface": {"loss.energy": 0.0}, "sphereface+": {"loss.energy": 1.0}},
        "thesis.table5.[89].{}.* thesis.tableD.[78].{}.*",
    ),
    *_named({name: {"data.name": name} for name in ("imdb_face", "ms_celeb", "casia")}, "thesis.tableD.8.*.{}.*"),
    *_named(GANS, "thesis.tableD.4.{}"),
    # chapter 6 and appendix E
    *_named(COMPRESSED, _OF_COMPRESSED),
    *_named({f"dim{dim}": {"penalty.dim": dim} for dim in (10, 20, 30, 40, 80)}, "thesis.table6.2.*.{}"),
    *_named({f"count{n}": {"penalty.count": n} for n in (1, 5, 10, 20, 30, 80)}, "thesis.table6.3.*.{}"),
    *_named({f"every{steps}": {"penalty.refresh": steps} for steps in (1, 200, 1000)}, "thesis.tableE.4.{}"),
    # chapter 7 and appendix F
    *_named(METHODS, _OF_METHODS),
    *_named(
        {"learned": {"orthogonal.learn_v": True}, "fixed": {"orthogonal.learn_v": False}}, "thesis.table7.1.*-{}.*"
    ),
    *_named(
        {mean: {"orthogonal.mean": float(mean)} for mean in ("0", "1e-3", "1e-2", "2e-2", "3e-2", "5e-2")},
        "thesis.table7.2.mean{} thesis.table7.2.energy{}",
    ),
    ("Cayley", "thesis.table7.2.*", METHODS["cp"] | {"orthogonal.normalize": True}),
    *_named(
        {"original": {"orthogonal.refine": None}}
        | {"mhe": {"orthogonal.refine": "full"}, "hs-mhe": {"orthogonal.refine": "half"}},
        "thesis.table7.6.*.{}",
    ),
    *_named(
        {"plain": {"orthogonal.normalize": False}, "norm": {"orthogonal.normalize": True}},
        "thesis.table7.7.gs.{} thesis.table7.7.[hlco]*.{}",
    ),
    *_named({"plain": {"network.init": "he"}}, "thesis.table7.7.baseline.{}"),
    *_named({f"k{k}": {"orthogonal.blocks": k} for k in (1, 2, 4, 8, 16, 32, 64)}, "thesis.tableF.[45].*.{}"),
]
