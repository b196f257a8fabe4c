"""Thesis appendices A, C and D: what chapters 2, 4 and 5 leave to them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ..config import AdversarialConfig, Config, LossConfig
from .faces import CASIA, CLIPPED, LFW, MEASURES, MEGAFACE, PLUS, fine_tuned, method_cells, plus_cells, sphereface
from .protocols import edit, gan, mnist2d, operator, sgd
from .table import Cell, Table, Tables, cells, column, grid, measured
from .thesis4 import MIRRORED, attacked, decoupled
from .thesis5 import REGULARIZERS, imbalance, powers

TABLES = Tables()
PICTURE = "No settings are printed: the recipe trains the network of Figure 2.2 with Adam for 20 epochs."
# Table A.1: network → the loss, whether biases and the last ReLU are kept
_STEPS = {
    "A": ("softmax", True, True),
    "B": ("softmax", True, False),
    "C": ("softmax", False, False),
    "D": ("m1", False, False),
    "E": ("m2", False, False),
    "F": ("m3", False, False),
    "G": ("m4", False, False),
}
# Table D.4: method → its inception score
GANS = {
    "clipping": 6.41,
    "gp": 6.93,
    "wgan-gp": 6.68,
    "batch": 6.27,
    "layer": 7.19,
    "weight": 6.84,
    "orthonormal": 7.40,
    "sn": 7.42,
    "mhe": 7.32,
    "mhe+sn": 7.59,
}


def _picture(loss: LossConfig) -> Config:
    """The network of Figure 2.2 with a loss."""
    return replace(mnist2d("lsoftmax_mnist2d"), loss=loss)


@TABLES.add(
    "thesis.figureA.1",
    "2-D features on MNIST with and without the last ReLU (Figure A.1: pictures, no numbers)",
    "error",
    PICTURE,
)
@column(("relu=True", "no-relu=False"))
def figureA_1(relu: bool) -> Config:
    """The softmax with or without a ReLU after the features.

    At the rate of Figure 2.2, 0.1, this ReLU soon lets nothing through.
    """
    return edit(_picture(LossConfig(name="softmax")), model={"extra": {"last_relu": relu}})


@TABLES.add(
    "thesis.figureA.2",
    "Lengths of class vectors by number of samples (Figure A.2: a picture, no numbers)",
    "error",
    f"{PICTURE} It makes the half of the figure that shows MNIST; the other half shows CASIA-WebFace.",
)
@column(("mnist",))
def figureA_2(dataset: str) -> Config:
    """The softmax on all images, which the classes share unequally. ``hs.plots.class_norms`` draws it."""
    return edit(figureA_4(True), data={"name": dataset})


@TABLES.add(
    "thesis.figureA.3",
    "Biases of the classes (Figure A.3: a picture, no numbers)",
    "error",
    f"{PICTURE} The biases are those of MNIST; the figure shows those of CASIA-WebFace (A.3).",
)
@column(("mnist",))
def figureA_3(dataset: str) -> Config:
    """The same network. ``hs.plots.class_biases`` draws it."""
    return figureA_2(dataset)


@TABLES.add(
    "thesis.figureA.5",
    "2-D features on MNIST by margin of A-Softmax (Figure A.5: pictures, no numbers)",
    "error",
    PICTURE,
)
@column(("softmax=1", "m2=2", "m3=3", "m4=4"))
def figureA_5(margin: int) -> Config:
    """A-Softmax; margin 1 is the softmax. ``hs.plots.features_2d`` draws the trained network."""
    loss = LossConfig(name="a_softmax", margin=margin, annealing="sphereface")
    return _picture(LossConfig(name="softmax") if margin == 1 else loss)


@TABLES.add(
    "thesis.figureA.4",
    "2-D features on MNIST with and without biases (Figure A.4: pictures, no numbers)",
    "error",
    PICTURE,
)
@column(("bias=True", "no-bias=False"))
def figureA_4(bias: bool) -> Config:
    """The softmax with or without biases of the classes."""
    return _picture(LossConfig(name="softmax", bias=bias))


@TABLES.add(
    "thesis.tableA.1",
    "Removing the last ReLU, biases and lengths, then A-Softmax: LFW accuracy, angular Fisher score",
    "accuracy",
    f"{CASIA}{LFW}. The text does not say on which images the score is measured: here on those of LFW's pairs.",
)
@measured("""
    row  lfw=accuracy  fisher=fisher
    A           95.13         0.3477
    B           96.37         0.2835
    C           96.40         0.2815
    D           96.63         0.2462
    E           97.67         0.2277
    F           97.82         0.1791
    G           98.20         0.1709
