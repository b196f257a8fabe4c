"""What all recurrent layers of h·g share: their rules, gates, packed sequences and the way into the kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from .. import angular as angular_module
from .. import magnitude as magnitude_module
from .._core.checks import check_choice
from .._core.errors import check_floating
from .._core.sphere import upcast
from ..functional.operators import recurrence
from ..functional.operators.closed_forms import form_of
from ..functional.operators.decoupled import WEIGHTED, AngularRule, MagnitudeRule, decouple, make_kernel
from ..functional.operators.geometry import Geometry
from ..kernels.recurrent import Settings, Tensors
from ..kernels.spec import ANGULAR, MAGNITUDES
from .layer import as_node, own, reset

State = tuple[Tensor, ...]


class Rules(nn.Module):
    """The h and g of one weight matrix, and its rescaling."""

    def __init__(self, weight: Tensor, magnitude: Any, angular: Any, affine: bool) -> None:
        super().__init__()
        self.magnitude = own(magnitude, weight.shape[0], weight)
        self.angular = own(angular, weight.shape[0], weight)
        self.scale = nn.Parameter(weight.new_ones(weight.shape[0])) if affine else None

    def reset_parameters(self) -> None:
        reset(self.magnitude, self.angular)
        if self.scale is not None:
            nn.init.ones_(self.scale)


class RecurrentLayer(nn.RNNBase):
    """What all of them share; ``mode`` is that of ``nn.RNNBase``.

    Where ρ follows the mean norm (:mod:`hypersphere.magnitude`), each time step is a batch of states.
    """

    weighted: str | None

    def __init__(
        self,
        mode: str,
        *args: Any,
        magnitude: str | MagnitudeRule = "tanh",
        angular: str | AngularRule = "cosine",
        weighted: str | None = None,
        affine: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(mode, *args, **kwargs)
        if self.proj_size and mode != "LSTM":
            raise ValueError(f"proj_size={self.proj_size} is only for LSTM layers: leave it out")
        h, g = magnitude_module.resolve(magnitude), angular_module.resolve(angular)
        self.weighted = weighted if weighted is None else check_choice("weighted", weighted, WEIGHTED)
        self.affine = affine
        self.rules = nn.ModuleDict()
        for name in (name for names in self._all_weights for name in names if name.startswith("weight")):
            self.rules[name] = Rules(getattr(self, name), h, g, affine)

    def reset_parameters(self) -> None:
        """Draw weights and biases as ``torch.nn`` does; h, g and scales go back to their start."""
        bound = 1 / math.sqrt(self.hidden_size)
        for parameter in self.parameters(recurse=False):
            nn.init.uniform_(parameter, -bound, bound)
        if "rules" in self._modules:  # not yet while torch.nn builds the layer
            reset(*self.rules.values())

    def flatten_parameters(self) -> None:
        """Nothing to do: there is no cuDNN call whose layout the weights would have to match."""

    def extra_repr(self) -> str:
        parts = [super().extra_repr()]
        parts += [f"weighted={self.weighted!r}"] if self.weighted else []
        parts += ["affine=True"] if self.affine else []
        return ", ".join(parts)

    def forward(self, input: Any, hx: Any = None) -> Any:
        node: Any = as_node(self, input, hx)
        if node is not None:
            return node
        packed = isinstance(input, PackedSequence)
        data, sizes, unbatched = _as_packed(input, self.batch_first)
        if data.shape[-1] != self.input_size:
            raise ValueError(f"input has {data.shape[-1]} features, but input_size={self.input_size}")
        states = self._initial_states(hx, data, sizes[0], unbatched, input.sorted_indices if packed else None)
        directions = 2 if self.bidirectional else 1
        final: list[State] = []
        for layer in range(self.num_layers):
            outputs = []
            for direction in range(directions):
                start = tuple(state[len(final)] for state in states)
                output, end = self._run(data, sizes, start, f"_l{layer}{'_reverse' if direction else ''}")
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
    ) -> State:
        count = self.num_layers * (2 if self.bidirectional else 1)
        widths = (self.proj_size or self.hidden_size, self.hidden_size)[: 2 if self.mode == "LSTM" else 1]
        if hx is None:
            return tuple(data.new_zeros(count, batch, width) for width in widths)
        given = hx if self.mode == "LSTM" else (hx,)
        expected = [(count, width) if unbatched else (count, batch, width) for width in widths]
        if isinstance(given, Tensor) or not all(isinstance(state, Tensor) for state in given):
            what = "a pair of tensors (h_0, c_0)" if self.mode == "LSTM" else "one tensor h_0"
            raise TypeError(f"hx must be {what}, not {type(hx).__name__}")
        shapes = [tuple(state.shape) for state in given]
        if shapes != expected:
            raise ValueError(f"hx has shape {_listed(shapes)}, but must have {_listed(expected)}")
        return tuple(state.unsqueeze(1) if unbatched else _permuted(state, sorted_indices) for state in given)

    def _run(self, data: Tensor, sizes: Sequence[int], start: State, suffix: str) -> tuple[Tensor, State]:
        """One layer in one direction over (Σ sizes, features), the longest sequences first."""
        reverse = suffix.endswith("_reverse")
        inputs = self._neurons("ih", suffix)(data)
        recurrent = self._neurons("hh", suffix, start[0])
        fields = None if self.proj_size else recurrent.fields(self.mode, inputs, start)
        if fields is not None and recurrence.runs_fused(fields[0]):
            states = recurrence.fused(*fields, sizes, reverse)
        else:
            project = self._neurons("hr", suffix, start[0]) if self.proj_size else None
            states = recurrence.unroll(
                inputs, start, sizes, reverse, self.mode, lambda rows, _: recurrent(rows), project
            )
        return states[0], tuple(recurrence.ends(rows, sizes, reverse).to(inputs.dtype) for rows in states)

    def _neurons(self, kind: str, suffix: str, like: Tensor | None = None) -> Neurons:
        bias = getattr(self, f"bias_{kind}{suffix}") if self.bias and kind != "hr" else None
        name = f"weight_{kind}{suffix}"
        return Neurons(getattr(self, name), bias, self.rules[name], self.weighted, like)


class Neurons:
    """f(w, ·) of one weight matrix; for many steps (``like`` has the dtype of their rows) its kernel is made once."""

    def __init__(
        self, weight: Tensor, bias: Tensor | None, rules: Any, weighted: str | None, like: Tensor | None = None
    ) -> None:
        self._operator = (weight, Geometry(()), rules.magnitude, rules.angular, weighted)
        self._kernel = None if like is None else make_kernel(like, *self._operator)
        self._rules, self._bias = rules, bias

    def __call__(self, rows: Tensor) -> Tensor:
        out = decouple(rows, *self._operator, self._kernel)
        out = out if self._rules.scale is None else out * self._rules.scale.to(out.dtype)
        return out if self._bias is None else out + self._bias.to(out.dtype)

    def fields(self, mode: str, inputs: Tensor, start: State) -> tuple[Tensors, Settings] | None:
        """What the fused recurrence needs to know of these neurons; None where kernels do not know h or g."""
        kernel, scale = self._kernel, self._rules.scale
        g, h = form_of(self._rules.angular), form_of(self._rules.magnitude)
        if kernel is None or g is None or h is None or g[0] not in ANGULAR or h.kind not in MAGNITUDES:
            return None
        (angular, k), rho = g, h.rho
        mult = None if kernel.factor is None else kernel.factor.flatten()
        if scale is not None:
            mult = upcast(scale) if mult is None else mult * scale
        tensors = Tensors(
            inputs,
            start[0].to(inputs.dtype),
            start[1].to(inputs.dtype) if mode == "LSTM" else None,
            kernel.weight,
            mult,
            self._bias,
            upcast(k).expand(len(kernel.weight)) if isinstance(k, Tensor) else None,
            None if kernel.length is None else kernel.length.flatten(),
            rho if isinstance(rho, Tensor) else None,
            h.running,
            h.tracked,
        )
        settings = Settings(
            mode,
            angular,
            1.0 if isinstance(k, Tensor) else float(k),
            h.kind,
            float(h.alpha),
            float(h.beta),
            1.0 if isinstance(rho, Tensor) else float(rho),
            h.running is not None,
            h.training,
            h.momentum,
            kernel.shift,
        )
        return tensors, settings


def _as_packed(input: Any, batch_first: bool) -> tuple[Tensor, list[int], bool]:
    """(rows, number of rows at each time, whether one unbatched sequence was given)."""
    check_floating("input", input.data if isinstance(input, PackedSequence) else input)
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


def _listed(shapes: Sequence[tuple[int, ...]]) -> str:
    return " and ".join(map(str, shapes))
