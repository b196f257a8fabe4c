"""The settings that the documents leave open or that we deviate in, and what every recipe must have in a row.

``UNPRINTED`` has rows as ``printed_settings`` has, with the place where our values come from as their section.
``DEVIATIONS`` has what the text prints and we do not do (section, recipes, setting, ours); the note of the table names
that section. ``CORE`` has what must be in a row even where it is the default, and for which settings. What is not the
default must be in a row, whatever it is, but for ``BESIDE``.
"""

from collections.abc import Callable
from typing import Any

from printed_groups import (
    ADAM_CIFAR,
    ATTACKED,
    CIFAR_CNNS_D,
    CIFAR_CNNS_E,
    CIFAR_CNNS_E2,
    CIFAR_CNNS_F,
    DECOUPLED,
    DECOUPLED_CIFAR,
    DRAWN_R,
    FACES,
    FACES_PLUS,
    IMAGENET,
    L_SOFTMAX,
    MHE,
    PAPER_ABLATIONS,
    PAPER_CIFAR,
    PAPER_NETS,
    PAPER_NORMS,
    PLUS,
    SGD,
    Row,
)

from hypersphere.config import Config

_PLOTS = "thesis.figure2.7.* thesis.figure2.10.* thesis.figureA.* thesis.figureC.[23].*"
_PLUS = "thesis.sectionD.6.am-softmax+mhe " + " ".join(f"thesis.{name.format('sphereface+')}*" for name in PLUS)
_GCN = "thesis.table7.11.* thesis.tableE.6.*"
_CLOUDS = "thesis.table6.8.* thesis.table7.12.*"
_SATURATED = f"{CIFAR_CNNS_E} {CIFAR_CNNS_E2} {CIFAR_CNNS_F}"
_CIFAR_SGD = f"{CIFAR_CNNS_D} {_SATURATED} thesis.tableE.5.*"
_ADAM = f"{ADAM_CIFAR} {_PLOTS} {_GCN} {_CLOUDS} thesis.table7.10.*"
_CHAPTER_6 = "thesis.table6.* thesis.figure6.2.* thesis.figureE.[2-5].* thesis.tableE.[45].* thesis.sectionE.8.*"
_HS_MHE = "thesis.table7.[45].hs-mhe* thesis.figure7.3.hs-mhe"
_UNREGULARIZED = f"paper.* {L_SOFTMAX} {FACES} {FACES_PLUS} thesis.figure2.7.* thesis.figure2.10.* thesis.figureA.*"
_UNREGULARIZED += " thesis.table4.8.source thesis.table7.[12].* thesis.table7.6.energy.* thesis.table7.10.*"
_UNREGULARIZED += " thesis.figureE.[2-5].rotation thesis.tableD.4.real thesis.tableF.[45].fixed"
_SOFTMAX = "thesis.table5.[1-7].* thesis.figure5.[34].* thesis.tableD.[36].* thesis.table6.* thesis.figure6.2.*"
_SOFTMAX += " thesis.tableE.[456].* thesis.sectionE.8.* thesis.figureE.* thesis.table7.[1245678].* thesis.figure7.3.*"
_SOFTMAX += " thesis.table7.9.* thesis.table7.1[12].* thesis.tableF.[45].*"
_OFTEN = '4.4.1: "every certain number of iterations"'
_UNTOUCHED: dict[str, Any] = {"data.hflip": False, "data.pad": 0}
_PLAIN = {
    "optim.nesterov": False,
    "optim.decay": "weights",
    "schedule.warmup": 0,
    "loss.warmup": 0,
    "loss.label_smoothing": 0.0,
    "data.pad_mode": "constant",
    "run.precision": "float32",
}
_CONSTANT: dict[str, Any] = {"schedule.kind": "constant", "schedule.milestones": ()}
_PICTURE = {
    "data.batch_size": 128,
    "schedule.steps": 9_360,
    "schedule.milestones": (4_680, 7_020),
    "schedule.gamma": 0.1,
    "data.normalize": "symmetric",
}

