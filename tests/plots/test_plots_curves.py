"""Lines of g, h, ψ and of condition numbers against the formulas, written with math alone."""

import math

import numpy as np
import pytest
import torch

import hypersphere as hs
from hypersphere.plots import _style


def lines(figure, axes=0):
    return {line.get_label(): line for line in figure.axes[axes].lines if not line.get_label().startswith("_")}


def g_sigmoid(theta, k):  # paper eq. 4
    a, b = math.exp(-math.pi / (2 * k)), math.exp(theta / k - math.pi / (2 * k))
    return (1 + a) / (1 - a) * (1 - b) / (1 + b)


def test_angular_curves():
    figure = hs.plots.angular_curves(k=(0.2, 0.7), points=91)
    found = lines(figure)
    assert list(found) == ["cosine", "linear", "square cosine", "sigmoid, k = 0.2", "sigmoid, k = 0.7"]
    expected = {
        "cosine": math.cos,
        "linear": lambda t: 1 - 2 * t / math.pi,
        "square cosine": lambda t: math.copysign(math.cos(t) ** 2, math.cos(t)),
        "sigmoid, k = 0.2": lambda t: g_sigmoid(t, 0.2),
        "sigmoid, k = 0.7": lambda t: g_sigmoid(t, 0.7),
    }
    for name, line in found.items():
        degrees, values = line.get_data()
        np.testing.assert_allclose(degrees, np.linspace(0, 180, 91))
        np.testing.assert_allclose(values, [expected[name](math.radians(d)) for d in degrees], atol=1e-12)
    assert [line.get_color() for line in found.values()] == list(_style.PALETTE[:5])
    assert len({str(line.get_linestyle()) + line.get_color() for line in found.values()}) == 5
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == list(found)
    assert "degrees" in figure.axes[0].get_xlabel()


def test_angular_curves_of_own_functions_with_a_line_for_each_filter():
    g = hs.angular.Sigmoid(learnable=True).for_layer(3)
    with torch.no_grad():
        g.raw_k.copy_(torch.tensor([0.2, 0.5, 0.9]).log())
    figure = hs.plots.angular_curves({"layer 1": g, "plain": hs.angular.Cosine()}, points=61)
    drawn = [line for line in figure.axes[0].lines if len(line.get_xdata()) == 61]
    assert len(drawn) == 4
    for line, k in zip(drawn, (0.2, 0.5, 0.9), strict=False):
        np.testing.assert_allclose(
            line.get_ydata(), [g_sigmoid(math.radians(d), k) for d in line.get_xdata()], atol=1e-6
        )
    assert list(lines(figure)) == ["layer 1", "plain"]


def test_magnitude_curves():
    figure = hs.plots.magnitude_curves(alpha=1.5, rho=0.8, maximum=2.0, points=41)
    expected = {
        "sphere (α = 1.5)": lambda n: 1.5,
        "ball (α = 1.5, ρ = 0.8)": lambda n: 1.5 * min(n, 0.8) / 0.8,
        "tanh (α = 1.5, ρ = 0.8)": lambda n: 1.5 * math.tanh(n / 0.8),
        "linear (α = 1.5)": lambda n: 1.5 * n,
        "segment (α = 1.5, β = 0.5, ρ = 0.8)": lambda n: 1.5 * n if n <= 0.8 else 1.5 * 0.8 + 0.5 * (n - 0.8),
        "log (α = 1.5)": lambda n: 1.5 * math.log(1 + n),
        "mix (α = 1.5, β = 1)": lambda n: 1.5 * n + math.log(1 + n),
    }
    found = lines(figure)
    assert list(found) == list(expected)
    for name, line in found.items():
        norms, values = line.get_data()
        np.testing.assert_allclose(norms, np.linspace(0, 2, 41), atol=1e-7)
        np.testing.assert_allclose(values[1:], [expected[name](n) for n in norms[1:]], rtol=1e-6)
    assert math.isnan(found["sphere (α = 1.5)"].get_ydata()[0])  # h jumps there: no line up from 0
    assert found["linear (α = 1.5)"].get_ydata()[0] == 0


def test_magnitude_curves_of_a_trained_layer_read_its_running_mean_and_change_nothing():
    h = hs.magnitude.Tanh(rho=0.5)
    h(torch.full((4, 4), 3.0))  # the running mean norm is 3
    state = {name: value.clone() for name, value in h.state_dict().items()}
    figure = hs.plots.magnitude_curves({"layer": h}, points=31)
    norms, values = lines(figure)["layer"].get_data()
    np.testing.assert_allclose(values, np.tanh(norms / 1.5), atol=1e-6)
    assert h.training
    for name, value in h.state_dict().items():
        assert torch.equal(value, state[name])


