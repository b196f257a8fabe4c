"""Settings: the command line that is made of them, mistakes, schedules."""

import argparse
import dataclasses
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from hypersphere import recipes
from hypersphere._core.registries import DATASETS, HEADS
from hypersphere.cli import main
from hypersphere.config import ScheduleConfig, add_arguments, changed, check_used, overridden, read_values
from hypersphere.config.options import told
from hypersphere.train import Config, LossConfig, OptimConfig, from_dict, to_dict, with_values
from hypersphere.train.build import factors


def parsed(*words: str) -> dict:
    parser = argparse.ArgumentParser()
    add_arguments(parser, Config)
    return overridden(parser.parse_args(words))


def test_every_field_has_help_and_an_option(capsys):
    assert main(["train", "--help", "all"]) == 0
    text = capsys.readouterr().out
    for part in dataclasses.fields(Config):
        if part.name == "recipe":
            continue
        for field in dataclasses.fields(getattr(Config(), part.name)):
            assert f"--{part.name}.{field.name.replace('_', '-')}" in text
            words = told(field.metadata["help"])
            assert len(words) > 4
            assert words[:30] in " ".join(text.split())


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
    for setting, fix in (("data.normalize", "standard"), ("data.pad_mode", "reflect")):
        with pytest.raises(ValueError, match=rf"{setting}='zzz' is unknown: choose one of .*'{fix}'"):
            with_values(Config(), {setting: "zzz"})
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
        (["list", "losses"], "arcface"),
        (["list", "datasets"], "cifar100"),
        (["list", "heads", "arcface"], "  margin=0.5: m in radians"),
        (["list", "recipes", "paper.table3*", "--results", str(tmp_path)], "80.73"),
        (["list", "paper.table3", "--results", str(tmp_path)], "80.73"),
        (["list", "classify"], "images that were held out"),
        (["--help", "list"], "WHAT|TABLE"),
        (["--help", "loss"], "--loss.margin"),
        (["list", "--help", "anything"], "usage: hypersphere list [-h] [--results"),  # it has no groups of settings
    ):
        assert main(words) == 0
        assert expected in capsys.readouterr().out
    assert main(["list", "paper.table3", "linear*", "--results", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "85.34" in out
    assert "80.73" not in out
    for words, hint in ((["trian"], "did you mean train?"), (["train", "--optim.l", "1"], "did you mean --optim.lr")):
        assert main(words) == 2
        assert hint in capsys.readouterr().err
    assert main(["list", "modls"]) == 2
    assert "'modls'; did you mean models?\ngive one of tables, recipes, angular, " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "needs"),
    [
        ("--model.k 0.5", "--model.angular sigmoid"),
        ("--loss.scale 30", "a head, --loss.name softmax, arcface, ..."),
        ("--orthogonal.blocks 2", "--orthogonal.method"),
        ("--data.held-out 0.5", "--data.name folder"),
        ("--data.name mine:images --data.held-out 0.5", "--data.name folder"),
        ("--data.root photos", "--data.name, e.g. folder"),
        ("--data.name lfw --data.image-size 64", "--data.name folder"),
        ("--data.name cora --data.hflip yes", "a set of images"),
        ("--data.name imagenet --data.pad 4", "images that are kept in memory"),
        ("--optim.adam-lr 0.1", "--optim.name muon"),
        ("--optim.name sgd --optim.eps 0.1", "--optim.name adam"),
        ("--model.angular sigmoid --model.share-k layer", "--model.learnable-k yes"),
        ("--orthogonal.method cayley --orthogonal.beta 2", "--orthogonal.method relaxed"),
        ("--data.name mine:images --data.image-size 64 --data.workers 2 --data.resident 1 --data.points 9", None),
        ("--data.root faces --evaluation.also ytf --optim.name muon --optim.adam-lr 0.1", None),
        ("--schedule.kind cosine --schedule.milestones 2,3", "--schedule.kind step"),
        ("--optim.name adam --optim.momentum 0.5", "--optim.name sgd"),
        ("--data.pad-mode symmetric", "--data.pad"),
        ("--data.name cifar10 --data.pad 4 --data.pad-mode symmetric", None),
        ("--loss.name arcface --loss.margin 0.3 --loss.scale 9 --loss.fitting yes", "none, which it chooses"),
        ("--loss.name arcface --loss.margin 0.3 --loss.fitting yes", None),
        ("--regularizer.weight 2", "--regularizer.name"),
        ("--regularizer.name mhe --regularizer.weight 2", "than mhe, which has --regularizer.hidden"),
        ("--regularizer.name srip --regularizer.dim 3", "another --regularizer.name than srip"),
        ("--regularizer.name mhe --regularizer.hidden 2 --optim.name sgd --optim.momentum 0.5", None),
        ("--data.rotate no", "--data.name modelnet40"),
        ("--data.name modelnet40 --data.rotate no", None),
        ("--orthogonal.learn-r no", "--orthogonal.method"),
        (
            "--orthogonal.method cayley --regularizer.name srip",
            "--orthogonal.learn-v yes, or another --orthogonal.method",
        ),
        (
            "--orthogonal.method gradient --regularizer.name mhe --regularizer.hidden 3",
            "or another --orthogonal.method",
        ),
        ("--orthogonal.method cayley --orthogonal.learn-v yes --regularizer.name srip", None),
        ("--orthogonal.method relaxed --regularizer.name orthonormal", None),
        ("--orthogonal.method cayley --regularizer.name mhe --regularizer.output 3", None),
        ("--orthogonal.method cayley --regularizer.name comhe --regularizer.hidden 3", None),
        ("--optim.name adamh --optim.projection-every 5", "which keep the lengths that weights start with"),
        ("--orthogonal.method cayley --orthogonal.learn-r no", None),
        ("--schedule.milestones none --schedule.gamma 0.5", "--schedule.milestones"),
        ("--schedule.gamma 0.5", None),
        (
            "--schedule.steps 90 --schedule.milestones 90,500",
            "a milestone before the last step, or more --schedule.steps",
        ),
        ("--schedule.steps 90 --schedule.gamma 0.5", "a milestone before the last step, or more --schedule.steps"),
        ("--schedule.steps 90 --schedule.milestones 89,500", None),
        ("--schedule.steps 90", None),
        ("--evaluation.inception runs/judge", "--gan.generator"),
        ("--evaluation.inception runs/judge --gan.generator sngan_generator", None),
        ("--evaluation.inception runs/judge --evaluation.also my_own:score", None),
        ("--data.hflip no --run.energy no", None),
        ("--model.conv sphere --model.angular sigmoid --model.k 0.5 --orthogonal.method cayley", None),
        (
            "--regularizer.name my_own:Thing --regularizer.weight 2 --schedule.kind cosine --schedule.milestones none",
            None,
        ),
    ],
)
def test_an_option_that_changes_nothing_is_named(words, needs):
    given = parsed(*words.split())
    if needs is None:
        check_used(with_values(Config(), given), given)
    else:
        with pytest.raises(ValueError, match=f"changes nothing here: it needs .*{re.escape(needs)}$"):
            check_used(with_values(Config(), given), given)


