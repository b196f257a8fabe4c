"""``hypersphere reproduce``: what is done is not done again, and only the cell's own settings are its number."""

import json
import re
import shlex

import pytest

from hypersphere.cli import arguments, main, reproduce
from hypersphere.cli.parser import Parser
from hypersphere.config import material, with_values
from hypersphere.recipes import get, results, shared, tables
from hypersphere.recipes.shorter import shortened


def test_reproduce_measures_once_and_prints_the_table(tmp_path, capsys):
    words = ["reproduce", "digits", "--steps", "12", "--results", str(tmp_path / "results"), "--run.device", "cpu"]
    words += ["--run.folder", str(tmp_path), "--run.progress", "off", "--cells", "cnn", "--seeds", "0,1"]
    assert main(words) == 0
    table = capsys.readouterr().out
    assert "published" in table
    assert "difference" in table
    content = json.loads((tmp_path / "results" / "digits.json").read_text())
    assert [(m["cell"], m["seed"], m["steps"]) for m in content["measurements"]] == [("cnn", 0, 12), ("cnn", 1, 12)]
    assert {"environment", "settings", "final_accuracy", "best_accuracy"} <= content["measurements"][0].keys()
    assert main(words) == 0
    assert "is done" in capsys.readouterr().out


def test_other_settings_are_another_measurement(tmp_path, capsys):
    words = ["reproduce", "digits", "--steps", "4", "--results", str(tmp_path / "results"), "--run.device", "cpu"]
    words += ["--run.folder", str(tmp_path), "--run.progress", "off", "--cells", "cnn"]
    assert main([*words, "--optim.lr", "1e-9"]) == 0
    other = capsys.readouterr().out
    assert "with optim.lr=1e-09" in other
    assert main([*words, "--run.precision", "bfloat16"]) == 0  # how it is computed is no other experiment
    own = capsys.readouterr().out
    assert "is done" not in own
    assert "with" not in own.splitlines()[0]
    for extra in ([], ["--optim.lr", "1e-9"]):
        assert main([*words, *extra]) == 0
        assert "is done" in capsys.readouterr().out
    found = json.loads((tmp_path / "results" / "digits.json").read_text())["measurements"]
    assert sorted(len(m.get("changed", {})) for m in found) == [0, 1]
    table = tables()["digits"]
    mine = results.ours(table, next(cell for cell in table.cells if cell.name == "cnn"), found, 4)
    assert mine is not None
    assert mine["seeds"] == 1
    assert not mine["whole"]


@pytest.mark.parametrize("at_once", ["1", "2"])
def test_a_training_that_diverges_is_recorded_and_not_made_again(at_once, tmp_path, capsys):
    words = ["reproduce", "digits", "--steps", "6", "--results", str(tmp_path / "results"), "--run.device", "cpu"]
    words += ["--run.folder", str(tmp_path), "--run.progress", "off", "--cells", "cnn", "--seeds", "0,1"]
    words += ["--at-once", at_once, "--optim.lr", "1e30"]
    assert main(words) == 1
    said = capsys.readouterr()
    assert "cnn: the loss is not finite at step" in said.err
    assert re.search(r"cnn +- +2 diverged +- +- +2\b", said.out)
    table = tables()["digits"]
    for seed, one in enumerate(results.read(table, tmp_path / "results")):
        assert one["seed"] == seed
        assert 1 <= one["diverged"] <= 6
        assert one["steps"] == 6
        assert "final_accuracy" not in one
        assert one["metrics"]["initial_energy"] > 0
        assert {"environment", "settings", "precision"} <= one.keys()
    assert main(words) == 0
    again = capsys.readouterr()
    assert not again.err
    assert "2 diverged" in again.out
    assert main([*words[:-2], "--optim.lr", "1e-3"]) == 0  # those with other settings have numbers of their own
    assert "diverged" not in capsys.readouterr().out


def test_what_diverged_in_bfloat16_is_trained_again_in_float32(tmp_path, capsys):
    """As the message of the divergence says; and by no other name of the training either."""
    table = tables()["digits"]
    config, entry = get("digits.cnn"), {"recipe": "digits.cnn", "seed": 0, "steps": 4, "diverged": 3}
    results.record(table, "cnn", config, {**entry, "precision": "bfloat16"}, tmp_path)
    words = ["reproduce", "digits", "--cells", "cnn", "--steps", "4", "--results", str(tmp_path), "--run.device", "cpu"]
    words += ["--run.folder", str(tmp_path / "runs"), "--run.progress", "off"]
    assert main([*words, "--run.precision", "bfloat16"]) == 0
    assert "1 diverged" in capsys.readouterr().out
    elsewhere = with_values(config, {"recipe": "other.cnn", "schedule.steps": 4})
    known = {shared._key(elsewhere): [{**results.read(table, tmp_path)[0], "changed": {}}]}
    assert not shared.same(elsewhere, (0,), known)
    assert shared.same(with_values(elsewhere, {"run.precision": "bfloat16"}), (0,), known)
    assert main(words) == 0
    (found,) = results.read(table, tmp_path)
    assert "diverged" not in found
    assert found["precision"] == "float32"


