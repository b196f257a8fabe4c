"""hs.embed: the right layer, in the right mode, and the model as it was."""

import math

import pytest
import torch
from torch import nn

import hypersphere as hs
from hypersphere.data import Split
from hypersphere.data import normalize as to_inputs


def pixels(count=7, channels=3, size=8):
    return torch.randint(0, 256, (count, channels, size, size), dtype=torch.uint8)


class Plain(nn.Module):
    """A network without a ``features`` method: body, then a classifier."""

    def __init__(self, dim=5):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, dim, 3), nn.BatchNorm2d(dim), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        self.dropout = nn.Dropout(0.5)
        self.fc = nn.Linear(dim, 4)

    def forward(self, x):
        return self.fc(self.dropout(self.body(x).flatten(1)))


def test_the_networks_of_the_library():
    network = hs.models.create("cnn9", num_classes=10, feature_dim=12, widths=(4, 4, 4), image_size=(16, 16)).eval()
    images = pixels(size=16)
    with torch.no_grad():
        expected = network.features(to_inputs(images))
    torch.testing.assert_close(hs.embed(network, images, batch_size=3), expected)
    bare = hs.models.create("cnn9", num_classes=0, feature_dim=12, widths=(4, 4, 4), image_size=(16, 16)).eval()
    with torch.no_grad():
        torch.testing.assert_close(hs.embed(bare, images), bare(to_inputs(images)))
    torch.testing.assert_close(hs.embed(nn.DataParallel(network), images), expected)
    torch.testing.assert_close(hs.embed(torch.compile(network, backend="eager"), images), expected)


def test_the_input_of_the_output_layer():
    model = Plain()
    images = pixels()
    model.eval()
    with torch.no_grad():
        expected = model.body(to_inputs(images)).flatten(1)
    model.train()
    torch.testing.assert_close(hs.embed(model, images), expected)
    torch.testing.assert_close(hs.embed(model, images, features="fc"), expected)
    assert not model.fc._forward_pre_hooks


def test_a_submodule_called_features_is_not_the_embedding():
    """As in VGG, where ``features`` are maps and the embedding comes later."""
    model = nn.Module()
    model.features = nn.Conv2d(3, 6, 3)
    model.classifier = nn.Linear(6, 2)
    model.forward = lambda x: model.classifier(model.features(x).mean((2, 3)))
    assert hs.embed(model, pixels()).shape == (7, 6)


def test_other_sources():
    model, images = Plain(), pixels()
    with torch.no_grad():
        logits = model.eval()(to_inputs(images))
    torch.testing.assert_close(hs.embed(model, images, features=model), logits)
    convolution = nn.Conv2d(3, 6, 8)  # no linear layer: the output, (N, 6, 1, 1)
    with torch.no_grad():
        torch.testing.assert_close(hs.embed(convolution, images), convolution(to_inputs(images)).flatten(1))


def test_image_and_mirror():
    model, images = Plain(), pixels()
    both = hs.embed(model, images, flip=True)
    torch.testing.assert_close(both[:, :5], hs.embed(model, images))
    torch.testing.assert_close(both[:, 5:], hs.embed(model, images.flip(3)))


def test_the_model_is_left_as_it_was():
    model = Plain().train()
    model.dropout.eval()  # a mixture of modes
    state = {name: value.clone() for name, value in model.state_dict().items()}
    modes = [module.training for module in model.modules()]
    out = hs.embed(model, pixels())
    assert [module.training for module in model.modules()] == modes
    for name, value in model.state_dict().items():
        assert torch.equal(value, state[name]), name
    assert not out.requires_grad
    assert all(p.grad is None for p in model.parameters())
    with pytest.raises(ValueError, match="channels"):
        hs.embed(model, pixels(channels=1))
    assert [module.training for module in model.modules()] == modes
    assert not model.fc._forward_pre_hooks


def test_forms_of_input():
    model, images = Plain(), pixels()
    expected = hs.embed(model, images)
    labels = torch.zeros(7, dtype=torch.int64)
    forms = {
        "floats": to_inputs(images),
        "split": Split(images, labels, ("a",)),
        "batches": images.split(3),
        "loader": [(images[:5], labels[:5]), (images[5:], labels[5:])],
        "generator": (to_inputs(part) for part in images.split(2)),
    }
    for name, form in forms.items():
        torch.testing.assert_close(hs.embed(model, form), expected, msg=name)
    unit = hs.embed(model, images, normalize="unit")
    torch.testing.assert_close(unit, hs.embed(model, images.float() / 255))
    standard = hs.embed(model, images, normalize="standard", mean=(0.4, 0.5, 0.6), std=(0.2, 0.2, 0.3))
    shift, scale = torch.tensor([0.4, 0.5, 0.6]).view(3, 1, 1), torch.tensor([0.2, 0.2, 0.3]).view(3, 1, 1)
    torch.testing.assert_close(standard, hs.embed(model, (images.float() / 255 - shift) / scale))
    rows = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 2))
    assert hs.embed(rows, torch.randn(5, 6)).shape == (5, 4)


