"""A loaded network knows how its images were normalised, and ``hs.embed`` asks it."""

import copy
import json

import pytest
import torch
from folders import DIGITS, make_run
from tiny import tiny

import hypersphere as hs
from hypersphere.cli import main
from hypersphere.train import DataConfig, ModelConfig, run

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
