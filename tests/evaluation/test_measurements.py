"""Measurements are declared once, and the door is open from outside."""

import json
import sys
from dataclasses import replace

import pytest
import torch
from small import settings
from torch import nn

import hypersphere as hs
from hypersphere import report
from hypersphere._core.registries import MEASUREMENTS
from hypersphere.cli import main
from hypersphere.config import to_dict
from hypersphere.evaluation import class_vectors, describe, evaluate, find, known, measurement
from hypersphere.runs import Run
from hypersphere.runs.quantities import Quantity, declared, quantity
from hypersphere.train import EvaluationConfig, run

OWN = '''
"""A measurement of somebody else."""

def norms(candidate):
    """Median length of the features."""
    features, _ = candidate.embedding()
    return {"median_norm": float(features.norm(dim=1).median())}

def halves(candidate):
    return {"accuracy": 50.0, "half": 0.5}

def wrong(candidate):
    return 3


def text(candidate):
    return {"norm": "long"}
'''


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module of the user's, where Python finds it."""
    (tmp_path / "somebody.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("somebody", None)


def test_a_measurement_by_its_address_trains_resumes_evaluates_and_is_reported(own, capsys):
    rule = EvaluationConfig(protocol="somebody:halves", also=("somebody:norms",))
    config = settings(own, "mine", evaluation=rule)
    result = run(config)["seeds"][0]
    assert result["final_accuracy"] == 50.0
    features = hs.embed(hs.load(own / "mine"), hs.data.load("digits").test)
    assert result["metrics"]["median_norm"] == pytest.approx(float(features.norm(dim=1).median()), rel=1e-5)
    longer = replace(config, run=replace(config.run, seeds=(0, 1)))
    assert [one["seed"] for one in run(longer)["seeds"]] == [0, 1]
    assert main(["evaluate", str(own / "mine"), "--seed", "0", "--parts", "somebody:norms,energy"]) == 0
    assert "median_norm" in capsys.readouterr().out
    found = json.loads((own / "mine" / "seed-0" / "evaluation.json").read_text())
    assert found["somebody:norms"] == {"median_norm": result["metrics"]["median_norm"]}
    page = report.build([own / "mine"], data=False)
    assert "median norm" in page
    assert "the final network also by norms" in page


def test_a_declared_measurement_has_its_label_everywhere(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(MEASUREMENTS, "_entries", dict(MEASUREMENTS._entries))

    @measurement(
        "first_label",
        label="First label",
        about="the label of the first test sample",
        quantities=(Quantity("first_label", "Label of the first sample", "", False),),
    )
    def first_label(candidate):
        return {"first_label": float(candidate.outputs.labels[0])}

    hs.register(
        "measurement", "second_label", lambda candidate: {"second_label": torch.tensor(7.0)}, label="Second", unit="%"
    )
    assert (find("second_label").also, find("second_label").protocol) == (True, False)
    assert quantity("second_label") == Quantity("second_label", "Second", "%")

    @measurement("third_label", label="Third")
    def third_label(candidate):
        return {"third_label": 7.0, "under_another_name": 8.0}

    assert quantity("third_label").label == "Third"
    names = ("first_label", "second_label", "third_label")
    config = settings(tmp_path, "labels", evaluation=EvaluationConfig(also=names))
    (tmp_path / "settings.json").write_text(json.dumps(to_dict(config)))
    assert main(["train", "--config", str(tmp_path / "settings.json")]) == 0
    assert "  third_label: third_label 7.00, under_another_name 8.00\n" in capsys.readouterr().out
    page = report.build([tmp_path / "labels"], data=False)
    assert "Label of the first sample, lower is better" in page
    assert "the final network also by First label, Second, Third" in page
    assert main(["train", "--help", "evaluation"]) == 0
    assert "first_label" in capsys.readouterr().out
    assert main(["list", "measurements", "first*"]) == 0
    assert "the label of the first test sample" in capsys.readouterr().out
    assert evaluate(Run(tmp_path / "labels"), parts=["second_label"], flip=True)["second_label"] == {
        "second_label": 7.0
    }


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"protocol": "somebody:norms"}, "let it give an 'accuracy'"),
        ({"protocol": "top5"}, "evaluation.protocol='top5' is unknown"),
        ({"also": ("verification",)}, "evaluation.also='verification' is unknown"),
        ({"also": ("somebody:nothing",)}, "has no 'nothing'"),
        ({"also": ("nobody_at_all:norms",)}, "'nobody_at_all' cannot be imported"),
        ({"also": ("somebody:wrong",)}, "gave a int: return numbers by name"),
        ({"also": ("somebody:text",)}, "'somebody:text' gave no numbers by name: could not convert"),
    ],
)
def test_an_object_that_is_not_a_measurement_is_named(own, rule, message):
    with pytest.raises((ValueError, TypeError), match=message.replace("[", r"\[")):
        run(settings(own, "wrong", evaluation=EvaluationConfig(**rule)))


def test_every_measurement_says_what_it_is():
    """The built-in ones; other tests may have declared more."""
    protocols = ["classification", "identification", "verification", "few_shot", "generation"]
    others = (
        "top5 classes energy gallery lfw ytf megaface fisher real_inception hardness retrieval fgsm fgsm_transfer bim"
    )
    others = [*others.split(), "bim_transfer", "pgd", "pgd_transfer", "deepfool", "deepfool_transfer"]
    found = {one.name: one for one in known()}
    for name in (*protocols, *others):
        one = found[name]
        assert one.label
        assert one.about[0].islower()
        assert one.protocol == (name in protocols)
        assert one.protocol or one.also or one.suits
    for name in protocols:
        assert describe(settings(".", "x", evaluation=EvaluationConfig(protocol=name))) != name


def test_quantities_are_found_by_name_and_by_pattern():
    assert quantity("eer").heading == "Equal error rate, %, lower is better"
    assert quantity("few_shot_5_accuracy").label == "Few-shot accuracy, 5 shots"
    assert quantity("tar@0.01").label == "True accepts at 0.01"
    assert quantity("energy/body.conv1.weight").label == "body.conv1"
    assert quantity("what_is_this") == Quantity("what_is_this", "what is this")
    keys = [one.key for one in declared()]
    assert len(keys) == len(set(keys))


def test_class_vectors_are_one_for_each_class():
    features = nn.Linear(6, 4)
    features.head = hs.losses.CenterLoss(hs.losses.ArcFace(4, 3))
    assert torch.equal(class_vectors(features, 4), features.head.weight.detach())
    assert class_vectors(features, 5) is None
    features.head = hs.losses.CenterLoss(hs.losses.SubcenterArcFace(4, 3))  # its rows are not the labels'
    assert class_vectors(features, 4) is None
