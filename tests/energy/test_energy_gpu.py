"""What only a GPU can show: the compiled kernels against float64, captured graphs, one compilation."""

import pytest
import torch
from torch import nn

from hypersphere import kernels
from hypersphere.functional import class_energy, energy
from hypersphere.functional.energy import set_energies
from hypersphere.kernels.launch import enabled
from hypersphere.regularizers import MHE, SRIP, CoMHE, Polarization

pytestmark = pytest.mark.gpu

if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)


@pytest.fixture(autouse=True)
def with_kernels():
    before = [family for family in kernels.FAMILIES if enabled(family)]
    kernels.enable(*kernels.FAMILIES)
    yield
    kernels.enable(*before)


def vectors(count, dim, seed=0):
    return torch.randn(count, dim, device="cuda", generator=torch.Generator("cuda").manual_seed(seed))


def spread():
    return vectors(17_000, 256)


def close():
    w = vectors(3001, 130, 1)
    for index, gap in enumerate((0.5, 0.3, 0.1, 0.03)):
        w[2 * index + 1] = w[2 * index] + gap * w[2 * index + 100]
        w[2 * index + 50] = -w[2 * index + 60] + gap * w[2 * index + 200]
    w[77] = 0
    return w


def clustered():
    centres = vectors(50, 64, 2)
    return centres[torch.arange(4000, device="cuda") % 50] + 0.3 * vectors(4000, 64, 3)


@pytest.mark.parametrize("make", [spread, close, clustered])
@pytest.mark.parametrize(
    ("s", "distance", "half_space", "weighted"),
    [
        (2.0, "euclidean", False, False),
        (2.0, "euclidean", True, False),
        (0.0, "euclidean", False, False),
        (1.0, "euclidean", True, True),
        (5.0, "euclidean", False, False),
        (2.0, "angular", True, False),
    ],
)
def test_sweep_keeps_1e_5(make, s, distance, half_space, weighted):
    w = make().requires_grad_()
    beta = torch.linspace(0.5, 2, len(w), device="cuda") if weighted else None
    value = energy(w, s, distance, half_space, beta)
    (gradient,) = torch.autograd.grad(value, w)
    x = w.detach().double().requires_grad_()
    exact = energy(x, s, distance, half_space, None if beta is None else beta.double(), block_size=4096)
    (slope,) = torch.autograd.grad(exact, x)
    assert value.item() == pytest.approx(exact.item(), rel=1e-5)
    assert (gradient.double() - slope).norm() < 1e-5 * slope.norm()


def test_class_energy():
    w, labels = close().requires_grad_(), torch.randint(3001, (700,), device="cuda")
    value = class_energy(w, labels)
    (gradient,) = torch.autograd.grad(value, w)
    x = w.detach().double().requires_grad_()
    exact = class_energy(x, labels)
    (slope,) = torch.autograd.grad(exact, x)
    assert value.item() == pytest.approx(exact.item(), rel=1e-5)
    assert (gradient.double() - slope).norm() < 1e-5 * slope.norm()


def test_several_sets_at_once():
    sets = [vectors(3 * 70, 33).view(3, 70, 33), vectors(256, 2048, 1), vectors(5, 7, 2)]
    halves = [True, False, True]
    leaves = [w.clone().requires_grad_() for w in sets]
    values = set_energies(leaves, half_space=halves)
    sum(value.sum() for value in values).backward()
    for leaf, w, value, half in zip(leaves, sets, values, halves, strict=True):
        x = w.double().requires_grad_()
        exact = energy(x, half_space=half)
        exact.sum().backward()
        torch.testing.assert_close(value.double(), exact.detach(), rtol=2e-6, atol=0)
        assert (leaf.grad.double() - x.grad).norm() < 1e-5 * x.grad.norm()


MAKERS = {
    "MHE": MHE,
    "sampled": lambda model: MHE(model, sample=8),
    "weighted": lambda model: MHE(model, sample=8, weights={"0": torch.linspace(0.5, 2, 16, device="cpu")}),
    "CoMHE": lambda model: CoMHE(model, refresh=2),
    "adversarial": lambda model: CoMHE(model, projection="adversarial"),
    "SRIP": SRIP,
    "Polarization": Polarization,
}


def network():
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 16, 3), nn.Conv2d(16, 16, 3), nn.Conv2d(16, 24, 3), nn.Flatten(), nn.Linear(96, 40)
    return nn.Sequential(*layers, nn.Linear(40, 10)).cuda()


@pytest.mark.parametrize("name", MAKERS)
def test_a_graph_counts_and_draws_as_calls_do(name):
    model = network()
    eager, replayed = MAKERS[name](model), MAKERS[name](model)
    with torch.no_grad():
        expected = [eager().item() for _ in range(8)]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            found = [replayed().item() for _ in range(3)]
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            value = replayed()
        for _ in range(5):
            graph.replay()
            found.append(value.item())
    assert found == pytest.approx(expected, rel=1e-5)
    assert replayed.steps == 8


@pytest.mark.parametrize("name", ["MHE", "sampled", "CoMHE"])
def test_compiles_once_and_agrees(name):
    model = network()
    plain, compiled = MAKERS[name](model), MAKERS[name](model)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    run = torch.compile(lambda: compiled() * 1.0, fullgraph=True)
    for _ in range(4):
        torch.testing.assert_close(run(), plain(), rtol=1e-4, atol=1e-5)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
