"""The training program: it takes typed settings and writes a run folder.

``run(config)`` trains; ``load(folder)`` gives the trained network; settings are the dataclasses below.
"""

from ..config import (
    AdversarialConfig,
    Config,
    DataConfig,
    EvaluationConfig,
    GanConfig,
    LossConfig,
    ModelConfig,
    OptimConfig,
    OrthogonalConfig,
    RegularizerConfig,
    RunConfig,
    ScheduleConfig,
    from_dict,
    to_dict,
    with_values,
)
from ..runs import Classifier, Gan, Run, load
from .at_once import Job, Outcome, run_at_once
from .callbacks import Callback, Started
from .launch import run
from .stopped import Stopped

__all__ = [
    "AdversarialConfig",
    "Callback",
    "Classifier",
    "Config",
    "DataConfig",
    "EvaluationConfig",
    "Gan",
    "GanConfig",
    "Job",
    "LossConfig",
    "ModelConfig",
    "OptimConfig",
    "OrthogonalConfig",
    "Outcome",
    "RegularizerConfig",
    "Run",
    "RunConfig",
    "ScheduleConfig",
    "Started",
    "Stopped",
    "from_dict",
    "load",
    "run",
    "run_at_once",
    "to_dict",
    "with_values",
]
