"""Trainings that stand in several tables, and runs that others start from: trained once, and found by all."""

import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import pytest

from hypersphere.cli import arguments, main, reproduce
from hypersphere.cli._reproduce_work import Work, apart
from hypersphere.cli.parser import Parser
from hypersphere.config import with_values
from hypersphere.recipes import get, results, shared, tables


def test_a_plan_trains_what_several_tables_share_once(tmp_path, capsys, monkeypatch):
    own = tables()["digits"]
    cnn = next(cell for cell in own.cells if cell.name == "cnn")
    other = replace(own, name="other", cells=(replace(cnn, name="same"), replace(cnn, name="warm")))
    monkeypatch.setattr(reproduce, "tables", lambda: {"digits": own, "other": other})
    monkeypatch.setattr(reproduce, "find_table", {"digits": own, "other": other}.__getitem__)
    plan = tmp_path / "plan.txt"
    plan.write_text(
        "# both tables have this one\n"
        "digits --cells cnn --seeds 0\n\n"
        "other --cells same --seeds 0,1\n"
        "other --cells warm --seeds 1 --optim.lr 1e-9  # another experiment\n"
    )
    words = ["reproduce", "--plan", str(plan), "--steps", "2", "--results", str(tmp_path), "--run.device", "cpu"]
    words += ["--run.folder", str(tmp_path), "--run.progress", "off", "--at-once", "2"]
    trained = []
    genuine = reproduce.run_at_once

    def spy(jobs, *how):
        trained.extend((job.config.recipe, job.seed) for job in jobs)
        return genuine(jobs, *how)

    monkeypatch.setattr(reproduce, "run_at_once", spy)
    assert main(words) == 0
    assert trained == [("digits.cnn", 0), ("digits.cnn", 1), ("other.warm", 1)]
    first, second = (
        json.loads((tmp_path / f"{name}.json").read_text())["measurements"] for name in ("digits", "other")
    )
    assert [(m["cell"], m["seed"]) for m in first] == [("cnn", 0)]
    assert [(m["cell"], m["seed"], "changed" in m) for m in second] == [
        ("same", 0, False),
        ("same", 1, False),
        ("warm", 1, True),
    ]
    assert first[0]["final_accuracy"] == second[0]["final_accuracy"]
    assert main(words) == 0
    assert capsys.readouterr().out.count("is done") == 3


def test_what_another_table_has_measured_is_not_trained_again(tmp_path, capsys, monkeypatch):
    own = tables()["digits"]
    cnn = next(cell for cell in own.cells if cell.name == "cnn")
    second = partial(lambda make, **model: with_values(make(), model), cnn.make)
    cells = (
        replace(cnn, name="same", published=1.0),
        replace(cnn, name="source"),
        replace(cnn, name="later", make=partial(second, **{"model.start": "other.source"})),
    )
    other = replace(own, name="other", cells=cells)
    monkeypatch.setattr(reproduce, "tables", lambda: {"digits": own, "other": other})
    monkeypatch.setattr(reproduce, "find_table", {"digits": own, "other": other}.__getitem__)
    trained = []

    def train(config):
        trained.extend((config.recipe, seed) for seed in config.run.seeds)
        numbers = {"recipe": config.recipe, "steps": 2, "final_accuracy": 7.0, "best_accuracy": 8.0}
        return {"seeds": [{**numbers, "seed": seed} for seed in config.run.seeds]}

    monkeypatch.setattr(reproduce, "train", train)
    words = ["reproduce", "--steps", "2", "--results", str(tmp_path), "--run.folder", str(tmp_path)]
    assert main([*words, "digits", "--cells", "cnn", "--seeds", "0,1", "--run.precision", "bfloat16"]) == 0
    assert main([*words, "other", "--cells", "same", "--seeds", "1,2"]) == 0
    assert "other.same is done: seed 1 as digits.cnn\n" in capsys.readouterr().out
    assert trained == [("digits.cnn", 0), ("digits.cnn", 1), ("other.same", 2)]
    adopted, measured = results.read(other, tmp_path)
    assert (adopted["recipe"], adopted["settings"]["recipe"]) == ("digits.cnn", "other.same")
    assert (adopted["seed"], adopted["final_accuracy"], adopted["published"]) == (1, 7.0, {"same": 1.0})
    assert [one["settings"]["run"]["precision"] for one in (adopted, measured)] == ["bfloat16", "float32"]
    assert "--cells same --seeds 1" in adopted["environment"]["command"]
    assert "precision bfloat16" in adopted["environment"]["command"]

    del trained[:]
    assert main([*words, "other", "--cells", "same", "--seeds", "1", "--optim.lr", "1e-9"]) == 0
    assert main([*words, "other", "--cells", "source", "--seeds", "1"]) == 0  # another starts from its folder
    assert trained == [("other.same", 1), ("other.source", 1)]


