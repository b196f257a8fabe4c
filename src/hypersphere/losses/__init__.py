"""Losses on the sphere: heads that own their class vectors. ``head(features, labels)`` is the training loss."""

from .._core.registries import HEADS
from . import registry  # noqa: F401  (declares the heads)
from .adaptive import AdaFace, CurricularFace, ElasticFace, MagFace
from .annealing import Annealing, MarginSchedule, MarginWarmup
from .center import CenterLoss
from .face import AMSoftmax, ArcFace, CosFace, SphereFaceR, SubcenterArcFace
from .fitting import fitting_margin, fitting_scale
from .floored import FlooredSoftmax
from .margin_softmax import MarginSoftmax
from .metric_learning import metric_learning
from .pairs import ContrastiveLoss, TripletLoss
from .sample import Sample
from .shard import shard
from .softmax import ASoftmax, GASoftmax, LSoftmax, Softmax, SphereFace, SSoftmax, WSoftmax
from .sphereface2 import SphereFace2
from .sphereface_plus import SphereFacePlus

__all__ = [
    "HEADS",
    "AMSoftmax",
    "ASoftmax",
    "AdaFace",
    "Annealing",
    "ArcFace",
    "CenterLoss",
    "ContrastiveLoss",
    "CosFace",
    "CurricularFace",
    "ElasticFace",
    "FlooredSoftmax",
    "GASoftmax",
    "LSoftmax",
    "MagFace",
    "MarginSchedule",
    "MarginSoftmax",
    "MarginWarmup",
    "SSoftmax",
    "Sample",
    "Softmax",
    "SphereFace",
    "SphereFace2",
    "SphereFacePlus",
    "SphereFaceR",
    "SubcenterArcFace",
    "TripletLoss",
    "WSoftmax",
    "fitting_margin",
    "fitting_scale",
    "metric_learning",
    "shard",
]