@pytest.mark.parametrize("settings", [None, [], 3, "0123456789ab"])
def test_a_measurement_without_its_settings_is_refused_by_the_name_of_its_file(settings, tmp_path):
    table = tables()["digits"]
    entry = {"recipe": "digits.cnn", "cell": "cnn", "seed": 0, "steps": 4, "settings": settings}
    (tmp_path / "digits.json").write_text(json.dumps({"measurements": [entry]}))
    with pytest.raises(ValueError, match=r"digits\.json lacks the settings"):
        results.read(table, tmp_path)


def test_settings_stand_once_in_a_file_and_every_measurement_has_its_own(tmp_path):
    table = tables()["digits"]
    made = {name: with_values(get("digits.cnn"), {"optim.lr": lr}) for name, lr in (("own", 0.1), ("other", 0.2))}
    for seed in (0, 1):
        for name, config in made.items():
            changed = {"optim.lr": 0.2} if name == "other" else None
            results.record(table, "cnn", config, {"seed": seed, "steps": 9, "final_accuracy": 5.0}, tmp_path, changed)
    path = tmp_path / "digits.json"
    content = json.loads(path.read_text())
    assert len(content["settings"]) == 2
    assert [one["settings"]["optim"]["lr"] for one in results.read(table, tmp_path)] == [0.2, 0.2, 0.1, 0.1]
    results.write(table, results.read(table, tmp_path), tmp_path)
    assert json.loads(path.read_text()) == content
    content["measurements"][0]["settings"] = material(made["other"])  # a file may also have them in every measurement
    path.write_text(json.dumps(content))
    assert results.read(table, tmp_path)[0]["settings"] == json.loads(json.dumps(material(made["other"])))
    missing = {**content["settings"]}
    missing.popitem()
    for damaged in (missing, dict.fromkeys(content["settings"]), [1], "text", None):
        path.write_text(json.dumps({**content, "settings": damaged}))
        with pytest.raises(ValueError, match=r"digits\.json lacks the settings"):
            results.read(table, tmp_path)


def test_a_short_run_is_not_compared_with_the_published_number(tmp_path):
    table = tables()["paper.table1"]
    entry = {"cell": "original.softmax", "seed": 0, "final_accuracy": 50.0, "best_accuracy": 51.0}
    content = {"measurements": [{**entry, "steps": 640}, {**entry, "steps": 64_000}]}
    (tmp_path / "paper.table1.json").write_text(json.dumps(content))
    whole, short = (results.render(table, tmp_path, ["original.softmax"], steps) for steps in (None, 640))
    assert "-40.58" in whole
    assert "-40.58" not in short
    assert "640 steps" in short


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--seeds", "a"], "--seeds 'a' must be numbers"),
        (["--run.seeds", "5,6"], "--run.seeds is for train: give --seeds"),
        (["--run.name", "x"], "--run.name names one run, but 2 match"),
    ],
)
def test_reproduce_refuses_what_it_would_ignore(extra, message, tmp_path, capsys):
    assert main(["reproduce", "digits", "--results", str(tmp_path), *extra]) != 0
    assert message in capsys.readouterr().err


