"""Recurrent layers whose every neuron computes h·g (paper sec. 2.4 and poster): twins of ``torch.nn``'s.

Each product of a weight matrix with an input or a state becomes f(w, ·); everything else (gates,
biases, layers, directions, dropout, projections, packed sequences) is as in ``torch.nn``. The zero
state at the start is a zero patch: it contributes 0. On a GPU the built-in h and g run as one kernel for each time
step (:mod:`hypersphere.functional.operators.recurrence`). They derive from ``nn.RNNBase`` and not from
``nn.LSTM`` and its like, which ``torch.compile`` refuses to enter.
"""

from __future__ import annotations

from typing import Any

from .._core.checks import check_choice
from ..functional.operators.decoupled import AngularRule
from .recurrent_layer import RecurrentLayer


class DecoupledRNN(RecurrentLayer):
    """h_t = tanh(f(w_x, x_t) + b_x + f(w_h, h_{t−1}) + b_h), or with relu: the twin of :class:`torch.nn.RNN`.

    f(w, x) = h(‖w‖, ‖x‖)·g(θ) as in the other layers (thesis 4.1).

    Args:
        input_size: number of entries of an input vector at each time step.
        hidden_size: number of entries of the state h, and of the output of each time step.
        num_layers: number of layers; each reads the outputs of the one below.
        nonlinearity: what is applied to the sum: ``"tanh"``, which bounds the state, or ``"relu"``.
        *args: ``bias`` (add learned b_x and b_h, default True), ``batch_first`` (inputs and outputs are (N, T, ...),
            default False), ``dropout`` (share of a layer's outputs that training sets to 0 before the next layer,
            default 0) and ``bidirectional`` (a second set of layers reads the sequence backwards, default False), in
            the order of :class:`torch.nn.RNN`.
        **kwargs: the arguments above by name, ``device`` and ``dtype`` of the parameters, and ``magnitude`` (h, default
            ``"tanh"``), ``angular`` (g, default ``"cosine"``), ``weighted`` (how ‖w‖ enters: ``"linear"``,
            ``"product"``, ``"separate"`` or, by default, None: not at all) and ``affine`` (multiply each neuron's
            output by a learned scale, default False). Every weight matrix has its own copy of h and g.

    Shape:
        - Input: (T, N, input_size), (N, T, input_size) with ``batch_first``, (T, input_size), or a packed sequence.
        - Output: like the input, with hidden_size entries (twice that if bidirectional), and the last state h.

    Raises:
        ValueError: If ``nonlinearity`` or ``weighted`` is unknown.

    Example:
        >>> hs.nn.DecoupledRNN(4, 8)(torch.randn(5, 2, 4))[0].shape
        torch.Size([5, 2, 8])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        *args: Any,
        **kwargs: Any,
    ) -> None:
        mode = f"RNN_{check_choice('nonlinearity', nonlinearity, ('tanh', 'relu')).upper()}"
        super().__init__(mode, input_size, hidden_size, num_layers, *args, **kwargs)
        self.nonlinearity = nonlinearity


class DecoupledLSTM(RecurrentLayer):
    """:class:`torch.nn.LSTM` with f(w, x) = h(‖w‖, ‖x‖)·g(θ) in place of inner products; each gate has its own neurons.

    Args:
        *args: ``input_size`` (entries of an input vector), ``hidden_size`` (entries of the state), ``num_layers`` (each
            reads the outputs of the one below, default 1), ``bias`` (add learned b_x and b_h, default True),
            ``batch_first`` (inputs and outputs are (N, T, ...), default False), ``dropout`` (share of a layer's outputs
            that training sets to 0 before the next layer, default 0), ``bidirectional`` (a second set of layers reads
            the sequence backwards, default False) and ``proj_size`` (entries to which the state is projected; 0: it is
            not), in the order of :class:`torch.nn.LSTM`.
        **kwargs: the arguments above by name, ``device`` and ``dtype`` of the parameters, and ``magnitude`` (h, default
            ``"tanh"``), ``angular`` (g, default ``"cosine"``), ``weighted`` (how ‖w‖ enters: ``"linear"``,
            ``"product"``, ``"separate"`` or, by default, None: not at all) and ``affine`` (multiply each neuron's
            output by a learned scale, default False). Every weight matrix has its own copy of h and g.

    Shape:
        - Input: (T, N, input_size), (N, T, input_size) with ``batch_first``, (T, input_size), or a packed sequence.
        - Output: like the input, with hidden_size entries (twice that if bidirectional), and the last state (h, c).

    Example:
        >>> hs.nn.DecoupledLSTM(4, 8)(torch.randn(5, 2, 4))[0].shape
        torch.Size([5, 2, 8])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)


