"""The settings of a run: a frozen dataclass for each group of the command line, and the engine that reads them.

``Config()`` holds a group of each kind. ``with_values(config, {"optim.lr": 0.1})`` changes dotted names, as
``--optim.lr 0.1`` does on the command line.
"""

from .adversarial import AdversarialConfig
from .command_line import add_arguments, overridden
from .config import Config
from .data import DataConfig
from .evaluation import EvaluationConfig
from .file import read_values, settings
from .gan import GanConfig
from .idle import check_used
from .loss import LossConfig
from .model import ModelConfig
from .optim import OptimConfig
from .options import about, changed, from_dict, material, option, to_dict, with_values
from .orthogonal import OrthogonalConfig
from .reading import read_text
from .regularizer import RegularizerConfig
from .run import RunConfig
from .schedule import ScheduleConfig

__all__ = [
    "AdversarialConfig",
    "Config",
    "DataConfig",
    "EvaluationConfig",
    "GanConfig",
    "LossConfig",
    "ModelConfig",
    "OptimConfig",
    "OrthogonalConfig",
    "RegularizerConfig",
    "RunConfig",
    "ScheduleConfig",
    "about",
    "add_arguments",
    "changed",
    "check_used",
    "from_dict",
    "material",
    "option",
    "overridden",
    "read_text",
    "read_values",
    "settings",
    "to_dict",
    "with_values",
]
