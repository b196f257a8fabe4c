"""The settings of a training run: one frozen dataclass that holds a group for each part of the command line."""

from __future__ import annotations

from dataclasses import dataclass, field

from .adversarial import AdversarialConfig
from .data import DataConfig
from .evaluation import EvaluationConfig
from .gan import GanConfig
from .loss import LossConfig
from .model import ModelConfig
from .optim import OptimConfig
from .orthogonal import OrthogonalConfig
from .regularizer import RegularizerConfig
from .run import RunConfig
from .schedule import ScheduleConfig


@dataclass(frozen=True)
class Config:
    """All settings of a training run, a group for each part of the command line.

    Change one with ``dataclasses.replace``, or with :func:`hypersphere.config.with_values` for dotted names.

    Attributes:
        recipe: Name of the recipe that the settings came from.
        data: The data set, its batches and its augmentation.
        model: The network: its name, widths, operators, normalisation and activation.
        loss: The loss, and the head if it has its own class vectors.
        regularizer: A penalty on the directions of the neurons.
        orthogonal: Orthogonal over-parameterized training: which map R comes from, how it starts; off by default.
        optim: The optimizer, its rates and weight decay, and weight projection.
        schedule: Number of steps, and the learning rate at each.
        adversarial: Adversarial training, and the budget of attacks.
        gan: A generator trained against the network.
        evaluation: How the network is evaluated during training and at its end.
        run: Device, precision, seeds, folder, and how often to log, evaluate and save.

    Example:
        >>> from hypersphere.config import Config, with_values
        >>> with_values(Config(), {"optim.lr": 0.1}).optim.lr
        0.1
    """

    recipe: str = "custom"
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    regularizer: RegularizerConfig = field(default_factory=RegularizerConfig)
    orthogonal: OrthogonalConfig = field(default_factory=OrthogonalConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    adversarial: AdversarialConfig = field(default_factory=AdversarialConfig)
    gan: GanConfig = field(default_factory=GanConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    run: RunConfig = field(default_factory=RunConfig)