@pytest.mark.parametrize("lam", [0.0, 3.0])
def test_psi_curves(lam):
    def psi(theta, m):  # thesis 2.6
        k = min(math.floor(theta * m / math.pi), m - 1)
        return (-1) ** k * math.cos(m * theta) - 2 * k

    figure = hs.plots.psi_curves(annealing=lam, points=181)
    found = lines(figure)
    assert list(found) == ["m = 1 (softmax)", "m = 2", "m = 3", "m = 4"]
    for m, line in enumerate(found.values(), start=1):
        degrees, values = line.get_data()
        expected = [(lam * math.cos(t) + psi(t, m)) / (1 + lam) for t in np.radians(degrees)]
        np.testing.assert_allclose(values, expected, atol=1e-9)
        assert (np.diff(values) <= 1e-12).all()


def test_condition_numbers_are_those_of_the_lemmas():
    """Against the Hessian of equation 12, written out: blocks VᵀV, UᵀU and v_j u_iᵀ."""
    scales = (1.0, 2.0, 4.0, 512.0)
    figure = hs.plots.condition_numbers(scales, shape=(4, 5, 2), seed=3)
    plain, sphere, free = lines(figure).values()
    generator = torch.Generator().manual_seed(3)
    u, v = (torch.randn(rows, 2, generator=generator, dtype=torch.float64).numpy() for rows in (4, 5))
    u, v = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (u, v))

    def kappa(c):
        a, b = c * u, v / c
        h = np.zeros((18, 18))
        for i in range(4):
            h[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = b.T @ b
        for j in range(5):
            h[8 + 2 * j : 10 + 2 * j, 8 + 2 * j : 10 + 2 * j] = a.T @ a
        for i in range(4):
            for j in range(5):
                block = np.outer(b[j], a[i])
                h[2 * i : 2 * i + 2, 8 + 2 * j : 10 + 2 * j] = block
                h[8 + 2 * j : 10 + 2 * j, 2 * i : 2 * i + 2] = block.T
        values = np.linalg.eigvalsh(h)
        return values[-1] / values[4]  # k² = 4 zeros of the symmetry

    np.testing.assert_allclose(plain.get_xdata(), scales)
    np.testing.assert_allclose(plain.get_ydata()[:3], [kappa(c) / kappa(1.0) for c in scales[:3]], rtol=1e-8)
    np.testing.assert_allclose(plain.get_ydata()[3], kappa(512.0) / kappa(1.0), rtol=1e-3)
    np.testing.assert_allclose(sphere.get_ydata(), np.ones(4), rtol=1e-6)
    assert 10 < free.get_ydata()[2] < free.get_ydata()[3] / 1e4
    assert figure.axes[0].get_yscale() == "log"


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: hs.plots.psi_curves(()), "margins is empty"),
        (lambda: hs.plots.psi_curves((0.5,)), "at least 1"),
        (lambda: hs.plots.psi_curves(annealing=-1.0), "annealing"),
        (lambda: hs.plots.angular_curves({}), "functions"),
        (lambda: hs.plots.angular_curves(points=1), "points"),
        (lambda: hs.plots.magnitude_curves({"bad": lambda n: n / 0}), "functions\\['bad'\\].*finite"),
        (lambda: hs.plots.magnitude_curves(maximum=0.0), "maximum"),
        (lambda: hs.plots.condition_numbers(()), "scales is empty"),
        (lambda: hs.plots.condition_numbers((-1.0,)), "scales=-1.0"),
        (lambda: hs.plots.condition_numbers((1e9,)), "scales=1e\\+09 is too far from 1"),
        (lambda: hs.plots.condition_numbers(shape=(3, 3)), "three sizes"),
        (lambda: hs.plots.condition_numbers(2.0), "scales has shape"),
        (lambda: hs.plots.psi_curves(4), "margins has shape"),
        (lambda: hs.plots.angular_curves(k=0.3), "k has shape"),
        (lambda: hs.plots.angular_curves([hs.angular.Cosine()]), "functions must map"),
        (lambda: hs.plots.angular_curves({"mine": lambda t: t}), "with from_cos"),
    ],
)
def test_bad_input(call, match):
    with pytest.raises((ValueError, TypeError), match=match):
        call()
