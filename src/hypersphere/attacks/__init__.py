"""Attacks on classifiers within a ball around the input, accuracy under them, and batches to train against them.

Attacks work on whole batches; a model's modes, gradients and running statistics stay as they are.
"""

from ._deepfool import deepfool
from ._pixels import Pixels, pixels
from ._robustness import Robustness, robust_accuracy
from ._sign import bim, fgsm
from ._training import adversarial_batch

__all__ = ["Pixels", "Robustness", "adversarial_batch", "bim", "deepfool", "fgsm", "pixels", "robust_accuracy"]