def put(folder, table, seed=0, **entries):
    """A measurement of its first cell, as of the training of that cell."""
    cell = table.cells[0]
    number = {"recipe": f"{table.name}.{cell.training}", "seed": seed, "steps": cell.make().schedule.steps, **entries}
    results.record(table, cell.training, cell.config(table.name), number, folder)
    return table


def twins():
    """Two tables of one training."""
    cell = next(one for one in tables()["digits"].cells if one.name == "cnn")
    first = replace(tables()["digits"], cells=(cell,))
    return first, replace(first, name="other", cells=(replace(cell, name="same"),))


@pytest.mark.parametrize(
    "extra",
    [{"changed": {"augmentation": "none"}}, {"changed": {"optim.unheard": 1}}, {"recipe": None}, {"settings": None}],
)
def test_a_measurement_that_does_not_tell_its_training_is_nobody_elses(extra, tmp_path):
    first, other = twins()
    put(tmp_path, first)
    config = other.cells[0].config("other")
    assert shared.same(config, (0,), shared.known(tmp_path, [first])).keys() == {0}
    path = tmp_path / "digits.json"
    content = json.loads(path.read_text())
    (one,) = content["measurements"]
    for name, value in extra.items():
        one.pop(name, None)
        one |= {} if value is None else {name: value}
    path.write_text(json.dumps(content))
    assert not shared.same(config, (0,), shared.known(tmp_path, [first]))


def test_a_measurement_is_of_what_its_cell_says_whatever_defaults_were_once(tmp_path):
    first, other = twins()
    put(tmp_path, first)
    path = tmp_path / "digits.json"
    content = json.loads(path.read_text())
    (settings,) = content["settings"].values()
    del settings["optim"]
    path.write_text(json.dumps(content))
    known = shared.known(tmp_path, [first])
    config = other.cells[0].config("other")
    assert shared.same(config, (0,), known)
    assert not shared.same(with_values(config, {"optim.lr": 0.123}), (0,), known)


def test_only_the_first_of_several_processes_writes_what_is_measured_elsewhere(tmp_path, monkeypatch):
    first, other = twins()
    known = shared.known(tmp_path, [put(tmp_path, first)])
    for rank, written in (("1", False), ("0", True)):
        monkeypatch.setenv("RANK", rank)
        work = Work(other, other.cells[0], other.cells[0].config("other"), {}, tmp_path)
        assert not work.prepare((0,), known)
        assert (tmp_path / "other.json").exists() == written


def test_a_broken_file_of_another_table_stops_nobody(tmp_path, caplog):
    first, other = twins()
    put(tmp_path, first)
    (tmp_path / "other.json").write_text("{")
    assert shared.known(tmp_path, [first, other])
    assert "other.json is not a JSON file" in caplog.text


def test_a_copy_gives_way_to_what_is_measured_under_its_own_name(tmp_path):
    first, other = twins()
    put(tmp_path, first, final_accuracy=12.0)
    third = replace(other, name="third")
    for table in (other, third):
        found = shared.same(table.cells[0].config(table.name), (0,), shared.known(tmp_path, [first]))
        shared.adopt(table, "same", found, tmp_path, {})
    put(tmp_path, first, final_accuracy=50.0)
    for order in ([first, other, third], [third, other, first]):
        known = shared.known(tmp_path, order)
        assert shared.same(other.cells[0].config("other"), (0,), known)[0]["final_accuracy"] == 50.0
    (tmp_path / "digits.json").unlink()  # to measure it again: copies do not bring it back
    assert not shared.same(first.cells[0].config("digits"), (0,), shared.known(tmp_path, [first, other, third]))


def test_nothing_is_lost_where_several_record_at_a_time(tmp_path):
    first, _ = twins()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda seed: put(tmp_path, first, seed), range(24)))
    assert [one["seed"] for one in results.read(first, tmp_path)] == list(range(24))
    assert [path.name for path in tmp_path.iterdir()] == ["digits.json"]


