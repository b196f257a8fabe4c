"""Thesis chapter 5: minimum hyperspherical energy on CIFAR, ImageNet, imbalanced sets and faces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from ..config import Config
from .faces import CASIA, LFW, MEGAFACE, OTHERS, PLUS, fine_tuned, plus_cells, sphereface
from .protocols import IMAGENET, edit, imagenet, mhe, mnist2d, sgd
from .table import Cell, Cells, Make, Table, Tables, cells, column, grid, measured, printed

TABLES = Tables()
# Orthogonal [27], "which minimizes the sum of the cosine values between all the kernel weights" (5.3.7); 1e-5 (E.1)
COSINES = {"name": "orthogonal", "weight": 1e-5, "extra": {"of": "cosines"}}
# baseline or a kind of MHE, applied to a configuration
REGULARIZERS: dict[str, Callable[..., Config]] = {
    "baseline": lambda config, s=2.0: config,
    "orthonormal": lambda config, s=2.0: edit(config, regularizer={"name": "orthonormal", "weight": 1e-5}),
    "orthogonal": lambda config, s=2.0: edit(config, regularizer=COSINES),
    "mhe": lambda config, s=2.0: mhe(config, s=s),
    "half-mhe": lambda config, s=2.0: mhe(config, True, s),
    "a-mhe": lambda config, s=2.0: mhe(config, False, s, angular=True),
    "half-a-mhe": lambda config, s=2.0: mhe(config, True, s, angular=True),
}
ORTHOGONAL = (
    "`orthogonal` is the sum of cosines of 5.3.7; --regularizer.extra of=cosines_squared is the regularizer of [27]."
)
SAME = (
    "MHE with s = 2 on the CNN-9 of Table D.1 and CIFAR-100 is one training with three printed numbers: 27.15 in "
    "Table 5.1 (mhe.s2.cifar100), 26.75 in Tables 5.2 (mhe.64-128-256) and 5.3 (mhe.cnn9), and 26.16 in Table 5.4 "
    "(mhe.both), which is s = 0 in Table 5.1. Half-space MHE has 25.61 in Tables 5.1 and 5.4 and 25.96 in Tables 5.2 "
    "and 5.3."
)


def powers(text: str) -> Callable[[Make], Cells]:
    """Cells ``kind.s2.cifar10``: kind, power s of the energy and data set."""

    def of(make: Make) -> Iterator[Cell]:
        for kind, head, number in printed(text):
            power, _, dataset = head.partition(".")
            yield Cell(f"{kind}.{head}", partial(make, kind, dataset, s=float(power[1:])), number)

    return cells(of)


@TABLES.add(
    "thesis.table5.1",
    "MHE variants, CNN-9 on CIFAR-10 and CIFAR-100",
    "error",
    SAME,
)
@grid("""
    row       cifar10  cifar100
    baseline     7.75     28.13
""")
@powers("""
    row         s2.cifar10  s1.cifar10  s0.cifar10  s2.cifar100  s1.cifar100  s0.cifar100
    mhe               6.22        6.74        6.44        27.15        27.09        26.16
    half-mhe          6.28        6.54        6.30        25.61        26.30        26.18
    a-mhe             6.21        6.77        6.45        26.17        27.31        27.90
    half-a-mhe        6.52        6.49        6.44        26.03        26.52        26.47
""")
def network(kind: str, dataset: str = "cifar100", name: str = "cnn9", widths: str = "d1", s: float = 2.0) -> Config:
    """A network of D.1 with a regularizer."""
    return REGULARIZERS[kind](sgd(dataset, name, widths), s)


@TABLES.add("thesis.table5.2", "Width of CNN-9 on CIFAR-100", "error", SAME)
@grid("""
    row       16-32-64  32-64-128  64-128-256=d1  128-256-512  256-512-1024
    baseline     47.72      38.64          28.13        24.95         25.45
    mhe          36.84      30.05          26.75        24.05         23.14
    half-mhe     35.16      29.33          25.96        23.38         21.83
