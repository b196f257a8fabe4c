"""The settings that the documents print, section by section, and where recipes take others.

``PRINTED`` has rows (section, recipes, settings, where): every recipe that a pattern matches, and for which the
settings ``where`` hold, must have these settings. Sections are those of the thesis, or of the paper if they start with
``paper``. A setting is a field of the configuration (``optim.lr``), of the network with its own defaults
(``network.norm``), of its function h (``magnitude.beta``), or of the regularizer as it is built (``penalty.hidden``).
``optim.projects`` is whether weights are projected.

``UNPRINTED`` has what the text leaves open (recipes, setting, where ours comes from). ``DEVIATIONS`` has what it prints
and we do not do (section, recipes, setting, ours); the note of the table names that section.
"""

from typing import Any

from printed_networks import NETWORKS

Row = tuple[str, str, dict[str, Any], dict[str, Any]]

CIFAR_CNNS_D = "thesis.table5.[1-57].* thesis.figure5.3.* thesis.tableD.[36].*"
CIFAR_CNNS_E = "thesis.table6.[1-6].* thesis.figure6.2.* thesis.tableE.4.* thesis.sectionE.8.*"
CIFAR_CNNS_F = "thesis.table7.[1245678].* thesis.figure7.3.* thesis.tableF.[45].*"
DRAWN_R = CIFAR_CNNS_F + " thesis.table7.9.* thesis.table7.12.*"
DECOUPLED = "thesis.table4.[1-5].* thesis.figure4.4.*"
PROJECTED = "thesis.table4.[34].* thesis.figure4.4.* thesis.table4.6.*.standard thesis.tableC.2.*"
FACES = "thesis.table2.[89].* thesis.table2.10.* thesis.figure2.11.* thesis.tableA.[12].*"
FACES_PLUS = "thesis.table5.[89].* thesis.table5.10.* thesis.tableD.[78].* thesis.sectionD.6.*"
PAPER_ABLATIONS = "paper.table[123].* paper.figure3?.* paper.figure5.*"
PAPER_NETS = "paper.table[1-4].* paper.figure3[acd].* paper.figure4.* paper.section4.3.* paper.figure6.*"
PAPER_NORMS = "paper.figure5.*.sphere* paper.figure5.*.both"
PAPER_CIFAR = "paper.table[1-4].* paper.figure3?.* paper.figure4.* paper.section4.3.*"
L_SOFTMAX = "thesis.table2.[2-5].* thesis.figure2.2.*"
SGD = {"optim.name": "sgd", "optim.momentum": 0.9}
LEARNED_RADIUS = {"magnitude.learnable": True, "magnitude.running": True}
KIPF = {
    "network.hidden": 16,
    "network.dropout": 0.5,
    "optim.weight_decay": 5e-4,
    "optim.undecayed": ("*classifier.weight",),
}
TRAINED_ANEW: dict[str, Any] = {"model.start": None}
BEYOND_THE_END = ()  # "every 200k iterations" of trainings that have fewer

