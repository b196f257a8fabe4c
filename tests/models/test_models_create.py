"""create, list_models, options, describe; what every network promises."""

import inspect
import pickle

import pytest
import torch
from torch import nn

import hypersphere as hs
from hypersphere import losses, models
from hypersphere._core.output_layer import find_output_layer
from hypersphere._core.registries import MODELS
from hypersphere.models import registry

SMALL = {"widths": (4, 6, 8), "feature_dim": 5, "image_size": 8}
# a tiny version of each kind of image or point network, and a sample
TINY = {
    "cnn3": (SMALL, (3, 8, 8)),
    "cnn4": ({"width": 4, "image_size": 16}, (3, 16, 16)),
    "cnn10": ({"widths": (4, 6, 8), "image_size": 32}, (3, 32, 32)),
    "cnn6_mnist2d": ({"image_size": 8}, (1, 8, 8)),
    "resnet20": ({"widths": (4, 6, 8)}, (3, 8, 8)),
    "resnet18": ({"widths": (4, 5, 6, 7)}, (3, 32, 32)),
    "resnet50": ({"widths": (2, 2, 3, 3)}, (3, 32, 32)),
    "resnet18_modified": ({"widths": (4, 5, 6, 7)}, (3, 32, 32)),
    "sphereface20": ({"widths": (4, 5, 6, 7), "image_size": (16, 14), "feature_dim": 9}, (3, 16, 14)),
    "mlp": ({"in_features": 12, "hidden": (8, 6)}, (3, 4)),
    "pointnet": ({"width": 1 / 16}, (20, 3)),
    "pointnet_tnet": ({"width": 1 / 16}, (20, 3)),
    "pointnet2": ({"points": (8, 4), "samples": (4, 4)}, (20, 3)),
    "sngan_discriminator": ({"widths": (4, 5, 6, 7), "image_size": 16}, (3, 16, 16)),
}
EVERY = [
    "cnn3", "cnn4", "cnn6", "cnn6_mnist2d", "cnn9", "cnn10", "cnn15", "cnn18", "cnn45", "cnn60", "cnn69", "gcn",
    "lsoftmax_cifar10", "lsoftmax_cifar100", "lsoftmax_lfw", "lsoftmax_mnist", "lsoftmax_mnist2d", "mlp", "pointnet",
    "pointnet2", "pointnet_tnet", "resnet18", "resnet18_modified", "resnet20", "resnet32", "resnet34", "resnet50",
    "sngan_discriminator", "sngan_generator", "sphere_resnet18_v1", "sphere_resnet18_v2", "sphereface4",
    "sphereface10", "sphereface20", "sphereface36", "sphereface64",
]  # fmt: skip


def test_list_models() -> None:
    assert models.list_models() == EVERY
    assert models.list_models("sphereface*") == [f"sphereface{n}" for n in (4, 10, 20, 36, 64)]
    assert models.list_models("resnet??") == ["resnet18", "resnet20", "resnet32", "resnet34", "resnet50"]
    assert models.list_models("vit*") == []


@pytest.mark.parametrize("name", EVERY)
def test_every_name_cites_its_table_and_documents_its_options(name: str) -> None:
    text = models.describe(name)
    assert any(word in text.splitlines()[0] for word in ("Table", "sec."))
    builder = registry.MODELS[name].build
    documented = inspect.getdoc(builder)
    assert all(f"{parameter}" in documented.split("Args:")[1] for parameter in inspect.signature(builder).parameters)
    own = set(inspect.signature(builder).parameters) - {"slots"} - set(registry.MODELS[name].fixed)
    assert own <= set(models.options(name))


@pytest.mark.parametrize("name", TINY)
def test_features_then_classifier(name: str) -> None:
    torch.manual_seed(0)
    options, shape = TINY[name]
    model = models.create(name, 5, **options).eval()
    x = torch.randn(4, *shape)
    features = model.features(x)
    assert features.shape == (4, model.feature_dim)
    torch.testing.assert_close(model.forward_features(x), features)
    torch.testing.assert_close(model(x), features @ model.classifier.weight.mT + model.classifier.bias)
    assert find_output_layer(model) == ("classifier", model.classifier)


