"""A generator and a discriminator trained against each other by the same program, down to crashes and resuming."""

import json
import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
import torch
from PIL import Image
from tiny import tiny, tiny_gan
from torch.nn import functional as F

import hypersphere as hs
from hypersphere import regularizers
from hypersphere.cli import main
from hypersphere.evaluation import evaluate
from hypersphere.metrics import inception_score
from hypersphere.report import build
from hypersphere.runs import Facts, SeedFolder, Team
from hypersphere.runs.files import read_tensors
from hypersphere.runs.gan import to_pixels
from hypersphere.train import (
    EvaluationConfig,
    Gan,
    GanConfig,
    RegularizerConfig,
    Run,
    Stopped,
    run,
)
from hypersphere.train.build import make_objective, make_parts, make_step
from hypersphere.train.progress import Progress
from hypersphere.train.training import Training

CPU = Team(0, 1, torch.device("cpu"))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gan")
    config = replace(tiny_gan(folder), regularizer=RegularizerConfig("mhe", half_space=True))
    return folder / "gan", config, run(config)["seeds"][0]


def test_a_run_folder_like_any_other(trained):
    folder, _, result = trained
    log = [json.loads(line) for line in (folder / "seed-0" / "log.jsonl").read_text().splitlines()]
    assert {"loss", "generator_loss", "penalty", "train_accuracy"} <= set(log[0])
    assert all(torch.isfinite(torch.tensor(list(line.values()))).all() for line in log)
    assert log[0]["penalty"] > 0.1
    assert 0 <= result["final_accuracy"] <= 100
    assert result["metrics"]["accuracy"] == result["final_accuracy"]
    assert "inception_score" not in result["metrics"]  # there is no classifier
    first, last = (Image.open(folder / "seed-0" / "samples" / f"step-{step:08d}.png") for step in (3, 6))
    assert first.size == last.size == (80, 80)  # eight by eight images with a border
    assert first.tobytes() != last.tobytes()


def test_both_networks_change_and_come_back(trained):
    folder, config, _ = trained
    gan = hs.load(folder)
    assert isinstance(gan, Gan)
    assert not gan.training
    fresh = make_objective(config, Facts(10, 1, (8, 8)), 0).classifier()
    ours, before = gan.state_dict(), fresh.state_dict()
    assert set(ours) == set(before)
    for part in ("generator.dense.weight", "generator.last.weight", "discriminator.body.0.op"):
        names = [name for name in ours if name.startswith(part)]
        assert names
        assert any(not torch.equal(ours[name], before[name]) for name in names), part
    images = gan.sample(5, torch.Generator().manual_seed(0))
    assert images.shape == (5, 1, 8, 8)
    assert images.abs().max() <= 1
    assert gan.discriminator(images).shape == (5, 1)


def test_spectral_norm_is_kept_by_checkpoints(trained):
    folder, _, _ = trained
    saved = read_tensors(SeedFolder(folder, 0).latest() / "model.safetensors")
    buffers = [name for name in saved if name.endswith(("._u", "._v"))]
    assert len(buffers) == 2 * 8
    gan = hs.load(folder)
    for name in buffers:
        assert torch.equal(gan.state_dict()[name.replace("model.", "discriminator.", 1)], saved[name])


def test_the_step_is_the_one_of_the_equations(tmp_path):
    """Two updates of the discriminator and one of the generator by hand: D.12, −log D(G(z)), MHE, Adam."""
    config = replace(tiny_gan(tmp_path), regularizer=RegularizerConfig("mhe", half_space=True))
    parts, twin = (make_parts(config, 0, CPU) for _ in range(2))
    torch.manual_seed(5)
    make_step(parts)()
    discriminator, generator = twin.objective.model, twin.objective.generator
    energy = regularizers.MHE(discriminator, half_space=True)
    rules = {"lr": 2e-3, "betas": (0.5, 0.999)}
    critic, maker = (torch.optim.Adam(net.parameters(), **rules) for net in (discriminator, generator))
    torch.manual_seed(5)
    twin.source.seek(0)
    (images,), _ = twin.source.batch(torch.tensor(0))
    for turn in range(2):
        real = images[turn::2]
        fake = generator(torch.randn(16, 8)).detach()
        on_real, on_fake = torch.sigmoid(discriminator(real)), torch.sigmoid(discriminator(fake))
        critic.zero_grad()
        (-(on_real.log().mean() + (1 - on_fake).log().mean()) + energy()).backward()
        critic.step()
    maker.zero_grad()
    (-torch.sigmoid(discriminator(generator(torch.randn(16, 8)))).log().mean()).backward()
    maker.step()
    for (name, ours), theirs in zip(
        parts.objective.state_dict().items(), twin.objective.state_dict().values(), strict=True
    ):
        assert torch.allclose(ours.float(), theirs.float(), atol=2e-5), name


