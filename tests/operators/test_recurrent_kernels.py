"""Recurrent layers on kernels against the same layers in float64: in Triton's interpreter on a CPU, else on a GPU."""

from __future__ import annotations

import copy
import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
import torch
from recurrent_reference import flat, states
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_sequence

import hypersphere as hs
import programs
from hypersphere.functional.operators import decoupled, recurrence
from hypersphere.kernels import LAUNCHES, interpreted
from hypersphere.kernels.recurrent import Step, steps
from hypersphere.kernels.recurrent_launch import tile_for
from hypersphere.kernels.spec import ANGULAR, MAGNITUDES

pytest.importorskip("triton")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
WEIGHTED = itertools.cycle((None, "linear", "product", "separate"))


def no_block(*_: Any, **__: Any) -> None:
    """Nothing to run as one block."""


@contextmanager
def on_kernels() -> Iterator[None]:
    LAUNCHES.clear()
    if DEVICE == "cuda":
        yield
        return
    # the inputs' operator has kernels of its own, tested elsewhere: the interpreter is slow
    with interpreted(), mock.patch.object(decoupled, "fused_block", no_block):
        yield


def make(kind: str, inputs: int = 3, units: int = 4, **options: Any) -> nn.RNNBase:
    layer: nn.RNNBase = getattr(hs.nn, kind)(inputs, units, device=DEVICE, **options)
    return layer


def evaluate(layer: nn.RNNBase, x: Any, hx: Any) -> tuple[list[Tensor], dict[str, Tensor]]:
    """Outputs and all gradients of a loss that reads every output."""
    layer.zero_grad()
    packed = isinstance(x, PackedSequence)
    leaf = (x.data if packed else x).detach().clone().requires_grad_()
    given = tuple(s.detach().clone().requires_grad_() for s in (hx if isinstance(hx, tuple) else (hx,)))
    results = flat(layer(x._replace(data=leaf) if packed else leaf, given if layer.mode == "LSTM" else given[0]))
    generator = torch.Generator().manual_seed(1)
    loss = sum(
        (r.double() * torch.randn(r.shape, generator=generator, dtype=torch.float64).to(r.device)).sum()
        for r in results
    )
    loss.backward()
    named = {"x": leaf, **{f"state {i}": s for i, s in enumerate(given)}, **dict(layer.named_parameters())}
    return [r.detach() for r in results], {name: leaf.grad for name, leaf in named.items()}


def distance(a: Tensor, b: Tensor) -> float:
    return ((a.double() - b.double()).norm() / b.double().norm().clamp_min(1e-30)).item()


def assert_right(layer: nn.RNNBase, x: Any, launches: int, tolerance: float = 1e-5) -> None:
    """Values, gradients and running means of the kernels are those of the layer in float64."""
    exact = copy.deepcopy(layer).double()
    batch = len(x.sorted_indices) if isinstance(x, PackedSequence) else x.shape[1]
    hx = states(layer, batch)
    narrow, wide = (
        tuple(s.to(DEVICE, dtype) for s in (hx if isinstance(hx, tuple) else (hx,)))
        for dtype in (torch.float32, torch.float64)
    )
    with on_kernels():
        results, grads = evaluate(layer, x, narrow)
    assert (LAUNCHES["recurrent_forward_kernel"], LAUNCHES["recurrent_backward_kernel"]) == (launches, launches)
    expected, expected_grads = evaluate(
        exact, x._replace(data=x.data.double()) if isinstance(x, PackedSequence) else x.double(), wide
    )
    assert LAUNCHES["recurrent_forward_kernel"] == launches  # float64 has no kernels
    for left, right in zip(results, expected, strict=True):
        assert distance(left, right) < tolerance
    for name, right in expected_grads.items():
        near = (
            right.numel() == 1 and abs(float(grads[name]) - float(right)) < 1e-6
        )  # a sum of everything, where much cancels
        assert near or distance(grads[name], right) < tolerance, name
    for left, right in zip(layer.buffers(), exact.buffers(), strict=True):
        torch.testing.assert_close(left, right.to(left.dtype))