def test_times_are_not_measured_beside_other_trainings(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(reproduce, "run_at_once", lambda *how: pytest.fail("it was trained"))
    words = ["reproduce", "thesis.tableE.5", "--results", str(tmp_path), "--run.folder", str(tmp_path)]
    assert main([*words, "--at-once", "2"]) != 0
    assert "thesis.tableE.5.baseline measures time" in capsys.readouterr().err


def test_short_runs_build_on_short_runs():
    source = shortened(get("thesis.table4.8.baseline.natural.fgsm"), 640)
    assert source.adversarial.source == "thesis.table4.8.source-640"
    assert shortened(get("thesis.table5.10.sphereface+"), 1200).model.start == "thesis.table5.10.sphereface-1200"
    assert shortened(get("open.cifar10_gan.sn"), 10).evaluation.inception == "paper.table1.original.softmax"


def test_a_cell_that_cannot_be_run_does_not_stop_the_others(tmp_path, capsys, monkeypatch):
    words = ["reproduce", "digits", "--steps", "2", "--results", str(tmp_path / "results"), "--run.device", "cpu"]
    words += ["--run.folder", str(tmp_path), "--run.progress", "off"]
    genuine = reproduce.train

    def refuse(config):
        if ".spherenet" in config.recipe:
            raise FileNotFoundError("no such data")
        return genuine(config)

    monkeypatch.setattr(reproduce, "train", refuse)
    assert main(words) == 1
    printed = capsys.readouterr()
    assert "hypersphere reproduce: spherenet: no such data" in printed.err
    assert re.search(r"^cnn +- +\d+\.\d\d", printed.out, re.MULTILINE)


def test_what_fails_in_one_of_several_processes_ends_it(monkeypatch):
    """The others, which wait for it in this cell, then see that it is gone."""

    def fail(config):
        raise MemoryError

    monkeypatch.setattr(reproduce, "train", fail)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(MemoryError):
        main(["reproduce", "digits", "--steps", "2", "--cells", "cnn", "--results", "nowhere"])


@pytest.mark.parametrize(
    "changed",
    [
        {"schedule.steps": 100, "schedule.milestones": (50,)},
        {"schedule.milestones": (), "data.hflip": True, "model.feature_dim": None},
        {"model.extra": {"width": 0.5, "sizes": [1, 2], "kind": "a"}, "loss.margin": -1e-5, "loss.name": "arcface"},
    ],
)
def test_the_command_of_a_measurement_makes_it_again(changed):
    table = tables()["paper.table1"]
    cell = next(one for one in table.cells if one.name == "original.softmax")
    config = with_values(cell.config(table.name), changed)
    entry = {"cell": cell.training, "seed": 3, "steps": config.schedule.steps, "settings": material(config)}
    noted = {**changed, "order of batches": "another one"}  # in the code of then, which no option changes
    words = results.command(table, json.loads(json.dumps(entry | {"changed": noted})))
    parser = Parser()
    arguments.reproduce(parser)
    order = reproduce._Order(parser.parse_args(shlex.split(words)[2:]))
    assert (order.seeds, [work.cell for work in order.works]) == ((3,), [cell])
    assert material(order.works[0].config) == material(config)


def test_shortened_protocols_keep_their_shape():
    short = shortened(get("paper.table1.original.softmax"), 640)
    assert short.schedule.milestones == (340, 540)
    assert short.run.name == "paper.table1.original.softmax-640"
    faces = get("faces.own")
    assert (faces.loss.warmup, faces.schedule.steps) == (1000, 8000)
    assert shortened(faces, 80).loss.warmup == 10
    assert faces.optim.projection_every == 0 == shortened(faces, 80).optim.projection_every
    projected = get("digits.spherenet")
    assert projected.optim.projection_every == 100
    assert shortened(projected, 40).optim.projection_every == 40


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give either a table, or a file of tables with --plan"),
        (["digits", "--plan", "plan.txt"], "give either a table, or a file of tables with --plan"),
        (["--plan", "plan.txt"], "plan.txt, line 2: --plan, --at-once, --within and --print belong"),
        (["--plan", "empty.txt"], "empty.txt names no table"),
        (["--plan", "wrong.txt"], "wrong.txt, line 2: table='digit' is unknown: did you mean digits"),
        (["--plan", "none.txt"], "none.txt, line 2: --cells 'rnn' matches no cell of digits"),
        (["digits.cnn"], "table='digits.cnn' is a cell of digits: give digits --cells 'cnn'"),
        (
            ["thesis.table4.8.ball.fgsm"],  # a training of several cells, none of that name
            "is a training of thesis.table4.8: give thesis.table4.8 --cells 'ball.fgsm.fgsm'",
        ),
        (["nothing_like_it"], "table='nothing_like_it' is unknown: see `hypersphere list tables`"),
        (["digits", "--loss.scale", "8"], "--loss.scale 8.0 changes nothing here"),
    ],
)
def test_a_plan_that_cannot_be_meant(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.txt").write_text("digits --seeds 0\ndigits --at-once 3\n")
    (tmp_path / "wrong.txt").write_text("digits --seeds 0\ndigit\n")
    (tmp_path / "none.txt").write_text("digits --seeds 0\ndigits --cells rnn\n")
    (tmp_path / "empty.txt").write_text("# later\n")
    assert main(["reproduce", *words, "--results", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err


def test_a_cell_that_fails_does_not_end_the_table(tmp_path, monkeypatch, capsys):
    def fail(config):
        raise RuntimeError(f"no memory for {config.recipe}")

    monkeypatch.setattr("hypersphere.cli.reproduce.train", fail)
    assert main(["reproduce", "digits", "--steps", "2", "--results", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert [f"no memory for digits.{cell}" in said.err for cell in ("spherenet", "cnn")] == [True, True]
    assert "published" in said.out


def test_the_length_of_a_training_may_be_a_setting(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["--cells", "cnn", "--schedule.steps", "3", "--results", str(tmp_path), "--run.device", "cpu"]
    assert main(["reproduce", "digits", *words]) == 0
    shown = capsys.readouterr().out.splitlines()
    row = next(line for line in shown if line.startswith("cnn "))
    assert row.split()[-1] == "1"  # its number is there, of one seed
    assert any("3 steps" in line for line in shown)