UNPRINTED: list[Row] = [
    ("no other penalty is named", _UNREGULARIZED, {"regularizer.name": "none"}, {}),
    ("nothing of the kind is named", "paper.* thesis.*", _PLAIN, {}),
    ("the authors of Adam", _ADAM, {"optim.beta1": 0.9, "optim.beta2": 0.999, "optim.eps": 1e-8}, {}),
    ("no other loss is named", _SOFTMAX, {"loss.name": "cross_entropy"}, {}),
    # the paper and chapter 4
    ("the authors' code", ADAM_CIFAR, {"data.normalize": "symmetric", "model.norm_eps": 1e-3}, {}),
    (
        "the authors' code",
        f"{PAPER_CIFAR} paper.figure5.*.batch",
        {"optim.weight_decay": 5e-4},
        {"network.conv": "plain"},
    ),
    ("the authors' code", DECOUPLED_CIFAR, {"optim.weight_decay": 5e-4}, {}),
    (
        "the authors' code",
        DECOUPLED_CIFAR + " thesis.table4.6.*",
        {"penalty.weight": 1e-5},
        {"model.conv": "decoupled"},
    ),
    (_OFTEN, f"{PAPER_CIFAR} paper.figure6.*", {"optim.projection_every": 100}, {"model.conv": "sphere"}),
    (_OFTEN, PAPER_NORMS, {"optim.projection_every": 100}, {}),
    (
        _OFTEN,
        f"{DECOUPLED} thesis.table4.6.* thesis.tableC.2.*",
        {"optim.projection_every": 100},
        {"model.conv": "decoupled", "optim.projects": True},
    ),
    (
        "as in Tables 4.3 and 4.4",
        "thesis.table4.[25].* thesis.table4.6.*.modified*",
        {"optim.projects": True},
        {"model.conv": "decoupled"},
    ),
    ("A.7, for no schedule is printed", PAPER_CIFAR, {"loss.annealing": "sphereface"}, {"loss.name": "a_softmax"}),
    ("A.7, for no schedule is printed", PAPER_CIFAR, {"loss.annealing": "sphereface"}, {"loss.name": "ga_softmax"}),
    ("those of Table 2", "paper.table3.original paper.figure3d.original", {"loss.name": "cross_entropy"}, {}),
    ("those of Table 2", "paper.table3.[slc]*", {"loss.name": "w_softmax", "loss.angular": "cosine"}, {}),
    ("as in v2", "paper.figure6.resnet18.*", {"loss.name": "cross_entropy"}, {}),
    ("that of D.1", "paper.figure6.resnet18.* thesis.table4.6.*", {"optim.weight_decay": 1e-4}, {}),
    ("usual on ImageNet", IMAGENET, {"data.normalize": "standard"}, {}),
    (
        '4.6: "when the error plateaus"; those of paper 4.1',
        DECOUPLED_CIFAR,
        {"schedule.steps": 64_000, "schedule.milestones": (34_000, 54_000)},
        {},
    ),
    (
        '4.6: "when the error plateaus"; those of paper 4.1',
        "thesis.table4.6.*",
        {"schedule.steps": 550_000, "schedule.milestones": (200_000, 375_000)},
        {},
    ),
    (
        "21.17, which Table 4.4 has, too",
        "thesis.table4.1.*",
        {"model.name": "resnet32", "network.widths": "paper_wide"},
        {},
    ),
    (
        "no g is named",
        f"thesis.table4.1.* thesis.figure4.4.* {ATTACKED} thesis.figureC.[23].*",
        {"model.angular": "cosine"},
        {"model.conv": "decoupled"},
    ),
    ("that of SGD on ImageNet (4.6)", "thesis.tableC.2.*", {"optim.lr": 0.1}, {}),
    ("the networks of Table 4.7", "thesis.figureC.1.*", {"adversarial.losses": ("cross_entropy", "log_odds")}, {}),
    (
        "the mixture is not printed",
        f"{ATTACKED} thesis.figureC.3.*",
        {"adversarial.mixture": "both", "adversarial.fraction": 1.0},
        {"adversarial.train": "fgsm"},
    ),
    # chapter 2
    ("the authors' code of m = 4", "thesis.table2.2.m* thesis.figure2.2.m*", {"loss.annealing": "l_softmax_mnist"}, {}),
    ("the authors' code", "thesis.table2.3.cifar10.m*", {"loss.annealing": "l_softmax_cifar10"}, {}),
    ("the authors' code", "thesis.table2.3.cifar10+.m*", {"loss.annealing": "l_softmax_cifar10+"}, {}),
    ("the authors' code on CIFAR-10+", "thesis.table2.4.m*", {"loss.annealing": "l_softmax_cifar10+"}, {}),
    (
        "that of A-Softmax (A.7)",
        f"thesis.table2.5.* {FACES} {FACES_PLUS}",
        {"loss.annealing": "sphereface"},
        {"loss.name": "l_softmax"},
    ),
    (
        '2.2.7: "about 30 epochs", "when the training loss plateaus"',
        "thesis.table2.5.*",
        {"schedule.steps": 57_600, "schedule.milestones": (28_800, 43_200)},
        {},
    ),
    ("as 2.3.6 evaluates", "thesis.table2.5.*", {"evaluation.protocol": "verification"}, {}),
    ("without it they diverge", "thesis.figure2.2.*", {"optim.clip": 1.0}, {}),
    ("without it they diverge", f"thesis.table2.5.* {FACES} {FACES_PLUS}", {"optim.clip": 5.0}, {}),
    ("the authors' solver", f"{FACES} {FACES_PLUS}", SGD | {"optim.weight_decay": 5e-4}, {}),
    ("m = 1 has no margin", "thesis.figure2.7.m1 thesis.figure2.10.m1", {"loss.annealing": None}, {}),
    (
        "A.3: standard CNNs have it",
        "thesis.figure2.7.softmax thesis.table2.[89].* thesis.table2.10.* thesis.figure2.11.* thesis.tableA.2.* "
        "thesis.table5.10.*",
        {"loss.bias": True},
        {"loss.name": "softmax"},
    ),
    (
        "DeepID2 (Sun et al.)",
        "thesis.table2.5.contrastive thesis.table2.9.contrastive.* thesis.table[25].10.contrastive.*",
        {"loss.contrastive": 0.05, "loss.contrastive_margin": 1.0, "data.per_class": 4},
        {},
    ),
    ("center loss (Wen et al.)", "thesis.table2.9.center.* thesis.table[25].10.center.*", {"loss.center": 0.003}, {}),
    ("as for contrastive", "thesis.table2.9.triplet.* thesis.table[25].10.triplet.*", {"data.per_class": 4}, {}),
    ("CosFace", "thesis.table5.10.cosineface.*", {"loss.margin": 0.35}, {}),
    ('D.6: "the best setting in [14]"', "thesis.sectionD.6.*", {"loss.margin": 0.35, "loss.scale": 30.0}, {}),
    (
        "the last two stages of 2.3.6",
        _PLUS,
        {"optim.lr": 0.01, "schedule.steps": 12_000, "schedule.milestones": (8_000,)},
        {},
    ),
    # pictures of MNIST
    ("no loss is named", "thesis.figureA.[1-4].*", {"loss.name": "softmax"}, {}),
    ("20 epochs", _PLOTS, {"optim.name": "adam", "optim.lr": 1e-3, "optim.weight_decay": 5e-4, **_PICTURE}, {}),
    ("20 epochs", _PLOTS, _UNTOUCHED, {}),
    ("the authors' code", "thesis.figureC.[23].*", {"penalty.weight": 1e-5}, {"model.conv": "decoupled"}),
    (
        "the 2-D network of Table 2.1",
        "thesis.figure2.7.* thesis.figure2.10.* thesis.figureA.*",
        {"model.name": "lsoftmax_mnist2d"},
        {},
    ),
    # chapter 5
    ("usual on CIFAR", _CIFAR_SGD, {"data.normalize": "standard"}, {}),
    ("22 epochs; rate and batches of D.1", "thesis.figure5.4.*", {"optim.lr": 0.1, **_PICTURE, **_UNTOUCHED}, {}),
    (
        "without it they diverge; the network of C.4",
        "thesis.figure5.4.*",
        {"optim.clip": 1.0, "model.name": "cnn6_mnist2d"},
        {},
    ),
    *(
        ("spectral normalization, third setting", names, settings | {"optim.beta1": 0.5}, {})
        for names, settings in (
            ("thesis.tableD.4.[!w]* thesis.tableD.4.weight", {"optim.lr": 2e-4, "data.batch_size": 64}),
            (
                "thesis.tableD.4.wgan-gp",
                {"optim.lr": 1e-4, "data.batch_size": 5 * 64, "optim.beta2": 0.9, "gan.updates": 5},
            ),
        )
    ),
    (
        "spectral normalization",
        "thesis.tableD.4.*",
        {"optim.name": "adam", "optim.weight_decay": 0.0, "schedule.steps": 100_000, "data.normalize": "symmetric"},
        {},
    ),
    ("spectral normalization", "thesis.tableD.4.*", _CONSTANT | _UNTOUCHED, {}),
    ("its authors", "thesis.tableD.4.clipping", {"gan.clip": 0.01}, {}),
    ("its authors", "thesis.tableD.4.*gp", {"gan.gradient_penalty": 10.0}, {}),
    ("that of chapter 5", "thesis.tableD.4.mhe*", {"penalty.s": 2.0}, {}),
    # chapter 6
    (
        '"when the performance is saturated"; those of D.1',
        _SATURATED,
        {"schedule.steps": 42_500, "schedule.milestones": (20_000, 30_000, 37_500)},
        {},
    ),
    ("that of D.1", f"{CIFAR_CNNS_E} {CIFAR_CNNS_E2}", {"schedule.gamma": 0.1}, {}),
    (
        '"when the performance is saturated"; those of D.1',
        "thesis.table6.7.*",
        {"schedule.milestones": (150_000, 300_000, 400_000)},
        {},
    ),
    (
        "those of D.1",
        "thesis.table6.*",
        {"penalty.hidden": 10.0},
        {"regularizer.name": "mhe", "regularizer.half_space": False},
    ),
    ("that of D.1", _CHAPTER_6, {"penalty.output": 1.0}, {"regularizer.name": "mhe"}),
    ("that of D.1", _CHAPTER_6, {"penalty.output": 1.0}, {"regularizer.name": "comhe"}),
    (
        "Table E.4: no worse than at every step",
        "thesis.table6.* thesis.figure6.2.* thesis.figureE.[2-5].* thesis.tableE.5.* thesis.sectionE.8.[si]*",
        {"penalty.refresh": 1_000},
        {"regularizer.name": "comhe", "regularizer.projection": "random"},
    ),
    *(
        (
            "η is not printed",
            f"{_CHAPTER_6} thesis.tableE.6.*",
            {"penalty.inner_lr": 1.0},
            {"regularizer.projection": kind},
        )
        for kind in ("angle_preserving", "adversarial")
    ),
    ("that of the others", _CHAPTER_6, {"penalty.weight": 1e-5}, {"regularizer.name": "srip"}),
    ("the repository of PointNet", "thesis.table6.8.*.pointnet_tnet", {"regularizer.transform": 0.001 * 32}, {}),
    ("that without T-Nets", "thesis.table6.8.*.pointnet_tnet", {"schedule.steps": 250 * (9843 // 32)}, {}),
    ("the repositories of PointNet", _CLOUDS, {"optim.weight_decay": 0.0}, {}),
    ("R needs no decay", "thesis.figureE.[2-5].rotation", {"orthogonal.init": "unit"}, {}),
    ("without it they diverge", "thesis.figureE.4.*", {"optim.clip": 1.0}, {}),
    (
        "those of Table 6.1",
        "thesis.tableE.5.*",
        SGD | {"data.batch_size": 128, "optim.lr": 0.1, "optim.weight_decay": 1e-4, "data.hflip": True, "data.pad": 4},
        {},
    ),
    ("enough to time", "thesis.tableE.5.*", {"schedule.steps": 1_000, **_CONSTANT}, {}),
    (
        "those of Table E.4, which descend at the network's rate",
        "thesis.sectionE.8.learned",
        {"penalty.dim": 30, "penalty.count": 20, "penalty.refresh": None, "regularizer.extra": {"inner_lr": 0.1 / 20}},
        {},
    ),
    ("Kipf and Welling", _GCN, {"optim.name": "adam", "optim.lr": 0.01, "schedule.steps": 200, **_CONSTANT}, {}),
    ("those of E.1", "thesis.tableE.6.*", {"penalty.hidden": 1.0, "penalty.s": 2.0}, {"regularizer.half_space": True}),
    ("Table E.4", "thesis.tableE.6.rp-comhe.*", {"penalty.refresh": 1}, {}),
    ("it is learned", "thesis.tableE.6.ap-comhe.*", {"penalty.refresh": None}, {}),
    # chapter 7
    ("as in chapters 5 and 6", CIFAR_CNNS_F, {"data.hflip": True, "data.pad": 4}, {}),
    (
        "β is not printed",
        "thesis.table7.* thesis.figure7.3.*",
        {"orthogonal.beta": 1.0},
        {"orthogonal.method": "relaxed"},
    ),
    ("those of chapter 5", _HS_MHE, {"penalty.hidden": 1.0, "penalty.output": 1.0, "penalty.s": 2.0}, {}),
    ("without it they diverge", "thesis.table7.5.*", {"optim.clip": 1.0}, {}),
    ("plain gradient descent", "thesis.table7.6.*.*mhe", {"orthogonal.refine_lr": 1.0}, {}),
    ("the table's method", "thesis.table7.6.energy.*", {"orthogonal.method": "gram_schmidt"}, {}),
    ("random neurons of any method", "thesis.tableF.[45].fixed", {"orthogonal.method": "cayley"}, {}),
    ("the repository of F.3", "thesis.table7.3.*", {"data.normalize": "unit", **_CONSTANT, **_UNTOUCHED}, {}),
    (
        '"when the performance is saturated"; the shares of D.1',
        "thesis.table7.9.*",
        {"schedule.milestones": (210_000, 420_000, 560_000)},
        {},
    ),
    ("as in chapters 5 and 6", "thesis.table7.9.*", {"data.hflip": True}, {}),
    ("F.5: a good compromise", "thesis.table7.9.cp.*", {"orthogonal.blocks": 4}, {}),
    (
        "the repository of F.3",
        "thesis.table7.10.*",
        {"data.batch_size": 16, "data.image_size": 84, "data.resize": 96, "data.hflip": True, **_CONSTANT},
        {},
    ),
    ("the repository of F.3", "thesis.table7.10.*", {"data.normalize": "standard"}, {}),
    ("the repository of F.3", "thesis.table7.10.baseline.*", {"loss.bias": True}, {}),
    ("chosen on validation nodes", "thesis.table7.11.[co]*", {"orthogonal.std": 1.0}, {}),
]

_CLOUDS_32 = tuple(range(6_250, 250 * 307, 6_250))  # every 200k clouds in batches of 32
DEVIATIONS: list[tuple[str, str, str, Any]] = [
    ("2.4", PAPER_NETS, "regularizer.orthonormality", 0.0),
    ("2.4", f"{PAPER_CIFAR} {PAPER_NORMS}", "optim.weight_decay", 5e-4),
    ("2.4", "paper.figure6.*", "optim.weight_decay", 1e-4),
    ("4.2", PAPER_ABLATIONS, "data.hflip", True),
    ("4.5", "paper.table4.* paper.figure3a.*.cifar10+", "data.vflip", False),
    ("2.2.7", "thesis.table2.5.*", "data.normalize", "symmetric"),
    ("2.3.1", "thesis.figure2.7.*", "data.name", "mnist"),
    ("2.3.6", "thesis.figure2.10.*", "data.name", "mnist"),
    ("A.3", "thesis.figureA.3.*", "data.name", "mnist"),
    ("C.1.1", DECOUPLED_CIFAR, "data.vflip", False),
    ("C.1.2", "thesis.table4.[78].*", "adversarial.losses", ("cross_entropy", "log_odds")),
    ("D.5", "thesis.tableD.3.*", "optim.projection_every", 100),
    ("F.3", DRAWN_R, "orthogonal.init", "random"),
    ("F.3", "thesis.table7.3.*", "optim.weight_decay", 0.0),
    ("F.3", "thesis.table7.3.*", "orthogonal.init", "unit"),
    ("7.5.3", "thesis.table7.7.baseline.norm", "network.init", "unit"),  # He's directions, of length 1
    ("F.3", "thesis.table7.11.cp.*", "optim.orthogonal_lr", 1e-4),
    ("E.1", "thesis.table6.8.*.pointnet2", "schedule.milestones", tuple(range(12_500, 251 * 615, 12_500))),
    ("E.1", "thesis.table6.8.*.pointnet thesis.table6.8.*.pointnet_tnet", "schedule.milestones", _CLOUDS_32),
    ("F.3", "thesis.table7.12.*", "schedule.milestones", _CLOUDS_32),
    ("F.3", "thesis.table7.12.[gc]*", "orthogonal.neurons", "draw"),
]

BESIDE = ("run.eval_every", "evaluation.also")  # when and on what else a network is evaluated


def _of(*names: str) -> Callable[[Config], bool]:
    """Whether a regularizer or a loss is one of these."""
    return lambda config: config.loss.name in names or config.regularizer.name in names


def _images(config: Config) -> bool:
    return config.data.name not in ("cora", "citeseer", "pubmed", "modelnet40")


CORE: list[tuple[str, Callable[[Config], bool]]] = [
    ("optim.name optim.lr optim.weight_decay schedule.steps regularizer.name", lambda config: True),
    ("optim.momentum", lambda config: config.optim.name == "sgd"),
    ("schedule.milestones schedule.gamma", lambda config: config.schedule.kind == "step"),
    ("data.batch_size", lambda config: _images(config) or config.data.name == "modelnet40"),
    ("data.normalize data.hflip", _images),
    ("data.pad", lambda config: config.data.name.startswith(("cifar", "mnist"))),
    ("loss.name", lambda config: config.gan.generator is None),
    ("loss.margin loss.annealing", _of("l_softmax", "a_softmax", "ga_softmax")),
    ("loss.margin", _of("am_softmax")),
    ("regularizer.hidden regularizer.output regularizer.s", _of(*MHE)),
    (
        "regularizer.refresh",
        lambda config: (config.regularizer.name, config.regularizer.projection) == ("comhe", "random"),
    ),
    ("regularizer.weight", _of("orthogonal", "orthonormal", "srip")),
]