# The same values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("magnitude", "angular", "weighted"),
    [(h, g, next(WEIGHTED)) for h, g in itertools.product(MAGNITUDES, ANGULAR)]
    + [("tanh", g, w) for g in ("cosine", "sigmoid") for w in ("product", "separate")],
)
def test_every_rule(magnitude: str, angular: str, weighted: str | None) -> None:
    learnable = hs.angular.Sigmoid(learnable=True) if angular == "sigmoid" else angular
    layer = make("DecoupledRNN", magnitude=magnitude, angular=learnable, weighted=weighted, affine=angular == "linear")
    assert_right(layer, torch.randn(1, 3, 3, device=DEVICE), 1)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize(
    "options",
    [
        {"magnitude": "sphere", "angular": "sigmoid", "bias": False},
        {"magnitude": "tanh", "angular": hs.angular.Sigmoid(learnable=True), "affine": True},
    ],
)
def test_gates(kind: str, options: dict[str, Any]) -> None:
    assert_right(make(f"Decoupled{kind}", **options), torch.randn(2, 3, 3, device=DEVICE), 2)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_packed_sequences_in_both_directions(kind: str) -> None:
    layer = make(f"Decoupled{kind}", magnitude="tanh", bidirectional=True)
    lengths = (1, 2)
    sequences = [torch.randn(length, 3, device=DEVICE) for length in lengths]
    assert_right(layer, pack_sequence(sequences, enforce_sorted=False), 2 * max(lengths))


def test_relu_layers_and_dropout_between_them() -> None:
    layer = make("SphereRNN", num_layers=2, nonlinearity="relu", dropout=1.0)
    layer.bias_ih_l1.data.zero_()
    x = torch.randn(2, 3, 3, device=DEVICE)
    assert_right(layer.eval(), x, 4)
    with on_kernels():
        output, _ = layer.train()(x)
    assert LAUNCHES["recurrent_forward_kernel"] == 4
    torch.testing.assert_close(output[0], layer.bias_hh_l1.relu().expand(3, 4))  # nothing reaches the second layer


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["SphereLSTM", "SphereGRU"])
def test_more_rows_and_units_than_a_tile(kind: str) -> None:
    """Two tiles of rows and two of units, the last of each not full; sizes that are no power of two."""
    tile = tile_for(18, 21, 4, torch.float32, "ieee")
    assert tile.rows < 18
    assert tile.units < 21
    assert_right(make(kind, 5, 21), torch.randn(2, 18, 5, device=DEVICE), 2)


def test_evaluation_reads_the_running_norm_and_keeps_nothing() -> None:
    layer = make("DecoupledGRU", magnitude="segment")
    x = torch.randn(3, 3, 3, device=DEVICE)
    layer(x)
    layer.eval()
    before = [buffer.clone() for buffer in layer.buffers()]
    with torch.no_grad(), on_kernels():
        output, _ = layer(x)
    assert (LAUNCHES["recurrent_forward_kernel"], LAUNCHES["recurrent_backward_kernel"]) == (3, 0)
    assert all(torch.equal(a, b) for a, b in zip(layer.buffers(), before, strict=True))
    torch.testing.assert_close(output, copy.deepcopy(layer).double()(x.double())[0].float())


def test_zero_start_and_zero_input() -> None:
    layer = make("DecoupledLSTM", magnitude="log", angular="linear")
    x = torch.zeros(2, 3, 3, device=DEVICE, requires_grad=True)
    with on_kernels():
        layer(x)[0].sum().backward()
    exact = copy.deepcopy(layer).double()
    exact.zero_grad()
    exact(x.detach().double().requires_grad_())[0].sum().backward()
    for (name, mine), theirs in zip(layer.named_parameters(), exact.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad.float(), msg=name)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", ["SphereLSTM", "SphereGRU"])
