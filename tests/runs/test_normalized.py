"""A loaded network knows how its images were normalised, and ``hs.embed`` asks it."""

import copy
import json

import pytest
import torch
from folders import DIGITS, make_run
from tiny import tiny
from torch import nn

import hypersphere as hs
from hypersphere.cli import main
from hypersphere.train import DataConfig, ModelConfig, run


class Flagged(nn.Module):
    """A network that has attributes of these names itself."""

    def __init__(self, num_classes, in_channels=1):
        super().__init__()
        self.trained, self.normalized = nn.BatchNorm1d(64 * in_channels), False
        self.classifier = nn.Linear(64 * in_channels, num_classes)

    def forward(self, x):
        x = self.trained(x.flatten(1))
        return self.classifier(nn.functional.normalize(x) if self.normalized else x)


SMALL = ModelConfig(name="cnn3", widths="4,4,4", feature_dim=8)


@pytest.mark.parametrize("kind", ["symmetric", "unit", "mean", "standard"])
def test_bytes_are_normalised_as_in_training(kind, tmp_path):
    config = tiny(tmp_path, kind, 4, data=DataConfig(name="digits", batch_size=32, normalize=kind))
    run(config)
    folder, digits = tmp_path / kind, hs.data.load("digits")
    moments = {"mean": digits.mean} | ({"std": digits.std} if kind == "standard" else {})
    given = moments if kind in ("mean", "standard") else {}
    assert main(["export", str(folder), "--formats", "safetensors", "--embedding", "--samples", "4"]) == 0
    for model in (network := hs.load(folder), hs.load(folder / "seed-0" / "export"), copy.deepcopy(network)):
        found = hs.embed(model, digits.test.images)
        torch.testing.assert_close(found, hs.embed(model, digits.test.images, normalize=kind, **given))
        ready = hs.data.normalize(digits.test.images, kind, **given)
        torch.testing.assert_close(found, hs.embed(model, ready))  # floating images are ready
    with torch.no_grad():
        right = (network(ready).argmax(1) == digits.test.labels).double().mean()
    accuracy = json.loads((folder / "result.json").read_text())["seeds"][0]["final_accuracy"]
    assert 100 * float(right) == pytest.approx(accuracy, abs=0.3)


def test_a_run_that_does_not_say_the_mean_needs_it(tmp_path):
    path, _ = make_run(tmp_path, model=SMALL, data=DataConfig(name="digits", normalize="mean"))
    images, model = torch.zeros(2, 1, 8, 8, dtype=torch.uint8), hs.load(path)
    with pytest.raises(ValueError, match=r"pass normalize='mean', mean=dataset\.mean"):
        hs.embed(model, images)
    assert hs.embed(model, images, normalize="mean", mean=(0.3,)).shape == (2, 8)
    assert hs.embed(model, images.float()).shape == (2, 8)


@pytest.mark.parametrize("mean", [[0.1, 0.2], ["a"], 3, [None]])
def test_damaged_moments_are_refused(mean, tmp_path):
    path, _ = make_run(tmp_path, model=SMALL, facts=DIGITS)
    facts = path / "seed-0" / "facts.json"
    facts.write_text(json.dumps({**json.loads(facts.read_text()), "mean": mean}))
    with pytest.raises(ValueError, match=r"facts\.json"):
        hs.load(path)


def test_the_attributes_of_a_network_stay_its_own(tmp_path):
    path, made = make_run(tmp_path, model=ModelConfig(name="test_normalized:Flagged"))
    model = hs.load(path, trust="test_normalized")
    assert model.normalized is False
    x = hs.data.normalize(hs.data.load("digits").test.images[:5])
    torch.testing.assert_close(model(x), made.classifier()(x))


def test_moments_are_named_by_the_kind_of_the_run(tmp_path):
    """Following the message of ``hs.embed`` does not normalise by another rule than training."""
    path, _ = make_run(tmp_path, model=SMALL, data=DataConfig(name="digits", normalize="mean"))
    images, model = torch.zeros(2, 1, 8, 8, dtype=torch.uint8), hs.load(path)
    with pytest.raises(ValueError, match=r"pass normalize='mean' too"):
        hs.embed(model, images, mean=(0.3,))
    with pytest.raises(ValueError, match=r"pass normalize='standard' too"):
        hs.embed(nn.Flatten(), images, mean=(0.3,))
