"""Any operator, normalisation and activation in any slot."""

import copy
import itertools
import math

import pytest
import torch
from torch import nn

import hypersphere.nn as twins
from hypersphere import angular, functional, magnitude, models
from hypersphere._core.registries import ANGULAR, MAGNITUDES

SMALL = {"widths": (4, 6, 8), "feature_dim": 5, "image_size": 8}
OPERATORS = {"plain": nn.Conv2d, "sphere": twins.SphereConv2d, "decoupled": twins.DecoupledConv2d}


def convs_of(model: nn.Module) -> list[nn.Conv2d]:
    return [m for m in model.modules() if isinstance(m, nn.Conv2d)]


@pytest.mark.parametrize(
    ("conv", "norm", "activation"),
    list(itertools.product(OPERATORS, ("batch", "sphere", "both", "none"), ("relu", "prelu", "none"))),
)
def test_every_combination_trains(conv: str, norm: str, activation: str) -> None:
    torch.manual_seed(0)
    model = models.create("cnn3", 7, conv=conv, norm=norm, activation=activation, **SMALL)
    x = torch.randn(4, 3, 8, 8, requires_grad=True)
    out = model(x)
    nn.functional.cross_entropy(out, torch.arange(4)).backward()
    assert out.shape == (4, 7)
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    assert x.grad is not None
    assert x.grad.isfinite().all()
    expected = twins.SphereConv2d if conv == "plain" and norm in ("sphere", "both") else OPERATORS[conv]
    assert {type(m) for m in convs_of(model)} == {expected}
    count = {kind: sum(isinstance(m, kind) for m in model.modules()) for kind in (nn.BatchNorm2d, nn.ReLU, nn.PReLU)}
    assert count[nn.BatchNorm2d] == (3 if norm in ("batch", "both") else 0)
    assert count[nn.ReLU] == (3 if activation == "relu" else 0)
    assert count[nn.PReLU] == (3 if activation == "prelu" else 0)
    assert type(model.classifier) is nn.Linear


@pytest.mark.parametrize("g", ANGULAR)
@pytest.mark.parametrize("h", MAGNITUDES)
def test_any_g_and_h(g: str, h: str) -> None:
    model = models.create("cnn3", 7, conv="decoupled", angular=g, magnitude=h, weighted="linear", **SMALL)
    layer = convs_of(model)[1]
    assert (layer.angular.kind, layer.magnitude.kind, layer.weighted) == (g, h, "linear")
    assert model(torch.randn(2, 3, 8, 8)).isfinite().all()


def test_block_is_operator_then_norm_then_activation() -> None:
    torch.manual_seed(0)
    model = models.create("cnn3", 7, conv="sphere", angular="sigmoid", **SMALL).eval()
    x = torch.randn(2, 3, 8, 8)
    block, pool = model.body.conv1
    weight = block.op.weight
    response = functional.decoupled_conv(x, weight, padding=1, magnitude="sphere", angular="sigmoid")
    torch.testing.assert_close(block(x), (response / math.sqrt(1 + 1e-5)).relu())  # BatchNorm before any step
    torch.testing.assert_close(pool(block(x)), nn.functional.max_pool2d(block(x), 2))


def test_no_activation_after_the_embedding_and_it_may_be_unnormalised() -> None:
    fc = models.create("cnn9", **SMALL).body.fc[-1]
    assert list(dict(fc.named_children())) == ["op", "norm"]
    fc = models.create("cnn9", fc_norm=False, **SMALL).body.fc[-1]
    assert list(dict(fc.named_children())) == ["op"]
    hidden, last = models.create("cnn6_mnist2d").body.fc
    assert list(dict(hidden.named_children())) == ["op", "norm", "act"]
    assert list(dict(last.named_children())) == ["op"]


