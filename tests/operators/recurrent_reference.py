"""The gate equations of recurrent layers, one vector at a time in NumPy; and pairs of layers to compare."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from operator_reference import operator
from torch import nn
from torch.nn.utils.rnn import PackedSequence

import hypersphere as hs

PLAIN: dict[str, Any] = {"magnitude": "linear", "weighted": "linear", "angular": "cosine"}
PAIRS = {
    "RNN": (nn.RNN, hs.nn.DecoupledRNN),
    "LSTM": (nn.LSTM, hs.nn.DecoupledLSTM),
    "GRU": (nn.GRU, hs.nn.DecoupledGRU),
}
MODES = [("RNN", {}), ("RNN", {"nonlinearity": "relu"}), ("LSTM", {}), ("LSTM", {"proj_size": 2}), ("GRU", {})]
STEPS, BATCH, FEATURES, HIDDEN = 4, 3, 3, 4


def twins(kind: str, **options: Any) -> tuple[nn.RNNBase, nn.RNNBase]:
    """A ``torch.nn`` layer and ours with its weights, in float64."""
    plain, ours = (cls(FEATURES, HIDDEN, dtype=torch.float64, **options) for cls in PAIRS[kind])
    return plain, ours


def linear_twins(kind: str, **options: Any) -> tuple[nn.RNNBase, nn.RNNBase]:
    plain_type, our_type = PAIRS[kind]
    plain = plain_type(FEATURES, HIDDEN, dtype=torch.float64, **options)
    ours = our_type(FEATURES, HIDDEN, dtype=torch.float64, **options, **PLAIN)
    ours.load_state_dict(plain.state_dict())
    return plain.eval(), ours.eval()


def states(layer: nn.RNNBase, batch: int | None = BATCH) -> Any:
    count = layer.num_layers * (2 if layer.bidirectional else 1)
    shape = (count,) if batch is None else (count, batch)
    hidden = torch.randn(*shape, layer.proj_size or layer.hidden_size, dtype=torch.float64)
    return (hidden, torch.randn(*shape, layer.hidden_size, dtype=torch.float64)) if layer.mode == "LSTM" else hidden


def flat(result: Any) -> list[torch.Tensor]:
    output, state = result
    output = output.data if isinstance(output, PackedSequence) else output
    return [output, *(state if isinstance(state, tuple) else (state,))]


def assert_same(a: Any, b: Any) -> None:
    for left, right in zip(flat(a), flat(b), strict=True):
        assert left.shape == right.shape
        torch.testing.assert_close(left, right, rtol=1e-12, atol=1e-12)


# The equations, one vector at a time -----------------------------------------------------------------


def logistic(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def neurons(w: np.ndarray, x: np.ndarray, rule: tuple[str, str, str | None]) -> np.ndarray:
    return np.array([operator(row, x, *rule) for row in w])


def reference_sequence(
    x: np.ndarray, h: np.ndarray, c: np.ndarray, p: dict[str, np.ndarray], mode: str, rule: tuple[str, str, str | None]
) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """One layer, one direction, one sequence: the equations in the documentation of ``torch.nn``."""
    outputs = []
    for row in x:
        a = neurons(p["weight_ih"], row, rule) + p["bias_ih"]
        b = neurons(p["weight_hh"], h, rule) + p["bias_hh"]
        if mode == "LSTM":
            (i, f, g, o) = np.split(a + b, 4)
            c = logistic(f) * c + logistic(i) * np.tanh(g)
            h = logistic(o) * np.tanh(c)
            h = neurons(p["weight_hr"], h, rule) if "weight_hr" in p else h
        elif mode == "GRU":
            (ra, za, na), (rb, zb, nb) = np.split(a, 3), np.split(b, 3)
            z = logistic(za + zb)
            h = (1 - z) * np.tanh(na + logistic(ra + rb) * nb) + z * h
        else:
            h = np.tanh(a + b) if mode == "RNN_TANH" else np.maximum(a + b, 0)
        outputs.append(h)
    return outputs, h, c


def reference(layer: nn.RNNBase, x: np.ndarray, rule: tuple[str, str, str | None]) -> tuple[np.ndarray, np.ndarray]:
    """(time, batch, features) through all layers and directions from zero states; output and final h."""
    values = {name: value.detach().numpy() for name, value in layer.named_parameters(recurse=False)}
    finals = []
    for depth in range(layer.num_layers):
        outputs = []
        for suffix in ("", "_reverse")[: 2 if layer.bidirectional else 1]:
            ending = f"_l{depth}{suffix}"
            p = {name.removesuffix(ending): value for name, value in values.items() if name.endswith(ending)}
            runs = []
            for b in range(x.shape[1]):
                sequence = x[::-1, b] if suffix else x[:, b]
                start = np.zeros(layer.proj_size or layer.hidden_size), np.zeros(layer.hidden_size)
                runs.append(reference_sequence(sequence, *start, p, layer.mode, rule))
            run = np.array([r[0] for r in runs]).transpose(1, 0, 2)
            outputs.append(run[::-1] if suffix else run)
            finals.append(np.array([r[1] for r in runs]))
        x = np.concatenate(outputs, -1)
    return x, np.array(finals)
