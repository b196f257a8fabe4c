"""GCN and its adjacency matrix."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import hypersphere as hs
from hypersphere import models


def graph(nodes: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    upper = (torch.rand(nodes, nodes, generator=generator, dtype=torch.float64) < 0.4).double().triu(1)
    return upper + upper.T


def reference(a: Tensor) -> Tensor:
    """Â entry by entry."""
    n = len(a)
    with_loops = [[a[i, j].item() + (i == j) for j in range(n)] for i in range(n)]
    degree = [sum(row) for row in with_loops]
    return torch.tensor(
        [[with_loops[i][j] / math.sqrt(degree[i] * degree[j]) for j in range(n)] for i in range(n)],
        dtype=torch.float64,
    )


@settings(deadline=None, max_examples=20)
@given(nodes=st.integers(1, 9), seed=st.integers(0, 99))
def test_normalized_adjacency(nodes: int, seed: int) -> None:
    a = graph(nodes, seed)
    expected = reference(a)
    torch.testing.assert_close(models.normalize_adjacency(a), expected)
    for sparse in (a.to_sparse_coo(), a.to_sparse_csr()):
        given_ = models.normalize_adjacency(sparse)
        assert given_.layout == sparse.layout
        torch.testing.assert_close(given_.to_dense(), expected)
    assert torch.linalg.eigvalsh(expected).abs().max() <= 1 + 1e-9


def test_weighted_and_directed_edges() -> None:
    a = torch.tensor([[0.0, 2.0], [0.5, 1.0]], dtype=torch.float64)
    torch.testing.assert_close(models.normalize_adjacency(a), reference(a))
    torch.testing.assert_close(models.normalize_adjacency(a.to_sparse()).to_dense(), reference(a))


def test_bad_adjacency() -> None:
    with pytest.raises(ValueError, match="square"):
        models.normalize_adjacency(torch.zeros(2, 3))
    with pytest.raises(ValueError, match="negative"):
        models.normalize_adjacency(-torch.ones(2, 2))
    with pytest.raises(ValueError, match="NaN"):
        models.normalize_adjacency(torch.full((2, 2), torch.nan))
    with pytest.raises(ValueError, match="negative"):
        models.normalize_adjacency((-torch.ones(2, 2)).to_sparse())
    with pytest.raises(TypeError, match="floating"):
        models.normalize_adjacency(torch.zeros(2, 2, dtype=torch.long))


def test_forward_is_equation_e24() -> None:
    torch.manual_seed(0)
    model = models.create("gcn", 3, in_features=5, hidden=4, dtype=torch.float64).eval()
    a_hat = reference(graph(6))
    x = torch.randn(6, 5, dtype=torch.float64)
    w0, w1 = model.layers[0].weight.T, model.classifier.weight.T
    expected = a_hat @ (a_hat @ x @ w0).relu() @ w1
    torch.testing.assert_close(model(x, a_hat), expected)
    torch.testing.assert_close(model.features(x, a_hat), (a_hat @ x @ w0).relu())
    torch.testing.assert_close(model.forward_features(x, a_hat), (a_hat @ x @ w0).relu())
    for sparse in (a_hat.to_sparse_coo(), a_hat.to_sparse_csr()):
        torch.testing.assert_close(model(x, sparse), expected)


@pytest.mark.parametrize(("conv", "bias"), [("plain", False), ("plain", True), ("sphere", False)])
def test_sparse_features(conv: str, bias: bool) -> None:
    torch.manual_seed(0)
    model = models.create("gcn", 3, in_features=9, hidden=(6, 4), conv=conv, bias=bias).eval()
    a_hat = models.normalize_adjacency(graph(6).float())
    x = torch.randn(6, 9) * (torch.rand(6, 9) < 0.3)
    weights = list(model.parameters())
    expected = model(x, a_hat)
    grads = torch.autograd.grad(expected.square().sum(), weights)
    for sparse in (x.to_sparse_coo(), x.to_sparse_csr()):
        given = model(sparse, a_hat.to_sparse())
        torch.testing.assert_close(given, expected)
        torch.testing.assert_close(torch.autograd.grad(given.square().sum(), weights), grads)
    model.train()
    assert not torch.equal(model(x.to_sparse(), a_hat), model(x.to_sparse(), a_hat))


def test_sparse_features_under_opt() -> None:
    torch.manual_seed(0)
    model = models.create("gcn", 3, in_features=9, hidden=6).eval()
    hs.orthogonal.attach(model, "cayley")
    a_hat = models.normalize_adjacency(graph(6).float())
    x = torch.randn(6, 9) * (torch.rand(6, 9) < 0.3)
    weights = [p for p in model.parameters() if p.requires_grad]
    results = [model(one, a_hat) for one in (x, x.to_sparse())]
    torch.testing.assert_close(*results)
    torch.testing.assert_close(*(torch.autograd.grad(one.square().sum(), weights) for one in results))


@pytest.mark.parametrize("conv", ["plain", "sphere", "decoupled"])
def test_gradients(conv: str) -> None:
    torch.manual_seed(1)
    model = models.create("gcn", 2, in_features=3, hidden=4, conv=conv, activation="none", dtype=torch.float64).eval()
    a_hat = reference(graph(4))
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    names = list(dict(model.named_parameters()))
    weights = tuple(p.detach().clone().requires_grad_() for p in model.parameters())

    def run(x: Tensor, *weights: Tensor) -> Tensor:
        return torch.func.functional_call(model, dict(zip(names, weights, strict=True)), (x, a_hat))

    assert torch.autograd.gradcheck(run, (x, *weights))


def test_dropout_on_both_inputs_and_only_in_training() -> None:
    torch.manual_seed(0)
    model = models.create("gcn", 3, in_features=50, hidden=40)
    a_hat, x = models.normalize_adjacency(graph(6).float()), torch.randn(6, 50)
    assert not torch.equal(model(x, a_hat), model(x, a_hat))
    model.eval()
    assert torch.equal(model(x, a_hat), model(x, a_hat))


def test_several_layers_norms_and_no_classifier() -> None:
    model = models.create("gcn", 0, in_features=5, hidden=(7, 4), norm="batch", conv="sphere").eval()
    a_hat, x = models.normalize_adjacency(graph(6).float()), torch.randn(6, 5)
    assert model(x, a_hat).shape == (6, 4)
    assert torch.equal(model(x, a_hat), model.features(x, a_hat))


def test_sparse_under_autocast_and_compiled_dense() -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    model = models.create("gcn", 3, in_features=5).eval()
    a_hat, x = models.normalize_adjacency(graph(6).float()), torch.randn(6, 5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = model(x, a_hat.to_sparse())
    torch.testing.assert_close(half.float(), model(x, a_hat), rtol=0.05, atol=0.05)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, a_hat), model(x, a_hat))
