"""Learned k and ρ, energies of layers, filters: against the parameters themselves."""

import math

import numpy as np
import pytest
import torch
from torch import nn

import hypersphere as hs
from hypersphere.plots import _style


def model(**options):
    options = {"conv": "decoupled", "magnitude": "tanh", "angular": hs.angular.Sigmoid(learnable=True)} | options
    return hs.models.create(
        "cnn3", num_classes=4, in_channels=1, image_size=(8, 8), widths=(4, 5, 6), feature_dim=3, **options
    )


def bars(axes):
    return np.array([[p.get_x(), p.get_x() + p.get_width(), p.get_height()] for p in axes.patches])


def test_learned_k_has_a_histogram_for_each_layer():
    net = model()
    layers = {name: m for name, m in net.named_modules() if isinstance(m, hs.angular.Sigmoid)}
    expected = {}
    for index, (name, layer) in enumerate(layers.items()):
        k = torch.rand(len(layer.raw_k), generator=torch.Generator().manual_seed(index)) + 0.2
        with torch.no_grad():
            layer.raw_k.copy_(k.log())
        expected[name] = k.double().numpy()
    figure = hs.plots.learned_k(net, bins=10)
    panels = [axes for axes in figure.axes if axes.axison]
    assert [axes.get_title() for axes in panels] == ["body.conv1.0", "body.conv2.0", "body.conv3.0", "body.fc.0"]
    everything = np.concatenate([*expected.values(), [0.5]])  # with the start
    for axes, k in zip(panels, expected.values(), strict=True):
        found = bars(axes)
        assert len(found) == 10
        assert found[0, 0] < everything.min()
        assert found[-1, 1] > everything.max()
        counts, _ = np.histogram(k, bins=[*found[:, 0], found[-1, 1]])
        np.testing.assert_array_equal(found[:, 2], counts)
        assert counts.sum() == len(k)
        (start,) = [line for line in axes.lines if line.get_label() == "start"]
        assert start.get_xdata()[0] == 0.5
        assert axes.get_xlim() == panels[0].get_xlim()
    assert "k" in panels[-1].get_xlabel()


@pytest.mark.parametrize(("share", "names"), [("layer", 4), ("network", 1)])
def test_a_single_k_of_a_layer_or_the_network_is_a_point(share, names):
    left, right = hs.plots.learned_k(model(angular=hs.angular.Sigmoid(0.4, learnable=True, share=share))).axes
    np.testing.assert_allclose(left.lines[0].get_xdata(), [0.4] * names, rtol=1e-6)
    assert len(left.get_yticklabels()) == names
    assert bars(right)[:, 2].sum() == names


def test_learned_rho_and_the_radius_that_applies():
    net = model()
    rules = [m for m in net.modules() if isinstance(m, hs.magnitude.Tanh)]
    for index, rule in enumerate(rules):
        with torch.no_grad():
            rule.raw_rho.fill_(math.log(0.5 + index))
            rule.running_norm.fill_(2.0 + index)
    left, right = hs.plots.learned_rho(net).axes
    np.testing.assert_allclose(left.lines[0].get_xdata(), [0.5, 1.5, 2.5, 3.5], rtol=1e-6)
    np.testing.assert_array_equal(left.lines[0].get_ydata(), range(4))
    assert [t.get_text() for t in left.get_yticklabels()] == [
        "body.conv1.0",
        "body.conv2.0",
        "body.conv3.0",
        "body.fc.0",
    ]
    assert bars(right)[:, 2].sum() == 4
    left, _ = hs.plots.learned_rho(net, effective=True).axes
    np.testing.assert_allclose(left.lines[0].get_xdata(), [1.0, 4.5, 10.0, 17.5], rtol=1e-6)
    assert not [line for line in left.lines if line.get_label() == "start"]


def reference_energy(w, s=2.0):
    w = w / np.linalg.norm(w, axis=1, keepdims=True)
    pairs = [(i, j) for i in range(len(w)) for j in range(len(w)) if i != j]
    return sum(np.linalg.norm(w[i] - w[j]) ** -s for i, j in pairs) / len(pairs)


def test_layer_energies_against_a_loop_and_random_directions():
    net = nn.Sequential(nn.Conv2d(1, 6, 3), nn.Flatten(), nn.Linear(6, 4), nn.Linear(4, 3))
    figure = hs.plots.layer_energies(net, seed=5)
    (axes,) = figure.axes
    weights = [net[0].weight.flatten(1), net[2].weight, net[3].weight]
    found = [patch.get_width() for patch in axes.patches]
    np.testing.assert_allclose(found, [reference_energy(w.detach().double().numpy()) for w in weights], rtol=1e-4)
    generator = torch.Generator().manual_seed(5)
    random = [torch.randn(1, *w.shape, generator=generator)[0].double().numpy() for w in weights]
    np.testing.assert_allclose(axes.lines[0].get_xdata(), [reference_energy(w) for w in random], rtol=1e-4)
    assert [t.get_text() for t in axes.get_yticklabels()] == ["0", "2", "3"]
    assert {t.get_text() for t in axes.get_legend().get_texts()} == {"this network", "random directions"}
    assert "E₂" in axes.get_xlabel()