def test_half_precision_is_no_farther_from_float64_than_plain_operations(
    kind: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = make(kind, 8, 8, angular="sigmoid").to(dtype)
    exact, by_steps = copy.deepcopy(layer).double(), copy.deepcopy(layer)
    x = torch.randn(3, 4, 8, device=DEVICE, dtype=dtype)
    hx = states(layer, 4)
    hx = tuple(s.to(DEVICE, dtype) for s in (hx if isinstance(hx, tuple) else (hx,)))
    with on_kernels():
        results, grads = evaluate(layer, x, hx)
    assert LAUNCHES["recurrent_backward_kernel"] == 3
    assert {r.dtype for r in results} == {dtype}
    monkeypatch.setattr(recurrence, "runs_fused", lambda tensors: False)
    plain, plain_grads = evaluate(by_steps, x, hx)
    expected, expected_grads = evaluate(exact, x.double(), tuple(s.double() for s in hx))

    def total(found: list[Tensor], wanted: list[Tensor]) -> float:
        return sum(distance(a, b) ** 2 for a, b in zip(found, wanted, strict=True)) ** 0.5

    # the interpreter cuts bfloat16 off where a GPU rounds: twice the error
    slack = 2.0 if DEVICE == "cpu" and dtype == torch.bfloat16 else 1.0
    assert total(results, expected) <= slack * total(plain, expected)
    found, wanted = [*grads.values()], [*expected_grads.values()]
    assert total(found, wanted) <= slack * total([*plain_grads.values()], wanted)


def test_autocast_runs_kernels_in_half_precision() -> None:
    layer, x = make("SphereGRU"), torch.randn(2, 3, 3, device=DEVICE)
    with on_kernels(), torch.autocast(DEVICE, torch.bfloat16):
        output, _ = layer(x)
        output.float().sum().backward()
    assert output.dtype == torch.bfloat16
    assert (LAUNCHES["recurrent_forward_kernel"], LAUNCHES["recurrent_backward_kernel"]) == (2, 2)
    torch.testing.assert_close(output.float(), layer(x)[0], rtol=0.05, atol=0.05)
    assert all(p.grad.dtype == torch.float32 and p.grad.isfinite().all() for p in layer.parameters())


# Where plain operations serve --------------------------------------------------------------------------------


def test_second_derivatives_are_those_of_the_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = make("DecoupledLSTM", magnitude="tanh", angular=hs.angular.Sigmoid(learnable=True), weighted="product")
    twin = copy.deepcopy(layer)
    x = torch.randn(2, 3, 3, device=DEVICE)

    def second(layer: nn.RNNBase) -> list[Tensor]:
        leaves = [x.clone().requires_grad_(), *layer.parameters()]
        output, (_, cell) = layer(leaves[0])
        first = torch.autograd.grad(output.square().sum() + cell.sum(), leaves, create_graph=True)
        return list(torch.autograd.grad(sum(grad.square().sum() for grad in first), leaves, allow_unused=True))

    with on_kernels():
        found = second(layer)
    assert LAUNCHES["recurrent_forward_kernel"] == 2
    monkeypatch.setattr(recurrence, "runs_fused", lambda tensors: False)
    for left, right in zip(found, second(twin), strict=True):
        torch.testing.assert_close(left, right, rtol=2e-4, atol=1e-5)


class Halved(hs.magnitude.Sphere):
    """A subclass with another formula."""

    def forward(self, n: Tensor) -> Tensor:
        return super().forward(n) / 2


class Cubed:
    def from_cos(self, c: Tensor) -> Tensor:
        return c**3


@pytest.mark.parametrize(
    "options",
    [
        {"magnitude": Halved()},
        {"magnitude": torch.tanh},
        {"angular": Cubed()},
        {"proj_size": 2},
        {"dtype": torch.float64},
    ],
    ids=("subclass", "own h", "own g", "projection", "float64"),
)
def test_what_kernels_do_not_know_runs_as_before(options: dict[str, Any]) -> None:
    layer = make("DecoupledLSTM", **options)
    x = torch.randn(2, 3, 3, device=DEVICE, dtype=options.get("dtype"))
    expected = layer(x)[0]
    with on_kernels():
        torch.testing.assert_close(layer.eval()(x)[0], layer.eval()(x)[0])
        output = layer.train()(x)[0]
    assert not LAUNCHES["recurrent_forward_kernel"]
    assert output.shape == expected.shape


def test_transforms_and_empty_batches_run_as_before() -> None:
    layer = make("SphereGRU")
    x = torch.randn(2, 3, 3, device=DEVICE)
    with on_kernels():
        _, tangent = torch.func.jvp(lambda x: layer(x)[0], (x,), (torch.ones_like(x),))
        mapped = torch.func.vmap(lambda x: layer(x)[0])(x.unsqueeze(0))
        layer(x[:, :0])[0].sum().backward()
        assert not LAUNCHES["recurrent_forward_kernel"]
        torch.testing.assert_close(layer(x)[0], mapped[0])
    assert tangent.shape == (2, 3, 4)


@pytest.mark.slow
def test_compiles_without_a_graph_break_beside_kernels() -> None:
    layer, x = make("SphereLSTM"), torch.randn(2, 2, 3, device=DEVICE)
    with on_kernels():
        compiled = torch.compile(layer, fullgraph=True, backend="eager")(x)[0]
        torch.testing.assert_close(compiled, layer(x)[0])


def test_steps_say_where_rows_come_from() -> None:
    assert steps((3, 2, 2), False) == (Step(0, 0, 3, 0, 0), Step(1, 3, 2, 0, 2), Step(2, 5, 2, 3, 2))
    assert steps((3, 2, 2), True) == (Step(2, 5, 2, 0, 0), Step(1, 3, 2, 5, 2), Step(0, 0, 3, 3, 2))


@pytest.mark.slow
@pytest.mark.skipif(DEVICE == "cuda", reason="asks the interpreter, which is for machines without a GPU")
def test_first_call_imports_no_compiler() -> None:
    """Only Triton itself, and that only where it runs."""
    code = (
        "import sys, torch, hypersphere as hs\n"
        "from hypersphere.kernels import LAUNCHES, interpreted\n"
        "layer, x = hs.nn.SphereRNN(3, 4), torch.randn(1, 2, 3)\n"
        "layer(x)[0].sum().backward()\n"
        "assert 'triton' not in sys.modules\n"
        "with interpreted():\n"
        "    layer(x)[0].sum().backward()\n"
        "assert LAUNCHES['recurrent_backward_kernel'] and 'torch._dynamo' not in sys.modules\n"
    )
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = programs.run(["-c", code], env=environment, bare=True)
    assert done.returncode == 0, done.stderr


# On a GPU alone --------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["SphereLSTM", "DecoupledGRU"])
def test_a_captured_sequence_replays(kind: str) -> None:
    layer = make(kind, 64, 64)
    x = torch.randn(8, 16, 64, device="cuda", requires_grad=True)
    leaves = [x, *layer.parameters()]
    seed = torch.randn(8, 16, 64, device="cuda")

    def run() -> tuple[Tensor, ...]:
        return torch.autograd.grad(layer(x)[0], leaves, seed)

    layer(x)
    layer.eval()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = run()
    with torch.no_grad():
        x.copy_(torch.randn_like(x))
    graph.replay()
    for left, right in zip(found, run(), strict=True):
        torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize(("batch", "units"), [(1, 1), (64, 256), (33, 300), (1024, 128), (512, 512)])
def test_sizes(batch: int, units: int) -> None:
    assert_right(make("SphereLSTM", 20, units), torch.randn(4, batch, 20, device="cuda"), 4)


@pytest.mark.gpu
def test_tf32_where_torch_would_use_it() -> None:
    before = torch.get_float32_matmul_precision()
    layer, x = make("SphereLSTM", 256, 256), torch.randn(4, 64, 256, device="cuda")
    exact = copy.deepcopy(layer).double()(x.double())[0]
    try:
        torch.set_float32_matmul_precision("high")
        rough = distance(layer(x)[0], exact)
        torch.set_float32_matmul_precision("highest")
        assert distance(layer(x)[0], exact) < 1e-5 < rough < 1e-2
    finally:
        torch.set_float32_matmul_precision(before)
