"""Short real trainings: the loss falls, one for each family; results, resuming, loading."""

import json
import math
import shutil
import statistics
from dataclasses import replace

import pytest
import torch
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tiny import tiny

import hypersphere.data
from hypersphere.evaluation import told_apart
from hypersphere.recipes import get
from hypersphere.runs import Team, merged
from hypersphere.sources import make_source
from hypersphere.train import (
    DataConfig,
    EvaluationConfig,
    LossConfig,
    ModelConfig,
    OptimConfig,
    OrthogonalConfig,
    RegularizerConfig,
    ScheduleConfig,
    load,
    run,
    with_values,
)
from hypersphere.train.build import make_parts
from hypersphere.train.distributed import team
from hypersphere.train.objective import hinge_loss
from hypersphere.train.step import Step

SMALL = ModelConfig(name="cnn3", widths="8,8,8", feature_dim=16)


def lines(folder):
    return [json.loads(line) for line in (folder / "seed-0" / "log.jsonl").read_text().splitlines()]


def accuracy(model):
    test = hypersphere.data.load("digits").test
    inputs = hypersphere.data.normalize(test.images)
    with torch.no_grad():
        return 100 * (model(inputs).argmax(1) == test.labels).double().mean().item()


FAMILIES = {
    "cross_entropy": {},
    "sphere": {
        "model": replace(SMALL, conv="sphere", angular="sigmoid"),
        "optim": OptimConfig(lr=1e-2, projection_every=10),
    },
    "decoupled": {
        # a short run needs a quick BatchNorm: these outputs are small, and its variance starts at 1
        "model": replace(SMALL, conv="decoupled", magnitude="tanh", extra={"norm_momentum": 0.4}),
        "optim": OptimConfig(lr=1e-2, weighted_gradients=True),
    },
    "hinge": {"loss": LossConfig(name="hinge")},
    "ga_softmax": {"loss": LossConfig(name="ga_softmax", margin=2, angular="linear", annealing="sphereface")},
    "sphereface+": {"loss": LossConfig(name="a_softmax", margin=2, annealing="sphereface", energy=1.0)},
    "arcface": {"loss": LossConfig(name="arcface", margin=0.1, scale=16)},
    "sphereface2": {"loss": LossConfig(name="sphereface2", margin=0.1, scale=16)},
    "mhe": {"regularizer": RegularizerConfig(name="mhe", orthonormality=1e-4)},
    "comhe": {"regularizer": RegularizerConfig(name="comhe", dim=6, refresh=10, half_space=True)},
    "srip": {"regularizer": RegularizerConfig(name="srip", weight=1e-3)},
    "opt_cayley": {"orthogonal": OrthogonalConfig(method="cayley")},
    "opt_relaxed": {"orthogonal": OrthogonalConfig(method="relaxed", beta=1e-3)},
    "opt_blocks": {"orthogonal": OrthogonalConfig(method="cayley", blocks=8)},
    "opt_gradient": {
        "orthogonal": OrthogonalConfig(method="gradient"),
        "optim": OptimConfig(name="orthogonal_sgd", lr=0.1),
    },
    "sgd": {"optim": OptimConfig(name="sgd", lr=0.1, nesterov=True, weight_decay=5e-4, clip=5.0)},
    "adamw": {"optim": OptimConfig(name="adamw", lr=1e-2, weight_decay=0.01, decay="all")},
    "muon": {"optim": OptimConfig(name="muon", lr=0.02, adam_lr=5e-3)},
}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_loss_falls_and_the_network_comes_back(family, tmp_path):
    schedule = ScheduleConfig(steps=40, milestones=(34,))
    parts = {"model": SMALL, "optim": OptimConfig(lr=1e-2), "schedule": schedule, **FAMILIES[family]}
    config = tiny(tmp_path, family, 40, **parts)
    summary = run(with_values(config, {"run.eval_every": 20, "run.checkpoint_every": 20}))
    (result,) = summary["seeds"]
    losses = [line["loss"] for line in lines(tmp_path / family) if "loss" in line]
    assert losses[-1] < 0.8 * losses[0]
    assert result["final_accuracy"] > 30
    assert result["best_accuracy"] >= result["final_accuracy"]
    model = load(tmp_path / family)
    assert accuracy(model) == pytest.approx(result["final_accuracy"], abs=1e-6)
    assert not model.training
    assert not any("parametrizations" in name for name in model.state_dict())