def test_a_data_set_that_is_registered_may_use_any_option(monkeypatch):
    monkeypatch.setattr(DATASETS, "_entries", dict(DATASETS._entries))
    DATASETS.add("a_tree_of_mine", lambda root: None)
    given = {"data.name": "a_tree_of_mine", "data.image_size": 64, "data.workers": 2, "data.resident": 0.5}
    check_used(with_values(Config(), given), given)


def test_an_option_of_several_runs_has_to_be_used_by_one_of_them():
    k, linear = {"model.angular": "sigmoid", "model.k": 0.5}, with_values(Config(), {"model.k": 0.5})
    check_used(linear, {"model.k"}, with_values(Config(), k))
    with pytest.raises(ValueError, match=re.escape("--model.k 0.5 changes nothing here")):
        check_used(linear, {"model.k"}, linear, Config())


@pytest.mark.parametrize(
    ("name", "value"),
    {
        "data.image_size": 0, "data.pad": -1, "data.workers": -1, "data.points": 0, "schedule.milestones": (-1, 5),
        "optim.adam_lr": -1.0, "optim.eps": -1.0, "optim.beta1": 1.0, "optim.momentum": 5.0,
        "optim.projection_norm": 0.0,
    }.items(),
)  # fmt: skip
def test_numbers_out_of_range_name_their_setting(name, value):
    with pytest.raises(ValueError, match=rf"^{name}={re.escape(str(value))} must"):
        with_values(Config(), {name: value})


def test_values_of_a_program_have_the_type_of_their_field():
    given = {
        "data.hflip": "no",
        "optim.lr": 1,
        "schedule.milestones": [2, np.int64(3)],
        "model.widths": (8, 16),
        "model.k": None,
    }
    found = with_values(Config(), given | {"run.folder": Path("a/b"), "model.norm": "none", "optim.clip": "0.5"})
    assert found.data.hflip is False
    assert (found.schedule.milestones, found.model.widths, found.run.folder) == ((2, 3), "8,16", "a/b")
    assert (found.model.norm, found.optim.clip) == ("none", 0.5)
    for name, value in {"data.hflip": 1, "run.seeds": 1, "optim.lr": "fast", "schedule.steps": 1e3}.items():
        with pytest.raises(ValueError, match=re.escape(f"{name}={value!r} must be ")):
            with_values(Config(), {name: value})


def test_the_order_of_options_does_not_matter():
    for words in (
        ("--loss.margin", "4", "--loss.name", "a_softmax"),
        ("--loss.name", "a_softmax", "--loss.margin", "4"),
    ):
        assert with_values(Config(), parsed(*words)).loss == LossConfig(name="a_softmax", margin=4.0)
    with pytest.raises(ValueError, match="belong to a head"):
        with_values(Config(), parsed("--loss.margin", "4", "--loss.name", "hinge"))