def test_runs_that_others_start_from_have_the_names_that_the_options_give_them(tmp_path):
    def works(cells, *words):
        parser = Parser()
        arguments.reproduce(parser)
        folders = ["--run.folder", str(tmp_path), "--results", str(tmp_path)]
        order = reproduce._Order(parser.parse_args(["thesis.table4.8", "--cells", cells, *folders, *words]))
        order.start_from(made)
        return order.works

    made: set[str] = set()  # by another line of a plan
    words = ["--steps", "2", "--model.widths", "4,4,4"]
    (source,) = works("source", *words)
    assert source.prepare((0,), {})
    name = source.config.run.name
    assert re.fullmatch(r"thesis\.table4\.8\.source-2-[0-9a-f]{8}", name)
    (attacked,) = works("baseline.natural.fgsm", *words)
    assert attacked.config.adversarial.source == "thesis.table4.8.source-2"  # the other is not there
    made.add(name)
    (attacked,) = works("baseline.natural.fgsm", *words)
    assert attacked.config.adversarial.source == name
    made.clear()
    (tmp_path / name).mkdir()
    (attacked,) = works("baseline.natural.fgsm", *words)
    assert attacked.config.adversarial.source == name
    assert "adversarial.source" not in attacked.changes
    (own,) = works("baseline.natural.fgsm", *words, "--adversarial.source", "mine")
    assert own.config.adversarial.source == "mine"


def test_what_others_start_from_is_trained_under_its_own_name():
    config = get("digits.cnn")
    table = tables()["digits"]
    names = {"a": None, "b": None, "c": "b"}
    works = [
        Work(
            table,
            table.cells[0],
            replace(config, run=replace(config.run, name=name), model=replace(config.model, start=start)),
            {},
            None,
        )
        for name, start in names.items()
    ]
    assert [work.config.run.name for work in apart(works)] == ["a", "b", "c"]
    assert [work.config.run.name for work in apart(works[:2])] == ["a"]


def tables_of_attacks(monkeypatch):
    """A table whose networks are attacked by FGSM, and one that attacks the same by those of another network, too."""
    own = tables()["digits"]
    cnn = next(cell for cell in own.cells if cell.name == "cnn")

    def cell(name, **values):
        return replace(cnn, name=name, make=lambda: with_values(cnn.make(), values))

    both = {"evaluation.also": ("fgsm", "fgsm_transfer"), "adversarial.source": "black.source"}
    white = replace(own, name="white", cells=(cell("net", **{"evaluation.also": ("fgsm",)}),))
    black = replace(own, name="black", cells=(cell("source"), cell("net", **both)))
    known = {"digits": own, "white": white, "black": black}
    monkeypatch.setattr(reproduce, "tables", lambda: known)
    monkeypatch.setattr(reproduce, "find_table", known.__getitem__)
    return white, black


def test_a_network_that_is_evaluated_in_more_ways_counts_where_fewer_are_asked_for(tmp_path, monkeypatch):
    white, black = tables_of_attacks(monkeypatch)
    asked, more = (one.cells[-1].config(one.name) for one in (white, black))
    put(tmp_path, white)
    assert not shared.same(more, (0,), shared.known(tmp_path, [white]))  # it lacks the transferred attack
    (tmp_path / "white.json").unlink()
    put(tmp_path, replace(black, cells=black.cells[1:]))
    known = shared.known(tmp_path, [black])
    assert shared.same(asked, (0,), known)
    assert shared.same(with_values(more, {"recipe": "third.net"}), (0,), known)
    elsewhere = with_values(more, {"recipe": "third.net", "adversarial.source": "other"})
    assert not shared.same(elsewhere, (0,), known)


def test_of_twins_the_one_is_trained_that_is_evaluated_in_all_ways(tmp_path, monkeypatch):
    tables_of_attacks(monkeypatch)
    trained = []

    def train(config):
        trained.extend((config.recipe, seed) for seed in config.run.seeds)
        numbers = {"recipe": config.recipe, "steps": 2, "final_accuracy": 7.0, "best_accuracy": 8.0}
        return {"seeds": [{**numbers, "seed": seed} for seed in config.run.seeds]}

    monkeypatch.setattr(reproduce, "train", train)
    plan = tmp_path / "plan.txt"
    plan.write_text("white\nblack --cells source --seeds 7\nblack --cells net\n")
    words = ["reproduce", "--plan", str(plan), "--steps", "2", "--results", str(tmp_path), "--run.folder"]
    assert main([*words, str(tmp_path / "runs"), "--seeds", "0"]) == 0
    assert trained == [("black.source", 7), ("black.net", 0)]
    assert [one["cell"] for one in json.loads((tmp_path / "white.json").read_text())["measurements"]] == ["net"]