def test_the_hinge_loss_is_one_class_against_the_others():
    logits = torch.tensor([[2.0, 0.5, -3.0], [0.2, 0.1, 0.0], [9.0, 9.0, 9.0]], requires_grad=True)
    labels = torch.tensor([0, 2, -100])
    expected = (0 + 1.5 + 0 + 1.2 + 1.1 + 1.0) / 2
    loss = hinge_loss(logits, labels)
    assert loss.item() == pytest.approx(expected)
    assert hinge_loss(logits.bfloat16(), labels).dtype == torch.float32
    loss.backward()
    assert logits.grad.tolist() == [[0, 0.5, 0], [0.5, 0.5, -0.5], [0, 0, 0]]
    with pytest.raises(ValueError, match="label_smoothing"):
        LossConfig(name="hinge", label_smoothing=0.1)


def test_bfloat16_trains(tmp_path):
    config = with_values(tiny(tmp_path, "half", 16, model=SMALL), {"run.precision": "bfloat16", "optim.lr": 5e-3})
    run(config)
    losses = [line["loss"] for line in lines(tmp_path / "half") if "loss" in line]
    assert losses[-1] < losses[0]


def test_a_step_is_the_loop_one_would_write(tmp_path):
    """Bit for bit: the program adds nothing to batch, loss, backward and Adam."""
    config = tiny(tmp_path, "same", 14, model=SMALL, optim=OptimConfig(lr=5e-3))
    run(config)
    torch.manual_seed(0)
    model = hypersphere.models.create("cnn3", 10, widths=(8, 8, 8), feature_dim=16, in_channels=1, image_size=(8, 8))
    optimizer = torch.optim.Adam(hypersphere.optim.parameter_groups(model, 0.0), lr=5e-3)
    augment = hypersphere.data.Augment(pad=1)
    loader = hypersphere.data.Loader(hypersphere.data.load("digits").train, 32, augment=augment, seed=0)
    for step in range(14):
        for group in optimizer.param_groups:
            group["lr"] = 5e-3 * (0.1 if step >= 12 else 1.0)
        inputs, labels = loader.batch(loader.seek(step))
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    trained = load(tmp_path / "same").state_dict()
    for name, value in model.state_dict().items():
        assert torch.equal(trained[name], value), name


def test_live_progress_in_a_terminal(tmp_path, capsys):
    run(with_values(tiny(tmp_path, "live", 8, regularizer=RegularizerConfig(name="mhe")), {"run.progress": "rich"}))
    shown = capsys.readouterr().out
    assert "live seed 0" in shown
    for word in ("8/8", "loss", "penalty", "test", "best", "energy"):
        assert word in shown


def test_tensorboard_has_the_log(tmp_path):
    config = tiny(tmp_path, "board", 8)
    run(with_values(config, {"run.tensorboard": True}))
    events = EventAccumulator(str(tmp_path / "board" / "seed-0" / "events")).Reload()
    for name in ("loss", "accuracy", "energy"):
        written = {line["step"]: line[name] for line in lines(tmp_path / "board") if name in line}
        assert {one.step: one.value for one in events.Scalars(name)} == pytest.approx(written)


def test_plain_lines_elsewhere(tmp_path, capsys):
    run(with_values(tiny(tmp_path, "plain", 8), {"run.progress": "auto"}))
    shown = capsys.readouterr().out.splitlines()
    assert any(line.startswith("plain seed 0  4/8  loss") and "left" in line for line in shown)


def test_folders_of_images(tmp_path):
    for split, count in (("train", 12), ("val", 5)):
        for index, colour in enumerate(("red", "green", "blue")):
            for number in range(count):
                path = tmp_path / "imagenet" / split / colour / f"{number}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.new("RGB", (20, 20), tuple(200 if c == index else 10 * (number % 5) for c in range(3))).save(path)
    data = DataConfig("imagenet", str(tmp_path), 12, 7, normalize="unit", image_size=16, resize=18, workers=0)
    config = tiny(tmp_path, "tree", 20, data=data, model=SMALL, optim=OptimConfig(lr=1e-2))
    (result,) = run(with_values(config, {"model.extra": {"norm_momentum": 0.5}}))["seeds"]
    assert result["final_accuracy"] > 60
    run(with_values(config, {"data.normalize": "standard", "recipe": "standard", "schedule.steps": 2}))  # ImageNet's