def test_no_images():
    model = Plain().train()
    assert hs.embed(model, pixels(0)).shape == (0, 5)
    assert hs.embed(model, pixels(0), flip=True).shape == (0, 10)
    with pytest.raises(ValueError, match="nothing to embed"):
        hs.embed(model, [])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_result_is_float32(dtype):
    model, images = Plain().to(dtype), pixels()
    assert hs.embed(model, to_inputs(images).to(dtype)).dtype == torch.float32
    assert hs.embed(model, images).dtype == torch.float32  # pixels take the dtype of the model


def test_inputs_of_another_precision_and_bytes_as_they_are():
    model, images = nn.Sequential(nn.Flatten(), nn.Linear(12, 3)), torch.randint(256, (2, 3, 2, 2), dtype=torch.uint8)
    expected = model(images.float())
    for given, options in ((images.double(), {}), (images, {"normalize": None})):
        torch.testing.assert_close(hs.embed(model, given, features=model, **options), expected)


def test_bad_input():
    model = Plain()
    with pytest.raises(ValueError, match="images have 1 channels, the model's first convolution takes 3"):
        hs.embed(model, pixels(channels=1))
    images = to_inputs(pixels())
    images[4, 0, 0, 0] = math.nan
    with pytest.raises(ValueError, match="embedding of image 4 is NaN"):
        hs.embed(model, images, batch_size=3)
    with pytest.raises(ValueError, match=r"\(N, C, H, W\)"):
        hs.embed(model, pixels()[0])
    with pytest.raises(ValueError, match=r"\(N, C, H, W\)"):
        hs.embed(nn.Linear(4, 4), torch.randn(3, 4), flip=True)
    with pytest.raises(TypeError, match="int64"):
        hs.embed(model, pixels().long())
    with pytest.raises(TypeError, match="not int"):
        hs.embed(model, 3)
    with pytest.raises(TypeError, match="gave a str"):
        hs.embed(model, ["a.jpg"])
    with pytest.raises(TypeError, match=r"torch\.nn\.Module"):
        hs.embed("model", pixels())
    with pytest.raises(ValueError, match="batch_size=0"):
        hs.embed(model, pixels(), batch_size=0)
    with pytest.raises(ValueError, match="not a module of the model"):
        hs.embed(model, pixels(), features="head")
    with pytest.raises(ValueError, match=r"an embedding is \(N, d\)"):
        hs.embed(nn.Conv2d(3, 6, 3), pixels())
    model.spare = nn.Linear(2, 2)  # defined last, never called
    with pytest.raises(ValueError, match="did not call its layer 'spare'"):
        hs.embed(model, pixels())


@pytest.mark.parametrize(
    ("dtype", "options", "said"),
    [
        (torch.float32, {"normalize": "unit"}, "normalize='unit' is for uint8 images"),
        (torch.float32, {"normalize": "nonsense"}, "normalize='nonsense' is for uint8 images"),
        (torch.float32, {"mean": (0.5,), "std": (0.5,)}, "pass normalize='standard'"),
        (torch.uint8, {"mean": (0.5,), "std": (0.5,)}, "pass normalize='standard'"),
        (torch.uint8, {"normalize": "unit", "std": (0.5,)}, "pass normalize='standard'"),
        (torch.uint8, {"normalize": None, "mean": (0.5,)}, "pass normalize='standard'"),
        (torch.uint8, {"normalize": "nonsense"}, "nonsense"),
    ],
)
def test_what_would_be_ignored_is_refused(dtype, options, said):
    model = nn.Conv2d(3, 4, 8)
    with pytest.raises(ValueError, match=said):
        hs.embed(model, pixels().to(dtype), features=lambda x: model(x).flatten(1)[:, :4], **options)


def test_no_normalisation_may_be_said_of_any_images():
    model, images = nn.Flatten(), pixels()
    for given in (images, images.float()):
        torch.testing.assert_close(hs.embed(model, given, normalize=None), images.float().flatten(1))