def test_learnable_objects_belong_to_their_layers() -> None:
    model = models.create("cnn3", 7, conv="sphere", angular=angular.Sigmoid(learnable=True), **SMALL)
    assert [tuple(layer.angular.raw_k.shape) for layer in convs_of(model)] == [(4,), (6,), (8,)]
    shared = models.create("cnn3", 7, conv="sphere", angular=angular.Sigmoid(learnable=True, share="network"), **SMALL)
    assert len({id(layer.angular) for layer in convs_of(shared)}) == 1
    radius = models.create("cnn3", 7, conv="decoupled", magnitude=magnitude.Ball(rho=2.0), **SMALL)
    assert len({id(layer.magnitude) for layer in convs_of(radius)}) == 3


def test_affine_is_rescaled_sphere_norm() -> None:
    model = models.create("cnn3", 7, norm="sphere", affine=True, **SMALL)
    assert [tuple(layer.scale.shape) for layer in convs_of(model)] == [(4,), (6,), (8,)]


def test_batch_norm_settings() -> None:
    model = models.create("cnn3", norm_eps=1e-3, norm_momentum=0.01, **SMALL)
    norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d)]
    assert len(norms) == 4
    assert {(m.eps, m.momentum) for m in norms} == {(1e-3, 0.01)}


@pytest.mark.parametrize(
    ("options", "has"),
    [({}, False), ({"norm": "none"}, True), ({"norm": "none", "conv": "sphere"}, False), ({"bias": True}, True)],
)
def test_biases(options: dict, has: bool) -> None:
    model = models.create("cnn3", **options, **SMALL)
    assert {m.bias is not None for m in convs_of(model)} == {has}


@pytest.mark.parametrize(("activation", "gain"), [("relu", 2.0), ("prelu", 2 / (1 + 0.25**2)), ("none", 1.0)])
def test_he_initialisation(activation: str, gain: float) -> None:
    torch.manual_seed(0)
    model = models.create("cnn3", 100, activation=activation, widths=(64, 96, 128))
    for layer in [*convs_of(model)[1:], model.body.fc[0].op, model.classifier]:
        std = math.sqrt(gain / layer.weight[0].numel())
        assert layer.weight.std().item() == pytest.approx(std, rel=0.03)
        assert layer.weight.mean().abs().item() < 0.1 * std
    assert not model.classifier.bias.any()


def test_other_initialisations() -> None:
    torch.manual_seed(0)
    xavier = models.create("mlp", init="xavier").body[1].op.weight
    assert xavier.abs().max().item() == pytest.approx(math.sqrt(6 / (784 + 256)), rel=0.01)
    for init, std in (("normal", 0.01), ("standard_normal", 1.0)):
        assert models.create("mlp", init=init).body[1].op.weight.std().item() == pytest.approx(std, rel=0.02)
    for layer in convs_of(models.create("cnn6", init="unit")):
        torch.testing.assert_close(layer.weight.flatten(1).norm(dim=1), torch.ones(layer.out_channels))
    turned = models.create("sngan_generator", init="unit").deconvs[0].op.weight.transpose(0, 1)
    torch.testing.assert_close(turned.flatten(1).norm(dim=1), torch.ones(len(turned)))
    deconv = models.create("sngan_generator").deconvs[0].op.weight
    assert deconv.std().item() == pytest.approx(math.sqrt(2 / (512 * 16)), rel=0.02)


@pytest.mark.parametrize(
    ("shortcut", "kind"), [("operator", twins.SphereConv2d), ("plain", nn.Conv2d), ("pad", type(None))]
)
def test_shortcuts(shortcut: str, kind: type) -> None:
    model = models.create("resnet20", 5, conv="sphere", shortcut=shortcut, widths=(4, 6, 8))
    found = {name: type(m) for name, m in model.named_modules() if isinstance(m, nn.Conv2d) and "shortcut" in name}
    assert set(found.values()) == ({kind} if shortcut != "pad" else set())
    assert len(found) == (2 if shortcut != "pad" else 0)
    model(torch.randn(2, 3, 8, 8)).sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