""")
def tableA_1(name: str) -> Config:
    """A.5: the last ReLU, the biases and the lengths of the class vectors are removed in turn, then m grows."""
    method, bias, relu = _STEPS[name]
    config = edit(sphereface(method, 4, ("fisher",)), loss={"bias": bias})
    return edit(config, model={"extra": {"last_relu": True}}) if relu else config


@TABLES.add(
    "thesis.tableC.2",
    "ResNet-32 trained by SGD on CIFAR-100",
    "error",
    f"The rate of SGD is not printed: here 0.1, as on ImageNet (4.6). {MIRRORED}",
)
@column({"baseline=None": 21.55})
@grid("""
    row      linear  cosine  square_cosine
    sphere    21.71   21.61          24.62
    ball      20.96   21.25          24.40
    tanh      21.07   21.12          24.29
    linear    21.43   21.25          20.54
    segment   20.58   20.61          20.61
    log       21.15   21.42          23.10
    mix       20.82   21.20          21.19
""")
def tableC_2(magnitude: str | None, angular: str = "cosine") -> Config:
    """C.6: Table 4.4 with momentum SGD."""
    return edit(decoupled("resnet32", magnitude, angular), optim={"name": "sgd", "lr": 0.1})


@TABLES.add("thesis.figureC.2", "2-D features on MNIST by operator (Figure C.2: pictures, no numbers)", "accuracy")
@cells(lambda make: [Cell("baseline", mnist2d, None)])
@column(("sphere", "ball", "tanh", "linear", "segment", "log", "mix"))
def figureC_2(magnitude: str) -> Config:
    """The CNN of C.4 with a decoupled operator and original gradients: no weight projection.

    ``hs.plots.features_2d`` draws the trained network.
    """
    rule = {"conv": "decoupled", "magnitude": magnitude, "angular": "cosine"}
    return edit(mnist2d(), model=rule, regularizer={"name": "orthogonal", "weight": 1e-5})


@TABLES.add(
    "thesis.figureC.3",
    "2-D features on MNIST by operator after adversarial training (Figure C.3: pictures, no numbers)",
    "accuracy",
)
@column(("baseline", "sphere", "ball", "tanh"))
def figureC_3(operator: str) -> Config:
    """Figure C.2's networks with FGSM on every batch, as in Table 4.7 (the attack of C.4 is not printed).

    FGSM increases the loss of training, the cross-entropy (C.1.2).
    """
    config = mnist2d() if operator == "baseline" else figureC_2(operator)
    return replace(config, adversarial=AdversarialConfig(train="fgsm", losses=("cross_entropy",)))


@TABLES.add(
    "thesis.tableD.3",
    "SphereNet with MHE, CNN-9",
    "error",
    "Weights are projected every 100 steps (4.4.1), so directions do not decay. D.5 trains SphereNets like the CNN-9 "
    "of D.1, which has weight decay and no projection.",
)
@grid("""
    row          cifar10  cifar100
    baseline        6.37     28.10
    orthonormal     6.13     27.95
""")
@powers("""
    row         s2.cifar10  s1.cifar10  s0.cifar10  s2.cifar100  s1.cifar100  s0.cifar100
    mhe               5.71        5.99        5.95        27.28        26.99        27.03
    half-mhe          6.12        6.33        6.31        27.17        27.77        27.46
    a-mhe             5.91        5.98        6.06        27.07        27.27        26.70
    half-a-mhe        6.14        5.87        6.11        27.35        27.68        27.58
""")
def tableD_3(kind: str, dataset: str, s: float = 2.0) -> Config:
    """D.5: CNN-9 of cosine SphereConvs, weight projection, a regularizer."""
    return REGULARIZERS[kind](operator(sgd(dataset), "cosine"), s)


@TABLES.add(
    "thesis.sectionD.6",
    "AM-Softmax without and with MHE, LFW",
    "accuracy",
    f"{CASIA}{LFW}. MHE starts from the trained AM-Softmax, because the settings are those of SphereFace+.",
)
@column({"am-softmax": 99.26, "am-softmax+mhe": 99.37})
def sectionD_6(method: str) -> Config:
    """SphereFace's training with AM-Softmax, m = 0.35 and s = 30 as its authors found best; MHE as in SphereFace+."""
    loss = LossConfig(name="am_softmax", margin=0.35, scale=30.0)
    config = replace(sphereface("softmax", 20), loss=loss)
    return fine_tuned(config, "thesis.sectionD.6.am-softmax") if method.endswith("+mhe") else config