@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize("conv", ["sphere", "decoupled"])
def test_a_margin_head_trains_on_the_embedding(name: str, conv: str) -> None:
    torch.manual_seed(0)
    options, shape = TINY[name]
    model = models.create(name, 0, conv=conv, **options)
    assert isinstance(model.classifier, nn.Identity)
    head = losses.ASoftmax(model.feature_dim, 5, margin=4)
    x = torch.randn(4, *shape)
    loss = head(model(x), torch.arange(4))
    loss.backward()
    assert loss.isfinite()
    grads = [p.grad for p in model.parameters()]
    assert all(g is not None and g.isfinite().all() for g in grads)
    assert any(g.any() for g in grads)


@pytest.mark.parametrize("name", TINY)
def test_state_dict_round_trip(name: str) -> None:
    options, shape = TINY[name]
    torch.manual_seed(0)
    first, second = (models.create(name, 5, conv="sphere", **options) for _ in range(2))
    x = torch.randn(4, *shape)
    first(x)  # moves the running statistics
    first.eval(), second.eval()
    assert not torch.equal(first(x), second(x))
    second.load_state_dict(first.state_dict())
    assert torch.equal(first(x), second(x))


@pytest.mark.parametrize(
    ("name", "conv"), [("cnn3", "sphere"), ("resnet20", "plain"), ("pointnet_tnet", "plain"), ("pointnet2", "plain")]
)
def test_compiles_without_graph_breaks(name: str, conv: str) -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    options, shape = TINY[name]
    model = models.create(name, 5, conv=conv, **options).eval()
    x = torch.randn(4, *shape)
    compiled = torch.compile(model, fullgraph=True, backend="eager")  # layers go through AOTAutograd in their own tests
    torch.testing.assert_close(compiled(x), model(x))


def test_training_step_compiles_too() -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    options, shape = TINY["mlp"]
    model = models.create("mlp", 5, conv="decoupled", **options)
    x = torch.randn(4, *shape)
    torch.compile(model, fullgraph=True, backend="aot_eager")(x).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("name", ["cnn3", "resnet20", "pointnet2", "mlp"])
def test_autocast_and_float64(name: str) -> None:
    torch.manual_seed(0)
    options, shape = TINY[name]
    model = models.create(name, 5, conv="sphere", **options).eval()
    x = torch.randn(4, *shape)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = model(x)
    torch.testing.assert_close(half.float(), model(x), rtol=0.1, atol=0.1)
    double = models.create(name, 5, conv="sphere", dtype=torch.float64, **options).eval()
    assert double(x.double()).dtype == torch.float64


def test_default_classes_are_the_documents() -> None:
    given = {name: models.options(name)["num_classes"] for name in ("cnn9", "cnn6", "resnet50", "pointnet", "gcn")}
    assert given == {"cnn9": 10, "cnn6": 100, "resnet50": 1000, "pointnet": 40, "gcn": 7}


def test_own_network_from_the_grammar() -> None:
    stages = [("stem", [models.Conv(4, 5, 2)]), ("units", [models.Unit(4), models.Pool()])]
    model = models.image_network(stages, models.Slots(conv="sphere"), 3, 1, (16, 12), (6,))
    assert model(torch.randn(2, 1, 16, 12)).shape == (2, 3)


