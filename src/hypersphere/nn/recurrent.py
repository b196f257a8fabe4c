"""Recurrent layers whose every neuron computes h·g (paper sec. 2.4 and poster): twins of ``torch.nn``'s.

Each product of a weight matrix with an input or a state becomes f(w, ·); everything else (gates,
biases, layers, directions, dropout, projections, packed sequences) is as in ``torch.nn``. The zero
state at the start is a zero patch: it contributes 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from .. import angular as angular_module
from .. import magnitude as magnitude_module
from .._errors import check_choice
from ..functional._decoupled import WEIGHTED, AngularRule, MagnitudeRule, decoupled_linear
from ._layer import own

__all__ = ["DecoupledGRU", "DecoupledLSTM", "DecoupledRNN", "SphereGRU", "SphereLSTM", "SphereRNN"]

State = tuple[Tensor, ...]


class _Rules(nn.Module):
    """The h and g of one weight matrix, and its rescaling."""

    def __init__(self, channels: int, magnitude: Any, angular: Any, affine: bool, device: Any, dtype: Any) -> None:
        super().__init__()
        self.magnitude = own(magnitude, channels, device, dtype)
        self.angular = own(angular, channels, device, dtype)
        self.scale = nn.Parameter(torch.ones(channels, device=device, dtype=dtype)) if affine else None


class _DecoupledRNN(nn.RNNBase):
    """Args are those of the ``torch.nn`` layer, and

    magnitude, angular, weighted: as in :class:`DecoupledConv2d`; every weight matrix has its own copy.
    affine: a learnable scale per gate neuron (its shift is the layer's bias).
    """

    weighted: str | None

    def __init__(
        self,
        *args: Any,
        magnitude: str | MagnitudeRule = "tanh",
        angular: str | AngularRule = "cosine",
        weighted: str | None = None,
        affine: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        h, g = magnitude_module.resolve(magnitude), angular_module.resolve(angular)
        self.weighted = weighted if weighted is None else check_choice("weighted", weighted, WEIGHTED)
        self.affine = affine
        self.rules = nn.ModuleDict()
        for name in (name for names in self._all_weights for name in names if name.startswith("weight")):
            weight: Tensor = getattr(self, name)
            self.rules[name] = _Rules(weight.shape[0], h, g, affine, weight.device, weight.dtype)

    def flatten_parameters(self) -> None:
        """Nothing to do: there is no cuDNN call whose layout the weights would have to match."""

    def extra_repr(self) -> str:
        parts = [super().extra_repr()]
        parts += [f"weighted={self.weighted!r}"] if self.weighted else []
        parts += ["affine=True"] if self.affine else []
        return ", ".join(parts)

    def forward(self, input: Any, hx: Any = None) -> Any:
        packed = isinstance(input, PackedSequence)
        data, sizes, unbatched = _as_packed(input, self.batch_first)
        states = self._initial_states(hx, data, sizes[0], unbatched, input.sorted_indices if packed else None)
        final: list[State] = []
        for layer in range(self.num_layers):
            outputs = []
            for direction in range(2 if self.bidirectional else 1):
                index = layer * (2 if self.bidirectional else 1) + direction
                start = tuple(state[index] for state in states)
                output, end = self._run(data, sizes, start, layer, direction)
                outputs.append(output)
                final.append(end)
            data = torch.cat(outputs, -1)
            if self.dropout and self.training and layer + 1 < self.num_layers:
                data = F.dropout(data, self.dropout)
        ends = tuple(torch.stack(parts) for parts in zip(*final, strict=True))
        if packed:
            ends = tuple(_permuted(end, input.unsorted_indices) for end in ends)
            result: Any = PackedSequence(data, input.batch_sizes, input.sorted_indices, input.unsorted_indices)
        else:
            result = data.unflatten(0, (len(sizes), sizes[0]))
            result = result.squeeze(1) if unbatched else result.transpose(0, 1) if self.batch_first else result
            ends = tuple(end.squeeze(1) for end in ends) if unbatched else ends
        return result, ends if self.mode == "LSTM" else ends[0]

    def _initial_states(
        self, hx: Any, data: Tensor, batch: int, unbatched: bool, sorted_indices: Tensor | None
    ) -> tuple[Tensor, ...]:
        count = self.num_layers * (2 if self.bidirectional else 1)
        widths = (self.proj_size or self.hidden_size, self.hidden_size)[: 2 if self.mode == "LSTM" else 1]
        if data.shape[-1] != self.input_size:
            raise ValueError(f"input has {data.shape[-1]} features, but input_size={self.input_size}")
        if hx is None:
            return tuple(data.new_zeros(count, batch, width) for width in widths)
        given = tuple(hx) if self.mode == "LSTM" else (hx,)
        if unbatched:
            given = tuple(state.unsqueeze(1) for state in given)
        expected = [(count, batch, width) for width in widths]
        if [tuple(state.shape) for state in given] != expected:
            shapes = [tuple(state.shape) for state in given]
            raise ValueError(f"hx has shape {shapes}, but must have {expected}")
        return tuple(_permuted(state, sorted_indices) for state in given)

    def _run(
        self, data: Tensor, sizes: Sequence[int], start: State, layer: int, direction: int
    ) -> tuple[Tensor, State]:
        """One layer in one direction over (Σ sizes, features), the longest sequences first."""
        suffix = f"_l{layer}{'_reverse' if direction else ''}"
        inputs = self._neurons(data, f"weight_ih{suffix}", f"bias_ih{suffix}").split(list(sizes))
        steps = range(len(sizes) - 1, -1, -1) if direction else range(len(sizes))
        state = tuple(part[: sizes[steps[0]]] for part in start)
        finished: list[State] = []
        outputs: list[Tensor] = [data] * len(sizes)
        for t in steps:
            alive = state[0].shape[0]
            if sizes[t] < alive:
                finished.append(tuple(part[sizes[t] :] for part in state))
                state = tuple(part[: sizes[t]] for part in state)
            elif sizes[t] > alive:
                state = tuple(torch.cat((s, s0[alive : sizes[t]])) for s, s0 in zip(state, start, strict=True))
            state = self._step(inputs[t], state, suffix)
            outputs[t] = state[0]
        end = tuple(torch.cat(parts) for parts in zip(state, *reversed(finished), strict=True))
        return torch.cat(outputs), end

    def _step(self, from_input: Tensor, state: State, suffix: str) -> State:
        from_state = self._neurons(state[0], f"weight_hh{suffix}", f"bias_hh{suffix}")
        if self.mode == "LSTM":
            i, f, g, o = (from_input + from_state).chunk(4, -1)
            cell = torch.sigmoid(f) * state[1].to(f.dtype) + torch.sigmoid(i) * torch.tanh(g)
            hidden = torch.sigmoid(o) * torch.tanh(cell)
            if self.proj_size:
                hidden = self._neurons(hidden, f"weight_hr{suffix}", None)
            return hidden, cell
        if self.mode == "GRU":
            (r_x, z_x, n_x), (r_h, z_h, n_h) = from_input.chunk(3, -1), from_state.chunk(3, -1)
            update = torch.sigmoid(z_x + z_h)
            candidate = torch.tanh(n_x + torch.sigmoid(r_x + r_h) * n_h)
            return (candidate + update * (state[0].to(candidate.dtype) - candidate),)
        total = from_input + from_state
        return (torch.tanh(total) if self.mode == "RNN_TANH" else torch.relu(total),)

    def _neurons(self, x: Tensor, weight: str, bias: str | None) -> Tensor:
        rules: Any = self.rules[weight]
        matrix = getattr(self, weight)
        if not torch.is_autocast_enabled(x.device.type):
            x = x.to(matrix.dtype)
        out = decoupled_linear(x, matrix, magnitude=rules.magnitude, angular=rules.angular, weighted=self.weighted)
        if rules.scale is not None:
            out = out * rules.scale.to(out.dtype)
        return out + getattr(self, bias).to(out.dtype) if bias is not None and self.bias else out


def _as_packed(input: Any, batch_first: bool) -> tuple[Tensor, list[int], bool]:
    """(rows, number of rows at each time, whether one unbatched sequence was given)."""
    if isinstance(input, PackedSequence):
        return input.data, input.batch_sizes.tolist(), False
    if input.dim() not in (2, 3):
        raise ValueError(f"input has shape {tuple(input.shape)}: pass (time, batch, features) or (time, features)")
    unbatched = input.dim() == 2
    if unbatched:
        input = input.unsqueeze(1)
    elif batch_first:
        input = input.transpose(0, 1)
    if input.shape[0] == 0:
        raise ValueError("input has no time steps: pass at least one")
    return input.flatten(0, 1), [input.shape[1]] * input.shape[0], unbatched


def _permuted(state: Tensor, indices: Tensor | None) -> Tensor:
    return state if indices is None else state.index_select(1, indices)


class _SphereRNN(_DecoupledRNN):
    """Args are those of the ``torch.nn`` layer, and ``angular`` and ``affine`` as in the decoupled one."""

    def __init__(self, *args: Any, angular: str | AngularRule = "cosine", affine: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, magnitude="sphere", angular=angular, affine=affine, **kwargs)


class DecoupledRNN(_DecoupledRNN, nn.RNN):
    pass


class DecoupledLSTM(_DecoupledRNN, nn.LSTM):
    pass


class DecoupledGRU(_DecoupledRNN, nn.GRU):
    pass


class SphereRNN(_SphereRNN, DecoupledRNN):
    pass


class SphereLSTM(_SphereRNN, DecoupledLSTM):
    pass


class SphereGRU(_SphereRNN, DecoupledGRU):
    pass
