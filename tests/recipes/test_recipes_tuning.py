"""Losses of the open sets are tuned by one budget, on classes that neither training nor the test has."""

import importlib.util
import json
from pathlib import Path

import pytest
import torch

from hypersphere import data
from hypersphere.cli import arguments, reproduce
from hypersphere.cli.parser import Parser
from hypersphere.config import DataConfig
from hypersphere.recipes import tables
from hypersphere.sources import make_source

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("tuning", ROOT / "tools" / "tuning.py")
tune = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tune)


def asked(lines, tmp_path):
    path = tmp_path / "plan.txt"
    path.write_text("\n".join(lines))
    parser = Parser()
    arguments.reproduce(parser)
    options = parser.parse_args(["--plan", str(path), "--results", str(tmp_path), "--seeds", "0"])
    return [order.works[0] for order in reproduce._orders(options)]


def test_every_loss_has_the_same_budget_and_every_setting_is_one(tmp_path):
    lines = tune.plan("open.lfw")
    cells = [cell.name for cell in tables()["open.lfw"].cells]
    assert sorted(tune.GRIDS["open.lfw"]) == sorted(cells)
    assert {sum(f"--cells {cell} " in line for line in lines) for cell in cells} == {9}
    for work in asked(lines[::9], tmp_path):
        assert work.changes["data.validate"]
        assert work.config.data.validate


def test_shorter_trainings_grow_the_margin_in_a_share_of_their_steps(tmp_path):
    lines = tune.plan("open.omniglot", steps=400, cells=["a-softmax"])
    works = asked(lines, tmp_path)
    assert {work.config.schedule.steps for work in works} == {400}
    starts = [(work.config.loss.margin, work.config.loss.annealing, work.config.loss.warmup) for work in works]
    assert starts[:3] == [(2, "sphereface", 0), (2, None, 100), (2, None, 200)]
    assert len(set(starts)) == 9


def test_the_table_of_the_test(tmp_path):
    """Only runs of the asked steps count; held-out and test classes, the recipe's setting and warnings stand apart."""
    how = {"loss.margin": 2.0, "loss.annealing": None, "loss.warmup": 100}
    entries = [
        {"seed": 0, "final_accuracy": 80.0, "changed": {**how, "data.validate": True}},
        {"seed": 0, "final_accuracy": 70.0, "changed": {"data.validate": True}, "warning": "collapsed"},
        {"seed": 0, "final_accuracy": 99.0, "steps": 6000, "changed": {"data.validate": True}},
        {"seed": 0, "final_accuracy": 60.0, "changed": how, "train_accuracy": 50.0, "metrics": {"mean_length": 0.5}},
        {"seed": 1, "final_accuracy": 62.0, "changed": how, "train_accuracy": 50.0, "metrics": {"mean_length": 0.5}},
        {"seed": 0, "final_accuracy": 55.0},
    ]
    entries = [{"cell": "a-softmax", "steps": 400, **one} for one in entries]
    (tmp_path / "open.omniglot.json").write_text(json.dumps({"measurements": entries}))
    assert tune.table("open.omniglot", tmp_path, 400)[2:] == [
        "| a-softmax | `--loss.annealing none --loss.margin 2.0 --loss.warmup 100` | 61.00 ± 1.00 | - | 80.00 | 55.00 "
        "| 50.00 ± 0.00 | 0.50 ± 0.00 | 1 of 2 |"
    ]
    (work,) = asked(tune.chosen("open.omniglot", tmp_path, 400), tmp_path)
    assert work.changes == how
    assert work.config.schedule.steps == 400
    assert tune.chosen("open.omniglot", tmp_path, 400, ["arcface"]) == []

    for one in entries:  # what the whole search has besides is no choice, and the recipe's own setting has it too
        one["changed"] = {**one.get("changed", {}), "data.shrink": 2}
        if one.pop("warning", None):
            one["metrics"] = {"mean_length": 0.97}  # collapsed without a warning
    (tmp_path / "open.lfw.json").write_text(json.dumps({"measurements": entries}))
    assert tune.table("open.lfw", tmp_path, 400) == tune.table("open.omniglot", tmp_path, 400)
    assert tune.besides("open.omniglot", tmp_path, 400) == ""
    assert tune.besides("open.lfw", tmp_path, 400) == "--data.shrink 2"


