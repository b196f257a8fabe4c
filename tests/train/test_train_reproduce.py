"""``hypersphere reproduce``: what is done is not done again, and only the cell's own settings are its number."""

import json
import re
import shlex
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

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
    adopted, measured = json.loads((tmp_path / "other.json").read_text())["measurements"]
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
    del content["measurements"][0]["settings"]["optim"]
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
        work = reproduce.Work(other, other.cells[0], other.cells[0].config("other"), {}, tmp_path)
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
        reproduce.Work(
            table,
            table.cells[0],
            replace(config, run=replace(config.run, name=name), model=replace(config.model, start=start)),
            {},
            None,
        )
        for name, start in names.items()
    ]
    assert [work.config.run.name for work in reproduce._apart(works)] == ["a", "b", "c"]
    assert [work.config.run.name for work in reproduce._apart(works[:2])] == ["a"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name a table, or a file with --plan"),
        (["digits", "--plan", "plan.txt"], "name a table, or a file with --plan"),
        (["--plan", "plan.txt"], "plan.txt, line 2: --plan, --at-once, --within and --print belong"),
        (["--plan", "empty.txt"], "empty.txt names no table"),
        (["--plan", "wrong.txt"], "wrong.txt, line 2: table='digit' is unknown: did you mean digits"),
        (["--plan", "none.txt"], "none.txt, line 2: --cells 'rnn' matches no cell of digits"),
        (["digits.cnn"], "table='digits.cnn' is a cell of digits: give digits --cells 'cnn'"),
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


def tables_of_attacks(monkeypatch):
    """A table whose networks are attacked by FGSM, and one that attacks the same by those of another network, too."""
    own = tables()["digits"]
    cnn = next(cell for cell in own.cells if cell.name == "cnn")

    def cell(name, **values):
        return replace(cnn, name=name, make=lambda: with_values(cnn.make(), values))

    both = {"evaluation.also": ("fgsm", "fgsm_transfer"), "adversarial.source": "black.source"}
    white = replace(own, name="white", cells=(cell("net", **{"evaluation.also": ("fgsm",)}),))
    black = replace(own, name="black", cells=(cell("source"), cell("net", **both)))
    monkeypatch.setattr(reproduce, "tables", lambda: {"digits": own, "white": white, "black": black})
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