def test_sphere_resnet_versions() -> None:
    for version, kind in (("v1", twins.SphereConv2d), ("v2", nn.Conv2d)):
        model = models.create(f"sphere_resnet18_{version}", device="meta")
        kinds = {"shortcut" in name: type(m) for name, m in model.named_modules() if isinstance(m, nn.Conv2d)}
        assert kinds == {False: twins.SphereConv2d, True: kind}


def test_pad_shortcut_keeps_the_input() -> None:
    unit, _ = models.Unit(6, stride=2, shortcut="pad").build(models.Slots(), 4)
    x = torch.randn(1, 4, 5, 5)
    out = unit.shortcut(x)
    assert torch.equal(out[:, :4], x[:, :, ::2, ::2])
    assert not out[:, 4:].any()
    assert out.shape == (1, 6, 3, 3)


def test_residual_units_sum_before_or_after_the_activation() -> None:
    x = torch.randn(2, 4, 5, 5)
    for form in ("basic", "face"):
        unit, _ = models.Unit(4, form=form).build(models.Slots(norm="none"), 4)
        first, second = (block.op for block in unit.branch)
        inside = second(first(x).relu())
        expected = (inside + x).relu() if form == "basic" else inside.relu() + x
        torch.testing.assert_close(unit(x), expected)


def test_bottleneck_strides_in_its_first_convolution() -> None:
    unit, cout = models.Unit(4, stride=2, form="bottleneck").build(models.Slots(), 8)
    assert cout == 16
    assert [(b.op.kernel_size[0], b.op.stride[0], b.op.out_channels) for b in unit.branch] == [
        (1, 2, 4),
        (3, 1, 4),
        (1, 1, 16),
    ]


def test_spectral_norm_bounds_every_weight() -> None:
    model = models.create("sngan_discriminator")
    x = torch.randn(2, 3, 32, 32)
    for _ in range(20):
        model(x)
    with torch.no_grad():
        norms = [torch.linalg.matrix_norm(m.weight.flatten(1), 2).item() for m in [*convs_of(model), model.classifier]]
    assert len(norms) == 8
    assert max(norms) == pytest.approx(1, abs=0.05)
    plain = models.create("sngan_discriminator", spectral_norm=False)
    assert not any("parametrizations" in name for name, _ in plain.named_parameters())


def test_slots_are_frozen_and_copies_are_independent() -> None:
    slots = models.Slots(conv="sphere")
    with pytest.raises(AttributeError):
        slots.conv = "plain"  # type: ignore[misc]
    model = models.create("cnn3", conv="sphere", **SMALL)
    twin = copy.deepcopy(model)
    with torch.no_grad():
        twin.classifier.weight.zero_()
    assert model.classifier.weight.any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"conv": "sphre"}, "did you mean 'sphere'"),
        ({"norm": "layer"}, "norm='layer' is unknown"),
        ({"activation": "gelu"}, "activation='gelu' is unknown"),
        ({"init": "orthogonal"}, "init='orthogonal' is unknown"),
        ({"conv": "sphere", "angular": "cosin"}, "did you mean 'cosine'"),
        ({"conv": "decoupled", "magnitude": "tan"}, "did you mean 'tanh'"),
        ({"conv": "decoupled", "weighted": "lin"}, "did you mean 'linear'"),
        ({"angular": "linear"}, "need conv='sphere'"),
        ({"affine": True}, "need conv='sphere'"),
        ({"conv": "sphere", "magnitude": "tanh"}, "need conv='decoupled'"),
        ({"conv": "sphere", "weighted": "linear"}, "need conv='decoupled'"),
        ({"norm_eps": 0.0}, "norm_eps=0.0"),
        ({"norm_momentum": 2.0}, "norm_momentum=2.0"),
        ({"bias": "no"}, "bias='no' must be True or False"),
    ],
)
def test_bad_slots(options: dict, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        models.create("cnn3", **options)
