"""Regularizers beyond the source documents: Gaussian-kernel uniformity, maximum separation, polarization."""

from __future__ import annotations

from torch import Tensor, nn

from .._core.checks import check_count, check_positive
from .._core.neurons import Neurons, Patterns
from ..functional import largest_cosine, polarization, uniformity
from ._base import HiddenRegularizer


class Uniformity(HiddenRegularizer):
    """weight · Σ_hidden log mean_{i≠j} exp(−t‖ŵ_i − ŵ_j‖²): pushes all pairs apart, close ones most.

    The uniformity of Wang and Isola 2020, applied to neurons.

    Args:
        model: The network; its output layer is not touched.
        weight: Factor of the sum over the layers, ≥ 0: the strength of the regularizer.
        head: A module with a ``weight`` (num_classes, dim) that is the output layer, for models that end in features.
        t: Sharpness of the kernel, > 0; with a large t only the closest pairs matter.
        output_layer: The output layer of the model, by name or module; None takes the one the model declares
            (``get_classifier``, ``num_classes``, ...), else the last linear layer.
        include: Glob patterns on layer or weight names; None takes all hidden layers.
        skip: Patterns of layers that are left out.

    Shape:
        - Output: scalar.

    Raises:
        ValueError: If the model has no hidden layer, or ``t`` is not positive.

    Example:
        >>> reg = hs.regularizers.Uniformity(nn.Sequential(nn.Linear(8, 6), nn.Linear(6, 3)))
        >>> bool(reg() < 0)
        True
    """

    def __init__(
        self,
        model: nn.Module,
        weight: float = 1.0,
        head: nn.Module | None = None,
        *,
        t: float = 2.0,
        output_layer: nn.Module | str | None = None,
        include: Patterns = None,
        skip: Patterns = None,
    ) -> None:
        super().__init__(model, weight, head, output_layer=output_layer, include=include, skip=skip)
        self.t = check_positive("t", t)

    def value(self, matrix: Tensor, neurons: Neurons) -> Tensor:
        return uniformity(matrix, self.t).mean()


class Separation(HiddenRegularizer):
    """weight · Σ_hidden mean_i max_{j≠i} ŵ_i·ŵ_j: moves each neuron away from its nearest one.

    Args:
        model: The network; its output layer is not touched.
        weight: Factor of the sum over the layers, ≥ 0: the strength of the regularizer.
        head: A module with a ``weight`` (num_classes, dim) that is the output layer, for models that end in features.
        output_layer: The output layer of the model, by name or module; None takes the one the model declares
            (``get_classifier``, ``num_classes``, ...), else the last linear layer.
        include: Glob patterns on layer or weight names; None takes all hidden layers.
        skip: Patterns of layers that are left out.

    Shape:
        - Output: scalar.

    Example:
        >>> reg = hs.regularizers.Separation(nn.Sequential(nn.Linear(8, 6), nn.Linear(6, 3)))
        >>> bool(reg().abs() <= 1)
        True
    """

    def __init__(
        self,
        model: nn.Module,
        weight: float = 1.0,
        head: nn.Module | None = None,
        *,
        output_layer: nn.Module | str | None = None,
        include: Patterns = None,
        skip: Patterns = None,
    ) -> None:
        super().__init__(model, weight, head, output_layer=output_layer, include=include, skip=skip)

    def value(self, matrix: Tensor, neurons: Neurons) -> Tensor:
        return largest_cosine(matrix).mean()


class Polarization(HiddenRegularizer):
    """−weight · Σ_hidden min_u mean_i ‖u − ŵ_i‖^(−s), over random directions u drawn again at each call.

    Args:
        model: The network; its output layer is not touched.
        weight: Factor of the sum over the layers, ≥ 0: the strength of the regularizer.
        head: A module with a ``weight`` (num_classes, dim) that is the output layer, for models that end in features.
        s: Power of the distance, ≥ 0 (0: the logarithm); a larger s gives near directions more weight.
        samples: Number of directions u; more find smaller holes and cost more.
        output_layer: The output layer of the model, by name or module; None takes the one the model declares
            (``get_classifier``, ``num_classes``, ...), else the last linear layer.
        include: Glob patterns on layer or weight names; None takes all hidden layers.
        skip: Patterns of layers that are left out.
        seed: Seed of the random directions at which the coverage is evaluated.

    Shape:
        - Output: scalar.

    Raises:
        ValueError: If the model has no hidden layer, or ``s`` or ``samples`` is out of range.

    Example:
        >>> reg = hs.regularizers.Polarization(nn.Sequential(nn.Linear(8, 6), nn.Linear(6, 3)))
        >>> bool(reg() < 0)
        True
    """

    def __init__(
        self,
        model: nn.Module,
        weight: float = 1.0,
        head: nn.Module | None = None,
        *,
        s: float = 2.0,
        samples: int = 256,
        output_layer: nn.Module | str | None = None,
        include: Patterns = None,
        skip: Patterns = None,
        seed: int = 0,
    ) -> None:
        super().__init__(model, weight, head, output_layer=output_layer, include=include, skip=skip, seed=seed)
        self.s = check_positive("s", s, zero=True)
        self.samples = check_count("samples", samples)

    def value(self, matrix: Tensor, neurons: Neurons) -> Tensor:
        points = self.draws(neurons.name).normal(self.samples, matrix.shape[-1]).to(matrix)
        return -polarization(matrix, points, self.s).mean()
