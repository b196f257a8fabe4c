import math
from contextlib import nullcontext

import pytest
import torch
from energy_reference import duplicated, gradient_without_duplicates

from hypersphere.functional import class_energy, energy, polarization
from hypersphere.functional.energy import duplicates as module
from hypersphere.functional.energy.duplicates import duplicates
from hypersphere.functional.energy.kernel import Kernel, derivatives, pair_energy

BLOCKS = [None, 4]


def vectors(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("block_size", BLOCKS)
@pytest.mark.parametrize("half_space", [False, True])
@pytest.mark.parametrize("distance", ["euclidean", "angular"])
@pytest.mark.parametrize("s", [0.0, 1.0, 2.0, 12.0, 40.0])
def test_identical_neurons_have_large_finite_energy_and_finite_gradients(s, distance, half_space, block_size):
    w = vectors(6, 5)
    apart = energy(w, s, distance, half_space, block_size=block_size)
    w[3] = w[1]
    w[4] = -w[2]
    w.requires_grad_()
    value = energy(w, s, distance, half_space, block_size=block_size)
    (gradient,) = torch.autograd.grad(value, w, create_graph=True)
    assert torch.isfinite(value)
    assert value > apart + 0.1
    assert torch.isfinite(gradient).all()
    if s <= 2:
        assert torch.isfinite(torch.autograd.grad(gradient.sum(), w)[0]).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("block_size", BLOCKS)
@pytest.mark.parametrize(("s", "half_space", "weighted"), [(2.0, False, False), (1.0, True, True), (5.0, True, False)])
def test_neurons_of_one_direction_do_not_push_each_other(s, half_space, weighted, block_size, dtype):
    w = duplicated(vectors(7, 6, dtype=dtype)).requires_grad_()
    beta = torch.linspace(0.5, 2, 7) if weighted else None
    (gradient,) = torch.autograd.grad(energy(w, s, "euclidean", half_space, beta, block_size=block_size), w)
    expected = gradient_without_duplicates(w, s, half_space, beta)
    torch.testing.assert_close(gradient, expected.to(dtype), rtol=1e-4, atol=1e-5)


def test_neurons_of_one_direction_in_every_mode():
    """Compiled, mapped, differentiated twice and forwards; by angle, by class, and beside given points."""
    w = duplicated(vectors(7, 6))
    expected = gradient_without_duplicates(w, 2.0, False).float()
    near = {"rtol": 1e-4, "atol": 1e-6}
    leaf = w.clone().requires_grad_()
    (first,) = torch.autograd.grad(torch.compile(energy, fullgraph=True, backend="aot_eager")(leaf), leaf)
    torch.testing.assert_close(first, expected, **near)
    for tiles in (None, 4):
        mapped = torch.func.vmap(torch.func.grad(lambda x, tiles=tiles: energy(x, block_size=tiles)))(w.expand(2, 7, 6))
        torch.testing.assert_close(mapped, expected.expand(2, 7, 6), **near)
        moved = torch.func.jvp(lambda x, tiles=tiles: energy(x, block_size=tiles), (w,), (w.flip(0),))[1]
        torch.testing.assert_close(moved, (expected * w.flip(0)).sum(), **near)
        (first,) = torch.autograd.grad(energy(leaf, block_size=tiles), leaf, create_graph=True)
        assert torch.autograd.grad(first.sum(), leaf)[0].abs().max() < 10
    values = [
        energy(leaf, distance="angular", half_space=True),
        class_energy(leaf, torch.tensor([1, 4, 0])),
        polarization(leaf, w[[1, 1]].detach()),
    ]
    assert all(torch.autograd.grad(value, leaf)[0].abs().max() < 1 for value in values)


def test_neurons_of_one_direction_are_found_without_waiting_for_a_gpu(monkeypatch):
    w = torch.nn.functional.normalize(vectors(300, 40))
    w[7], w[9] = w[5] * (1 + 1e-7), -w[5]
    w[11] = torch.nn.functional.normalize(w[5] + 1e-4 * w[6], dim=0)
    listed = duplicates(w @ w.T, w, w, Kernel(2.0, False, False, 1e-5))
    assert listed.triu(1).nonzero().tolist() == [[5, 7], [5, 9], [7, 9]]
    monkeypatch.setattr(module, "_is_compared_whole", lambda cosines: True)
    assert torch.equal(duplicates(w @ w.T, w, w, Kernel(2.0, False, False, 1e-5)), listed)
    monkeypatch.setattr(module, "_is_compared_whole", lambda cosines: False)
    monkeypatch.setattr(module, "may_look", lambda device: False)
    assert torch.equal(duplicates(w @ w.T, w, w, Kernel(2.0, False, False, 1e-5)), listed)


@pytest.mark.parametrize("block_size", BLOCKS)
@pytest.mark.parametrize("gap", [1e-2, 1e-3, 1e-4])
@pytest.mark.parametrize("s", [0.0, 1.0, 2.0])
def test_near_duplicates_are_pushed_apart(s, gap, block_size):
    w = vectors(6, 5)
    direction = vectors(5, seed=9)
    w[0] = w[0] / w[0].norm()
    direction = direction - w[0] * (w[0] @ direction)
    direction = direction / direction.norm()
    w[1] = w[0] + gap * direction
    w.requires_grad_()
    (gradient,) = torch.autograd.grad(energy(w, s, reduction="sum", block_size=block_size), w)
    assert gradient[1] @ direction < 0  # descent moves w_1 away from w_0
    assert gradient[0] @ direction > 0


def test_precision_guard_is_what_the_docstring_says():
    close = vectors(2, 8)
    close[1] = close[0] * (1 + 1e-7)
    floor = 16 * torch.finfo(torch.float32).eps
    assert energy(close).item() == pytest.approx(2 / floor, rel=0.2)  # tangent at the floor: f(1 + s/2)
    assert energy(close, floor=1e-2).item() == pytest.approx(2 / 1e-2, rel=1e-3)
    gap = 5e-3
    w = torch.tensor([[1.0, 0.0], [math.cos(gap), math.sin(gap)]])
    exact = (2 * math.sin(gap / 2)) ** -2
    assert energy(w).item() == pytest.approx(exact, rel=0.05)
    assert energy(w.double()).item() == pytest.approx(exact, rel=1e-2)


@pytest.mark.parametrize("angular", [False, True])
@pytest.mark.parametrize("half_space", [False, True])
@pytest.mark.parametrize("s", [0.0, 1.0, 2.0, 5.0])
def test_closed_form_derivatives_are_those_of_the_differentiable_form(s, angular, half_space):
    kernel = Kernel(s, angular, half_space, floor=0.05)
    c = torch.tensor([-0.99, -0.6, 0.0, 0.3, 0.9, 0.97, 0.985, 0.999], dtype=torch.float64, requires_grad=True)
    value = pair_energy(c, kernel)
    (slope,) = torch.autograd.grad(value.sum(), c, create_graph=True)
    (curvature,) = torch.autograd.grad(slope.sum(), c)
    found = derivatives(c.detach(), kernel, second=True)
    torch.testing.assert_close(found[0], value.detach())
    torch.testing.assert_close(found[1], slope.detach())
    torch.testing.assert_close(found[2], curvature)
    eps = 1e-9  # continuous, slope too, where the guard takes over
    edge = 1 - 0.05 / 2 if not angular else math.cos(math.sqrt(0.05))
    below, above = (derivatives(torch.tensor(edge + d, dtype=torch.float64), kernel) for d in (-eps, eps))
    torch.testing.assert_close(below[0], above[0], rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(below[1], above[1], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("block_size", BLOCKS)
def test_guard_gives_the_same_with_and_without_tiles(block_size):
    w = vectors(9, 4, dtype=torch.float64)
    w[5] = w[2]
    w[7] = -w[1] + 1e-9
    for s in (0.0, 1.0, 2.0, 2.5):
        for half_space in (False, True):
            dense = energy(w, s, half_space=half_space)
            torch.testing.assert_close(energy(w, s, half_space=half_space, block_size=4), dense)


@pytest.mark.parametrize("block_size", BLOCKS)
def test_zero_neurons_count_as_orthogonal_and_get_no_gradient(block_size):
    w = torch.cat([vectors(3, 4), torch.zeros(2, 4)])
    extended = torch.cat([torch.nn.functional.pad(w[:3], (0, 2)), torch.eye(6)[4:]])
    w.requires_grad_()
    for distance in ("euclidean", "angular"):
        value = energy(w, 2.0, distance, block_size=block_size)
        torch.testing.assert_close(value, energy(extended, 2.0, distance))
        (gradient,) = torch.autograd.grad(value, w)
        assert torch.isfinite(gradient).all()
        assert (gradient[3:] == 0).all()


@pytest.mark.parametrize("block_size", BLOCKS)
def test_nan_gives_nan(block_size):
    w = vectors(6, 4)
    w[2, 1] = math.nan
    for s in (0.0, 1.0, 2.0, 3.0):
        assert energy(w, s, block_size=block_size).isnan()
        assert energy(w, s, half_space=True, block_size=block_size).isnan()


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_any_scale(scale):
    w = vectors(6, 4)
    torch.testing.assert_close(energy(w * scale), energy(w))
    x = (w * scale).requires_grad_()
    (gradient,) = torch.autograd.grad(energy(x), x)
    assert torch.isfinite(gradient).all()


def test_none_and_one_neuron():
    for count in (0, 1):
        w = torch.ones(count, 3, requires_grad=True)
        value = energy(w)
        assert value == 0
        (gradient,) = torch.autograd.grad(value, w)
        assert gradient.shape == w.shape
    assert energy(torch.ones(1, 3), half_space=True).item() == pytest.approx(0.25)
    assert energy(torch.ones(0, 3), half_space=True) == 0


def test_one_dimension_has_only_two_directions():
    assert energy(torch.tensor([[1.0], [-2.0]])).item() == pytest.approx(0.25)
    value = energy(torch.tensor([[1.0], [2.0], [-1.0]]))
    assert torch.isfinite(value)
    assert value > 1e4


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    w = vectors(12, 16).to(dtype)
    w.requires_grad_()
    value = energy(w, half_space=True)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, energy(w.float(), half_space=True))
    (gradient,) = torch.autograd.grad(value, w)
    assert gradient.dtype == dtype
    assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("block_size", BLOCKS)
def test_autocast_changes_nothing(block_size):
    w = vectors(12, 16)
    expected = energy(w, block_size=block_size)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(energy(w, block_size=block_size), expected)


def test_float32_close_to_float64():
    w = vectors(300, 64)
    for s in (0.0, 1.0, 2.0, 3.5):
        for half_space in (False, True):
            x32, x64 = w.clone().requires_grad_(), w.double().requires_grad_()
            a, b = energy(x32, s, half_space=half_space, block_size=128), energy(x64, s, half_space=half_space)
            assert a.item() == pytest.approx(b.item(), rel=2e-6)
            g32, g64 = torch.autograd.grad(a, x32)[0].double(), torch.autograd.grad(b, x64)[0]
            assert (g32 - g64).norm() < 1e-4 * g64.norm()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"s": -1.0}, "s=-1.0"),
        ({"s": math.inf}, "finite"),
        ({"distance": "cosine"}, "distance"),
        ({"reduction": "none"}, "reduction"),
        ({"weights": torch.ones(3)}, "weights has shape"),
        ({"weights": torch.ones(5), "distance": "angular"}, "use distance='euclidean'"),
        ({"block_size": 0}, "block_size"),
        ({"floor": 0.0}, "floor"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        energy(torch.randn(5, 3), **arguments)


def test_bad_inputs():
    with pytest.raises(TypeError, match="floating"):
        energy(torch.ones(3, 2, dtype=torch.long))
    with pytest.raises(TypeError, match="half_space"):
        energy(torch.ones(3, 2), half_space="output")
    with pytest.raises(ValueError, match="neurons as rows"):
        energy(torch.ones(3))
    with pytest.raises(ValueError, match="d ≥ 1"):
        energy(torch.ones(3, 0))


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="C++ for a CPU; a GPU compiles in test_energy_gpu.py")
def test_inductor():
    w = vectors(10, 6).requires_grad_()
    value = torch.compile(lambda x: energy(x, 1.0), fullgraph=True)(w)
    torch.testing.assert_close(value, energy(w, 1.0))


