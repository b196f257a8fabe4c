"""Heads inside the wrappers of pytorch-metric-learning, which take losses of their own base class only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from .._core.modes import modes_kept


def metric_learning(head: nn.Module) -> Any:
    """``head`` as a loss of pytorch-metric-learning, for its ``DistributedLossWrapper`` and ``CrossBatchMemory``.

    A head compares samples with class vectors. The entries of a memory are therefore further samples with a label: they
    move the class vectors but get no gradient themselves. The loss is

        L(batch) + L(memory).

    The pairs that a miner chose weight the first term. The second term is computed in evaluation mode, so annealing
    advances once per step, and running means and centres follow the batch only. ``DistributedLossWrapper`` gathers the
    samples of all processes and multiplies the loss by the number of processes, as it does for every loss.

    Args:
        head: Any head of :mod:`hypersphere.losses`. Its parameters are parameters of the result.

    Returns:
        A ``BaseMetricLossFunction`` with ``head`` as its attribute.

    Raises:
        TypeError: If ``head`` is not a module.
        ImportError: If pytorch-metric-learning is not installed.

    Example:
        >>> from pytorch_metric_learning.losses import CrossBatchMemory  # doctest: +SKIP
        >>> loss = hs.losses.metric_learning(hs.losses.ArcFace(8, 10))  # doctest: +SKIP
        >>> memory = CrossBatchMemory(loss, embedding_size=8, memory_size=512)  # doctest: +SKIP
    """
    if not isinstance(head, nn.Module):
        raise TypeError(f"head must be a torch.nn.Module, not {type(head).__name__}")
    try:
        from pytorch_metric_learning.losses import BaseMetricLossFunction
    except ImportError as error:
        raise ImportError("this needs pytorch-metric-learning: pip install pytorch-metric-learning") from error

    def __init__(self: Any, inner: nn.Module) -> None:
        BaseMetricLossFunction.__init__(self)
        self.head = inner

    def forward(
        self: Any,
        embeddings: Tensor,
        labels: Tensor,
        indices_tuple: Sequence[Tensor] | None = None,
        ref_emb: Tensor | None = None,
        ref_labels: Tensor | None = None,
    ) -> Tensor:
        if ref_emb is None:
            return self.head(embeddings, labels, indices_tuple)
        if ref_labels is None:
            raise ValueError("ref_emb needs ref_labels: pass the labels of the reference embeddings")
        with modes_kept(self.head):  # a step counts once, and running means are of the batch
            remembered = self.head.eval()(ref_emb.detach(), ref_labels)
        return self.head(embeddings, labels, _anchors(indices_tuple)) + remembered

    def __reduce__(self: Any) -> tuple[Any, ...]:  # the class has no name by which a pickle would find it
        return metric_learning, (self.head,), self.__dict__

    # CrossBatchMemory asks for the name of the class, which must be one of a list of its own.
    own = {"__init__": __init__, "forward": forward, "__reduce__": __reduce__}
    kind = type("SupConLoss", (BaseMetricLossFunction,), own)
    kind.__qualname__, kind.__module__ = "metric_learning.<head>", __name__
    return kind(head)


def _anchors(mined: Sequence[Tensor] | None) -> Sequence[Tensor] | None:
    """The mined pairs with the anchor in place of its partner, which is a row of the memory and not of the batch."""
    if mined is None or len(mined) not in (3, 4):
        return mined  # the head raises the error
    return tuple(mined[0 if position < 2 or len(mined) == 3 else 2] for position in range(len(mined)))