PRINTED: list[Row] = [
    # the paper, and chapter 3 of the thesis, which repeats it
    (
        "paper 4.1",
        PAPER_CIFAR + " paper.figure5.*",
        {
            "optim.name": "adam",
            "optim.lr": 1e-3,
            "schedule.milestones": (34_000, 54_000),
            "schedule.gamma": 0.1,
            "schedule.steps": 64_000,
        },
        {},
    ),
    # the weight of the constraint is that of the released code
    (
        "paper 2.4",
        PAPER_NETS,
        {"regularizer.orthonormality": 1e-4, "optim.weight_decay": 0.0},
        {"model.conv": "sphere"},
    ),
    ("paper 2.4", "paper.figure3b.*", {"optim.weight_decay": 0.0}, {"model.conv": "sphere"}),
    ("paper 2.4", "paper.figure3b.*.orthogonal", {"regularizer.orthonormality": 1e-4}, {}),
    ("paper 2.4", PAPER_NORMS, {"optim.weight_decay": 0.0}, {}),
    ("paper 2.4", "paper.figure5.*.sphere-orthogonal", {"regularizer.orthonormality": 1e-4}, {}),
    ("paper 4.1", PAPER_CIFAR, {"data.batch_size": 128}, {}),
    (
        "paper 4.1",
        "paper.table[123].* paper.section4.3.*",
        {"data.hflip": True, "data.vflip": False, "data.pad": 0},
        {},
    ),
    (
        "paper 4.1",
        "paper.table[124].* paper.figure3?.* paper.figure4.* paper.section4.3.*",
        {"network.norm": "batch", "network.activation": "relu"},
        {},
    ),
    ("paper 4.1", "paper.table1.*.*a-softmax paper.table4.s-g.*", {"loss.margin": 4}, {}),
    ("paper 4.1", "paper.figure6.*", SGD | {"optim.lr": 0.1, "schedule.milestones": (200_000, 375_000)}, {}),
    ("paper 4.1", "paper.figure6.*", {"schedule.steps": 550_000}, {}),
    ("paper 4.2", PAPER_ABLATIONS, {"data.hflip": False}, {"data.pad": 0}),
    ("paper 4.2", "paper.table2.*", {"loss.name": "w_softmax", "loss.angular": "cosine"}, {"model.conv": "sphere"}),
    ("paper 4.2", "paper.table2.original.* paper.figure3[abc].*", {"loss.name": "cross_entropy"}, {}),
    ("paper 4.2", "paper.table3.*", {"network.activation": "none", "network.norm": "batch"}, {}),
    (
        "paper 4.3",
        "paper.section4.3.learnable paper.figure4.*",
        {"model.learnable_k": True, "model.share_k": "filter"},
        {},
    ),
    ("paper 4.3", "paper.section4.3.*", {"loss.name": "w_softmax", "loss.angular": "cosine", "model.name": "cnn9"}, {}),
    ("paper 4.4", "paper.figure5.*", {"loss.name": "cross_entropy", "model.name": "cnn9"}, {}),
    ("paper 4.5", "paper.table4.*", {"data.hflip": True, "data.vflip": True, "data.pad": 4}, {}),
    ("paper 4.5", "paper.table4.s-*", {"model.angular": "sigmoid", "model.k": 0.3}, {}),
    ("paper 4.5", "paper.table4.s-sw.*", {"loss.name": "w_softmax", "loss.angular": "sigmoid", "loss.k": 0.3}, {}),
    ("paper B", "paper.figure6.*", {"data.batch_size": 40, "data.resize": 256, "data.image_size": 224}, {}),
    ("paper B", "paper.figure6.*", {"data.hflip": True}, {}),
    ("paper B", "paper.figure6.*_v1.*", {"model.angular": "cosine", "loss.name": "w_softmax"}, {}),
    ("paper B", "paper.figure6.*_v2.*", {"model.angular": "cosine", "loss.name": "cross_entropy"}, {}),
    # chapter 2
    ("2.2.7", L_SOFTMAX, SGD | {"data.batch_size": 256, "optim.weight_decay": 5e-4, "optim.lr": 0.1}, {}),
    ("2.2.7", L_SOFTMAX, {"network.activation": "prelu", "network.norm": "batch", "network.init": "he"}, {}),
    ("2.2.7", L_SOFTMAX, {"data.normalize": "mean", "schedule.gamma": 0.1}, {}),
    (
        "2.2.7",
        "thesis.table2.[234].* thesis.figure2.2.*",
        {"schedule.milestones": (12_000, 15_000), "schedule.steps": 18_000},
        {},
    ),
    ("2.2.7", "thesis.figure2.2.*", {"data.name": "mnist", "model.name": "lsoftmax_mnist2d"}, {}),
    ("2.2.7", "thesis.table2.3.cifar10+.*", {"data.pad": 4, "data.hflip": True, "data.vflip": False}, {}),
    (
        "2.2.7",
        "thesis.table2.3.cifar10.* thesis.table2.[24].* thesis.figure2.2.*",
        {"data.pad": 0, "data.hflip": False},
        {},
    ),
    ("2.2.7", "thesis.table2.5.*", {"data.hflip": False, "evaluation.flip": False, "data.name": "casia"}, {}),
    (
        "2.3.6",
        FACES + " " + FACES_PLUS,
        {"data.batch_size": 128, "data.normalize": "symmetric", "data.hflip": True, "evaluation.flip": True},
        {},
    ),
    ("2.3.6", FACES, {"optim.lr": 0.1, "schedule.milestones": (16_000, 24_000), "schedule.steps": 28_000}, {}),
    ("2.3.6", FACES_PLUS, {"optim.lr": 0.1, "schedule.milestones": (16_000, 24_000)}, TRAINED_ANEW),
    ("2.3.6", FACES_PLUS, {"schedule.steps": 28_000}, TRAINED_ANEW),
    ("2.3.6", "thesis.table2.9.* thesis.table2.10.*", {"loss.margin": 4}, {"loss.name": "a_softmax"}),
    ("2.3.6", "thesis.table2.9.* thesis.table2.10.*", {"loss.margin": 4}, {"loss.name": "l_softmax"}),
    ("2.3.6", "thesis.table2.[89].* thesis.table2.10.*", {"model.name": "sphereface64"}, {}),
    ("A.5", "thesis.tableA.1.*", {"model.name": "sphereface4"}, {}),
    ("A.6", "thesis.tableA.2.sphereface*", {"loss.name": "a_softmax", "loss.margin": 4}, {}),
    ("A.7", FACES, {"loss.annealing": "sphereface"}, {"loss.name": "a_softmax"}),
    # chapter 4 and appendix C
    ("4.6", DECOUPLED + " thesis.table4.[78].*", {"optim.name": "adam"}, {}),
    ("4.6", DECOUPLED + " thesis.table4.[78].*", {"data.batch_size": 128, "optim.lr": 1e-3}, {}),
    ("4.6", "thesis.table4.6.*", SGD | {"data.batch_size": 40, "optim.lr": 0.1}, {}),
    ("4.6", "thesis.table4.[1-4].* thesis.table4.[678].*", {"loss.name": "cross_entropy"}, {}),
    ("4.6.1", "thesis.table4.5.*", {"loss.name": "w_softmax", "model.name": "resnet32"}, {}),
    ("4.6.1", "thesis.table4.6.*", {"model.angular": "cosine"}, {"model.conv": "decoupled"}),
    ("4.4.1", "thesis.table4.[1-6].*", {"optim.projection_norm": 1.0}, {"model.conv": "decoupled"}),
    ("4.6.1", PROJECTED, {"optim.projects": True, "model.weighted": None}, {"model.conv": "decoupled"}),
    ("4.6.1", "thesis.table4.1.*-weighted thesis.table4.1.[sw]*-gradients", {"optim.projects": False}, {}),
    ("4.6.1", "thesis.table4.1.weight-projection", {"optim.projects": True}, {}),
    ("4.4.3", "thesis.table4.6.[slt]*.standard", {"model.start": "thesis.table4.6.baseline.standard"}, {}),
    ("4.6.2", "thesis.table4.[78].*", {"optim.projection_every": 0, "optim.weighted_gradients": False}, {}),
    ("C.1.1", "thesis.table4.[134].* thesis.table4.[56].*", {"network.norm": "batch"}, {"model.norm": None}),
    ("C.1.1", "thesis.table4.[278].*", {"network.norm": "none"}, {}),
    ("C.1.1", DECOUPLED + " thesis.table4.[78].*", {"network.init": "he", "data.hflip": True, "data.pad": 4}, {}),
    ("C.1.1", DECOUPLED + " thesis.table4.[78].* thesis.tableC.2.* thesis.figureC.1.*", {"data.vflip": True}, {}),
    ("C.1.1", "thesis.table4.6.*.modified*", {"network.init": "xavier", "network.branch_std": 0.01}, {}),
    ("C.1.1", "thesis.table4.*", {"penalty.of": "products"}, {"model.conv": "decoupled"}),
    (
        "C.1.2",
        "thesis.table4.[78].*",
        {"adversarial.eps": 8.0, "adversarial.step": 2.0, "adversarial.iterations": 20},
        {},
    ),
    ("C.1.2", "thesis.table4.[78].*", {"adversarial.losses": ("cross_entropy", "log_odds")}, {}),
    ("C.1.2", "thesis.table4.[78].*.fgsm.fgsm*", {"adversarial.train": "fgsm"}, {}),
    ("C.1.3", "thesis.table4.8.*.*.*", {"adversarial.source": "thesis.table4.8.source"}, {}),
    ("C.2", "thesis.table4.*", {"model.alpha": 1.0}, {"model.conv": "decoupled"}),
    ("C.2", DECOUPLED, {"magnitude.beta": 0.5}, {"model.magnitude": "segment"}),
    ("C.2", DECOUPLED, {"magnitude.beta": 1.0}, {"model.magnitude": "mix"}),
    *(
        ("C.2", "thesis.table4.*", {"magnitude.rho": 1.0, **LEARNED_RADIUS}, {"model.magnitude": kind})
        for kind in ("ball", "tanh", "segment")
    ),
    (
        "C.6",
        "thesis.tableC.2.*",
        SGD | {"data.batch_size": 128, "model.name": "resnet32", "schedule.steps": 64_000},
        {},
    ),
    ("C.3", "thesis.figureC.1.*", {"optim.projection_every": 0, "optim.weighted_gradients": False}, {}),
    ("C.4", "thesis.figureC.[23].*", {"optim.projection_every": 0, "optim.weighted_gradients": False}, {}),
    # "J is the loss function used to train the network"
    ("C.1.2", "thesis.figureC.3.*", {"adversarial.train": "fgsm", "adversarial.losses": ("cross_entropy",)}, {}),
    ("C.1.2", "thesis.figureC.3.*", {"adversarial.eps": 8.0}, {}),
    ("C.4", "thesis.figureC.[23].*", {"model.name": "cnn6_mnist2d", "data.name": "mnist"}, {}),
    # chapter 5 and appendix D
    (
        "D.1",
        CIFAR_CNNS_D,
        {
            "data.batch_size": 128,
            "optim.lr": 0.1,
            "schedule.milestones": (20_000, 30_000, 37_500),
            "schedule.steps": 42_500,
            "schedule.gamma": 0.1,
            "optim.weight_decay": 1e-4,
        },
        {},
    ),
    ("5.5.1", CIFAR_CNNS_D + " thesis.table5.6.* thesis.figure5.4.*", SGD, {}),
    ("5.5.1", CIFAR_CNNS_D, {"network.init": "he", "network.norm": "batch", "network.activation": "relu"}, {}),
    ("5.5.1", "thesis.table5.[2-7].* thesis.tableD.6.*", {"penalty.s": 2.0}, {"regularizer.name": "mhe"}),
    ("5.5.1", "thesis.table5.6.*", {"network.init": "he", "network.norm": "batch", "network.activation": "relu"}, {}),
    ("5.5.1", "thesis.figure5.4.*", {"network.init": "he", "network.norm": "batch", "network.activation": "relu"}, {}),
    ("D.1", "thesis.table5.6.*", {"data.batch_size": 64, "optim.lr": 0.1, "optim.weight_decay": 1e-4}, {}),
    ("D.1", "thesis.table5.6.*", {"schedule.milestones": (150_000, 300_000, 400_000), "schedule.steps": 500_000}, {}),
    (
        "D.1",
        "thesis.table5.[123567].* thesis.tableD.[36].*",
        {"penalty.hidden": 10.0, "penalty.output": 1.0},
        {"regularizer.name": "mhe", "regularizer.half_space": False},
    ),
    (
        "D.1",
        "thesis.table5.[123567].* thesis.tableD.[36].*",
        {"penalty.hidden": 1.0, "penalty.output": 1.0},
        {"regularizer.name": "mhe", "regularizer.half_space": True},
    ),
    ("D.1", "thesis.table5.* thesis.tableD.*", {"penalty.weight": 1e-5}, {"regularizer.name": "orthonormal"}),
    ("5.3.7", "thesis.table5.6.orthogonal.*", {"penalty.of": "cosines"}, {}),
    ("5.5.1", CIFAR_CNNS_D, {"data.hflip": True, "data.pad": 4}, {}),
    ("5.5.1", "thesis.table5.6.*", {"data.hflip": True, "data.resize": 256, "data.image_size": 224}, {}),
    ("5.5.1", "thesis.table5.[2356].*mhe.* thesis.table5.7.mhe.*", {"penalty.distance": "euclidean"}, {}),
    ("5.5.1", "thesis.table5.[1457].*a-mhe.*", {"penalty.distance": "angular"}, {}),
    ("D.1", "thesis.table5.7.*.single*", {"data.imbalance": "single"}, {}),
    ("D.1", "thesis.table5.7.*.multiple", {"data.imbalance": "multiple"}, {}),
    ("D.8", "thesis.tableD.6.*.single", {"data.imbalance": "single", "data.name": "cifar100"}, {}),
    ("D.8", "thesis.tableD.6.*.multiple", {"data.imbalance": "multiple", "data.name": "cifar100"}, {}),
    ("D.8.2", "thesis.figure5.4.*", {"data.imbalance": "digit0", "data.name": "mnist"}, {}),
    ("D.1", "thesis.figure5.4.*", {"optim.weight_decay": 1e-4}, {}),
    ("D.1", "thesis.figure5.4.mhe", {"penalty.hidden": 10.0, "penalty.output": 1.0}, {}),
    (
        "D.1",
        "thesis.table5.[89].sphereface+.* thesis.table5.10.sphereface+.*",
        {"loss.energy_s": 2.0, "loss.energy": 1.0},
        {},
    ),
    ("5.5.2", "thesis.table5.10.sphereface*", {"loss.margin": 4, "model.name": "sphereface64"}, {}),
    ("D.1", "thesis.table5.10.cosineface.*", {"loss.scale": None, "loss.extra": {"scale": None}}, {}),
    ("D.5", "thesis.tableD.3.*", {"optim.projection_every": 0}, {}),
    ("D.5", "thesis.tableD.3.*", {"model.conv": "sphere", "model.angular": "cosine", "model.widths": "d1"}, {}),
    ("D.6", "thesis.sectionD.6.*", {"model.name": "sphereface20", "loss.name": "am_softmax"}, {}),
    ("D.6", "thesis.sectionD.6.am-softmax+mhe", {"model.start": "thesis.sectionD.6.am-softmax"}, {}),
    ("D.7", "thesis.tableD.4.*", {"gan.latent": 128}, {}),
    ("D.7", "thesis.tableD.4.mhe*", {"regularizer.half_space": True, "regularizer.distance": "euclidean"}, {}),
    ("D.10", "thesis.tableD.8.*", {"model.name": "sphereface20", "loss.margin": 4}, {}),
    # chapter 6 and appendix E
    ("E.1", CIFAR_CNNS_E, {"data.batch_size": 128, "optim.lr": 0.1, "optim.weight_decay": 1e-4}, {}),
    ("6.6.1", CIFAR_CNNS_E + " thesis.table6.7.*", SGD, {}),
    ("6.6.1", CIFAR_CNNS_E, {"data.hflip": True, "data.pad": 4}, {}),
    ("6.6.1", "thesis.table6.7.*", {"data.hflip": True, "data.resize": 256, "data.image_size": 224}, {}),
    ("6.6.1", CIFAR_CNNS_E, {"network.norm": "batch", "network.activation": "relu"}, {}),
    ("E.1", "thesis.table6.7.*", {"data.batch_size": 64, "optim.lr": 0.1, "schedule.steps": 500_000}, {}),
    ("E.1", "thesis.table6.7.*", {"optim.weight_decay": 1e-4}, {}),
    ("E.1", CIFAR_CNNS_E, {"penalty.hidden": 1.0}, {"regularizer.half_space": True}),
    ("E.1", CIFAR_CNNS_E + " thesis.table6.7.*", {"penalty.s": 2.0}, {"regularizer.half_space": True}),
    ("E.1", "thesis.table6.*", {"penalty.weight": 1e-5}, {"regularizer.name": "orthonormal"}),
    ("E.1", "thesis.table6.* thesis.figure6.2.*", {"penalty.weight": 1e-5}, {"regularizer.name": "orthogonal"}),
    ("5.3.7", "thesis.table6.* thesis.figure6.2.*", {"penalty.of": "cosines"}, {"regularizer.name": "orthogonal"}),
    ("6.6.1", "thesis.table6.*", {"regularizer.half_space": True}, {"regularizer.name": "comhe"}),
    ("6.6.1", "thesis.table6.[1456].rp-comhe*", {"penalty.dim": 30, "penalty.count": 5, "penalty.share": True}, {}),
    ("6.6.1", "thesis.table6.[1456].ap-comhe*", {"penalty.dim": 30, "penalty.count": 1, "penalty.share": True}, {}),
    ("6.6.1", "thesis.table6.[12].ap-comhe-alter*", {"penalty.inner_every": 10, "penalty.unroll": 0}, {}),
    ("6.6.1", "thesis.table6.1.ap-comhe thesis.table6.[456].ap-comhe.*", {"penalty.unroll": 1}, {}),
    ("6.6.1", "thesis.table6.1.g-comhe", {"penalty.group": 8}, {}),
    ("6.6.1", "thesis.table6.1.rp-comhe-max", {"penalty.aggregate": "max"}, {}),
    ("6.6.1", "thesis.table6.2.rp-comhe.*", {"penalty.count": 20}, {}),
    ("6.6.1", "thesis.table6.2.ap-comhe*", {"penalty.count": 1}, {}),
    ("E.1", "thesis.table6.8.*", {"data.points": 1024, "optim.name": "adam", "optim.lr": 1e-3}, {}),
    ("E.1", "thesis.table6.8.*.pointnet thesis.table6.8.*.pointnet_tnet", {"data.batch_size": 32}, {}),
    ("E.1", "thesis.table6.8.*.pointnet2", {"data.batch_size": 16}, {}),
    ("E.1", "thesis.table6.8.*", {"schedule.gamma": 0.7, "schedule.milestones": BEYOND_THE_END}, {}),
    ("E.1", "thesis.table6.8.*.pointnet", {"schedule.steps": 250 * (9843 // 32)}, {}),
    ("E.1", "thesis.table6.8.*.pointnet2", {"schedule.steps": 251 * (9843 // 16)}, {}),
    ("E.1", "thesis.table6.8.*", {"penalty.s": 1.0}, {"regularizer.half_space": True}),
    ("E.2.1", "thesis.figureE.[2-5].*", SGD | {"data.batch_size": 128, "optim.lr": 0.1, "model.widths": "e3"}, {}),
    ("E.2.1", "thesis.figureE.[2-5].*", {"optim.weight_decay": 1e-4}, {"orthogonal.method": None}),
    ("E.2.1", "thesis.figureE.[2-5].rotation", {"optim.weight_decay": 0.0, "orthogonal.neurons": "keep"}, {}),
    ("E.2.2", "thesis.figureE.[2-5].rotation", {"orthogonal.method": "gram_schmidt", "orthogonal.learn_v": False}, {}),
    ("E.8", "thesis.tableE.4.*", {"penalty.dim": 30, "penalty.count": 20}, {}),
    ("E.8", "thesis.tableE.4.every1", {"penalty.refresh": 1}, {}),
    ("E.8", "thesis.tableE.4.every-never", {"penalty.refresh": None}, {}),
    ("E.8", "thesis.sectionE.8.*", {"model.name": "cnn9", "regularizer.half_space": True}, {}),
    ("E.8", "thesis.sectionE.8.learned", {"penalty.projection": "learned"}, {}),
    ("E.8", "thesis.sectionE.8.[si]*", {"penalty.projection": "random", "penalty.dim": 20, "penalty.count": 30}, {}),
    ("E.8", "thesis.sectionE.8.shared", {"penalty.share": True}, {}),
    ("E.8", "thesis.sectionE.8.independent", {"penalty.share": False}, {}),
    ("E.2.3", "thesis.figureE.[2-5].*", {"penalty.s": 1.0}, {"regularizer.half_space": True}),
    ("E.9", "thesis.tableE.5.rp-comhe", {"penalty.dim": 30, "penalty.count": 5}, {}),
    ("E.9", "thesis.tableE.5.ap-comhe", {"penalty.dim": 30, "penalty.count": 1}, {}),
    ("E.10", "thesis.tableE.6.*", {"model.name": "gcn", "regularizer.output": 0.0}, {"regularizer.half_space": True}),
    # "exactly the same" as the code of Kipf and Welling, which decays the first layer alone
    ("E.10", "thesis.tableE.6.*", KIPF, {}),
    # chapter 7 and appendix F
    ("F.3", CIFAR_CNNS_F, SGD | {"data.batch_size": 128, "optim.lr": 0.1, "optim.weight_decay": 5e-4}, {}),
    ("F.3", CIFAR_CNNS_F, {"data.name": "cifar100"}, {}),
    # N(0, 1): orthogonalised it is a random rotation, and descent on the manifold starts at one (7.3.5)
    *(
        ("F.3", DRAWN_R, {"orthogonal.init": init}, {"orthogonal.method": method})
        for init, methods in (
            ("random", "gram_schmidt householder lowdin gradient"),
            ("literal", "cayley relaxed free"),
        )
        for method in methods.split()
    ),
    ("7.5.3", CIFAR_CNNS_F + " thesis.table7.9.*", {"network.init": "he"}, {}),
    ("7.5.3", "thesis.table7.[1246789].* thesis.figure7.3.* thesis.tableF.[45].*", {"network.norm": "batch"}, {}),
    ("7.5.3", "thesis.table7.5.*", {"network.norm": "none"}, {}),
    ("7.5.3", "thesis.table7.6.*.*mhe", {"orthogonal.refine_steps": 5000}, {}),
    ("7.5.1", "thesis.table7.2.mean1e-2", {"orthogonal.mean": 0.01}, {}),
    ("7.5.1", "thesis.table7.1.upt-*.*", {"orthogonal.method": "free"}, {}),
    ("7.5.1", "thesis.table7.1.opt-*.*", {"orthogonal.method": "gram_schmidt"}, {}),
    ("F.3", "thesis.table7.3.*", SGD | {"data.batch_size": 100, "optim.lr": 0.01, "schedule.steps": 100 * 600}, {}),
    ("F.3", "thesis.table7.3.*", {"optim.weight_decay": 5e-4}, {}),
    ("F.3", "thesis.table7.3.[ghl]*.*", {"orthogonal.init": "random"}, {}),
    ("F.3", "thesis.table7.3.*", {"network.hidden": (256, 256), "loss.name": "cross_entropy"}, {}),
    ("7.5.2", "thesis.table7.3.*.normal", {"network.init": "standard_normal"}, {}),
    ("7.5.2", "thesis.table7.3.*.xavier", {"network.init": "xavier"}, {}),
    ("7.5.2", "thesis.table7.3.[ghlco]*.*", {"orthogonal.neurons": "keep"}, {}),
    ("F.3", "thesis.table7.9.*", SGD | {"data.batch_size": 128, "optim.lr": 0.1, "schedule.steps": 700_000}, {}),
    ("F.3", "thesis.table7.9.*", {"optim.weight_decay": 5e-4}, {}),
    ("F.3", "thesis.table7.10.*", {"optim.name": "adam", "optim.lr": 1e-3, "optim.weight_decay": 5e-4}, {}),
    ("F.3", "thesis.table7.10.*", {"schedule.steps": 200 * (64 * 600 // 16), "network.width": 64}, {}),
    ("F.3", "thesis.table7.10.*", {"model.name": "cnn4", "network.norm": "batch"}, {}),
    ("F.3", "thesis.table7.10.baseline++.*", {"loss.name": "s_softmax", "loss.scale": 2.0}, {}),
    ("7.5.3", "thesis.table7.10.*", {"evaluation.protocol": "few_shot", "evaluation.shots": (5,)}, {}),
    ("7.5.3", "thesis.table7.10.*.opt", {"orthogonal.method": "cayley"}, {}),
    ("F.3", "thesis.table7.11.*", {"optim.orthogonal_lr": None}, {}),
    ("7.5.4", "thesis.table7.11.*", KIPF, {}),
    ("F.3", "thesis.table7.12.*", {"data.points": 1024, "data.batch_size": 32, "optim.name": "adam"}, {}),
    ("F.3", "thesis.table7.12.*", {"schedule.milestones": BEYOND_THE_END}, {}),
    ("F.3", "thesis.table7.12.*", {"optim.lr": 1e-3, "schedule.gamma": 0.7, "schedule.steps": 250 * (9843 // 32)}, {}),
    ("F.5", "thesis.tableF.4.*.k*", {"orthogonal.share_blocks": True}, {}),
    ("F.5", "thesis.tableF.5.*.k*", {"orthogonal.share_blocks": False}, {}),
    ("F.5", "thesis.tableF.[45].fixed", {"orthogonal.learn_r": False, "orthogonal.learn_v": False}, {}),
    *(
        (section, names, {"model.name": name, "network.widths": widths}, {})
        for section, names, name, widths in NETWORKS
    ),
]

# What every recipe must have printed or named here.
CORE = ("data.batch_size", "optim.name", "optim.lr", "schedule.steps")
_PLOTS = "thesis.figure2.7.* thesis.figure2.10.* thesis.figureA.[145].* thesis.figureC.[23].*"
_PLUS = "thesis.table5.[89].sphereface+.* thesis.table5.10.sphereface+.* thesis.tableD.[78].sphereface+.*"
_PLUS += " thesis.sectionD.6.am-softmax+mhe"
UNPRINTED: list[tuple[str, str, str]] = [
    ("paper.figure5.*", "data.batch_size", "4, 8, 16, 32 of the figure's panels"),
    ("thesis.table2.5.*", "schedule.steps", '2.2.7: "about 30 epochs"'),
    (FACES + " " + FACES_PLUS, "optim.name", "the authors' solver"),
    (_PLUS, "optim.lr", "the second rate of 2.3.6"),
    (_PLUS, "schedule.steps", "the last two stages of 2.3.6"),
    (DECOUPLED + " thesis.table4.[78].*", "schedule.steps", '4.6: "when the error plateaus"; the paper\'s'),
    ("thesis.table4.6.*", "schedule.steps", "those of paper 4.1"),
    ("thesis.table4.1.*", "model.name", "ResNet-32, which has 21.17 in Table 4.4, too"),
    (DECOUPLED, "optim.projection_every", '4.4.1: "every certain number of iterations"; ours is 100'),
    ("thesis.table4.[25].* thesis.table4.6.*.modified*", "optim.projects", "as in Tables 4.3 and 4.4"),
    ("thesis.tableC.2.*", "optim.lr", "that of SGD elsewhere"),
    (CIFAR_CNNS_E, "schedule.steps", 'E.1: "when the performance is saturated"; those of D.1'),
    ("thesis.figureE.[2-5].*", "schedule.steps", "E.2.1: as in 6.6.1"),
    (CIFAR_CNNS_F, "schedule.steps", 'F.3: "when the performance is saturated"; those of D.1'),
    ("thesis.table7.3.*.normal", "model.init", "deviation 1, that of the repository F.3 follows"),
    ("thesis.table7.10.*", "data.batch_size", "that of the repository F.3 follows"),
    *(
        ("thesis.table7.11.* thesis.tableE.6.*", setting, "Kipf and Welling's, whom 7.5.4 and E.10 follow")
        for setting in CORE
    ),
    *(("thesis.tableD.4.*", setting, "those of spectral normalization, whom D.7 follows") for setting in CORE),
    *(("thesis.tableE.5.*", setting, "those of Table 6.1; 1,000 steps are timed") for setting in CORE),
    *(("thesis.figureC.1.*", setting, "those of Table 4.7, whose networks are attacked") for setting in CORE),
    ("thesis.figure5.4.*", "data.batch_size", "that of D.1 on CIFAR"),
    ("thesis.figure5.4.*", "optim.lr", "that of D.1 on CIFAR and ImageNet"),
    ("thesis.figure5.4.*", "schedule.steps", "22 epochs"),
    *((_PLOTS, setting, "no settings are printed for pictures: Adam, 20 epochs") for setting in CORE),
    ("thesis.table6.8.*.pointnet_tnet", "schedule.steps", "those of PointNet without T-Nets"),
]

CLOUDS_32 = tuple(range(6_250, 250 * 307, 6_250))  # every 200k clouds in batches of 32
DEVIATIONS: list[tuple[str, str, str, Any]] = [
    ("2.4", PAPER_NETS, "regularizer.orthonormality", 0.0),
    ("2.4", PAPER_CIFAR + " " + PAPER_NORMS, "optim.weight_decay", 5e-4),
    ("2.4", "paper.figure6.*", "optim.weight_decay", 1e-4),
    ("4.2", PAPER_ABLATIONS, "data.hflip", True),
    ("4.5", "paper.table4.*", "data.vflip", False),
    ("2.3.6", "thesis.table2.5.*", "data.normalize", "symmetric"),
    ("C.1.1", DECOUPLED + " thesis.table4.[78].* thesis.tableC.2.* thesis.figureC.1.*", "data.vflip", False),
    ("D.5", "thesis.tableD.3.*", "optim.projection_every", 100),
    ("F.3", DRAWN_R, "orthogonal.init", "random"),
    ("F.3", "thesis.table7.3.*", "optim.weight_decay", 0.0),
    ("F.3", "thesis.table7.3.[ghl]*.*", "orthogonal.init", "unit"),
    ("7.5.3", "thesis.table7.7.baseline.norm", "network.init", "unit"),  # He's directions, of length 1
    ("F.3", "thesis.table7.11.cp.*", "optim.orthogonal_lr", 1e-4),
    ("E.1", "thesis.table6.8.*.pointnet2", "schedule.milestones", tuple(range(12_500, 251 * 615, 12_500))),
    ("E.1", "thesis.table6.8.*.pointnet thesis.table6.8.*.pointnet_tnet", "schedule.milestones", CLOUDS_32),
    ("F.3", "thesis.table7.12.*", "schedule.milestones", CLOUDS_32),
]
