"""The training protocols of the documents; the tables edit them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..config import (
    Config,
    DataConfig,
    EvaluationConfig,
    GanConfig,
    ModelConfig,
    OptimConfig,
    RegularizerConfig,
    RunConfig,
    ScheduleConfig,
)

CLIPPED = "The gradient's norm is clipped at 1, because networks without normalisation diverge otherwise."
IMAGENET = "It needs imagenet/train and imagenet/val under --data.root"
NOT_STOPPED = (
    "Kipf and Welling's code, which the text follows, ends a training early when the validation loss rises above its "
    "mean over ten steps. Here there is no early stopping: all 200 steps are made."
)
CLOUDS = (
    'E.1 and F.3 decay the rate "every 200k iterations", more than a training has. The repositories that they follow '
    "decay it every 200k clouds, and so do the recipes. The momentum of BatchNorm is 0.1 throughout; in those "
    "repositories it starts at 0.5 and is halved every 200k clouds."
)
# GANs of D.7: what is not the standard objective (D.12) and one update each
_OBJECTIVES: dict[str, dict[str, Any]] = {
    "clipping": {"clip": 0.01},
    "gp": {"gradient_penalty": 10.0},
    "wgan-gp": {"loss": "wasserstein", "gradient_penalty": 10.0, "updates": 5},
    "layer": {"normalization": "layer"},
    "weight": {"normalization": "weight"},
}


def adam(dataset: str, network: str = "cnn9", widths: str = "paper", **model: Any) -> Config:
    """Paper sec. 4.1 (thesis 3.4.1): Adam 1e-3, batch 128, rate divided by 10 at 34k and 54k of 64k steps.

    CIFAR-10 is mirrored only (thesis 3.4.1 and the released code; 3.4.2 says no augmentation); CIFAR-10+ and CIFAR-100
    (``"cifar10+"``, ``"cifar100"``) are padded by 4, cropped and mirrored. BatchNorm eps 1e-3 and weight decay 5e-4
    are the released code's.
    """
    plus = dataset != "cifar10"
    return Config(
        data=DataConfig(name=dataset.removesuffix("+"), batch_size=128, hflip=True, pad=4 if plus else 0),
        model=ModelConfig(name=network, widths=widths, norm_eps=1e-3, **model),
        optim=OptimConfig(name="adam", lr=1e-3, weight_decay=5e-4),
        schedule=ScheduleConfig(steps=64000, milestones=(34000, 54000)),
        run=RunConfig(eval_every=1000, checkpoint_every=4000),
    )


def spherical(config: Config, every: int = 100) -> Config:
    """Weight projection every 100 steps (thesis 4.4.1).

    What makes sigmoid SphereConv reach the published accuracy: without it ‖w‖ grows and the angles stop turning.
    Directions do not decay; what is left of weight decay acts on the classifier and plain shortcuts.
    """
    return edit(config, optim={"projection_every": every})


def operator(config: Config, name: str) -> Config:
    """``original``, or a SphereConv: ``sigmoid0.1``, ``linear``, ``cosine``, ``learnable``, with weight projection."""
    if name == "original":
        return config
    model: dict[str, Any] = {"conv": "sphere", "angular": name}
    if name.startswith("sigmoid"):
        model |= {"angular": "sigmoid", "k": float(name.removeprefix("sigmoid"))}
    if name == "learnable":
        model |= {"angular": "sigmoid", "learnable_k": True}
    return spherical(edit(config, model=model))


def orthonormal(config: Config) -> Config:
    """With the paper's constraint WᵀW ≈ I (sec. 2.4); its weight, 1e-4, is the released code's."""
    return edit(config, regularizer={"orthonormality": 1e-4})


def sgd(dataset: str, network: str = "cnn9", widths: str = "d1", weight_decay: float = 1e-4, **model: Any) -> Config:
    """Thesis D.1: SGD 0.1 with momentum 0.9, batch 128, divided by 10 at 20k, 30k and 37.5k of 42.5k steps.

    Padded by 4, cropped and mirrored; weight decay 1e-4 (D.1, E.1; 5e-4 in F.3). Also for chapters 6 and 7, which
    divide the rate "when the performance is saturated". Without normalisation (``norm="off"``) the gradient's norm is
    clipped at 1: as stated, plain CNNs diverge within three steps.
    """
    clip = 1.0 if model.get("norm") == "off" else None
    return Config(
        data=DataConfig(name=dataset, batch_size=128, hflip=True, pad=4, normalize="standard"),
        model=ModelConfig(name=network, widths=widths, **model),
        optim=OptimConfig(name="sgd", lr=0.1, momentum=0.9, weight_decay=weight_decay, clip=clip),
        schedule=ScheduleConfig(steps=42500, milestones=(20000, 30000, 37500)),
        run=RunConfig(eval_every=1000, checkpoint_every=4000),
    )


def lsoftmax(dataset: str, network: str, augment: bool) -> Config:
    """Thesis 2.2.7: SGD 0.1, momentum 0.9, decay 5e-4, batch 256, divided by 10 at 12k and 15k of 18k steps.

    "We only perform the mean subtraction preprocessing"; pixels are in units of 255, which BatchNorm divides out.
    """
    return Config(
        data=DataConfig(name=dataset, batch_size=256, hflip=augment, pad=4 if augment else 0, normalize="mean"),
        model=ModelConfig(name=network),
        optim=OptimConfig(name="sgd", lr=0.1, momentum=0.9, weight_decay=5e-4),
        schedule=ScheduleConfig(steps=18000, milestones=(12000, 15000)),
        run=RunConfig(eval_every=1000, checkpoint_every=4000),
    )


def mnist2d(network: str = "cnn6_mnist2d") -> Config:
    """The 6-layer CNN of C.4, whose embedding has 2 dimensions. No training settings are given: Adam, 20 epochs."""
    return Config(
        data=DataConfig(name="mnist", batch_size=128),
        model=ModelConfig(name=network),
        optim=OptimConfig(name="adam", lr=1e-3, weight_decay=5e-4),
        schedule=ScheduleConfig(steps=9360, milestones=(4680, 7020)),
        run=RunConfig(eval_every=468, checkpoint_every=2340),
    )


def gcn(dataset: str) -> Config:
    """Kipf and Welling's setting, which thesis 7.5.4 and E.10 take over: Adam 0.01, 200 full-batch steps.

    Their code decays the weights of the first layer alone.
    """
    return Config(
        data=DataConfig(name=dataset),
        model=ModelConfig(name="gcn"),
        optim=OptimConfig(name="adam", lr=0.01, weight_decay=5e-4, undecayed=("*classifier.weight",)),
        schedule=ScheduleConfig(steps=200, kind="constant", milestones=()),
        run=RunConfig(eval_every=20, log_every=20, checkpoint_every=200),
    )


def gan(method: str) -> Config:
    """Table D.5's networks, z of 128 numbers, losses of D.12; MHE in half space with Euclidean distance (D.7).

    D.7 follows spectral normalization's "settings and training strategies" without printing them. Here they are that
    paper's third of six: Adam 2e-4 with β = (0.5, 0.999), one update of each network, batch 64, 100k updates of the
    generator; for ``wgan-gp`` the first: 1e-4, (0.5, 0.9), five updates of the discriminator. Weights are clipped at
    0.01 and gradients penalised by 10, as their authors do.
    """
    spectral = "sn" in method.split("+")
    config = Config(
        data=DataConfig(name="cifar10", batch_size=64),
        model=ModelConfig(
            name="sngan_discriminator",
            norm="batch" if method == "batch" else None,
            extra={} if spectral else {"spectral_norm": False},
        ),
        optim=OptimConfig(name="adam", lr=2e-4, beta1=0.5),
        schedule=ScheduleConfig(steps=100_000, kind="constant", milestones=()),
        gan=GanConfig("sngan_generator", **_OBJECTIVES.get(method, {})),
        evaluation=EvaluationConfig(protocol="generation", also=("real_inception",)),
        run=RunConfig(eval_every=10_000, checkpoint_every=5000),
    )
    if method == "wgan-gp":
        config = edit(config, optim={"lr": 1e-4, "beta2": 0.9}, data={"batch_size": 5 * 64})
    if method == "orthonormal":
        config = replace(config, regularizer=RegularizerConfig("orthonormal"))
    return mhe(config, half=True) if "mhe" in method.split("+") else config


def points(network: str) -> Config:
    """Thesis E.1, F.3: Adam 1e-3 decayed by 0.7 every 200k clouds, batch 32, 250 epochs of ModelNet40.

    PointNet++: batch 16, 251 epochs. The text says 200k iterations, more than a training has; the repositories that it
    follows count clouds (``CLOUDS``).
    """
    batch, epochs = (16, 251) if network == "pointnet2" else (32, 250)
    epoch, decay = 9843 // batch, 200_000 // batch
    return Config(
        data=DataConfig(name="modelnet40", batch_size=batch, eval_batch_size=64),
        model=ModelConfig(name=network),
        optim=OptimConfig(name="adam", lr=1e-3),
        schedule=ScheduleConfig(steps=epochs * epoch, milestones=tuple(range(decay, epochs * epoch, decay)), gamma=0.7),
        run=RunConfig(eval_every=10 * epoch, checkpoint_every=20 * epoch),
    )


def imagenet(network: str, **model: Any) -> Config:
    """Thesis D.1: SGD 0.1, batch 64, divided by 10 at 150k, 300k and 400k of 500k steps; 256×256, window 224."""
    return Config(
        data=DataConfig(name="imagenet", batch_size=64, eval_batch_size=256, normalize="standard", hflip=True),
        model=ModelConfig(name=network, **model),
        optim=OptimConfig(name="sgd", lr=0.1, momentum=0.9, weight_decay=1e-4),
        schedule=ScheduleConfig(steps=500_000, milestones=(150_000, 300_000, 400_000)),
        run=RunConfig(eval_every=10_000, checkpoint_every=10_000),
    )


def imagenet40(network: str, **model: Any) -> Config:
    """Paper sec. 4.1 and B (thesis 3.4.1, C.2): as above, batch 40, divided by 10 at 200k and 375k of 550k steps."""
    config = edit(imagenet(network, **model), data={"batch_size": 40})
    return edit(config, schedule={"steps": 550_000, "milestones": (200_000, 375_000)})


def with_top5(config: Config) -> Config:
    """``config`` whose final network is also evaluated by its five largest logits."""
    return edit(config, evaluation={"also": ("top5",)})


def mhe(config: Config, half: bool = False, s: float = 2.0, angular: bool = False, **settings: Any) -> Config:
    """With MHE: weight 10 in full space, 1 in half space, output layer 1 (thesis D.1)."""
    distance = "angular" if angular else "euclidean"
    return replace(config, regularizer=RegularizerConfig("mhe", half_space=half, s=s, distance=distance, **settings))


def comhe(config: Config, projection: str = "random", **settings: Any) -> Config:
    """With CoMHE in half space: 5 random projections to 30 dimensions, or one learned (thesis 6.6.1)."""
    return replace(config, regularizer=RegularizerConfig("comhe", projection=projection, half_space=True, **settings))


def edit(config: Config, **parts: dict[str, Any]) -> Config:
    """``config`` with fields of its parts replaced: ``edit(config, model={"conv": "sphere"})``."""
    return replace(config, **{name: replace(getattr(config, name), **values) for name, values in parts.items()})
