"""What the last evaluation needs is asked for before the training; which energies are logged; where seeds start."""

import json
from dataclasses import replace

import pytest
import torch
from folders import make_run
from safetensors.torch import load_file
from tiny import tiny

import hypersphere as hs
from hypersphere.runs import Facts, Team
from hypersphere.train import AdversarialConfig, EvaluationConfig, LossConfig, run
from hypersphere.train.build import make_objective, make_parts

ALONE = Team(0, 1, torch.device("cpu"))


@pytest.mark.parametrize(
    ("evaluation", "adversarial", "message"),
    [
        (EvaluationConfig(also=("fgsm_transfer",)), {}, r"fgsm_transfer needs --adversarial\.source"),
        (EvaluationConfig(also=("fgsm_transfer",)), {"source": "nowhere"}, "nowhere"),
        (EvaluationConfig(also=("pgd_transfer",)), {"source": "made"}, "'made' has not finished training"),
        (EvaluationConfig(also=("real_inception",)), {}, "real_inception scores real images beside those of a GAN"),
        (EvaluationConfig(protocol="verification", folds=40), {}, "folds"),
    ],
)
def test_what_cannot_be_evaluated_is_said_before_training(evaluation, adversarial, message, tmp_path):
    make_run(tmp_path, finished=False)
    config = tiny(tmp_path, "late", 4, evaluation=evaluation, adversarial=AdversarialConfig(**adversarial))
    with pytest.raises((ValueError, OSError), match=message):
        run(config)
    assert not (tmp_path / "late" / "seed-0" / "log.jsonl").exists()


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (slice(0), "has no samples in test"),
        (slice(20, 40), "not the training classes, which the logits are for: evaluate by verification"),
        ((slice(9), slice(None), slice(6)), r"images of shape \(1, 8, 8\) to train on and \(1, 6, 8\) to test on"),
    ],
)
def test_a_test_split_that_cannot_be_classified_is_said_before_training(chosen, message, tmp_path, unregistered):
    images = torch.zeros(40, 1, 8, 8, dtype=torch.uint8)
    test = hs.data.Split(images[chosen], torch.zeros(len(images[chosen])).long(), ("c",))
    train = hs.data.Split(images, torch.arange(40) % 2, ("a", "b"))
    hs.register("dataset", "of_two_parts", lambda root: hs.data.Dataset("of_two_parts", train, test))
    with pytest.raises(ValueError, match=message):
        make_parts(tiny(tmp_path, "parts", 4, data=hs.config.DataConfig("of_two_parts", batch_size=8)), 0, ALONE)


def test_points_of_a_graph_are_not_attacked(tmp_path, monkeypatch):
    class Cora:
        facts, resident, open_set, test_classes, pairs, pixels = (
            Facts(3, in_features=4),
            True,
            False,
            ("a",),
            None,
            None,
        )

    config = tiny(tmp_path, "graph", 4, evaluation=EvaluationConfig(also=("fgsm",)))
    with pytest.raises(ValueError, match="fgsm changes the pixels of images, and these data are not images"):
        make_parts(config, 0, ALONE, source=Cora())


def test_finished_sources_of_attacks_are_fine(tmp_path):
    make_run(tmp_path)
    rules = EvaluationConfig(also=("fgsm_transfer",))
    config = tiny(tmp_path, "late", 4, evaluation=rules, adversarial=AdversarialConfig(source="made"))
    assert "fgsm_transfer_accuracy" in run(config)["seeds"][0]["metrics"]


@pytest.mark.parametrize("loss", ["cross_entropy", "softmax"])
def test_energies_are_those_of_the_hidden_layers(loss, tmp_path):
    config = tiny(tmp_path, "energies", 4, loss=LossConfig(name=loss))
    found = run(config)["seeds"][0]["metrics"]
    objective = make_objective(config, Facts(10, 1, (8, 8)), 0)
    half = hs.regularizers.MHE(objective.model, objective.head, half_space=True).layers()
    hidden = {name: float(value) for name, value in half.items() if name.startswith("body")}
    assert len(hidden) == len(half) - 1
    assert found["initial_energy"] == pytest.approx(sum(hidden.values()), rel=1e-5)
    lines = (tmp_path / "energies" / "seed-0" / "log.jsonl").read_text().splitlines()
    last = [line for line in map(json.loads, lines) if "energy" in line][-1]
    layers = {name.removeprefix("energy/"): value for name, value in last.items() if name.startswith("energy/")}
    assert layers.keys() == hidden.keys()
    assert last["energy"] == pytest.approx(sum(layers.values()) / len(layers))


def test_every_seed_starts_from_its_own(tmp_path):
    base = tiny(tmp_path, "base", 2)
    run(replace(base, run=replace(base.run, seeds=(0, 1))))
    tuned = tiny(tmp_path, "tuned", 1, model=replace(base.model, start="base"))
    tuned = replace(tuned, optim=replace(tuned.optim, lr=1e-12), run=replace(tuned.run, seeds=(0, 1, 2)))
    run(tuned)
    name = "body.conv1.0.op.weight"
    first, second = (load_file(tmp_path / "base" / f"seed-{seed}" / "model.safetensors")[name] for seed in (0, 1))
    ours = [load_file(tmp_path / "tuned" / f"seed-{seed}" / "model.safetensors")[name] for seed in (0, 1, 2)]
    for got, want in zip(ours, (first, second, first), strict=True):
        torch.testing.assert_close(got, want)
    assert not torch.allclose(first, second)


def test_mirroring_is_a_setting_of_image_trees(tmp_path):
    from PIL import Image

    from hypersphere.sources import make_source
    from hypersphere.train import DataConfig

    for part, name in (("train", "x"), ("train", "y"), ("val", "x"), ("val", "y")):
        folder = tmp_path / "imagenet" / part / name
        folder.mkdir(parents=True)
        image = Image.new("RGB", (8, 8))
        image.paste((255, 255, 255), (0, 0, 4, 8))
        image.save(folder / "1.png")
    lefts = set()
    for flip in (False, True):
        config = DataConfig(
            "imagenet", str(tmp_path), batch_size=2, image_size=8, resize=8, workers=0, normalize="unit", hflip=flip
        )
        source = make_source(config, 0, torch.device("cpu"))
        seen = set()
        for step in range(12):
            source.seek(step)
            (images,), _ = source.batch(torch.tensor(0))
            seen |= {float(image[0, 0, 0]) for image in images}
        lefts.add((flip, len(seen)))
    assert lefts == {(False, 1), (True, 2)}
