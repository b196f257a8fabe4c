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

__all__ = ["Config"]


@dataclass(frozen=True)
class Config:
    """A training run. ``recipe`` names where the settings came from; the rest says everything that is done.

    Change one with ``dataclasses.replace``, or :func:`hypersphere.config.with_values` for dotted names.
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