def tableD_8(kind: str, dataset: str) -> Config:
    """D.10: SphereFace-20, m = 4, as on CASIA-WebFace; the steps on larger sets are not printed."""
    config = sphereface("m4", 20, ("megaface",), dataset)
    return config if kind == "sphereface" else fine_tuned(config, f"thesis.tableD.8.sphereface.{dataset}")


@TABLES.add(
    "thesis.figureC.1",
    "Size of the changes by which DeepFool fools CNN-9, CIFAR-10 (Figure C.1: curves, no numbers)",
    "mean ‖r‖/‖x‖ in %",
    "C.3 plots the ℓ₂ and the ℓ∞ norm of each of 10,000 changes. Here DeepFool keeps the ℓ₂ norm small; the cell is "
    "the mean of ‖r‖₂/‖x‖₂ over the images that it changes. The result also has deepfool_l2 and deepfool_linf, the "
    "means of both norms of the same changes, in units of the inputs (x − 127.5)/128. hs.attacks.robust_accuracy "
    "returns the norms of all images as l2 and linf, and hs.plots.perturbation_sizes draws them. "
    f"{MIRRORED}",
)
@column(("baseline", "sphere", "ball", "tanh"), "deepfool_size")
def figureC_1(operator: str) -> Config:
    """The networks of Table 4.7, trained naturally."""
    return attacked(operator, "natural", ("deepfool",))


@TABLES.add("thesis.tableD.6", "Imbalanced CIFAR-100, CNN-9", "error")
@grid("""
    row          single  multiple
    baseline      31.43     38.39
    orthonormal   30.75     37.89
    mhe           29.30     37.07
    half-mhe      29.40     36.52
    a-mhe         30.16     37.54
    half-a-mhe    29.60     37.07
""")
def tableD_6(kind: str, how: str) -> Config:
    """D.8: as Table 5.7, on CIFAR-100."""
    return imbalance("cifar100", kind, how)


TABLES += (
    Table(
        "thesis.tableA.2",
        "SphereFace of different depth, MegaFace",
        "accuracy",
        # rank-1 among a million distractors, TAR at FAR 1e-6
        method_cells("""
            row           method   depth   rank1     tar
            softmax64     softmax     64  54.855  65.925
            sphereface4   m4           4  57.529  68.547
            sphereface10  m4          10  65.335  78.069
            sphereface20  m4          20  69.623  83.159
            sphereface36  m4          36  71.257  84.052
            sphereface64  m4          64  72.729  85.561
        """),
        f"{CASIA}{LFW}; {MEGAFACE}",
    ),
    Table(
        "thesis.tableD.4",
        "Unsupervised image generation on CIFAR-10",
        "inception score",
        (
            *column(GANS, "inception_score")(gan).cells,
            Cell("real", partial(gan, "sn"), 11.24, measure="real_inception_score", run="sn"),
        ),
        "The published score is Inception-v3's. --evaluation.inception FILE.onnx names this network as an ONNX file "
        "(pixels x/127.5 - 1 in, logits out), here or under --data.root. Without it, networks are trained and not "
        "scored. open.cifar10_gan scores them with a CIFAR-10 classifier; its scores compare only with each other.",
    ),
    Table(
        "thesis.tableD.7",
        "SphereFace+ with different m, SphereFace-20, verification on MegaFace",
        "accuracy",
        plus_cells(
            "thesis.tableD.7",
            20,
            ("tar",),
            {1: ((42.46, 52.02),), 2: ((71.79, 80.94),), 3: ((76.34, 80.58),), 4: ((82.56, 83.39),)},
        ),
        PLUS,
    ),
    Table(
        "thesis.tableD.8",
        "SphereFace+ trained on IMDb-Face, MS-Celeb and CASIA-WebFace",
        "accuracy",
        tuple(
            Cell(
                f"{kind}.{dataset}.{column}",
                partial(tableD_8, kind, dataset),
                value,
                measure=MEASURES[column],
                run=f"{kind}.{dataset}",
            )
            for kind, dataset, *values in (
                ("sphereface", "imdb_face", 99.53, 72.89),
                ("sphereface", "ms_celeb", 99.48, 73.93),
                ("sphereface", "casia", 99.27, 70.68),
                ("sphereface+", "imdb_face", 99.57, 73.15),
                ("sphereface+", "ms_celeb", 99.5, 74.16),
                ("sphereface+", "casia", 99.32, 71.30),
            )
            for column, value in zip(("lfw", "rank1"), values, strict=True)
        ),
        f"{CLIPPED} It needs these files under --data.root: imdb-face/, ms-celeb-1m/ and casia-webface/, each "
        f"<identity>/*.jpg aligned to 112×96; "
        f"{LFW}; {MEGAFACE}. SphereFace+ starts from the trained SphereFace.",
    ),
)