def test_layer_energies_with_a_head_and_in_half_space():
    net, head = nn.Sequential(nn.Linear(5, 4)), hs.losses.CosFace(4, 7)
    (axes,) = hs.plots.layer_energies(net, head, s=1.0, half_space=True).axes
    hidden, output = (patch.get_width() for patch in axes.patches)
    w = net[0].weight.detach().double().numpy()
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    assert hidden == pytest.approx(reference_energy(np.concatenate([w, -w]), 1.0), rel=1e-4)
    assert output == pytest.approx(reference_energy(head.weight.detach().double().numpy(), 1.0), rel=1e-4)


def tiles(canvas, height, width, across, count):
    """The images back from the grid: each weight is 4 × 4 pixels, two pixels between images."""
    h, w = 4 * height, 4 * width
    found = []
    for index in range(count):
        top, left = index // across * (h + 2), index % across * (w + 2)
        block = canvas[top : top + h, left : left + w]
        np.testing.assert_array_equal(block, np.repeat(np.repeat(block[::4, ::4], 4, 0), 4, 1))
        found.append(block[::4, ::4])
    return np.stack(found)


def test_filters_of_one_channel():
    net = model()
    weight = next(m for m in net.modules() if isinstance(m, nn.Conv2d)).weight.detach().double().numpy()[:, 0]
    figure = hs.plots.filters(net, columns=3)
    canvas = np.ma.filled(figure.axes[0].images[0].get_array(), np.nan)
    expected = weight / np.abs(weight).max((1, 2), keepdims=True)
    np.testing.assert_allclose(tiles(canvas, 3, 3, 3, 4), expected)
    assert canvas.shape == (2 * 12 + 2, 3 * 12 + 2 * 2)
    assert np.isnan(canvas[:, 12:14]).all()
    assert figure.axes[0].images[0].get_clim() == (-1, 1)
    layer = hs.plots.filters(net, columns=3, normalize="layer").axes[0].images[0]
    np.testing.assert_allclose(
        tiles(np.ma.filled(layer.get_array(), np.nan), 3, 3, 3, 4), weight / np.abs(weight).max()
    )


def test_filters_of_three_channels_are_coloured_around_grey():
    weight = torch.randn(4, 3, 5, 5)
    image = hs.plots.filters(weight.to(torch.bfloat16), columns=2).axes[0].images[0].get_array()
    w = weight.to(torch.bfloat16).double().numpy()
    expected = (w / np.abs(w).max((1, 2, 3), keepdims=True) + 1) / 2
    np.testing.assert_allclose(tiles(np.asarray(image), 5, 5, 2, 4), expected.transpose(0, 2, 3, 1))


def test_filters_of_other_channels_and_of_linear_layers():
    weight = torch.randn(5, 2, 3, 3, dtype=torch.float64)
    canvas = hs.plots.filters(weight, max_filters=4, normalize="layer").axes[0].images[0].get_array()
    found = tiles(np.ma.filled(canvas, np.nan), 3, 3, 2, 8)  # a row for each filter, a column for each channel
    np.testing.assert_allclose(found, weight[:4].flatten(0, 1).numpy() / weight[:4].abs().max().item())
    linear = nn.Linear(12, 4)
    canvas = hs.plots.filters(nn.Sequential(linear), image_shape=(1, 3, 4), columns=2).axes[0].images[0].get_array()
    w = linear.weight.detach().double().numpy().reshape(4, 3, 4)
    np.testing.assert_allclose(
        tiles(np.ma.filled(canvas, np.nan), 3, 4, 2, 4), w / np.abs(w).max((1, 2), keepdims=True)
    )


def test_a_zero_filter_is_blank_not_nan():
    image = hs.plots.filters(torch.zeros(1, 1, 3, 3)).axes[0].images[0].get_array()
    assert (np.asarray(image) == 0).all()


def test_colours_are_the_palettes():
    (axes,) = hs.plots.layer_energies(model()).axes
    from matplotlib.colors import to_hex

    assert to_hex(axes.patches[0].get_facecolor()) == _style.PALETTE[0].lower()


def broken():
    net = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    with torch.no_grad():
        net[0].weight.fill_(math.nan)
    return net


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: hs.plots.learned_k(nn.Linear(2, 2)), "learns no k"),
        (lambda: hs.plots.learned_k(model(angular="sigmoid")), "learns no k"),
        (lambda: hs.plots.learned_rho(model(magnitude="linear")), "learns no ρ"),
        (lambda: hs.plots.layer_energies(nn.ReLU()), "no layer with neurons"),
        (lambda: hs.plots.layer_energies(broken()), "not finite"),
        (lambda: hs.plots.filters(broken(), image_shape=(1, 1, 3)), "NaN"),
        (lambda: hs.plots.filters(nn.ReLU()), "no layer with neurons"),
        (lambda: hs.plots.filters(nn.Linear(4, 2)), "give image_shape"),
        (lambda: hs.plots.filters(nn.Linear(4, 2), image_shape=(1, 2, 3)), "with 4 numbers"),
        (lambda: hs.plots.filters(torch.randn(2, 1, 3)), "filters are"),
        (lambda: hs.plots.filters(torch.randn(2, 1, 3, 3), normalize="none"), "normalize='none'"),
    ],
)
def test_bad_input(call, match):
    with pytest.raises(ValueError, match=match):
        call()
