"""A user's own loop in a run folder: what reads runs reads it, and says what it cannot."""

import gc
import json
import math

import own_nets
import pytest
import torch
from folders import make_run
from tiny import tiny
from torch import nn

import hypersphere as hs
from hypersphere import data
from hypersphere.cli import main
from hypersphere.evaluation import candidate_of, evaluate
from hypersphere.export import export_run
from hypersphere.export.inputs import find_inputs
from hypersphere.report import write
from hypersphere.runs import Logger, Run
from hypersphere.train import run

NAMED = {"model.name": "own_nets:Net", "data.name": "digits"}
IMAGES = {"image_size": (8, 8), "in_channels": 1}


def snapshot(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def train(log, net, head=None, steps=20):
    """A loop of a user: their batches, their optimizer."""
    digits = data.load("digits")
    x = (digits.train.images.float() - 127.5) / 128
    y = digits.train.labels
    parameters = [*net.parameters(), *(head.parameters() if head is not None else ())]
    optimizer = torch.optim.Adam(parameters, lr=0.01)
    for step in range(1, steps + 1):
        rows = torch.randint(0, len(x), (64,))
        out = net(x[rows])
        loss = nn.functional.cross_entropy(out, y[rows]) if head is None else head(out, y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log(step, loss=loss, lr=0.01)
        if step % 10 == 0:
            with torch.no_grad():
                scores = net(x) if head is None else head.logits(net(x))
            log.evaluate(step, accuracy=100 * (scores.argmax(1) == y).float().mean(), own_number=step / 2)


def test_the_current_folder_may_be_a_run(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path / "mine")
    with Logger(".") as log:
        log(1, loss=1.0)
    assert hs.runs.Run(tmp_path / "mine").config.run.name == "mine"


def test_everything_works_on_a_network_that_its_settings_build(tmp_path, capsys):
    net = own_nets.Net(width=12)
    settings = {**NAMED, "model.extra": {"width": 12}}
    with Logger(tmp_path / "mine", model=net, settings=settings, steps=20, num_classes=10, **IMAGES) as log:
        train(log, net)
    assert log.rebuilds
    run = Run(tmp_path / "mine")
    assert run.finished == (0,)
    assert [line["step"] for line in run.log() if "loss" in line] == list(range(1, 21))
    result = run.result()
    assert result["steps"] == 20
    assert result["best_accuracy"] >= result["final_accuracy"] > 30
    assert result["metrics"]["own_number"] == 10
    names = {path.name for path in (tmp_path / "mine" / "seed-0").iterdir()}
    assert names >= {"environment.json", "facts.json", "log.jsonl", "model.safetensors", "manifest.json", "result.json"}
    x = torch.randn(3, 1, 8, 8)
    torch.testing.assert_close(hs.load(tmp_path / "mine")(x), net(x))
    assert evaluate(run, parts=["classification"])["classification"]["accuracy"] > 30
    page = write(tmp_path / "mine").read_text()
    assert "shows the log only" not in page
    made = export_run(tmp_path / "mine", formats="safetensors", samples=4)
    assert "own_nets:Net" in (made.folder / "README.md").read_text()
    assert main(["evaluate", str(tmp_path / "mine"), "--parts", "classification"]) == 0


def test_a_loop_with_data_of_its_own_is_exported(tmp_path, capsys):
    net = own_nets.Net(num_classes=4)
    for number, shape in enumerate(({"in_features": 64}, {"image_size": (8, 8), "in_channels": 1}, {})):
        folder = tmp_path / f"mine{number}"
        settings = {"model.name": "own_nets:Net"}
        with Logger(folder, model=net, settings=settings, steps=1, num_classes=4, **shape) as log:
            log(1, loss=1.0)
        assert log.rebuilds, log.why_not
        if shape:
            made = export_run(folder, formats="safetensors,torch", samples=3)
            card = (made.folder / "README.md").read_text()
            assert "your inputs, as your loop makes them" in card
            assert "data of your own" in card
            assert "unnamed" not in card.replace("Classes (4): unnamed", "")
        else:
            with pytest.raises(ValueError, match="give Logger image_size="):
                export_run(folder, formats="safetensors")
        assert main(["evaluate", str(folder)]) == 2
        assert "named no data set" in capsys.readouterr().err


def test_a_loop_that_flattens_images_is_exported(tmp_path, monkeypatch):
    """The example of the docs: digits as rows of 64 numbers, which is all that the logger was told."""
    net = hs.models.create("mlp", 10, in_features=64)
    settings = {"model.name": "mlp", "data.name": "digits"}
    for folder, count in (("mine", 64), ("other", 63)):
        with Logger(tmp_path / folder, model=net, settings=settings, steps=1, in_features=count) as log:
            log(1, loss=1.0)
    made = export_run(tmp_path / "mine", formats="safetensors,torch", samples=3)
    assert made.real
    assert made.inputs == "the first 3 test images of digits, each as one row of 64 numbers"
    assert "(batch, 64)" in (made.folder / "README.md").read_text()
    with pytest.raises(ValueError, match="1×8×8 pixels, and the network was made for 10 classes, 63 features"):
        find_inputs(Run(tmp_path / "other").config, Run(tmp_path / "other").facts(), 0, None, 3)
    monkeypatch.setattr(data, "available", lambda *_: False)
    again = export_run(tmp_path / "mine", out=tmp_path / "again", formats="safetensors,torch", samples=3)
    assert "because digits was not found here" in again.inputs
    assert "because the data were not found where it was exported" in (again.folder / "README.md").read_text()


def test_a_network_as_people_write_them(tmp_path):
    """Without the names that our networks have: the embedding is what the last layer is given."""
    net = own_nets.Bare().eval()
    settings = {**NAMED, "model.name": "own_nets:Bare", "data.batch_size": 99999}
    with Logger(tmp_path / "mine", model=net, settings=settings, steps=1, num_classes=10, **IMAGES) as log:
        log(1, loss=1.0)
    run = Run(tmp_path / "mine")
    assert 0 <= evaluate(run, parts=["classification"])["classification"]["accuracy"] <= 100
    assert "from the log alone" not in write(tmp_path / "mine").read_text()
    made = export_run(tmp_path / "mine", formats="safetensors,torch", samples=4)
    assert "(batch, 3)" in (made.folder / "README.md").read_text()
    alone = export_run(
        tmp_path / "mine", out=tmp_path / "alone", formats="safetensors,torch", samples=4, embedding=True
    )
    assert {path.name for path in alone.folder.iterdir()} == {"README.md", "export.json", "model.pt2"}
    x = torch.randn(2, 1, 8, 8)
    (unit,) = (torch.export.load(alone.folder / "model.pt2").module()(x),)
    torch.testing.assert_close(unit, hs.functional.unit(net.features(x).flatten(1)))


def test_any_network_on_named_data_in_the_process_of_its_loop(tmp_path):
    """No settings but the data: not how to build it, not the shape of its inputs, no name that we expect."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10)).eval()
    with Logger(tmp_path / "mine", model=net, settings={"data.name": "digits"}, steps=1) as log:
        log(1, loss=1.0)
    run = Run(tmp_path / "mine")
    assert 0 <= evaluate(run, parts=["classification"])["classification"]["accuracy"] <= 100
    made = export_run(tmp_path / "mine", formats="torch", samples=4)
    assert "(batch, 1, 8, 8)" in (made.folder / "README.md").read_text()
    assert log.why_not is not None


def test_a_network_of_rows_is_given_each_image_as_one(tmp_path):
    """A plain nn.Linear that was trained on flat pixels: as soon as Logger knows, images are flattened for it."""
    net, digits = nn.Linear(64, 10).eval(), hs.data.load("digits")
    with Logger(tmp_path / "mine", model=net, settings={"data.name": "digits"}, steps=1, in_features=64) as log:
        log(1, loss=1.0)
    with torch.no_grad():
        pixels = hs.data.normalize(digits.test.images, "symmetric")
        right = net(pixels.flatten(1)).argmax(1) == digits.test.labels
    found = evaluate(tmp_path / "mine", parts=["classification", "fgsm", "energy"])
    assert found["classification"]["accuracy"] == pytest.approx(100 * float(right.float().mean()))
    assert 0 <= found["fgsm"]["fgsm_accuracy"] <= found["classification"]["accuracy"]
    assert list(found["energy"]["output_layer"]) == ["weight"]
    candidate = candidate_of(tmp_path / "mine")
    features, _ = candidate.embedding(flip=True)  # the images are mirrored, not their rows of numbers
    torch.testing.assert_close(features, torch.cat([pixels.flatten(1), pixels.flip(-1).flatten(1)], 1))
    assert "are missing" not in write(tmp_path / "mine").read_text()


@pytest.mark.parametrize("told", [{}, IMAGES])
def test_a_network_that_does_not_take_its_data_says_so(tmp_path, told):
    with Logger(tmp_path / "mine", model=nn.Linear(64, 10), settings={"data.name": "digits"}, steps=1, **told) as log:
        log(1, loss=1.0)
    message = r"does not take samples of shape \(1, 8, 8\) \(.*\): give Logger in_features=64 and no image_size if"
    with pytest.raises(ValueError, match=message):
        evaluate(tmp_path / "mine")
    with pytest.raises(ValueError, match=message):
        export_run(tmp_path / "mine", formats="torch")
    page = write(tmp_path / "mine").read_text()  # which always has the curves
    assert "does not take samples of shape (1, 8, 8)" in page
    with Logger(tmp_path / "rows", model=nn.Linear(63, 10), steps=1, in_features=64) as log:
        log(1, loss=1.0)
    with pytest.raises(ValueError, match=r"samples of shape \(64,\) \(.*\): make what prepares them a part"):
        export_run(tmp_path / "rows", formats="torch")


def test_a_head_belongs_to_it(tmp_path):
    net, head = own_nets.Net(0), hs.losses.ArcFace(8, 10, scale=16.0)
    settings = {**NAMED, "loss.name": "arcface", "loss.scale": 16.0}
    with Logger(tmp_path / "mine", model=net, head=head, settings=settings, steps=10, **IMAGES) as log:
        train(log, net, head, steps=10)
    assert log.rebuilds, log.why_not
    x = torch.randn(3, 1, 8, 8)
    torch.testing.assert_close(hs.load(tmp_path / "mine")(x), head.logits(net(x)))


def test_what_cannot_be_built_again_is_said_and_the_rest_works(tmp_path, capsys):
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    with Logger(tmp_path / "mine", model=net, steps=10, image_size=(8, 8), in_channels=1) as log:
        train(log, net, steps=10)
        log.save()
        log.save()  # while the network lives that the first one left
    assert not log.rebuilds
    assert "named no data set (or network)" in log.why_not
    x = torch.randn(3, 1, 8, 8)
    torch.testing.assert_close(hs.load(tmp_path / "mine")(x), net(x))  # in this process, while the logger lives
    assert hs.runs.is_alive(tmp_path / "mine", 0)
    with pytest.raises(ValueError, match="the settings do not make this network"):  # and other formats are written
        export_run(tmp_path / "mine", formats="safetensors", samples=2, out=tmp_path / "files")
    del log, net
    gc.collect()
    page = write(tmp_path / "mine").read_text()
    assert "do not build it again" in page
    with pytest.raises(ValueError, match=r"trained by your own loop.*model.safetensors into your own network"):
        hs.load(tmp_path / "mine")
    for command in ("evaluate", "export"):
        assert main([command, str(tmp_path / "mine")]) == 2
        assert "trained by your own loop" in capsys.readouterr().err


def test_no_network_at_all(tmp_path):
    with Logger(tmp_path / "mine") as log:
        log(1, loss=2.0)
        log(5, loss=torch.tensor(1.0), other=math.nan)
        log.evaluate(5, auc=math.inf)
    found = Run(tmp_path / "mine")
    assert math.isnan(found.result()["final_accuracy"])
    assert math.isnan(found.result()["metrics"]["auc"])
    assert json.loads((tmp_path / "mine" / "seed-0" / "manifest.json").read_text())["log_lines"] == 3
    assert [set(line) for line in found.log()] == [{"step", "loss"}, {"step", "loss"}, {"step"}]
    texts = [file.read_text() for pattern in ("*.json", "*.jsonl") for file in tmp_path.rglob(pattern)]
    assert texts
    assert not any(word in text for text in texts for word in ("NaN", "Infinity"))
    assert "has no network yet" in write(tmp_path / "mine").read_text()


def test_a_loop_that_has_saved_nothing_has_no_network(tmp_path):
    with hs.runs.Logger(tmp_path / "mine", num_classes=2, in_features=3) as log:
        log(1, loss=1.0)
        with pytest.raises(ValueError, match=r"holds no network yet: train it first$"):
            hs.load(tmp_path / "mine")


def test_a_loop_that_fails_is_not_finished_and_begins_anew(tmp_path):
    def fails():
        with Logger(tmp_path / "mine") as log:
            log(1, loss=2.0)
            raise RuntimeError("out of luck")

    with pytest.raises(RuntimeError, match="out of luck"):
        fails()
    assert Run(tmp_path / "mine").finished == ()
    with Logger(tmp_path / "mine") as log:
        log(3, loss=1.0)
        with pytest.raises(ValueError, match="steps must not decrease"):
            log(2, loss=1.0)
        with pytest.raises(ValueError, match="loss="):
            log(4, loss=torch.zeros(2))
    assert [line["step"] for line in Run(tmp_path / "mine").log()] == [3]
    with pytest.raises(ValueError, match="finished"), Logger(tmp_path / "mine"):
        pass
    with Logger(tmp_path / "mine", seed=1) as log:
        log.evaluate(3, accuracy=50.0)
    seeds = json.loads((tmp_path / "mine" / "result.json").read_text())["seeds"]
    assert [one["seed"] for one in seeds] == [0, 1]
    with pytest.raises(ValueError, match="no setting"):
        Logger(tmp_path / "other", settings={"modle.name": "x"})


def test_the_network_of_an_attempt_that_failed_is_not_that_of_the_next(tmp_path):
    def attempt(seed, fails):
        torch.manual_seed(seed)
        net = hs.models.create("mlp", 10, in_features=64)
        settings = {"model.name": "mlp", "data.name": "digits"}
        with Logger(tmp_path / "run", model=net, settings=settings, steps=2, in_features=64, num_classes=10) as log:
            log(1, loss=1.0)
            if fails:
                log.save()
                raise RuntimeError("cable")
            log.evaluate(2, accuracy=50.0)
        return net

    with pytest.raises(RuntimeError, match="cable"):
        attempt(1, True)
    net = attempt(2, False)
    x = torch.randn(3, 64)
    torch.testing.assert_close(hs.load(tmp_path / "run")(x), net.eval()(x))
    del net
    gc.collect()
    stored = hs.load(tmp_path / "run").state_dict()
    torch.manual_seed(2)
    for name, value in hs.models.create("mlp", 10, in_features=64).state_dict().items():
        torch.testing.assert_close(stored[name], value)


def test_a_training_by_the_program_is_no_loops(tmp_path):
    """Its log and its checkpoints stay as they are."""
    path, _ = make_run(tmp_path, finished=False)
    before = snapshot(path)
    log, told = Logger(path, settings=Run(path).config), "a checkpoint of step 8: continue it with `hypersphere train"
    with pytest.raises(ValueError, match=told), log:
        pass
    assert snapshot(path) == before


def test_the_program_may_train_what_a_loop_began(tmp_path):
    """Then the run is the program's: nothing of the loop is in its way."""
    config = tiny(tmp_path, "mine", 2)

    def fails():
        net = hs.models.create("mlp", 10, in_features=64)
        with Logger(tmp_path / "mine", model=net, settings=config, in_features=64, num_classes=10) as log:
            log(1, loss=2.0)
            log.save()
            raise RuntimeError("out of luck")

    with pytest.raises(RuntimeError, match="out of luck"):
        fails()
    run(config)
    assert Run(tmp_path / "mine").own_loop() is None
    assert {line["step"] for line in Run(tmp_path / "mine").log()} == {2}
    assert export_run(tmp_path / "mine", formats="safetensors", samples=2).real


def test_evaluations_of_one_step_belong_together(tmp_path):
    with Logger(tmp_path / "run", steps=9) as log:
        log.evaluate(5, accuracy=80.0)
        log.evaluate(5, tar=0.5)
    result = Run(tmp_path / "run").result(0)
    assert (result["final_accuracy"], result["best_accuracy"]) == (80.0, 80.0)
    assert result["metrics"] == {"accuracy": 80.0, "tar": 0.5}
    with Logger(tmp_path / "other", steps=9) as log:
        log.evaluate(5, accuracy=80.0)
        log.evaluate(7, tar=0.5)  # the last accuracy is still known
    assert Run(tmp_path / "other").result(0)["final_accuracy"] == 80.0
    assert Run(tmp_path / "other").result(0)["metrics"] == {"tar": 0.5}


@pytest.mark.parametrize("missing", ["model.conv", "loss.scale"])
def test_settings_that_build_a_network_of_the_same_shape_are_not_enough(missing, tmp_path):
    settings = {"model.name": "cnn3", "model.widths": "4,4,4", "model.feature_dim": 8, "data.name": "digits"}
    settings |= {"model.conv": "sphere", "loss.name": "arcface", "loss.scale": 16.0}
    options = {"in_channels": 1, "widths": (4, 4, 4), "feature_dim": 8}
    net = hs.models.create("cnn3", 0, image_size=(8, 8), conv="sphere", **options)
    head = hs.losses.ArcFace(8, 10, scale=16.0)
    for name, complete in (("whole", True), ("less", False)):
        given = {key: value for key, value in settings.items() if complete or key != missing}
        with Logger(tmp_path / name, model=net, head=head, settings=given, steps=1, **IMAGES) as log:
            log(1, loss=1.0)
            log.save()
            assert log.rebuilds is complete, log.why_not
            assert complete or "its settings build another network" in log.why_not
        x = torch.randn(3, 1, 8, 8)
        with torch.no_grad():
            torch.testing.assert_close(hs.load(tmp_path / name)(x), head.logits(net.eval()(x)))
    del log
    gc.collect()
    assert hs.load(tmp_path / "whole").training is False
    with pytest.raises(ValueError, match=r"own loop.*settings build another network, with .*safetensors into your own"):
        hs.load(tmp_path / "less")
    for command in ("evaluate", "export"):
        assert main([command, str(tmp_path / "less")]) == 2


def test_a_logger_that_is_not_entered_says_so(tmp_path):
    log = Logger(tmp_path / "mine", model=nn.Linear(4, 3), num_classes=3, in_features=4)
    for use in (lambda: log(1, loss=1.0), lambda: log.evaluate(1, accuracy=1.0), log.save):
        with pytest.raises(ValueError, match=r"mine is not open: write `with Logger\(\.\.\.\) as log:`"):
            use()
    assert not (tmp_path / "mine").exists()


def test_what_evaluation_does_not_use_may_differ_from_the_settings(tmp_path):
    """Names of layers and momenta, and the margin of a head; not what changes a number."""
    settings = {"model.name": "cnn3", "model.widths": "4,4,4", "model.feature_dim": 8, "data.name": "digits"}
    settings |= {"loss.name": "arcface", "loss.scale": 16.0, "loss.margin": 0.5}
    net = hs.models.create("cnn3", 0, image_size=(8, 8), in_channels=1, widths=(4, 4, 4), feature_dim=8)
    net = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    head = hs.losses.ArcFace(8, 10, scale=16.0, margin=0.3)
    with Logger(tmp_path / "mine", model=net, head=head, settings=settings, steps=1, **IMAGES) as log:
        log(1, loss=1.0)
    assert log.rebuilds, log.why_not
    x = torch.randn(3, 1, 8, 8)
    with torch.no_grad():
        torch.testing.assert_close(hs.load(tmp_path / "mine")(x), head.logits(net.eval()(x)))
