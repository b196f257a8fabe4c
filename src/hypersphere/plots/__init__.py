"""Pictures of features, neurons, curves and results: each function returns a ``matplotlib.figure.Figure``.

The functions take tensors, NumPy arrays and lists. Labels may be names, and ``ax=`` draws on axes of yours. A notebook
shows the figure that is returned; ``figure.savefig("name.png")`` saves it.

Matplotlib (``pip install hypersphere[plots]``) is imported only when a function is called. No function touches pyplot,
the backend or matplotlib's settings.
"""

from typing import Any

from .._core.registries import PLOTS
from .angles import angle_distributions
from .classes import class_biases, class_norms
from .conditioning import condition_numbers
from .confusion import confusion_matrix, cosine_confusion_matrix
from .curves import angular_curves, magnitude_curves, psi_curves
from .energies import layer_energies
from .features import features_2d, features_3d
from .first_layer import filters
from .learned import learned_k, learned_rho
from .learning import energy_curves, learning_curves
from .perturbations import perturbation_sizes
from .ranking import cmc, roc
from .trajectories import neuron_trajectories, weighted_neuron_trajectories

__all__ = [
    "angle_distributions",
    "angular_curves",
    "class_biases",
    "class_norms",
    "cmc",
    "condition_numbers",
    "confusion_matrix",
    "cosine_confusion_matrix",
    "energy_curves",
    "features_2d",
    "features_3d",
    "filters",
    "layer_energies",
    "learned_k",
    "learned_rho",
    "learning_curves",
    "magnitude_curves",
    "neuron_trajectories",
    "perturbation_sizes",
    "psi_curves",
    "roc",
    "weighted_neuron_trajectories",
]


def __getattr__(name: str) -> Any:
    """A plot that a user has registered."""
    if name not in PLOTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return PLOTS[name]
