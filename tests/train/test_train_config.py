"""Settings: JSON and back, the command line that is made of them, recipes."""

import argparse
import dataclasses
import json

import pytest
import torch

from hypersphere import recipes
from hypersphere.cli import main
from hypersphere.train import Config, from_dict, to_dict, with_values
from hypersphere.train.build import make_objective
from hypersphere.train.data import Facts
from hypersphere.train.optimizer import make_optimizers, make_projection
from hypersphere.train.options import add_arguments, changed, overridden
from hypersphere.train.penalty import make_penalty
from hypersphere.train.schedule import ScheduleConfig, factors


def parsed(*words: str) -> dict:
    parser = argparse.ArgumentParser()
    add_arguments(parser, Config())
    return overridden(parser.parse_args(words))


@pytest.mark.parametrize("name", list(recipes.tables()))
def test_every_recipe_survives_json(name):
    table = recipes.tables()[name]
    assert len({cell.name for cell in table.cells}) == len(table.cells)
    for cell in table.cells:
        config = cell.config(name)
        again = from_dict(Config, json.loads(json.dumps(to_dict(config))))
        assert again == config
        assert recipes.get(f"{name}.{cell.name}") == config
        assert cell.published is None or 0 < cell.published < 100


def test_published_numbers_stand_beside_their_cells():
    def published(name):
        table, cell = recipes.find(name)
        return table.cells[cell].published

    assert published("paper.table1.sigmoid0.3.ga-softmax") == 92.38
    assert published("paper.table1.original.softmax") == 90.58
    assert published("paper.table2.original.cnn9") == 90.68  # the same cell, printed differently
    assert published("thesis.table5.1.mhe.s2.cifar100") == 27.15
    assert published("thesis.table7.4.ogd.cnn6") == 33.33
    assert published("thesis.table7.7.ogd.plain") == 33.37


def test_spherenets_of_the_paper_project_their_weights():
    for name in recipes.list_recipes("paper.table[1234].*"):
        config = recipes.get(name)
        spherical = config.model.conv == "sphere"
        assert config.optim.projection_every == (100 if spherical else 0), name
        assert (config.optim.name, config.optim.lr, config.data.batch_size) == ("adam", 1e-3, 128)
        assert (config.schedule.steps, config.schedule.milestones) == (64000, (34000, 54000))


def test_every_field_has_help_and_an_option(capsys):
    assert main(["train", "--help"]) == 0
    text = capsys.readouterr().out
    for part in dataclasses.fields(Config):
        if part.name == "recipe":
            continue
        for field in dataclasses.fields(getattr(Config(), part.name)):
            assert f"--{part.name}.{field.name.replace('_', '-')}" in text
            assert len(field.metadata["help"]) > 4


def test_command_line_values_have_the_type_of_their_field():
    found = parsed(
        "--optim.lr", "0.5", "--data.hflip", "yes", "--schedule.milestones", "10,20", "--model.k", "none",
        "--run.seeds", "3", "--model.extra", "dropout=0.2;width=2", "--data.batch_size", "1_000",
    )  # fmt: skip
    config = with_values(Config(), found)
    assert config.optim.lr == 0.5
    assert config.data.hflip is True
    assert config.schedule.milestones == (10, 20)
    assert config.model.k is None
    assert config.run.seeds == (3,)
    assert config.model.extra == {"dropout": 0.2, "width": 2}
    assert config.data.batch_size == 1000


@pytest.mark.parametrize(("words"), [["--data.hflip", "maybe"], ["--optim.lr", "fast"], ["--schedule.steps", "1.5"]])
def test_wrong_values_are_refused(words, capsys):
    with pytest.raises(SystemExit):
        parsed(*words)
    assert words[1] in capsys.readouterr().err


def test_mistakes_name_the_argument():
    with pytest.raises(ValueError, match=r"optim\.name='adamm'.*did you mean 'adam'"):
        with_values(Config(), {"optim.name": "adamm"})
    with pytest.raises(ValueError, match="no setting 'rate'"):
        with_values(Config(), {"optim.rate": 1})
    with pytest.raises(ValueError, match=r"schedule\.milestones"):
        ScheduleConfig(milestones=(20, 10))
    with pytest.raises(ValueError, match="belong to a head"):
        with_values(Config(), {"loss.margin": 4.0})
    with pytest.raises(ValueError, match=r"did you mean digits\.spherenet"):
        recipes.get("digits.shperenet")
    with pytest.raises(ValueError, match="another version"):
        from_dict(Config, {"colour": "red"})


def test_only_material_differences_count():
    one = Config()
    other = with_values(one, {"run.log_every": 7, "data.root": "/elsewhere", "run.seeds": (5,)})
    assert changed(one, other) == {}
    assert changed(one, with_values(one, {"optim.lr": 0.5})) == {"optim.lr": (1e-3, 0.5)}


def test_schedules():
    step = factors(ScheduleConfig(steps=10, milestones=(4, 8), gamma=0.1))
    assert step == pytest.approx([1] * 4 + [0.1] * 4 + [0.01] * 2)
    warm = factors(ScheduleConfig(steps=6, kind="constant", milestones=(), warmup=4))
    assert warm == pytest.approx([0.25, 0.5, 0.75, 1, 1, 1])
    cosine = factors(ScheduleConfig(steps=5, kind="cosine", milestones=()))
    assert cosine == pytest.approx([1, 0.9045085, 0.6545085, 0.3454915, 0.0954915])


def test_show_prints_the_settings(capsys):
    assert main(["train", "paper.table1.sigmoid0.3.softmax", "--show", "--optim.lr", "0.01"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["optim"]["lr"] == 0.01
    assert shown["model"]["angular"] == "sigmoid"


def test_list_shows_tables_models_and_data(capsys, tmp_path):
    for words, expected in (
        (["list"], "paper.table1"),
        (["list", "models", "cnn*"], "cnn69"),
        (["list", "datasets"], "cifar100"),
        (["list", "recipes", "paper.table3*", "--results", str(tmp_path)], "80.73"),
    ):
        assert main(words) == 0
        assert expected in capsys.readouterr().out


FACTS = {
    "cifar10": Facts(10, 3, (32, 32)),
    "cifar100": Facts(100, 3, (32, 32)),
    "mnist": Facts(10, 1, (28, 28)),
    "imagenet": Facts(1000, 3, (224, 224)),
    "digits": Facts(10, 1, (8, 8)),
    "pubmed": Facts(3, in_features=500),
    "modelnet40": Facts(40),
}


@pytest.mark.parametrize("name", list(recipes.tables()))
def test_a_cell_of_every_table_can_be_built(name):
    last = recipes.tables()[name].cells[-1]
    config = last.config(name)
    if config.model.widths == "320,640,1280":  # a hundred million numbers: a narrower one will do
        config = with_values(config, {"model.widths": "32,64,128"})
    objective = make_objective(config, FACTS[config.data.name], 0)
    make_penalty(config.regularizer, config.orthogonal, objective.model, objective.head, 0)
    make_optimizers(config.optim, objective, [1.0], torch.device("cpu"))
    make_projection(config.optim, objective.model)
    assert sum(p.numel() for p in objective.parameters()) > 100