class Crash(Exception):
    pass


@pytest.mark.parametrize("die_at", [3, 5])
def test_a_crash_changes_nothing(tmp_path, die_at):
    """Die in the middle, give the same command again: the same weights, bit for bit."""
    whole, broken = (tiny_gan(tmp_path / place) for place in ("whole", "broken"))
    run(whole)

    training = Training(broken, 0, CPU, SeedFolder(tmp_path / "broken" / "gan", 0), Progress("off"))
    update = training.step._updates

    def mortal(*where):
        if training.step.step == die_at:
            raise Crash
        update(*where)

    training.step._updates = mortal
    with pytest.raises(Crash):
        training.run()
    run(broken)
    weights = [read_tensors(tmp_path / place / "gan" / "seed-0" / "model.safetensors") for place in ("whole", "broken")]
    assert set(weights[0]) == set(weights[1])
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


@pytest.mark.parametrize(
    ("gan", "model"),
    [
        ({"loss": "wasserstein", "gradient_penalty": 10.0}, {}),
        ({"gradient_penalty": 10.0}, {"extra": {"widths": (4, 4, 8, 8), "spectral_norm": False}}),
        ({"clip": 0.01}, {"extra": {"widths": (4, 4, 8, 8), "spectral_norm": False}}),
        ({"normalization": "layer"}, {"extra": {"widths": (4, 4, 8, 8), "spectral_norm": False}}),
        ({"normalization": "weight"}, {"extra": {"widths": (4, 4, 8, 8), "spectral_norm": False}}),
        ({}, {"norm": "batch", "extra": {"widths": (4, 4, 8, 8), "spectral_norm": False}}),
    ],
)
def test_every_way_of_the_table_trains(tmp_path, gan, model):
    config = tiny_gan(tmp_path, **gan)
    config = replace(config, model=replace(config.model, **model))
    parts = make_parts(config, 0, CPU)
    before = {name: value.clone() for name, value in parts.objective.state_dict().items()}
    step = make_step(parts)
    for _ in range(2):
        step()
    line = step.read()
    assert torch.isfinite(torch.tensor(list(line.values()))).all()
    after = parts.objective.state_dict()
    for part in ("model.", "generator."):
        assert any(not torch.equal(before[name], after[name]) for name in after if name.startswith(part))
    if "clip" in gan:
        assert max(float(p.detach().abs().max()) for p in parts.objective.model.parameters()) <= 0.01
    if gan.get("normalization") == "layer":
        assert sum(isinstance(module, torch.nn.GroupNorm) for module in parts.objective.model.modules()) == 7


def test_gradient_penalty_of_a_linear_discriminator(tmp_path):
    """D(x) = w·x + b has the gradient w everywhere: the penalty is (‖w‖ − 1)²."""
    objective = make_objective(tiny_gan(tmp_path, gradient_penalty=3.0), Facts(10, 1, (8, 8)), 0)
    linear = objective.model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 1))
    real = torch.randn(6, 1, 8, 8)
    torch.manual_seed(1)
    loss, right = objective((real,), torch.zeros(6))
    torch.manual_seed(1)
    fake = objective.generator(torch.randn(6, 8)).detach()
    plain = F.softplus(-linear(real)).mean() + F.softplus(linear(fake)).mean()
    weight = linear[1].weight
    expected = plain + 3 * (weight.norm() - 1) ** 2
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert float(right) == ((linear(real) > 0).sum() + (linear(fake) <= 0).sum()) / 2
    loss.backward()
    assert weight.grad.isfinite().all()