def test_a_whole_part_and_values_of_it():
    part = OptimConfig(name="sgd", lr=0.5)
    assert with_values(Config(), {"optim": part, "optim.lr": 0.1}).optim == dataclasses.replace(part, lr=0.1)
    assert with_values(Config(), {"optim.lr": 0.1, "optim": part}).optim == part
    with pytest.raises(ValueError, match=r"OptimConfig\.lr is a single setting: it has no 'x'"):
        with_values(Config(), {"optim.lr.x": 1})


@pytest.mark.parametrize("text", ["foo", "=3", "width=2;foo"])
def test_extra_options_without_a_name_or_value_are_refused(text, capsys):
    assert main(["train", "custom", "--model.extra", text, "--show"]) == 2
    assert f"argument --model.extra: {text!r} must be name=value;..." in capsys.readouterr().err


def test_no_extra_options():
    assert parsed("--model.extra", "none") == parsed("--model.extra", "") == {"model.extra": {}}


@pytest.mark.parametrize(
    ("name", "values"),
    [("optim.clip", (0, -1, float("nan"))), ("loss.label_smoothing", (2, -0.1, 1.5, float("nan")))],
)
def test_numbers_out_of_range_are_refused(name, values):
    for value in values:
        with pytest.raises(ValueError, match=name):
            with_values(Config(), {name: value})
    with_values(Config(), {name: 1.0})


def test_a_recipe_must_be_named(capsys):
    assert main(["train", "--data.name", "digits", "--show"]) == 2
    assert "name a recipe" in capsys.readouterr().err
    assert main(["train", "--optim.lr", "0.5", "--show", "digits.cnn", "--data.batch-size", "9"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["recipe"], shown["optim"]["lr"], shown["data"]["batch_size"]) == ("digits.cnn", 0.5, 9)


def test_the_commands_of_the_docs_are_understood(capsys, tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "training.md").read_text()
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(re.findall(r"^```toml\n(.*?)^```", page, flags=re.S | re.M)[0])
    Path("runs/mine").mkdir(parents=True)
    Path("runs/mine/config.json").write_text(json.dumps(to_dict(Config())))
    blocks = "".join(re.findall(r"^```bash\n(.*?)^```", page, flags=re.S | re.M)).replace("\\\n", " ")
    commands = [shlex.split(line, comments=True) for line in blocks.splitlines()]
    trained = [words[words.index("train") :] for words in commands if "train" in words[:6]]
    assert len(trained) > 8
    for words in trained:
        assert main([*words, "--show"]) == 0, words


@pytest.mark.parametrize(("other", "name"), [("cosface", "am_softmax"), ("sphereface", "a_softmax")])
def test_other_names_of_heads_are_stored_under_one(other, name):
    assert LossConfig(name=other) == LossConfig(name=name)
    assert to_dict(with_values(Config(), {"loss.name": other}))["loss"]["name"] == name
    assert HEADS.find(other) is HEADS[name]
    assert other not in HEADS


@pytest.mark.parametrize("name", [".", "..", "../mine", "/tmp/mine", "a/../../b"])
def test_the_name_of_a_run_is_that_of_a_folder_within_another(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for words in (["train", "--run.name", name], ["sweep", "--name", name, "--run.seeds", "0,1"]):
        assert main([words[0], "digits.cnn", *words[1:], "--show"]) == 2
        assert f"name={name!r} must be the name of a folder" in capsys.readouterr().err
    for setting, value in (("run", {"name": name}), ("recipe", name)):
        Path("mine.json").write_text(json.dumps({**to_dict(Config()), setting: value}))
        assert main(["train", "--config", "mine.json", "--show"]) == 2
        assert "must be the name of a folder" in capsys.readouterr().err
    assert with_values(Config(), {"run.name": name}).run.name == name  # runs that are there are read


def test_a_seed_that_no_generator_takes_is_refused(capsys):
    assert with_values(Config(), {"run.seeds": (2**63 - 1,)}).run.seeds == (2**63 - 1,)
    for seed in (2**63, 2**64):
        with pytest.raises(ValueError, match=rf"run\.seeds={seed} must be below 2\*\*63"):
            with_values(Config(), {"run.seeds": (0, seed)})
    assert main(["train", "digits.cnn", "--run.seeds", str(2**64)]) == 2
    assert "must be below 2**63 = 9223372036854775808" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "text"), [("mine.json", '{"loss.margin": 0.3}'), ("mine.toml", "loss.margin = 0.3")])
def test_files_of_settings_may_begin_with_a_byte_order_mark(name, text, tmp_path):
    (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert read_values(tmp_path / name) == (None, {"loss.margin": 0.3})
