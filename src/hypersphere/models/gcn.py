"""Graph convolutional networks (thesis E.24)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .._core.checks import check_count
from .._core.errors import check_floating
from .._core.modes import without_autocast
from .entry import Entry
from .slots import Slots


class GCN(nn.Module):
    """Z = Â·act(Â·X·W₀)·W₁ (thesis E.24; the softmax belongs to the loss).

    Any operator may replace X·W₀. Dropout acts on the input of each layer, as in Kipf and Welling. If X is sparse, it
    acts on the nonzero entries, which is equivalent.

    Args:
        in_features: number of features of a node (Cora 1433, Citeseer 3703, Pubmed 500).
        hidden: size of each hidden layer; the last one is the embedding.
        num_classes: columns of the classifier W₁, 0 for none.
        slots: operators, normalisation and activation of all layers (:class:`Slots`).
        dropout: probability with which an input of a layer is set to 0, in [0, 1).

    Shape:
        - x: (N, in_features), dense or sparse; adjacency: (N, N).
        - Output: (N, num_classes).

    Raises:
        ValueError: If ``dropout`` is outside [0, 1), or a size is below 1.

    Example:
        >>> net = hs.models.GCN(8, 16, num_classes=3, slots=hs.models.Slots(norm="none"))
        >>> net(torch.randn(5, 8), hs.models.normalize_adjacency(torch.ones(5, 5))).shape
        torch.Size([5, 3])
    """

    def __init__(
        self, in_features: int, hidden: int | Sequence[int], num_classes: int, slots: Slots, dropout: float = 0.5
    ) -> None:
        super().__init__()
        sizes = [hidden] if isinstance(hidden, int) else list(hidden)
        sizes = [check_count("in_features", in_features), *(check_count("hidden", size) for size in sizes)]
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout={dropout!r} must be in [0, 1)")
        self.dropout, self.feature_dim, self.num_classes = dropout, sizes[-1], num_classes
        self.layers = nn.ModuleList(slots.operator("Linear", *pair) for pair in pairwise(sizes))
        self.norms = nn.ModuleList(slots.normalization(size, dim=0) for size in sizes[1:])
        self.acts = nn.ModuleList(slots.nonlinearity(size) for size in sizes[1:])
        self.classifier = slots.classifier(self.feature_dim, num_classes)

    def features(self, x: Tensor, adjacency: Tensor) -> Tensor:
        """Compute the embedding of each node.

        Args:
            x: features of the nodes, dense or sparse.
            adjacency: Â of :func:`normalize_adjacency`, dense or sparse.

        Returns:
            The embeddings of the nodes, ``(N, feature_dim)``.
        """
        for layer, norm, act in zip(self.layers, self.norms, self.acts, strict=True):
            x = act(norm(_propagate(adjacency, self._apply_layer(layer, x))))
        return x

    def _apply_layer(self, layer: nn.Module, x: Tensor) -> Tensor:
        if x.layout == torch.strided:
            return layer(F.dropout(x, self.dropout, self.training))
        x = x.to_sparse_coo().coalesce()
        values = F.dropout(x.values(), self.dropout, self.training)
        x = torch.sparse_coo_tensor(
            x.indices(), values, x.shape, is_coalesced=True, check_invariants=False, device=x.device
        )
        if isinstance(layer, nn.Linear) and type(layer).forward is nn.Linear.forward:  # also where OPT makes its weight
            out = _propagate(x, layer.weight.mT)  # the zeros of X cost nothing
            return out if layer.bias is None else out + layer.bias
        out = layer(x.to_dense())
        return out

    def forward_features(self, x: Tensor, adjacency: Tensor) -> Tensor:
        """Compute the same as :meth:`features`, under timm's name.

        Args:
            x: features of the nodes, dense or sparse.
            adjacency: Â of :func:`normalize_adjacency`, dense or sparse.

        Returns:
            The embeddings of the nodes, ``(N, feature_dim)``.
        """
        return self.features(x, adjacency)

    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        """Compute the class scores of each node.

        Args:
            x: features of the nodes, dense or sparse.
            adjacency: Â of :func:`normalize_adjacency`, dense or sparse.

        Returns:
            ``(N, num_classes)``, or the embedding for ``num_classes=0``.
        """
        x = self.features(x, adjacency)
        if self.num_classes == 0:
            return x
        return _propagate(adjacency, self.classifier(F.dropout(x, self.dropout, self.training)))


def normalize_adjacency(adjacency: Tensor) -> Tensor:
    """Â = D^(−1/2)·Ã·D^(−1/2), Ã = A + I, D_ii = Σ_j Ã_ij.

    The thesis prints D^(1/2), a misprint.

    Args:
        adjacency: A, dense, sparse COO or sparse CSR, with weights ≥ 0.

    Returns:
        The normalised matrix Â, sparse or dense as the input is.

    Raises:
        ValueError: If ``adjacency`` is not square, or has weights that are negative or not finite.

    Example:
        >>> hs.models.normalize_adjacency(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
        tensor([[0.5000, 0.5000],
                [0.5000, 0.5000]])
    """
    check_floating("adjacency", adjacency)
    if adjacency.dim() != 2 or adjacency.shape[0] != adjacency.shape[1]:
        raise ValueError(f"adjacency has shape {tuple(adjacency.shape)}: pass a square matrix")
    if adjacency.layout == torch.strided:
        _check_weights(adjacency)
        with_loops = adjacency + torch.eye(len(adjacency), dtype=adjacency.dtype, device=adjacency.device)
        scale = with_loops.sum(1).rsqrt()
        return scale[:, None] * with_loops * scale
    pairs = adjacency.to_sparse_coo().coalesce()
    _check_weights(pairs.values())
    nodes = torch.arange(len(adjacency), device=adjacency.device)
    index = torch.cat([pairs.indices(), nodes.expand(2, -1)], 1)
    values = torch.cat([pairs.values(), torch.ones_like(nodes, dtype=adjacency.dtype)])
    scale = torch.zeros_like(nodes, dtype=adjacency.dtype).index_add(0, index[0], values).rsqrt()
    values = scale[index[0]] * values * scale[index[1]]
    out = torch.sparse_coo_tensor(index, values, adjacency.shape, check_invariants=True, device=index.device).coalesce()
    return out.to_sparse_csr() if adjacency.layout == torch.sparse_csr else out


def _propagate(adjacency: Tensor, x: Tensor) -> Tensor:
    """Â·x, in the precision of Â also under autocast (sparse products know no half precision)."""
    with without_autocast(x.device):
        return adjacency @ x.to(adjacency.dtype)


def _check_weights(values: Tensor) -> None:
    if not bool((values >= 0).all() and values.isfinite().all()):
        raise ValueError("adjacency has negative weights, or NaN or infinite ones: D^(−1/2) is not defined for them")


# Cora's sizes; Glorot initialisation and no biases, as Kipf and Welling have it
_DEFAULTS = {"in_features": 1433, "hidden": 16, "num_classes": 7, "norm": "none", "init": "xavier"}
_DEFAULTS |= {"bias": False, "classifier_bias": False}
MODELS: dict[str, Entry] = {"gcn": Entry(GCN, "thesis E.24, Tables 7.11 and E.6", {}, _DEFAULTS)}