@pytest.mark.slow
def test_compiled_is_the_same(tmp_path):
    config = tiny_gan(tmp_path)
    parts, twin = (make_parts(config, 0, CPU) for _ in range(2))
    torch.manual_seed(5)
    make_step(parts)()
    torch.manual_seed(5)
    step = make_step(twin)
    step._forward = torch.compile(step._plain_forward, backend="eager", fullgraph=True)
    step._fool = torch.compile(step._plain_fool, backend="eager", fullgraph=True)
    step()
    for (name, ours), theirs in zip(
        parts.objective.state_dict().items(), twin.objective.state_dict().values(), strict=True
    ):
        assert torch.allclose(ours.float(), theirs.float(), atol=1e-5), name


# Scores ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classifier")
    run(replace(tiny(folder, "scorer", 30), schedule=replace(tiny(folder).schedule, steps=30, milestones=())))
    return folder / "scorer"


def test_classifier_score_by_a_run(tmp_path, classifier):
    config = tiny_gan(tmp_path, steps=3)
    rules = replace(config.evaluation, inception=str(classifier), also=("real_inception",))
    found = run(replace(config, evaluation=rules))["seeds"][0]["metrics"]
    gan, scorer = hs.load(tmp_path / "gan"), hs.load(classifier)
    with torch.no_grad():
        noise = torch.randn(40, 8, generator=torch.Generator().manual_seed(1))
        pixels = to_pixels(gan(noise)).float()
        direct = inception_score(scorer((pixels - 127.5) / 128), splits=4)
        images = hs.data.load("digits").test.images.float()
        real = inception_score(scorer((images - 127.5) / 128), splits=4)
    assert found["classifier_score"] == pytest.approx(direct.score, rel=1e-5)
    assert found["classifier_std"] == pytest.approx(direct.std, abs=1e-5)
    assert found["real_classifier_score"] == pytest.approx(real.score, rel=1e-5)
    assert 1 <= found["classifier_score"] <= 10


def test_inception_score_by_an_onnx_file(tmp_path):
    make, kind = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [
        make.make_node("AveragePool", ["x"], ["pooled"], kernel_shape=[4, 4], strides=[4, 4]),
        make.make_node("Flatten", ["pooled"], ["flat"]),
        make.make_node("Mul", ["flat", "four"], ["logits"]),
    ]
    ends = [make.make_tensor_value_info(n, kind, s) for n, s in (("x", ["n", 1, 8, 8]), ("logits", ["n", 4]))]
    graph = make.make_graph(nodes, "judge", ends[:1], ends[1:], [make.make_tensor("four", kind, [], [4.0])])
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 18)], ir_version=10), tmp_path / "i.onnx")
    config = tiny_gan(tmp_path, steps=1)
    config = replace(config, data=replace(config.data, root=str(tmp_path)))
    found = run(replace(config, evaluation=replace(config.evaluation, inception="i.onnx")))["seeds"][0]["metrics"]
    with torch.no_grad():
        noise = torch.randn(40, 8, generator=torch.Generator().manual_seed(1))
        pixels = to_pixels(hs.load(tmp_path / "gan")(noise)).float()
    wanted = pytest.approx(
        inception_score(4 * F.avg_pool2d(pixels / 127.5 - 1, 4).flatten(1), splits=4).score, rel=1e-5
    )
    assert found["inception_score"] == wanted
    made = Run(tmp_path / "gan")
    assert evaluate(made, root=str(tmp_path), parts=["generation"])["generation"]["inception_score"] == wanted
    for path in ("../i.onnx", str(tmp_path / "i.onnx")):  # whoever wrote the folder chose the path
        made.config = replace(made.config, evaluation=replace(made.config.evaluation, inception=path))
        with pytest.raises(ValueError, match=r"outside of .*give --inception .*i\.onnx"):
            evaluate(made, root=str(tmp_path / "data"))


