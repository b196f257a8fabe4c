"""Recurrent layers against the gate equations in NumPy, and against ``torch.nn`` where the operator is linear."""

from __future__ import annotations

import copy
import io
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
from torch.fx.experimental.proxy_tensor import make_fx
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


# PyTorch's ways ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PAIRS)
def test_autocast(kind: str) -> None:
    layer = getattr(hs.nn, f"Sphere{kind}")(FEATURES, HIDDEN, 2, bidirectional=True, angular="sigmoid")
    x = torch.randn(STEPS, BATCH, FEATURES)
    full = flat(layer(x))
    with torch.autocast("cpu", torch.bfloat16):
        half = flat(layer(x))
        half[0].float().sum().backward()
    for left, right in zip(half, full, strict=True):
        assert left.dtype == torch.bfloat16
        torch.testing.assert_close(left.float(), right, rtol=0.05, atol=0.05)
    assert all(
        p.grad is not None and p.grad.dtype == torch.float32 and p.grad.isfinite().all() for p in layer.parameters()
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_module(dtype: torch.dtype) -> None:
    layer = hs.nn.SphereLSTM(FEATURES, HIDDEN, proj_size=2, angular="linear")
    x = torch.randn(STEPS, BATCH, FEATURES)
    expected = layer(x)[0]
    output, (h, c) = layer.to(dtype)(x.to(dtype))
    assert (output.dtype, h.dtype, c.dtype) == (dtype,) * 3
    torch.testing.assert_close(output.float(), expected, rtol=0.05, atol=0.05)


def test_compiles_without_a_graph_break() -> None:
    layer = hs.nn.SphereGRU(FEATURES, HIDDEN, angular="linear")
    x = torch.randn(2, 2, FEATURES)
    compiled = torch.compile(layer, fullgraph=True, backend="eager")
    results = flat(compiled(x))
    for left, right in zip(results, flat(layer(x)), strict=True):
        torch.testing.assert_close(left, right)
    results[0].sum().backward()
    expected = torch.autograd.grad(layer(x)[0].sum(), layer.weight_hh_l0)[0]
    torch.testing.assert_close(layer.weight_hh_l0.grad, expected)


def test_traced_for_batches_of_any_size() -> None:
    layer = hs.nn.SphereRNN(FEATURES, HIDDEN)
    trace = make_fx(lambda x: flat(layer(x)), tracing_mode="symbolic", _allow_non_fake_inputs=True)
    traced = trace(torch.randn(2, 7, FEATURES))
    x = torch.randn(2, 5, FEATURES)
    torch.testing.assert_close(traced(x), flat(layer(x)))


def test_device_and_dtype_arguments() -> None:
    layer = hs.nn.DecoupledGRU(
        FEATURES, HIDDEN, device="cpu", dtype=torch.float64, affine=True, angular=hs.angular.Sigmoid(learnable=True)
    )
    assert {p.dtype for p in layer.parameters()} == {torch.float64}
    assert {p.device.type for p in hs.nn.DecoupledGRU(FEATURES, HIDDEN, device="meta").parameters()} == {"meta"}
    moved = hs.nn.DecoupledGRU(FEATURES, HIDDEN).to(torch.float64)
    moved.flatten_parameters()
    assert moved(torch.randn(STEPS, BATCH, FEATURES, dtype=torch.float64))[0].dtype == torch.float64
    assert all(
        a is getattr(moved, name) for a, name in zip(moved._flat_weights, moved._flat_weights_names, strict=True)
    )


@pytest.mark.parametrize("kind", PAIRS)
def test_copies_pickles_and_state_dicts(kind: str) -> None:
    options: dict[str, Any] = {"num_layers": 2, "bidirectional": True, "angular": hs.angular.Sigmoid(learnable=True)}
    make = PAIRS[kind][1]
    layer = make(FEATURES, HIDDEN, **options)
    x = torch.randn(STEPS, BATCH, FEATURES)
    layer(x)  # sets the running norms
    layer.eval()
    expected = flat(layer(x))
    buffer = io.BytesIO()
    torch.save(layer, buffer)
    buffer.seek(0)
    loaded = make(FEATURES, HIDDEN, **options).eval()
    loaded.load_state_dict(layer.state_dict())
    for other in (copy.deepcopy(layer), torch.load(buffer, weights_only=False), loaded):
        for left, right in zip(flat(other(x)), expected, strict=True):
            assert torch.equal(left, right)


def test_checkpoints_of_torch_load_into_sphere_layers() -> None:
    plain = nn.LSTM(FEATURES, HIDDEN, 2, bidirectional=True, proj_size=2)
    sphere = hs.nn.SphereLSTM(FEATURES, HIDDEN, 2, bidirectional=True, proj_size=2)
    sphere.load_state_dict(plain.state_dict())  # strict: no key more, none less
    assert torch.equal(sphere.weight_hr_l1_reverse, plain.weight_hr_l1_reverse)


def test_same_seed_same_weights_as_torch() -> None:
    torch.manual_seed(3)
    plain = nn.GRU(FEATURES, HIDDEN, 2)
    torch.manual_seed(3)
    ours = hs.nn.SphereGRU(FEATURES, HIDDEN, 2)
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), ours.parameters(), strict=True))


def test_weights_are_normalised_once_whatever_the_length() -> None:
    def saved_bytes(layer: nn.Module, steps: int) -> int:
        storages: dict[int, int] = {}

        def see(tensor: torch.Tensor) -> torch.Tensor:
            storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(see, lambda tensor: tensor):
            kept = layer(torch.randn(steps, 1, 4))  # noqa: F841 - alive, so that no storage is used twice
        return sum(storages.values())

    layer = hs.nn.SphereRNN(4, 64)
    weight = layer.weight_hh_l0.numel() * 4
    assert saved_bytes(layer, 12) - saved_bytes(layer, 2) < weight


def test_repr_says_what_is_not_torchs() -> None:
    text = repr(hs.nn.DecoupledLSTM(3, 4, 2, weighted="linear", affine=True))
    assert "DecoupledLSTM(\n  3, 4, num_layers=2, weighted='linear', affine=True" in text


def test_are_recurrent_layers_that_compilers_enter() -> None:
    for kind, (plain, _) in PAIRS.items():
        for family in ("Sphere", "Decoupled"):
            assert issubclass(getattr(hs.nn, family + kind), nn.RNNBase)
            assert not issubclass(getattr(hs.nn, family + kind), plain)  # torch.compile refuses those