""")
def table5_2(kind: str, widths: str) -> Config:
    """CNN-9 with filters by stage, e.g. ``16-32-64``; ``d1`` are the 64, 128 and 256 of Table 5.1."""
    return network(kind, widths=widths.replace("-", ","))


@TABLES.add("thesis.table5.3", "Depth on CIFAR-100 (none: not converged)", "error", SAME)
@grid("""
    row        cnn6   cnn9  cnn15
    baseline  32.08  28.13   none
    mhe       28.16  26.75   26.9
    half-mhe  27.56  25.96  25.84
""")
def table5_3(kind: str, name: str) -> Config:
    """CNN-6, 9 or 15."""
    return network(kind, name=name)


@TABLES.add("thesis.table5.4", "Hidden and output layers, CNN-9 on CIFAR-100", "error", SAME)
# the half-space kinds are for hidden layers: the table has no number for them on the output layer alone
@grid("""
    row         output  hidden   both
    mhe          26.85   26.55  26.16
    half-mhe         -   26.28  25.61
    a-mhe         27.8   26.56  26.17
    half-a-mhe       -   26.64  26.03
""")
@cells(lambda make: [Cell("baseline", partial(network, "baseline"), 28.13)])
def table5_4(kind: str, where: str) -> Config:
    """The energy of ``hidden`` layers, of the ``output`` layer, or of ``both``."""
    weights = {"hidden": 0.0} if where == "output" else {}
    return edit(network(kind), regularizer={**weights, "output": 0.0 if where == "hidden" else 1.0})


@TABLES.add("thesis.table5.5", "ResNet-32 on CIFAR-10 and CIFAR-100", "error")
@grid("""
    row       cifar10  cifar100
    baseline     5.19     22.87
    mhe          4.72     22.19
    half-mhe     4.66     22.04
""")
def table5_5(kind: str, dataset: str) -> Config:
    """Table D.2's ResNet-32."""
    return network(kind, dataset, "resnet32", "d2")


@TABLES.add("thesis.table5.6", "ResNets on ImageNet, top-1", "error", f"{IMAGENET}. {ORTHOGONAL}")
@grid("""
    row          resnet18  resnet34
    baseline        32.95     30.04
    orthogonal      32.65     29.74
    orthonormal     32.61     29.75
    mhe             32.50     29.60
    half-mhe        32.45     29.50
""")
def table5_6(kind: str, name: str) -> Config:
    """A ResNet on ImageNet with a regularizer."""
    return REGULARIZERS[kind](imagenet(name))


def imbalance(dataset: str, kind: str, how: str) -> Config:
    """5.5.1, D.8: CNN-9 on a training set that lacks samples of one class, or of more and more."""
    return edit(network(kind, dataset), data={"imbalance": how}, evaluation={"also": ("classes",)})


@TABLES.add(
    "thesis.table5.10",
    "SphereFace+ against other losses, LFW and MegaFace",
    "accuracy",
    f"{CASIA}{LFW}; {MEGAFACE}. {OTHERS} CosineFace is the variant without feature normalisation "
    "(D.1), whose target is ‖x‖(cos θ − m); its m is not printed: here 0.35.",
)
@measured("""
    row          lfw=accuracy  rank1=megaface_rank1
    softmax             97.88                 54.86
    contrastive         98.78                 65.22
    triplet             98.70                 64.80
    l-softmax           99.10                 67.13
    center              99.05                 65.49
    cosineface          99.10                 75.10
    sphereface          99.42                 72.72
    sphereface+         99.47                 73.03
""")
def table5_10(row: str) -> Config:
    """2.3.6, D.1: a loss under SphereFace-64; SphereFace+ starts from the table's SphereFace."""
    method = "m4" if row.startswith("sphereface") else row
    config = sphereface(method, 64, ("megaface",))
    return fine_tuned(config, "thesis.table5.10.sphereface") if row == "sphereface+" else config