def test_a_finished_run_is_scored_and_reported_afterwards(trained, classifier):
    folder, _, result = trained
    found = evaluate(Run(folder), inception=str(classifier), parts=["generation", "real_inception", "energy"])
    assert found["generation"]["accuracy"] == result["final_accuracy"]
    assert 1 <= found["generation"]["classifier_score"] <= 10
    assert found["real_inception"]["real_classifier_score"] > 1
    assert found["samples"] == 355
    assert "body.0.op.weight" in found["energy"]["layers"]
    assert set(evaluate(Run(folder))["generation"]) == {"accuracy"}
    with pytest.raises(ValueError, match="is a GAN: it has no features"):
        evaluate(Run(folder), parts=["classification"])
    page = build([folder])
    assert "A GAN has no features and classes to show" in page


class Payload:
    """A pickle that leaves a mark when it is read."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("suffix", [".pt2", ".pt", ".pth", ".onnx"])
@pytest.mark.parametrize("place", ["in the run", "elsewhere"])
def test_a_file_that_could_carry_code_is_not_read(trained, suffix, place, tmp_path, monkeypatch, capsys):
    """The settings of a run folder, or the command line, name a network that scores images: here it is a program."""
    mark = tmp_path / "mark"
    monkeypatch.setattr(torch.export, "load", lambda *values, **options: mark.touch())
    folder = Path(shutil.copytree(trained[0], tmp_path / "gan"))
    file = (folder if place == "in the run" else tmp_path) / f"judge{suffix}"
    file.write_bytes(pickle.dumps(Payload(mark)))
    config = json.loads((folder / "config.json").read_text())
    for name in (file.name, str(file)):
        config["evaluation"]["inception"] = name
        (folder / "config.json").write_text(json.dumps(config))
        for words in ([], ["--inception", name]):
            assert main(["evaluate", str(folder), "--parts", "generation", *words]) == 2
            said = capsys.readouterr().err
            assert file.name in said
            assert said.count("\n") == 1
    assert not mark.exists()
    pickle.loads(file.read_bytes())
    assert mark.exists()


# Bad input ------------------------------------------------------------------------------------------


def test_a_loss_that_is_not_finite_stops(tmp_path):
    config = tiny_gan(tmp_path, loss="wasserstein", steps=40)
    config = replace(
        config,
        model=replace(config.model, extra={"widths": (4, 4, 8, 8), "spectral_norm": False}),
        optim=replace(config.optim, name="sgd", lr=1e30),
    )
    with pytest.raises(Stopped, match="the loss is not finite at step"):
        run(config)


def test_what_does_not_fit_is_refused_before_training(tmp_path, classifier):
    config = tiny_gan(tmp_path)

    def refused(message, error=ValueError, **parts):
        with pytest.raises(error, match=message):
            make_parts(replace(config, **parts), 0, CPU)

    refused("a GAN is evaluated by generation", evaluation=EvaluationConfig())
    refused("evaluates a GAN", gan=GanConfig())
    refused("must be symmetric", data=replace(config.data, normalize="unit"))
    refused("data.batch_size=31", data=replace(config.data, batch_size=31))
    refused("belongs to classifiers", loss=replace(config.loss, name="softmax"))
    refused("neither here nor in", FileNotFoundError, evaluation=replace(config.evaluation, inception="none.onnx"))
    refused("does not exist", evaluation=replace(config.evaluation, inception="nothing"))
    (tmp_path / "bad.onnx").write_text("no")
    refused("is not an ONNX file", evaluation=replace(config.evaluation, inception=str(tmp_path / "bad.onnx")))
    refused("can carry code, which is not run", evaluation=replace(config.evaluation, inception="some.pt2"))
    with pytest.raises(ValueError, match=r"gan\.generator='cnn9' is unknown"):
        GanConfig(generator="cnn9")
    with pytest.raises(ValueError, match=r"gan\.loss='hinge' is unknown"):
        GanConfig(loss="hinge")
    with pytest.raises(ValueError, match="multiples of 8, not 28×28"):
        make_objective(config, Facts(10, 1, (28, 28)), 0)
    with pytest.raises(ValueError, match="makes images"):
        make_objective(config, Facts(10, in_features=5), 0)
