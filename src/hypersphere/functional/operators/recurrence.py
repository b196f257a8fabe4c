"""States of a recurrent layer: h_t = gates(u_t, v_t) with u_t = f(w_x, x_t) + b_x and v_t = f(w_h, h_{t−1}) + b_h.

:func:`unroll` is the definition, step by step in differentiable operations. :func:`fused` is the same as one node of
the graph, on the kernels of :mod:`hypersphere.kernels.recurrent`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..._core.modes import differentiated, is_plain_eager, needs_definition
from ...kernels import recurrent as kernels
from ...kernels import usable
from ...kernels.recurrent import Settings, Tensors
from ..angular import AngularForm
from ..magnitude import MagnitudeForm
from .decoupled import Kernel, decouple
from .geometry import Geometry

State = tuple[Tensor, ...]
_DIFFERENTIABLE = 9  # the first of ``Tensors``


def unroll(
    pre: Tensor,
    start: State,
    sizes: Sequence[int],
    reverse: bool,
    mode: str,
    recurrent: Callable[[Tensor, int], Tensor],
    project: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Tensor, ...]:
    """The hidden states of all steps, and the cells of an LSTM, in the order of time.

    Args:
        pre: u of all steps, (Σ sizes, gates·units).
        start: (h_0,) or (h_0, c_0), each (batch, units).
        sizes: Rows of each step; the longest sequences come first, so that they do not increase.
        reverse: Whether time runs backwards.
        mode: That of ``nn.RNNBase``.
        recurrent: v of a state (rows, units) at a time.
        project: What an LSTM with projections makes of its output.
    """
    inputs = pre.split(list(sizes))
    steps = range(len(sizes))[:: -1 if reverse else 1]
    state = tuple(part[: sizes[steps[0]]] for part in start)
    found: list[State] = [()] * len(sizes)
    for t in steps:
        alive = state[0].shape[0]
        if sizes[t] < alive:
            state = tuple(part[: sizes[t]] for part in state)
        elif sizes[t] > alive:
            state = tuple(torch.cat((s, s0[alive : sizes[t]])) for s, s0 in zip(state, start, strict=True))
        state = found[t] = _step(mode, inputs[t], recurrent(state[0], t), state, project)
    return tuple(torch.cat(parts) for parts in zip(*found, strict=True))


def _step(
    mode: str, from_input: Tensor, from_state: Tensor, state: State, project: Callable[[Tensor], Tensor] | None
) -> State:
    if mode == "LSTM":
        i, f, g, o = (from_input + from_state).chunk(4, -1)
        cell = torch.sigmoid(f) * state[1].to(f.dtype) + torch.sigmoid(i) * torch.tanh(g)
        hidden = torch.sigmoid(o) * torch.tanh(cell)
        return hidden if project is None else project(hidden), cell
    if mode == "GRU":
        (r_x, z_x, n_x), (r_h, z_h, n_h) = from_input.chunk(3, -1), from_state.chunk(3, -1)
        update = torch.sigmoid(z_x + z_h)
        candidate = torch.tanh(n_x + torch.sigmoid(r_x + r_h) * n_h)
        return (candidate + update * (state[0].to(candidate.dtype) - candidate),)
    total = from_input + from_state
    return (torch.tanh(total) if mode == "RNN_TANH" else torch.relu(total),)


def ends(rows: Tensor, sizes: Sequence[int], reverse: bool) -> Tensor:
    """The last row of every sequence, out of the rows of all steps."""
    if reverse or len(sizes) == 1:
        return rows[: sizes[0]]
    last = rows.shape[0]  # len would be a constant of an exported graph
    pieces = [rows[last - sizes[-1] :]]
    for t in range(len(sizes) - 1, 0, -1):  # sequences that end one step earlier
        last -= sizes[t]
        if sizes[t - 1] > sizes[t]:
            pieces.append(rows[last - sizes[t - 1] + sizes[t] : last])
    return torch.cat(pieces) if len(pieces) > 1 else pieces[0]


def runs_fused(t: Tensors) -> bool:
    """Whether kernels compute these states: on a GPU, outside compilers and transforms, for a batch with rows."""
    given = [tensor for tensor in t if tensor is not None]
    return (
        t.pre.numel() > 0
        and usable(t.pre, "recurrent")
        and t.weight.dtype == t.pre.dtype
        and all(tensor.device == t.pre.device for tensor in given)
        and is_plain_eager(*given)
    )


def fused(t: Tensors, settings: Settings, sizes: Sequence[int], reverse: bool) -> tuple[Tensor, ...]:
    """:func:`unroll` of these neurons as one node: few launches, little kept for backward."""
    t = Tensors._make(None if tensor is None else tensor.contiguous() for tensor in t)
    rows = tuple(sizes)
    if torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in t[:_DIFFERENTIABLE]):
        return _Recurrence.apply(*t, settings, rows, reverse)
    return _steps_of(kernels.forward(t, settings, rows, reverse, keep=False), t, reverse)


def _steps_of(kept: kernels.Kept, t: Tensors, reverse: bool) -> tuple[Tensor, ...]:
    """States and cells without the start."""
    total, batch = t.pre.shape[0], t.hidden.shape[0]
    part = slice(0, total) if reverse else slice(batch, None)
    return tuple(states[part] for states in (kept.states, kept.cells) if states is not None)


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, ...]:
        count = len(Tensors._fields)
        t, (settings, sizes, reverse) = Tensors._make(arguments[:count]), arguments[count:]
        kept = kernels.forward(t, settings, sizes, reverse, keep=True)
        ctx.options = settings, sizes, reverse
        ctx.buffers = t[_DIFFERENTIABLE:]
        ctx.save_for_backward(*t[:_DIFFERENTIABLE], *kept)
        ctx.set_materialize_grads(False)
        return _steps_of(kept, t, reverse)

    @staticmethod
    def backward(ctx: Any, dout: Tensor | None, dcells: Tensor | None = None) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        t, kept = Tensors(*saved[:_DIFFERENTIABLE], *ctx.buffers), kernels.Kept(*saved[_DIFFERENTIABLE:])
        need = ctx.needs_input_grad[:_DIFFERENTIABLE]
        nothing = (None,) * (len(ctx.needs_input_grad) - _DIFFERENTIABLE)
        if needs_definition(dout, dcells):
            settings, sizes, reverse = ctx.options

            def define(*tensors: Any) -> tuple[Tensor, ...]:
                t = Tensors(*tensors)
                start = (t.hidden,) if t.cell is None else (t.hidden, t.cell)
                return unroll(t.pre, start, sizes, reverse, settings.mode, _neurons(t, settings, kept.means))

            return (*differentiated(define, t, need, (dout, dcells)), *nothing)
        if dout is None:
            dout = kept.states.new_zeros((t.pre.shape[0], t.hidden.shape[1]))
        dcells = dcells if dcells is None else dcells.contiguous()
        settings, sizes, reverse = ctx.options
        found = kernels.backward(t, settings, sizes, reverse, kept, dout.contiguous(), dcells, need)
        return (*(grad if needed else None for grad, needed in zip(found, need, strict=True)), *nothing)


def _neurons(t: Tensors, settings: Settings, means: Tensor | None) -> Callable[[Tensor, int], Tensor]:
    """v of a state at a time, by differentiable operations; the mean norms are those that forward found."""
    kernel = Kernel(t.weight, t.length, t.mult, settings.shift)
    angular = AngularForm(settings.angular, settings.k if t.k is None else t.k)
    rho = settings.rho if t.rho is None else t.rho

    def apply(rows: Tensor, time: int) -> Tensor:
        radius = rho if means is None else rho * means[time]
        rule = MagnitudeForm(settings.magnitude, settings.alpha, settings.beta, radius)
        out = decouple(rows, t.weight, Geometry(()), rule, angular, None, kernel)
        return out if t.bias is None else out + t.bias.to(out.dtype)

    return apply
