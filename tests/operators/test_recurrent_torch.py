"""Recurrent layers in PyTorch's ways: precisions, compilers, copies, checkpoints."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest
import torch
from recurrent_reference import BATCH, FEATURES, HIDDEN, PAIRS, STEPS, flat
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

import hypersphere as hs


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


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