def test_a_source_whose_number_is_known_is_trained_again_where_its_run_is_not_here(tmp_path, monkeypatch):
    """As in a clone, which has the numbers of others and none of their runs."""
    tables_of_attacks(monkeypatch)
    runs, words = tmp_path / "runs", ["reproduce", "--steps", "2", "--run.device", "cpu", "--run.progress", "off"]
    words += ["--results", str(tmp_path), "--run.folder", str(runs)]
    source = [*words, "black", "--cells", "source", "--seeds", "7"]
    assert main(source) == 0
    first = json.loads((tmp_path / "black.json").read_text())
    shutil.rmtree(runs)
    assert main(source) == 0  # nobody needs it
    assert not runs.exists()
    plan = tmp_path / "plan.txt"
    plan.write_text("black --cells source --seeds 7\nblack --cells net --seeds 0\n")
    assert main([*words, "--plan", str(plan)]) == 0
    found = {one["cell"]: one for one in json.loads((tmp_path / "black.json").read_text())["measurements"]}
    assert found.keys() == {"source", "net"}
    assert found["source"] == first["measurements"][0]
    assert "fgsm_transfer_accuracy" in found["net"]["metrics"]
    shutil.rmtree(runs / "black.net-2")  # and where it was begun and interrupted
    (tmp_path / "black.json").write_text(json.dumps(first))
    for name in ("result.json", "model.safetensors"):
        (runs / "black.source-2" / "seed-7" / name).unlink()
    assert main([*words, "--plan", str(plan)]) == 0
    assert len(json.loads((tmp_path / "black.json").read_text())["measurements"]) == 2


def test_each_seed_starts_from_the_same_seed_of_its_source(tmp_path, monkeypatch, capsys):
    """Also where that is measured and its run is not here, and beside seeds of it that are still to be trained."""
    own = tables()["digits"]
    cnn = next(cell for cell in own.cells if cell.name == "cnn")
    later = replace(cnn, name="later", make=lambda: with_values(cnn.make(), {"model.start": "warm.source"}))
    warm = replace(own, name="warm", cells=(replace(cnn, name="source"), later))
    monkeypatch.setattr(reproduce, "tables", lambda: {"warm": warm})
    monkeypatch.setattr(reproduce, "find_table", {"warm": warm}.__getitem__)
    runs, words = tmp_path / "runs", ["reproduce", "warm", "--steps", "2", "--run.device", "cpu", "--run.progress"]
    words += ["off", "--results", str(tmp_path), "--run.folder", str(runs)]
    assert main([*words, "--cells", "source", "--seeds", "0,1"]) == 0
    shutil.rmtree(runs / "warm.source-2" / "seed-1")
    assert main([*words, "--cells", "later", "--seeds", "0,1"]) == 2
    assert "model.start='warm.source-2' has no trained seed 1" in capsys.readouterr().err
    plan = tmp_path / "plan.txt"
    plan.write_text("warm --cells source --seeds 0\nwarm --cells later --seeds 1\n")
    assert main([*words[:1], "--plan", str(plan), *words[2:], "--print"]) == 0
    assert main([*words[:1], "--plan", str(plan), *words[2:]]) == 0  # seed 1 of the source, too
    assert (runs / "warm.source-2" / "seed-1" / "result.json").exists()
    shutil.rmtree(runs / "warm.source-2" / "seed-0")
    assert main([*words, "--cells", "*", "--seeds", "2"]) == 0
    assert not (runs / "warm.source-2" / "seed-0").exists()  # nobody needs it
    assert main([*words, "--seeds", "0,1,2"]) == 0
    found = json.loads((tmp_path / "warm.json").read_text())["measurements"]
    assert sorted((one["cell"], one["seed"]) for one in found) == [
        (cell, seed) for cell in ("later", "source") for seed in (0, 1, 2)
    ]
    trained = [(runs / "warm.source-2" / f"seed-{seed}" / "result.json").exists() for seed in (0, 1, 2)]
    assert trained == [True] * 3  # seed 0 again, which the last command needs
