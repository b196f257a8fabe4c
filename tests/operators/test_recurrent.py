"""Recurrent layers against the gate equations in NumPy, and against ``torch.nn`` where the operator is linear."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from recurrent_reference import (
    BATCH,
    FEATURES,
    HIDDEN,
    MODES,
    PAIRS,
    STEPS,
    assert_same,
    flat,
    linear_twins,
    reference,
    states,
)
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pack_sequence, pad_packed_sequence

import hypersphere as hs
from hypersphere._core.registries import ANGULAR


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize(("kind", "options"), MODES)
@pytest.mark.parametrize(
    "rule",
    [
        ("sphere", "cosine", None),
        ("sphere", "sigmoid", None),
        ("tanh", "linear", None),
        ("ball", "square_cosine", "separate"),
        ("log", "sigmoid", "linear"),
        ("segment", "cosine", "product"),
    ],
)
def test_equations(kind: str, options: dict[str, Any], rule: tuple[str, str, str | None]) -> None:
    magnitude: Any = {
        "tanh": hs.magnitude.Tanh(running=False),
        "ball": hs.magnitude.Ball(running=False),
        "segment": hs.magnitude.Segment(running=False),
    }.get(rule[0], rule[0])
    layer = PAIRS[kind][1](
        FEATURES, HIDDEN, 2, bidirectional=True, dtype=torch.float64,
        magnitude=magnitude, angular=rule[1], weighted=rule[2], **options,
    )  # fmt: skip
    x = torch.randn(STEPS, 2, FEATURES, dtype=torch.float64)
    output, state = layer(x)
    expected, final = reference(layer, x.numpy(), rule)
    np.testing.assert_allclose(output.detach().numpy(), expected, atol=1e-12)
    hidden = state[0] if kind == "LSTM" else state
    np.testing.assert_allclose(hidden.detach().numpy(), final, atol=1e-12)


# The linearly weighted linear operator with the cosine is torch.nn's layer ------------------------------


@pytest.mark.parametrize(("kind", "options"), MODES)
@pytest.mark.parametrize(
    ("layers", "bias", "batch_first", "bidirectional", "dropout"),
    [  # every value of each option beside every value of each other
        (layers, bias, first, bias != first, 0.3 if (layers == 2) != bias else 0.0)
        for layers, bias, first in itertools.product((1, 2), (True, False), (True, False))
    ],
)
@pytest.mark.filterwarnings("ignore:dropout option adds dropout")
def test_is_torch_for_every_option(
    kind: str, options: dict[str, Any], layers: int, bias: bool, batch_first: bool, bidirectional: bool, dropout: float
) -> None:
    plain, ours = linear_twins(
        kind, num_layers=layers, bias=bias, batch_first=batch_first, bidirectional=bidirectional, dropout=dropout,
        **options,
    )  # fmt: skip
    x = torch.randn(*((BATCH, STEPS) if batch_first else (STEPS, BATCH)), FEATURES, dtype=torch.float64)
    assert_same(ours(x), plain(x))
    hx = states(plain)
    assert_same(ours(x, hx), plain(x, hx))


@pytest.mark.parametrize(("kind", "options"), MODES)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_is_torch_on_unbatched_input(kind: str, options: dict[str, Any], bidirectional: bool) -> None:
    plain, ours = linear_twins(kind, num_layers=2, batch_first=True, bidirectional=bidirectional, **options)
    x, hx = torch.randn(STEPS, FEATURES, dtype=torch.float64), states(plain, None)
    assert_same(ours(x), plain(x))
    assert_same(ours(x, hx), plain(x, hx))


@pytest.mark.parametrize(("kind", "options"), MODES)
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(("lengths", "enforce_sorted"), [((4, 2, 1), True), ((4, 4, 4), True), ((1, 4, 2), False)])
@pytest.mark.parametrize("given", [False, True])
def test_is_torch_on_packed_sequences(
    kind: str, options: dict[str, Any], bidirectional: bool, lengths: tuple[int, ...], enforce_sorted: bool, given: bool
) -> None:
    plain, ours = linear_twins(kind, num_layers=2, bidirectional=bidirectional, **options)
    sequences = [torch.randn(length, FEATURES, dtype=torch.float64) for length in lengths]
    packed = pack_sequence(sequences, enforce_sorted=enforce_sorted)
    hx = states(plain) if given else None
    mine, theirs = ours(packed, hx), plain(packed, hx)
    assert_same(mine, theirs)
    assert isinstance(mine[0], PackedSequence)
    padded, found = pad_packed_sequence(mine[0])
    torch.testing.assert_close(padded, pad_packed_sequence(theirs[0])[0])
    assert tuple(found.tolist()) == lengths


@pytest.mark.parametrize("kind", PAIRS)
def test_packing_does_not_change_what_a_sequence_gives(kind: str) -> None:
    layer = PAIRS[kind][1](FEATURES, HIDDEN, 2, bidirectional=True, magnitude="sphere", angular="sigmoid").eval()
    lengths = torch.tensor([2, 5, 3])
    x = torch.randn(3, 5, FEATURES)
    output, state = layer(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))
    padded, _ = pad_packed_sequence(output, batch_first=True)
    final = state[0] if kind == "LSTM" else state
    for row, length in enumerate(lengths.tolist()):
        alone, end = layer(x[row, :length])
        torch.testing.assert_close(padded[row, :length], alone)
        torch.testing.assert_close(final[:, row], end[0] if kind == "LSTM" else end)


@pytest.mark.parametrize(("kind", "options"), MODES)
def test_gradients_are_torchs(kind: str, options: dict[str, Any]) -> None:
    plain, ours = linear_twins(kind, num_layers=2, bidirectional=True, **options)
    x = torch.randn(STEPS, BATCH, FEATURES, dtype=torch.float64)
    leaves = [x.clone().requires_grad_(), x.clone().requires_grad_()]
    for layer, leaf in zip((plain, ours), leaves, strict=True):
        output, _ = layer(leaf)
        output.square().sum().backward()
    torch.testing.assert_close(leaves[1].grad, leaves[0].grad, rtol=1e-10, atol=1e-12)
    for (name, theirs), mine in zip(plain.named_parameters(), ours.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-10, atol=1e-12, msg=name)


@pytest.mark.parametrize("kind", PAIRS)
def test_empty_batch(kind: str) -> None:
    plain, ours = linear_twins(kind, num_layers=2, bidirectional=True)
    x = torch.randn(STEPS, 0, FEATURES, dtype=torch.float64)
    for left, right in zip(flat(ours(x)), flat(plain(x)), strict=True):
        assert left.shape == right.shape
    sphere = getattr(hs.nn, f"Sphere{kind}")(FEATURES, HIDDEN, angular="sigmoid")
    sphere(x.float())[0].sum().backward()
    assert torch.equal(sphere.weight_ih_l0.grad, torch.zeros_like(sphere.weight_ih_l0))


def test_dropout_acts_between_layers_in_training_only() -> None:
    one = hs.nn.SphereGRU(FEATURES, HIDDEN, 2, dropout=1.0)
    x = torch.randn(STEPS, BATCH, FEATURES)
    with torch.no_grad():
        for parameter in (one.bias_ih_l1, one.bias_hh_l1):
            parameter.zero_()
    assert torch.equal(one(x)[0], torch.zeros(STEPS, BATCH, HIDDEN))  # nothing reaches the second layer
    assert one.eval()(x)[0].abs().min() > 0


# Right derivatives, whatever h and g ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("RNN", {"magnitude": "sphere", "angular": "sigmoid"}),
        ("RNN", {"magnitude": hs.magnitude.Tanh(running=False), "angular": "cosine", "affine": True}),
        ("LSTM", {"magnitude": "sphere", "angular": "linear", "proj_size": 2}),
        ("LSTM", {"magnitude": "log", "angular": hs.angular.Sigmoid(learnable=True), "weighted": "separate"}),
        ("GRU", {"magnitude": "mix", "angular": "square_cosine", "bidirectional": True}),
        ("GRU", {"magnitude": "linear", "angular": "cosine", "weighted": "product", "num_layers": 2}),
    ],
)
def test_gradcheck(kind: str, options: dict[str, Any]) -> None:
    layer = PAIRS[kind][1](2, 3, dtype=torch.float64, **options)
    names, parameters = zip(*layer.named_parameters(), strict=True)
    # away from 0, where the operator of a state has no limit
    hx = tuple(0.5 + torch.rand_like(s) for s in states_of(layer, 2))
    x = torch.randn(3, 2, 2, dtype=torch.float64, requires_grad=True)

    def run(x: torch.Tensor, *values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        given = hx if kind == "LSTM" else hx[0]
        return tuple(flat(torch.func.functional_call(layer, dict(zip(names, values, strict=True)), (x, given))))

    values = tuple(p.detach().clone().requires_grad_() for p in parameters)
    assert torch.autograd.gradcheck(run, (x, *values), fast_mode=True)


def states_of(layer: nn.RNNBase, batch: int) -> tuple[torch.Tensor, ...]:
    found = states(layer, batch)
    return found if isinstance(found, tuple) else (found,)


def test_zero_start_has_finite_gradients_everywhere() -> None:
    for angular, magnitude in itertools.product(ANGULAR, ("sphere", "tanh")):
        layer = hs.nn.DecoupledLSTM(FEATURES, HIDDEN, angular=angular, magnitude=magnitude)
        hx = tuple(torch.zeros(1, BATCH, HIDDEN, requires_grad=True) for _ in range(2))
        x = torch.zeros(STEPS, BATCH, FEATURES, requires_grad=True)
        layer(x, hx)[0].sum().backward()
        for leaf in (x, *hx, *layer.parameters()):
            assert leaf.grad is None or torch.isfinite(leaf.grad).all()


def test_only_the_direction_of_the_weights_counts() -> None:
    layer = hs.nn.SphereGRU(FEATURES, HIDDEN, angular="linear")
    x = torch.randn(STEPS, BATCH, FEATURES)
    before = layer(x)[0]
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if name.startswith("weight"):
                parameter.mul_(torch.rand(len(parameter), 1) + 0.5)
    torch.testing.assert_close(layer(7 * x)[0], before)


def test_k_per_filter_and_radius_learn() -> None:
    layer = hs.nn.DecoupledGRU(FEATURES, HIDDEN, 2, magnitude="tanh", angular=hs.angular.Sigmoid(learnable=True))
    learned = {name: p for name, p in layer.named_parameters() if "raw_k" in name or "raw_rho" in name}
    assert [tuple(p.shape) for name, p in learned.items() if "raw_k" in name] == [(3 * HIDDEN,)] * 4
    assert sum("raw_rho" in name for name in learned) == 4
    start = {name: p.detach().clone() for name, p in learned.items()}
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.02)
    x = torch.randn(STEPS, 16, FEATURES)
    target = torch.randn(STEPS, 16, HIDDEN) / 2
    losses = []
    for _ in range(25):
        optimizer.zero_grad()
        loss = (layer(x)[0] - target).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.95 * losses[0]
    for name, parameter in learned.items():
        assert not torch.equal(parameter, start[name]), name


def test_the_zero_state_at_the_start_does_not_enter_the_running_norm() -> None:
    layer = hs.nn.DecoupledRNN(FEATURES, HIDDEN, magnitude="tanh")
    output, _ = layer(torch.randn(2, BATCH, FEATURES))
    h = layer.rules["weight_hh_l0"].magnitude
    assert h.num_batches_tracked.item() == 1
    torch.testing.assert_close(h.running_norm, output[0].norm(dim=-1).mean().detach())


def test_affine_scales_every_gate_neuron() -> None:
    layer = hs.nn.SphereRNN(FEATURES, HIDDEN, nonlinearity="relu", affine=True)
    scales = [name for name, _ in layer.named_parameters() if name.endswith("scale")]
    assert scales == ["rules.weight_ih_l0.scale", "rules.weight_hh_l0.scale"]
    x = torch.randn(1, 1, FEATURES)
    with torch.no_grad():
        before = layer(x)[0] - 0
        for parameter in (layer.bias_ih_l0, layer.bias_hh_l0):
            parameter.zero_()
        plain = layer(x)[0]
        layer.rules["weight_ih_l0"].scale.fill_(3.0)
        torch.testing.assert_close(layer(x)[0], 3 * plain)
    assert not torch.allclose(before, plain)


def test_own_g_and_h_plug_in() -> None:
    class Cubed:
        def from_cos(self, c: torch.Tensor) -> torch.Tensor:
            return c**3

    layer = hs.nn.DecoupledRNN(FEATURES, HIDDEN, bias=False, magnitude=lambda n: n / (1 + n), angular=Cubed())
    x = torch.randn(1, 1, FEATURES)
    cosine = nn.functional.cosine_similarity(layer.weight_ih_l0, x[0])
    expected = torch.tanh(x.norm() / (1 + x.norm()) * cosine**3)
    torch.testing.assert_close(layer(x)[0][0, 0], expected)