def test_a_builder_from_outside_may_take_any_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODELS, "_entries", dict(MODELS._entries))
    hs.register("model", "any", lambda num_classes, **options: nn.Linear(options["width"], num_classes))
    assert models.create("any", 3, width=4).weight.shape == (3, 4)
    assert list(models.options("any")) == ["num_classes"]
    hs.register("model", "none", lambda num_classes: "a network")
    with pytest.raises(ValueError, match="name='none' gives a str, not a torch"):
        models.create("none", 3)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("cnn8", {}, "name='cnn8' is unknown: .*did you mean 'cnn"),
        ("cnn9", {"widht": 3}, "cnn9 option='widht' is unknown: .*did you mean 'widths'"),
        ("cnn9", {"depth": 12}, "cnn9 option='depth' is unknown"),
        ("sngan_generator", {"num_classes": 3}, "option='num_classes' is unknown"),
        ("cnn9", {"widths": "papr"}, "did you mean 'paper'"),
        ("cnn9", {"widths": (1, 2)}, "must have 3 numbers"),
        ("resnet18", {"widths": (1, 2, 3)}, "must have 4 numbers"),
        ("cnn9", {"image_size": 4}, "too small"),
        ("cnn9", {"image_size": (8, 8, 8)}, "one number or"),
        ("cnn9", {"num_classes": -1}, "num_classes=-1"),
        ("cnn9", {"feature_dim": 0}, "feature_dim=0"),
        ("cnn9", {"in_channels": 0}, "in_channels=0"),
        ("resnet20", {"shortcut": "none"}, "shortcut='none' is unknown"),
        ("pointnet", {"in_channels": 2}, "in_channels=2"),
        ("gcn", {"dropout": 1.0}, "dropout=1.0"),
        ("sngan_discriminator", {"image_size": 30}, "multiple of 8"),
        ("resnet20", {"widths": (8, 4, 8), "shortcut": "pad"}, "'pad' cannot make 4 channels of 8"),
        ("pointnet", {"width": -1.0}, "width=-1.0 must be finite and > 0"),
        ("sngan_generator", {"widths": ()}, "widths is empty"),
        ("cnn9", {"dtype": "float16"}, "dtype='float16' must be a floating-point type"),
    ],
)
def test_bad_arguments(name: str, options: dict, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        models.create(name, **options)


def test_wrong_image_size_says_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"image_size=\(height, width\)"):
        models.create("cnn3", **SMALL)(torch.randn(1, 3, 16, 16))


def test_too_small_clouds_say_what_to_do() -> None:
    with pytest.raises(ValueError, match="smaller points="):
        models.create("pointnet2")(torch.randn(1, 100, 3))


@pytest.mark.parametrize("name", [name for name in TINY if name != "sngan_discriminator"])
def test_pickle_round_trip(name: str) -> None:
    """(torch saves parametrized modules, such as those with spectral norm, by state_dict only.)"""
    options, shape = TINY[name]
    model = models.create(name, 5, conv="decoupled", **options).eval()
    x = torch.randn(2, *shape)
    assert torch.equal(pickle.loads(pickle.dumps(model))(x), model(x))


@pytest.mark.parametrize("name", ["cnn3", "pointnet2"])
def test_export(name: str) -> None:
    options, shape = TINY[name]
    model = models.create(name, 5, conv="plain" if name == "pointnet2" else "sphere", **options).eval()
    x = torch.randn(4, *shape)
    program = torch.export.export(model, (x,))
    torch.testing.assert_close(program.module()(x), model(x))


def test_wide_widths_fit_every_imagenet_resnet() -> None:
    for name, dim in (("resnet18", 1024), ("resnet34", 1024), ("resnet50", 4096)):
        model = models.create(name, widths="wide", shortcut="operator", device="meta")
        assert model.feature_dim == dim
        assert model.body.conv0[0].op.out_channels == 256


def test_face_networks_start_with_small_residual_branches():
    """As the released networks do; He's weights everywhere would let features grow with depth."""
    images = torch.rand(2, 3, 112, 96) * 2 - 1
    with torch.no_grad():
        deep = models.create("sphereface36", widths=(8, 8, 8, 8)).features(images).norm(dim=1)
        shallow = models.create("sphereface4", widths=(8, 8, 8, 8)).features(images).norm(dim=1)
    assert bool((deep < 5 * shallow).all())
    network = models.create("sphereface10", branch_std=0.5)
    assert float(network.body.conv2[1].branch[0].op.weight.detach().std()) == pytest.approx(0.5, rel=0.02)
    as_init_says = models.create("sphereface10", init="he", branch_std=None).body.conv2[1].branch[0].op.weight
    assert float(as_init_says.detach().std()) == pytest.approx((2 / 1.0625 / 1152) ** 0.5, rel=0.02)
    with pytest.raises(ValueError, match="branch_std"):
        models.create("sphereface10", branch_std=-1.0)