def test_vmap_over_tiles():
    w = vectors(3, 6, 4, dtype=torch.float64)

    def tiled(x):
        return energy(x, half_space=True, block_size=4)

    torch.testing.assert_close(torch.func.vmap(tiled)(w), energy(w, half_space=True))


def test_vmap_and_forward_mode_of_small_sets():
    w = vectors(3, 6, 4, dtype=torch.float64)
    torch.testing.assert_close(torch.func.vmap(energy)(w), energy(w))
    tangent = vectors(6, 4, seed=5, dtype=torch.float64)
    _, forward = torch.func.jvp(energy, (w[0],), (tangent,))
    torch.testing.assert_close(forward, (torch.func.grad(energy)(w[0]) * tangent).sum())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("distance", ["euclidean", "angular"])
@pytest.mark.parametrize("s", [0.0, 1.0, 2.0, 12.0, 100.0])
def test_a_floor_gives_finite_energies_or_is_refused(s, distance, dtype):
    w = vectors(4, 3, dtype=dtype)
    w[1] = w[0]
    taken = 0
    for floor in (1e-300, 1e-46, 1e-30, 1e-16, 1e-10, 1e-6, 1e-3, 0.1, 1.0, 9.0, 16.0, 17.0, 1e39, 1e300, 10**400):
        x = w.clone().requires_grad_()
        refused = floor > 16 or floor < torch.finfo(dtype).max ** (-1.8 / (s + 4))
        with pytest.raises(ValueError, match=r"^floor=.* must be ") if refused else nullcontext():
            value = energy(x, s, distance, floor=floor)
        if refused:
            continue
        taken += 1
        (gradient,) = torch.autograd.grad(value, x, create_graph=True)
        assert torch.isfinite(value)
        assert torch.isfinite(gradient).all()
    assert taken >= 3
    energy(w, s, distance, floor=Kernel.build(s, distance, False, None, dtype).floor)