def test_the_best_on_held_out_classes_is_tested(tmp_path):
    runs = [
        ("arcface", {"loss.margin": 0.3}, (90.0, 92.0)),
        ("arcface", {"loss.margin": 0.1, "loss.scale": 16.0}, (91.5, 91.5)),
        ("magface", {"loss.extra": {"lower_margin": 0.1, "upper_margin": 0.2}}, (80.0,)),
    ]
    entries = [
        {"cell": cell, "steps": 6000, "seed": seed, "final_accuracy": value, "changed": {**how, "data.validate": True}}
        for cell, how, values in runs
        for seed, value in enumerate(values)
    ]
    entries.append({"cell": "arcface", "steps": 6000, "seed": 0, "final_accuracy": 99.0})  # tested, not validated
    (tmp_path / "open.omniglot.json").write_text(json.dumps({"measurements": entries}))
    arc, mag = asked(tune.chosen("open.omniglot", tmp_path), tmp_path)
    assert arc.changes == {"loss.margin": 0.1, "loss.scale": 16.0}
    assert mag.config.loss.extra == {"lower_margin": 0.1, "upper_margin": 0.2}


def test_validation_classes_come_from_training(monkeypatch):
    labels = torch.arange(200) % 50
    images = torch.arange(200).view(-1, 1, 1, 1).expand(-1, 1, 4, 4).to(torch.uint8)
    train = data.Split(images, labels, tuple(f"c{number}" for number in range(50)))
    test = data.Split(images[:8], labels[:8] % 2, ("x", "y"))
    monkeypatch.setattr(data, "load", lambda *a, **k: data.Dataset("open", train, test))
    plain, held = (
        make_source(DataConfig(name="omniglot", validate=validate), 0, torch.device("cpu"))
        for validate in (False, True)
    )
    assert plain.test_classes == ("x", "y")
    assert plain.frequent == 1 / 50
    assert len(held.facts.classes) == 40
    assert len(held.test_classes) == 10
    assert not set(held.test_classes) & set(held.facts.classes)
    assert set(held.test_classes) | set(held.facts.classes) == set(train.classes)
    loader = held.loader
    names = [held.facts.classes[label] for label in loader.labels.tolist()]
    assert names == [f"c{int(image[0, 0, 0]) % 50}" for image in loader.inputs]  # labels still name their images
    monkeypatch.setattr(data, "load", lambda *a, **k: data.Dataset("closed", train, train))
    with pytest.raises(ValueError, match=r"closed has the same classes for training and test"):
        make_source(DataConfig(name="cifar10", validate=True), 0, torch.device("cpu"))


def test_methods_of_a_graph_are_compared_with_its_own_tuned_baseline(tmp_path):
    name = "thesis.tableE.6"
    lines = tune.plan(name)
    assert {sum(f"--cells {cell.name} " in line for line in lines) for cell in tables()[name].cells} == {9}
    for work in asked([lines[0], lines[-1]], tmp_path):
        assert work.config.data.validate
    runs = [
        ("baseline.cora", {"optim.weight_decay": 0.001}, (79.0, 79.0), (81.0, 82.0)),
        ("baseline.cora", {"optim.weight_decay": 0.01}, (70.0, 70.0), (99.0, 99.0)),
        ("hs-mhe.cora", {"regularizer.hidden": 10.0}, (80.0, 80.0), (83.0, 84.0)),
        ("hs-mhe.pubmed", {"regularizer.hidden": 3.0}, (70.0, 70.0), (75.0, 75.0)),
    ]
    entries = [
        {"cell": cell, "steps": 200, "seed": seed, "final_accuracy": value, "changed": {**how, **held}}
        for cell, how, *both in runs
        for held, values in zip(({"data.validate": True}, {}), both, strict=True)
        for seed, value in enumerate(values)
    ]
    (tmp_path / f"{name}.json").write_text(json.dumps({"measurements": entries}))
    assert tune.table(name, tmp_path)[2:] == [
        "| baseline.cora | `--optim.weight-decay 0.001` | 81.50 ± 0.50 |  | 79.00 ± 0.00 | - |",
        "| hs-mhe.cora | `--regularizer.hidden 10.0` | 83.50 ± 0.50 | +2.00 [-1.04, +5.04] | 80.00 ± 0.00 | - |",
        "| hs-mhe.pubmed | `--regularizer.hidden 3.0` | 75.00 ± 0.00 | - | 70.00 ± 0.00 | - |",
    ]


def test_a_setting_that_diverged_is_not_chosen_and_counts_as_collapsed():
    good, lost = [{"final_accuracy": 50.0}, {"final_accuracy": 52.0}], [{"final_accuracy": 99.0}, {"diverged": 7}]
    assert tune._best({"good": good, "lost": lost}) == "good"
    assert tune._collapsed(lost[1])
    assert not tune._collapsed(good[0])
    assert tune.mean(map(tune.final, lost)) == "1 diverged"
    assert tune.gain([50.0, 52.0], [*map(tune.final, lost)]) == "-"
