"""What energies are compared with: orthonormal, orthogonal and spectral (SRIP) penalties on hidden layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .._core.checks import check_choice, check_count
from .._core.neurons import Neurons, Patterns
from .._core.sphere import upcast
from ..functional import unit
from ._base import HiddenRegularizer, beside
from ._draws import host_generator


class Orthonormal(HiddenRegularizer):
    """weight · Σ ‖WᵀW − I‖²_F, the columns of W being the neurons (paper sec. 2.5; 1e-5 in thesis D.1).

    Args:
        model: The network; its output layer is not touched.
        weight: Factor of the sum, ≥ 0; 1e-5 in thesis D.1.
        head: A module with a ``weight`` (num_classes, dim) that is the output layer, for models that end in features.
        output_layer: The output layer of the model, by name or module; None takes the one the model declares
            (``get_classifier``, ``num_classes``, ...), else the last linear layer.
        include: Glob patterns on layer or weight names; None takes all hidden layers.
        skip: Patterns of layers that are left out.

    Shape:
        - Output: scalar.

    Example:
        >>> model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
        >>> _ = nn.init.eye_(model[0].weight)
        >>> hs.regularizers.Orthonormal(model, 1.0)().item()
        0.0
    """

    def __init__(
        self,
        model: nn.Module,
        weight: float = 1e-5,
        head: nn.Module | None = None,
        *,
        output_layer: nn.Module | str | None = None,
        include: Patterns = None,
        skip: Patterns = None,
    ) -> None:
        super().__init__(model, weight, head, output_layer=output_layer, include=include, skip=skip)

    def value(self, matrix: Tensor, neurons: Neurons) -> Tensor:
        count, dim = matrix.shape[1:]
        # ‖WᵀW − I_N‖² = ‖WWᵀ − I_d‖² + N − d: the smaller matrix will do
        gram = matrix @ matrix.mT if count <= dim else matrix.mT @ matrix
        gap = gram - torch.eye(min(count, dim), dtype=gram.dtype, device=gram.device)
        return (gap * gap).sum() + matrix.shape[0] * max(count - dim, 0)


class Orthogonal(HiddenRegularizer):
    """weight · Σ_layers Σ_{i≠j} p(w_i, w_j): pushes neurons apart and, unlike Orthonormal, does not fix their lengths.

    | ``of``                | p(w_i, w_j)                                                      |
    | --------------------- | ---------------------------------------------------------------- |
    | ``"products"``        | (w_i·w_j)², so the sum is ‖WᵀW − diag(WᵀW)‖²_F (thesis 4.5)      |
    | ``"cosines"``         | cos θ_ij, as named in thesis 5.3.7; the sum is at least −N       |
    | ``"cosines_squared"`` | cos² θ_ij, as in Rodriguez et al., whom thesis 5.3.7 cites       |

    Args:
        model: The network; its output layer is not touched.
        weight: Factor of the sum, ≥ 0; 1e-5 in thesis E.1.
        head: A module with a ``weight`` (num_classes, dim) that is the output layer, for models that end in features.
        of: What is summed over pairs: a row of the table above.
        output_layer: The output layer of the model, by name or module; None takes the one the model declares
            (``get_classifier``, ``num_classes``, ...), else the last linear layer.
        include: Glob patterns on layer or weight names; None takes all hidden layers.
        skip: Patterns of layers that are left out.

    Shape:
        - Output: scalar.

    Raises:
        ValueError: If ``of`` is unknown, or the model has no hidden layer.

    Example:
        >>> model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
        >>> _ = nn.init.eye_(model[0].weight)
        >>> hs.regularizers.Orthogonal(model, 1.0, of="cosines")().item()
        0.0
    """

    def __init__(
        self,
        model: nn.Module,
        weight: float = 1e-5,
        head: nn.Module | None = None,
        *,
        of: str = "products",
        output_layer: nn.Module | str | None = None,
        include: Patterns = None,
        skip: Patterns = None,
    ) -> None:
        super().__init__(model, weight, head, output_layer=output_layer, include=include, skip=skip)
        self.of = check_choice("of", of, ("products", "cosines", "cosines_squared"))

    def value(self, matrix: Tensor, neurons: Neurons) -> Tensor:
        if self.of == "cosines":  # Σ_{i≠j} ŵ_i·ŵ_j = ‖Σ ŵ_i‖² − N, N without zero neurons, which have no direction
            directions = unit(matrix)
            lengths = torch.linalg.vector_norm(directions.detach(), dim=-1)
            return directions.sum(-2).square().sum() - (lengths != 0).sum()
        matrix = matrix if self.of == "products" else unit(matrix)
        count, dim = matrix.shape[1:]
        if count > dim:  # such neurons are far from orthogonal: the difference is safe, and d × d instead of N × N
            gram = matrix.mT @ matrix
            return (gram * gram).sum() - (matrix * matrix).sum(-1).square().sum()
        gram = matrix @ matrix.mT
        gap = gram - torch.diag_embed(gram.diagonal(dim1=-2, dim2=-1))
        return (gap * gap).sum()


class SRIP(HiddenRegularizer):
    """weight · Σ σ(WᵀW − I), the spectral norm by power iteration (thesis Table 6.1).

    The iterated vector of each layer is in ``state_dict``; calls in training mode advance it by ``iterations``.

    Args:
        model: The network; its output layer is not touched.
        weight: Factor of the sum, ≥ 0. The thesis names none; 1e-5 is that of Orthonormal and Orthogonal.
        head: A module with a ``weight`` (num_classes, dim) that is the output layer, for models that end in features.
        iterations: Power iterations at each call; two suffice because the vector is kept from call to call.
        output_layer: The output layer of the model, by name or module; None takes the one the model declares
            (``get_classifier``, ``num_classes``, ...), else the last linear layer.
        include: Glob patterns on layer or weight names; None takes all hidden layers.
        skip: Patterns of layers that are left out.
        seed: Seed of the vector with which the power iteration starts.

    Shape:
        - Output: scalar.

    Raises:
        ValueError: If the model has no hidden layer, or ``iterations`` is below 1.

    Example:
        >>> reg = hs.regularizers.SRIP(nn.Sequential(nn.Linear(8, 6), nn.Linear(6, 3)))
        >>> reg().shape
        torch.Size([])
    """

    def __init__(
        self,
        model: nn.Module,
        weight: float = 1e-5,
        head: nn.Module | None = None,
        *,
        iterations: int = 2,
        output_layer: nn.Module | str | None = None,
        include: Patterns = None,
        skip: Patterns = None,
        seed: int = 0,
    ) -> None:
        super().__init__(model, weight, head, output_layer=output_layer, include=include, skip=skip, seed=seed)
        self.iterations = check_count("iterations", iterations)
        self._check_shapes()
        for neurons in self._hidden:
            matrix = upcast(neurons.matrix().detach())
            start = torch.randn(matrix.shape[:2], generator=host_generator(seed, neurons.name, 0), device="cpu")
            self.register_buffer(_key(neurons), unit(start).to(beside(matrix), matrix.dtype))

    def value(self, matrix: Tensor, neurons: Neurons) -> Tensor:
        keep = self.training and torch.is_grad_enabled()  # a look at the layers changes nothing
        with torch.no_grad():
            vector = self._buffer_on(_key(neurons), matrix.device).to(matrix.dtype)
            for _ in range(self.iterations if self.training else 0):
                moved = _gap_times(matrix, vector)
                vector = torch.where((moved != 0).any(-1, keepdim=True), unit(moved), vector)  # 0 would stay for ever
            if keep and not matrix.is_meta:
                self.get_buffer(_key(neurons)).copy_(vector)
        return torch.linalg.vector_norm(_gap_times(matrix, vector), dim=-1).sum()


def _gap_times(matrix: Tensor, vector: Tensor) -> Tensor:
    """(WᵀW − I)·u for each set, without the N × N matrix."""
    combined = (vector[:, None] @ matrix).mT
    return (matrix @ combined).squeeze(-1) - vector


def _key(neurons: Neurons) -> str:
    return f"vector_{neurons.name.replace('.', '__')}"
