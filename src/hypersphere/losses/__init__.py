"""Objectives on the sphere: heads that own their class vectors, ``head(features, labels)`` → loss."""

from .annealing import Annealing, MarginSchedule, MarginWarmup
from .center import CenterLoss
from .face import AMSoftmax, ArcFace, CosFace, SphereFaceR
from .margin_softmax import MarginSoftmax
from .pairs import ContrastiveLoss, TripletLoss
from .registry import HEADS
from .softmax import ASoftmax, GASoftmax, LSoftmax, Softmax, SphereFace, SSoftmax, WSoftmax
from .sphereface2 import SphereFace2
from .sphereface_plus import SphereFacePlus

__all__ = [
    "HEADS",
    "AMSoftmax",
    "ASoftmax",
    "Annealing",
    "ArcFace",
    "CenterLoss",
    "ContrastiveLoss",
    "CosFace",
    "GASoftmax",
    "LSoftmax",
    "MarginSchedule",
    "MarginSoftmax",
    "MarginWarmup",
    "SSoftmax",
    "Softmax",
    "SphereFace",
    "SphereFace2",
    "SphereFacePlus",
    "SphereFaceR",
    "TripletLoss",
    "WSoftmax",
]