class DecoupledGRU(RecurrentLayer):
    """:class:`torch.nn.GRU` with f(w, x) = h(‖w‖, ‖x‖)·g(θ) in place of inner products; each gate has its own neurons.

    Args:
        *args: ``input_size`` (entries of an input vector), ``hidden_size`` (entries of the state), ``num_layers`` (each
            reads the outputs of the one below, default 1), ``bias`` (add learned b_x and b_h, default True),
            ``batch_first`` (inputs and outputs are (N, T, ...), default False), ``dropout`` (share of a layer's outputs
            that training sets to 0 before the next layer, default 0) and ``bidirectional`` (a second set of layers
            reads the sequence backwards, default False), in the order of :class:`torch.nn.GRU`.
        **kwargs: the arguments above by name, ``device`` and ``dtype`` of the parameters, and ``magnitude`` (h, default
            ``"tanh"``), ``angular`` (g, default ``"cosine"``), ``weighted`` (how ‖w‖ enters: ``"linear"``,
            ``"product"``, ``"separate"`` or, by default, None: not at all) and ``affine`` (multiply each neuron's
            output by a learned scale, default False). Every weight matrix has its own copy of h and g.

    Shape:
        - Input: (T, N, input_size), (N, T, input_size) with ``batch_first``, (T, input_size), or a packed sequence.
        - Output: like the input, with hidden_size entries (twice that if bidirectional), and the last state h.

    Example:
        >>> hs.nn.DecoupledGRU(4, 8)(torch.randn(5, 2, 4))[0].shape
        torch.Size([5, 2, 8])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("GRU", *args, **kwargs)


class SphereRNN(DecoupledRNN):
    """:class:`torch.nn.RNN` with g(θ) in place of every inner product (paper sec. 2.4).

    Args:
        *args: ``input_size`` (entries of an input vector), ``hidden_size`` (entries of the state), ``num_layers`` (each
            reads the outputs of the one below, default 1), ``nonlinearity`` (``"tanh"`` or ``"relu"``), ``bias`` (add
            learned b_x and b_h, default True), ``batch_first`` (inputs and outputs are (N, T, ...), default False),
            ``dropout`` (share of a layer's outputs that training sets to 0 before the next layer, default 0) and
            ``bidirectional`` (a second set of layers reads the sequence backwards, default False), in the order of
            :class:`torch.nn.RNN`.
        angular: g, a name or an object of :mod:`hypersphere.angular`; every weight matrix has its own copy.
        affine: multiply the output of each neuron by a learned scale.
        **kwargs: the arguments above by name, and ``device`` and ``dtype`` of the parameters.

    Shape:
        - Input: (T, N, input_size), (N, T, input_size) with ``batch_first``, (T, input_size), or a packed sequence.
        - Output: like the input, with hidden_size entries (twice that if bidirectional), and the last state h.

    Example:
        >>> hs.nn.SphereRNN(4, 8)(torch.randn(5, 2, 4))[0].shape
        torch.Size([5, 2, 8])
    """

    def __init__(self, *args: Any, angular: str | AngularRule = "cosine", affine: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, magnitude="sphere", weighted=None, angular=angular, affine=affine, **kwargs)


class SphereLSTM(DecoupledLSTM):
    """:class:`torch.nn.LSTM` with g(θ) in place of every inner product (paper sec. 2.4).

    Args:
        *args: ``input_size`` (entries of an input vector), ``hidden_size`` (entries of the state), ``num_layers`` (each
            reads the outputs of the one below, default 1), ``bias`` (add learned b_x and b_h, default True),
            ``batch_first`` (inputs and outputs are (N, T, ...), default False), ``dropout`` (share of a layer's outputs
            that training sets to 0 before the next layer, default 0), ``bidirectional`` (a second set of layers reads
            the sequence backwards, default False) and ``proj_size`` (entries to which the state is projected; 0: it is
            not), in the order of :class:`torch.nn.LSTM`.
        angular: g, a name or an object of :mod:`hypersphere.angular`; every weight matrix has its own copy.
        affine: multiply the output of each neuron by a learned scale.
        **kwargs: the arguments above by name, and ``device`` and ``dtype`` of the parameters.

    Shape:
        - Input: (T, N, input_size), (N, T, input_size) with ``batch_first``, (T, input_size), or a packed sequence.
        - Output: like the input, with hidden_size entries (twice that if bidirectional), and the last state (h, c).

    Example:
        >>> hs.nn.SphereLSTM(4, 8)(torch.randn(5, 2, 4))[0].shape
        torch.Size([5, 2, 8])
    """

    def __init__(self, *args: Any, angular: str | AngularRule = "cosine", affine: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, magnitude="sphere", weighted=None, angular=angular, affine=affine, **kwargs)


class SphereGRU(DecoupledGRU):
    """:class:`torch.nn.GRU` with g(θ) in place of every inner product (paper sec. 2.4).

    Args:
        *args: ``input_size`` (entries of an input vector), ``hidden_size`` (entries of the state), ``num_layers`` (each
            reads the outputs of the one below, default 1), ``bias`` (add learned b_x and b_h, default True),
            ``batch_first`` (inputs and outputs are (N, T, ...), default False), ``dropout`` (share of a layer's outputs
            that training sets to 0 before the next layer, default 0) and ``bidirectional`` (a second set of layers
            reads the sequence backwards, default False), in the order of :class:`torch.nn.GRU`.
        angular: g, a name or an object of :mod:`hypersphere.angular`; every weight matrix has its own copy.
        affine: multiply the output of each neuron by a learned scale.
        **kwargs: the arguments above by name, and ``device`` and ``dtype`` of the parameters.

    Shape:
        - Input: (T, N, input_size), (N, T, input_size) with ``batch_first``, (T, input_size), or a packed sequence.
        - Output: like the input, with hidden_size entries (twice that if bidirectional), and the last state h.

    Example:
        >>> hs.nn.SphereGRU(4, 8)(torch.randn(5, 2, 4))[0].shape
        torch.Size([5, 2, 8])
    """

    def __init__(self, *args: Any, angular: str | AngularRule = "cosine", affine: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, magnitude="sphere", weighted=None, angular=angular, affine=affine, **kwargs)