@pytest.mark.slow
def test_the_forward_pass_is_one_graph_compiled_once(tmp_path):
    config = tiny(
        tmp_path,
        model=replace(SMALL, conv="sphere", angular="sigmoid"),
        loss=LossConfig(name="w_softmax"),
        regularizer=RegularizerConfig(name="mhe"),
    )
    compiles, losses = 0, []

    def backend(graph, inputs):
        nonlocal compiles
        compiles += 1
        return graph.forward

    for compiled in (False, True):
        torch.compiler.reset()
        step = Step(make_parts(config, 0, Team(0, 1, torch.device("cpu"))))
        if compiled:
            step._forward_at = torch.compile(step._plain_forward_at, fullgraph=True, backend=backend)
        for _ in range(4):
            step()
        losses.append(step.read()["loss"])
    assert compiles == 1
    assert losses[1] == pytest.approx(losses[0], abs=1e-5)


def test_result_log_and_folder(tmp_path):
    config = with_values(
        tiny(tmp_path, "two", 16, loss=LossConfig(name="a_softmax", annealing="sphereface")), {"run.seeds": (0, 3)}
    )
    summary = run(config)
    assert [one["seed"] for one in summary["seeds"]] == [0, 3]
    assert summary["mean_final_accuracy"] == pytest.approx(sum(one["final_accuracy"] for one in summary["seeds"]) / 2)
    folder = tmp_path / "two"
    log = lines(folder)
    assert [line["step"] for line in log if "loss" in line] == list(range(2, 17, 2))
    assert [line["step"] for line in log if "accuracy" in line] == [8, 16]
    assert all(line["lambda"] > 5 and line["rate"] > 0 and line["lr"] > 0 for line in log if "loss" in line)
    assert all(math.isfinite(line["energy"]) for line in log if "accuracy" in line)
    environment = json.loads((folder / "seed-0" / "environment.json").read_text())
    assert environment["torch"] == torch.__version__
    assert {"commit", "device", "python", "command"} <= environment.keys()
    kept = sorted(path.name for path in (folder / "seed-0" / "checkpoints").iterdir())
    assert kept == ["step-00000012", "step-00000016"]
    assert (folder / "seed-0" / "latest").read_text() == kept[-1]
    before = (folder / "seed-0" / "model.safetensors").stat().st_mtime_ns
    assert run(config) == summary  # nothing is trained again
    assert (folder / "seed-0" / "model.safetensors").stat().st_mtime_ns == before
    assert load(folder, seed=3).state_dict().keys() == load(folder / "seed-3").state_dict().keys()


def test_the_time_of_steps_is_that_of_a_usual_span(tmp_path):
    """A first span in which a network is compiled is no part of it."""
    (result,) = run(tiny(tmp_path, steps=24))["seeds"]
    log = [json.loads(line) for line in (tmp_path / "tiny" / "seed-0" / "log.jsonl").read_text().splitlines()]
    usual = statistics.median(line["rate"] for line in log if "rate" in line)
    assert result["metrics"]["seconds_per_100_steps"] == pytest.approx(100 / usual)