@TABLES.add("thesis.figure5.3", "Weight of MHE, CNN-9 on CIFAR-100 (Figure 5.3: curves, no numbers)", "error")
@cells(lambda make: [Cell("baseline", partial(network, "baseline"), None)])
@grid("""
    row         weight0.01=0.01  weight0.1=0.1  weight1=1.0  weight10=10.0  weight100=100.0
    mhe-o
    mhe-h
    half-mhe-h
""")
def figure5_3(kind: str, weight: float) -> Config:
    """MHE on the output layer (``mhe-o``), on hidden layers (``mhe-h``), or half-space on hidden layers."""
    if kind == "mhe-o":
        return edit(network("mhe"), regularizer={"hidden": 0.0, "output": weight})
    config = network("half-mhe" if kind == "half-mhe-h" else "mhe")
    return edit(config, regularizer={"hidden": weight, "output": 0.0})


@TABLES.add(
    "thesis.figure5.4",
    "MNIST with 100 images of digit 0, 2-D features (Figure 5.4, sec. 5.5.1)",
    "accuracy",
    "Network, rate, batches and length of training are not printed: here the CNN of C.4, D.1's rate and batches on "
    "CIFAR, and 9,360 steps (22 epochs). The gradient's norm is clipped at 1: two of ten neurons in two dimensions can "
    "start so close that the gradient of their energy makes the weights huge.",
)
@column({"baseline": 88.5, "mhe": 98.0})
def figure5_4(kind: str) -> Config:
    """The 6-layer CNN with 2-D features, all but 100 images of digit 0 thrown away; SGD, rate and decay of D.1.

    ``hs.plots.features_2d`` draws them.
    """
    optim = {"name": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4, "clip": 1.0}
    return edit(REGULARIZERS[kind](mnist2d()), data={"imbalance": "digit0"}, optim=optim)


@TABLES.add("thesis.table5.7", "Imbalanced CIFAR-10, CNN-9; single-class also as the error of that class", "error")
@grid("""
    row          single  multiple
    baseline       9.80     12.00
    orthonormal    8.34     10.80
    mhe            7.98     10.25
    half-mhe       7.90      9.59
    a-mhe          7.96      9.88
    half-a-mhe     7.59      9.89
""")
@cells(  # error of the class that lacks samples, "Err. (S)"
    lambda make: (
        Cell(
            f"{kind}.single-scarce",
            partial(make, kind, "single"),
            value,
            measure="class_0_accuracy",
            run=f"{kind}.single",
        )
        for kind, value in zip(
            ("baseline", "orthonormal", "mhe", "half-mhe", "a-mhe", "half-a-mhe"),
            (30.40, 26.80, 25.80, 26.40, 26.00, 25.90),
            strict=True,
        )
    )
)
def table5_7(kind: str, how: str) -> Config:
    """CIFAR-10."""
    return imbalance("cifar10", kind, how)


TABLES += (
    Table(
        "thesis.table5.8",
        "SphereFace+ with different m, SphereFace-20",
        "accuracy",
        plus_cells(
            "thesis.table5.8",
            20,
            ("lfw", "rank1"),
            {  # m → (SphereFace, SphereFace+) on LFW and MegaFace, rank-1
                1: ((96.35, 97.15), (39.12, 45.90)),
                2: ((98.87, 99.05), (60.48, 68.51)),
                3: ((98.97, 99.13), (63.71, 66.89)),
                4: ((99.26, 99.32), (70.68, 71.30)),
            },
        ),
        PLUS,
    ),
    Table(
        "thesis.table5.9",
        "SphereFace+ with different m, SphereFace-64",
        "accuracy",
        plus_cells(
            "thesis.table5.9",
            64,
            ("lfw", "rank1"),
            {
                1: ((96.93, 97.47), (41.07, 45.55)),
                2: ((99.03, 99.22), (62.01, 67.07)),
                3: ((99.25, 99.35), (69.69, 70.89)),
                4: ((99.42, 99.47), (72.72, 73.03)),
            },
        ),
        PLUS,
    ),
)
