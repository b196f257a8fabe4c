"""The training program: typed settings in, a run folder out.

``run(config)`` trains; ``load(folder)`` gives the trained network; settings are the dataclasses below.
"""

from .adversary import AdversarialConfig
from .config import Config, RunConfig
from .data import DataConfig
from .gan.config import GanConfig
from .gan.objective import Gan
from .loading import load
from .measures import EvaluationConfig
from .model import ModelConfig, OrthogonalConfig
from .objective import Classifier, LossConfig
from .optimizer import OptimConfig
from .options import from_dict, to_dict, with_values
from .penalty import RegularizerConfig
from .run import run
from .runs import Run
from .schedule import ScheduleConfig
from .training import Stopped

__all__ = [
    "AdversarialConfig",
    "Classifier",
    "Config",
    "DataConfig",
    "EvaluationConfig",
    "Gan",
    "GanConfig",
    "LossConfig",
    "ModelConfig",
    "OptimConfig",
    "OrthogonalConfig",
    "RegularizerConfig",
    "Run",
    "RunConfig",
    "ScheduleConfig",
    "Stopped",
    "from_dict",
    "load",
    "run",
    "to_dict",
    "with_values",
]