def test_fine_tuning_rotates_the_trained_neurons(tmp_path):
    run(tiny(tmp_path, "cnn", 4))
    values = {"model.start": "cnn", "orthogonal.method": "cayley"}
    parts = make_parts(with_values(tiny(tmp_path, "turned", 4), values), 1, team("cpu"))
    before, after = load(tmp_path / "cnn"), merged(parts.objective.classifier())
    weights = [dict(model.named_parameters())["body.conv2.0.op.weight"].flatten(1) for model in (before, after)]
    assert not torch.allclose(*weights, atol=1e-2)
    torch.testing.assert_close(weights[0] @ weights[0].T, weights[1] @ weights[1].T, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("orthogonal", [None, "cayley"])
def test_fine_tuning_starts_from_another_run(orthogonal, tmp_path):
    run(tiny(tmp_path, "cnn", 4))
    trained = load(tmp_path / "cnn").state_dict()
    values = {
        "model.conv": "sphere",
        "model.start": "cnn",
        "orthogonal.method": orthogonal,
        "orthogonal.init": "identity",
    }
    config = with_values(tiny(tmp_path, "twin", 4), values)
    parts = make_parts(config, 1, team("cpu"))
    twin = merged(parts.objective.classifier()).state_dict()
    for name, value in trained.items():
        torch.testing.assert_close(twin[name], value, msg=name)
    run(config)  # the finished run no longer needs the one it came from
    shutil.rmtree(tmp_path / "cnn")
    load(tmp_path / "twin")
    with pytest.raises(ValueError, match=r"is no run in"):
        make_parts(config, 1, team("cpu"))
    run(tiny(tmp_path, "cnn", 4, model=replace(config.model, start=None, widths="4,4,5")))
    with pytest.raises(ValueError, match=r"model.start='cnn' does not fit"):
        make_parts(config, 1, team("cpu"))


@pytest.mark.parametrize("network", [ModelConfig(name="cnn3", widths="4,4,4"), ModelConfig(name="mlp")])
@pytest.mark.parametrize("losses", [("cross_entropy", "arcface"), ("arcface", "cross_entropy"), ("softmax", "arcface")])
def test_fine_tuning_under_another_kind_of_loss(network, losses, tmp_path):
    before, after = (tiny(tmp_path, name, 2, model=network, loss=LossConfig(name)) for name in losses)
    run(before)
    parts = make_parts(with_values(after, {"model.start": losses[0]}), 1, team("cpu"))
    trained = load(tmp_path / losses[0]).state_dict()
    taken = {name.removeprefix("network."): value for name, value in trained.items() if "body." in name}
    assert len(taken) > 3
    for name, value in taken.items():
        torch.testing.assert_close(parts.objective.model.state_dict()[name], value, msg=name)


@pytest.mark.parametrize("loss", ["cross_entropy", "arcface"])
def test_fine_tuning_from_what_does_not_fit_is_refused(loss, tmp_path):
    run(tiny(tmp_path, "wide", 2, model=ModelConfig(name="mlp", extra={"hidden": (8, 8)})))
    mlp = tiny(tmp_path, "narrow", 2, model=ModelConfig(name="mlp", extra={"hidden": (8, 6)}, start="wide"))
    with pytest.raises(ValueError, match=r"model.start='wide' does not fit: it has no .*body.* of \(6, 8\); start"):
        make_parts(with_values(mlp, {"loss.name": loss}), 1, team("cpu"))
    linear = with_values(mlp, {"loss.name": loss, "model.extra": {"hidden": ()}})
    with pytest.raises(ValueError, match=r"model.start='wide' does not fit: it has no weights of mlp; start"):
        make_parts(linear, 1, team("cpu"))


def test_neurons_with_a_mean_start_with_high_energy_and_may_stay_as_drawn(tmp_path):
    found = {}
    for mean in (0.0, 0.5):
        config = tiny(tmp_path, f"mean{mean}", 3, orthogonal=OrthogonalConfig("cayley", mean=mean, learn_r=False))
        config = with_values(config, {"evaluation.also": ("classes",)})
        before = merged(make_parts(config, 0, team("cpu")).objective.classifier()).state_dict()
        found[mean] = run(config)["seeds"][0]["metrics"]
        after = load(tmp_path / f"mean{mean}").state_dict()
        moved = {name for name, value in after.items() if not torch.allclose(before[name], value, atol=1e-6)}
        assert not any("op.weight" in name for name in moved)
        assert "classifier.weight" in moved
    assert found[0.5]["initial_energy"] > found[0.0]["initial_energy"] + 0.1
    digits = hypersphere.data.load("digits").test
    counts = digits.counts.tolist()
    hits = sum(found[0.0][f"class_{i}_accuracy"] * count for i, count in enumerate(counts)) / sum(counts)
    assert hits == pytest.approx(found[0.0]["accuracy"])


def test_a_result_that_a_crash_prevented_is_written_afterwards(tmp_path):
    config = tiny(tmp_path, "late", 6)
    first = run(config)["seeds"][0]
    folder = tmp_path / "late" / "seed-0"
    log, weights = (folder / "log.jsonl").read_bytes(), (folder / "model.safetensors").read_bytes()
    for name in ("result.json", "model.safetensors"):
        (folder / name).unlink()
    again = run(config)["seeds"][0]
    assert (folder / "log.jsonl").read_bytes() == log
    assert (folder / "model.safetensors").read_bytes() == weights
    assert {**again, "environment": 0} == {**first, "environment": 0}


def test_other_settings_are_refused_in_the_same_folder(tmp_path):
    config = tiny(tmp_path, "mine", 2)
    run(config)
    with pytest.raises(ValueError, match=r"other settings: optim\.lr \(0\.001, now 0\.5\)"):
        run(with_values(config, {"optim.lr": 0.5}))


def test_graphs_train_on_all_nodes_and_score_the_test_nodes(tmp_path, monkeypatch):
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(60) % 3
    features = torch.nn.functional.one_hot(labels, 3).float().repeat(1, 4) + 0.3 * torch.rand(
        60, 12, generator=generator
    )
    chain = torch.stack([torch.arange(57), torch.arange(57) + 3])
    graph = hypersphere.data.Graph(
        "toy", features, torch.cat([chain, chain.flip(0)], 1), labels,
        torch.arange(12), torch.arange(12, 30), torch.arange(30, 60), ("a", "b", "c"),
    )  # fmt: skip
    monkeypatch.setattr(hypersphere.data, "load", lambda *a, **k: graph)
    config = tiny(tmp_path, "graph", 40, data=DataConfig(name="cora"), model=ModelConfig(name="gcn"))
    (result,) = run(with_values(config, {"optim.lr": 0.05, "schedule.milestones": ()}))["seeds"]
    assert result["final_accuracy"] > 90
    counted = []
    for validate in (False, True):  # settings are chosen on validation nodes, never on test nodes
        source = make_source(DataConfig(name="cora", validate=validate), 0, torch.device("cpu"))
        ((_, evaluated),) = source.test()
        counted.append((evaluated >= 0).nonzero().flatten())
    assert torch.equal(counted[0], graph.test)
    assert torch.equal(counted[1], graph.val)
    words = replace(graph, features=torch.eye(60))  # one word for each document
    monkeypatch.setattr(hypersphere.data, "load", lambda *a, **k: words)
    (((features, _), _),) = make_source(DataConfig(name="cora"), 0, torch.device("cpu")).test()
    assert features.layout == torch.sparse_coo
    torch.testing.assert_close(features.to_dense(), words.normalized_features())


@pytest.mark.real_data("cora")
def test_gcn_reaches_its_published_accuracy_on_cora(tmp_path):
    config = with_values(get("thesis.table7.11.baseline.cora"), {"run.folder": str(tmp_path), "run.progress": "off"})
    (result,) = run(config)["seeds"]
    assert result["final_accuracy"] >= 80


@pytest.mark.real_data("modelnet40")
def test_pointnet_learns_a_slice_of_modelnet40(tmp_path):
    base = get("thesis.table7.12.baseline")
    config = with_values(base, {
        "run.folder": str(tmp_path), "run.progress": "off", "run.device": "cpu", "data.points": 128,
        "model.extra": {"width": 0.25}, "schedule.steps": 100, "schedule.milestones": (), "run.log_every": 10,
        "run.eval_every": 100, "run.checkpoint_every": 100, "run.energy": False, "optim.lr": 3e-3,
    })  # fmt: skip
    (result,) = run(config)["seeds"]
    losses = [line["loss"] for line in lines(tmp_path / config.recipe) if "loss" in line]
    assert losses[-1] < 0.8 * losses[0]
    assert result["final_accuracy"] > 15  # one in forty by chance


def score(candidate):
    """A measurement of one's own whose number has the name of another."""
    return {"accuracy": 3.0, "mine": 4.0}


def test_numbers_are_told_apart():
    found = told_apart({"b": {"x": 1.0, "b.x": 2.0}, "c": {"x": 3.0, "y": 4.0}}, ["x"])
    assert found == {"b": {"b.b.x": 1.0, "b.x": 2.0}, "c": {"c.x": 3.0, "y": 4.0}}


def test_a_number_of_an_own_measurement_does_not_replace_another(tmp_path):
    config = tiny(tmp_path, "own", 4, evaluation=EvaluationConfig(also=("test_train_run:score", "top5")))
    (found,) = run(config)["seeds"]
    assert found["metrics"]["accuracy"] == found["final_accuracy"] != 3.0
    assert found["metrics"]["test_train_run:score.accuracy"] == 3.0
    assert found["metrics"]["mine"] == 4.0
    assert found["also"]["test_train_run:score"] == ["test_train_run:score.accuracy", "mine"]
