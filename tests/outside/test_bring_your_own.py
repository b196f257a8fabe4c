"""What users declare works wherever the built-in names do: on the command line, in layers, plots, report and resume."""

import ast
import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import bring_your_own as own
import numpy as np
import pytest
import torch
from torch import nn

import hypersphere as hs
from hypersphere._core.registries import KINDS
from hypersphere.cli import main
from hypersphere.config import Config, OrthogonalConfig, RegularizerConfig, with_values
from hypersphere.report.words import in_words
from hypersphere.runs.model import feature_dim
from hypersphere.train.build import make_objective
from hypersphere.train.penalty import make_penalty
from hypersphere.train.training import Training

SMALL = """--schedule.steps 6 --schedule.milestones none --run.device cpu --run.progress off --run.tensorboard no
--run.eval-every 3 --run.checkpoint-every 2 --run.log-every 1"""
NARROW = "--model.widths 4,4,4 --model.feature-dim 8"
pytestmark = pytest.mark.usefixtures("unregistered")
ADDRESSES = {
    "g": "--model.conv sphere --model.angular bring_your_own:Cubic",
    "h": "--model.conv decoupled --model.magnitude bring_your_own:Root",
    "head": "--loss.name bring_your_own:Quadratic --loss.margin 0.2 --loss.extra scale=16",
    "regularizer": "--regularizer.name bring_your_own:Spread --regularizer.weight 0.1",
    "network": "--model.name bring_your_own:Tiny --model.angular bring_your_own:Cubic",
    "data set": "--data.name bring_your_own:stripes --data.batch-size 16",
    "measurement": "--evaluation.also bring_your_own:mean_norm",
    "orthogonal map": "--orthogonal.method bring_your_own:skewed",
    "optimizer": "--optim.name bring_your_own:Signs",
}


def train(folder, *words):
    narrow = "" if "--model.name" in words else NARROW
    command = [
        "train",
        "custom",
        *SMALL.split(),
        *narrow.split(),
        "--run.folder",
        str(folder),
        "--run.name",
        "mine",
        *words,
    ]
    assert main(command) == 0
    return folder / "mine"


def test_each_takes_at_most_thirty_lines():
    tree = ast.parse(Path(own.__file__).read_text())
    sizes = {n.name: n.end_lineno - n.lineno + 1 for n in tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef)}
    assert len(sizes) == len(KINDS)
    assert max(sizes.values()) <= 30


@pytest.mark.parametrize("kinds", ["g, head, measurement", "h, regularizer, orthogonal map", "network, data set"])
def test_an_address_works_on_the_command_line(kinds, tmp_path):
    run = train(tmp_path, *" ".join(ADDRESSES[kind] for kind in kinds.split(", ")).split())
    (result,) = json.loads((run / "result.json").read_text())["seeds"]
    assert result["final_accuracy"] >= 0
    assert "measurement" not in kinds or result["metrics"]["mean_norm"] > 0
    assert isinstance(hs.load(run), nn.Module)
    assert main(["evaluate", str(run)]) == 0


def test_everything_together_resumes_and_is_reported(tmp_path, monkeypatch):
    words = " ".join(words for kind, words in ADDRESSES.items() if kind != "network").split()  # h has the last conv
    whole = train(tmp_path / "whole", *words)
    with monkeypatch.context() as patch:
        patch.setattr(Training, "_log", stop_at_five)
        with pytest.raises(RuntimeError, match="stopped"):
            train(tmp_path / "part", *words)
    part = train(tmp_path / "part", *words)
    one, two = ((run / "seed-0" / "model.safetensors").read_bytes() for run in (whole, part))
    assert one == two
    assert main(["report", str(whole), "--out", str(tmp_path / "report.html")]) == 0
    page = (tmp_path / "report.html").read_text()
    for name in ("Quadratic", "Cubic", "Root", "OPT by skewed", "Signs, learning rate"):
        assert name in page, name


def stop_at_five(self, now, line, genuine=Training._log):
    genuine(self, now, line)
    if now == 5:
        raise RuntimeError("stopped")


def test_registered_names_are_choices_everywhere(tmp_path, capsys):
    hs.register("angular", "cubic", own.Cubic, label="cos³ θ")
    hs.register("magnitude", "root", own.Root)
    hs.register("head", "quadratic", own.Quadratic)
    hs.register("regularizer", "spread", own.Spread)
    hs.register("model", "tiny", own.Tiny)
    hs.register("dataset", "stripes", own.stripes)
    hs.register("measurement", "mean_norm", own.mean_norm)
    hs.register("map", "skewed", own.skewed, label="half a Cayley transform")
    hs.register("optimizer", "signs", own.Signs, label="signs of means")
    hs.register("plot", "two_lines", own.two_lines)
    hs.register("panel", "remark", own.remark, label="A remark")
    twin = hs.convert(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)), angular="cubic", magnitude="root")
    x = torch.randn(3, 4)
    cos = nn.functional.linear(nn.functional.normalize(x), nn.functional.normalize(twin[0].weight))
    h = (x.norm(dim=1, keepdim=True) + 1).sqrt()
    torch.testing.assert_close(twin[0](x) - twin[0].bias, h * cos**3)
    torch.testing.assert_close(hs.functional.angular(cos, "cubic"), cos**3)
    torch.testing.assert_close(hs.functional.decoupled_linear(x, twin[0].weight, angular="cubic"), cos**3)
    torch.testing.assert_close(hs.functional.orthogonalize(torch.zeros(3, 3), "skewed"), torch.eye(3))
    assert hs.plots.two_lines([1, 2, 3]).axes[0].get_lines()
    assert "tiny" in hs.models.list_models()
    assert "stripes" in hs.data.list_datasets()
    assert main(["train", "--help", "all"]) == 0
    text = capsys.readouterr().out
    for name in ("cubic", "root", "quadratic", "spread", "mean_norm", "skewed", "signs"):
        assert name in text, name
    for what, name in (
        ("maps", "skewed"),
        ("optimizers", "signs"),
        ("plots", "two_lines"),
        ("panels", "remark"),
        ("models", "bring_your_own:Tiny"),
    ):
        assert main(["list", what, name]) == 0
        assert name in capsys.readouterr().out
    words = (
        "--model.conv decoupled --model.angular cubic --model.magnitude root --loss.name quadratic --loss.margin 0.1 "
    )
    words += "--regularizer.name spread --evaluation.also mean_norm --orthogonal.method skewed --optim.name signs"
    run = train(tmp_path, *words.split())
    assert main(["report", str(run), "--logs-only"]) == 0
    page = (run / "report.html").read_text()
    for word in (
        "cos³ θ",
        "h = root",
        "OPT by half a Cayley transform",
        "signs of means",
        "A remark",
        "by somebody else",
    ):
        assert word in page, word
    figure = hs.plots.angular_curves(["cubic", "cosine"])
    assert "cos³ θ" in [text.get_text() for text in figure.axes[0].get_legend().get_texts()]


def test_a_name_is_declared_once():
    hs.register("angular", "cubic", own.Cubic)
    hs.register("angular", "cubic", own.Cubic)
    with pytest.raises(ValueError, match="declared already"):
        hs.register("angular", "cubic", own.Root)
    with pytest.raises(ValueError, match="kind='angle' is unknown"):
        hs.register("angle", "x", own.Cubic)


def test_a_built_in_name_is_taken_before_its_module_is_imported():
    code = """
import hypersphere as hs
class Mine:
    def from_cos(self, c): return c
for kind, name in (("angular", "cosine"), ("magnitude", "ball"), ("head", "arcface"), ("model", "resnet18")):
    try:
        hs.register(kind, name, Mine)
    except ValueError as error:
        assert "is declared already" in str(error), error
    else:
        raise AssertionError(name)
hs.register("angular", "mine", Mine)
hs.nn.SphereLinear(4, 2, angular="mine"), hs.nn.SphereLinear(4, 2, angular="cosine")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("angular", own.Cubic()),
        ("angular", hs.angular.Sigmoid(0.5)),
        ("magnitude", lambda n: n.sqrt()),
        ("magnitude", hs.magnitude.Tanh()),
        ("head", nn.Linear(2, 2)),
        ("model", "resnet"),
    ],
)
def test_an_object_in_the_place_of_its_class_is_refused(kind, value):
    with pytest.raises(TypeError, match=f"the {kind} 'obj' is .*: register a class"):
        hs.register(kind, "obj", value)
    assert "obj" not in KINDS[kind]


def test_a_function_that_makes_the_object_is_as_good_as_a_class():
    hs.register("angular", "steep", functools.partial(hs.angular.Sigmoid, 0.7))
    assert hs.nn.SphereLinear(4, 2, angular="steep").angular.k == 0.7


def test_mistaken_addresses_say_what_is_missing():
    for address, message in (
        ("bring_your_own:Nothing", "has no 'Nothing'"),
        ("no_such_module:Thing", "cannot be imported"),
        ("cubick", "is unknown"),
    ):
        with pytest.raises(ValueError, match=message):
            hs.nn.SphereLinear(3, 2, angular=address)


class NoDim(nn.Module):
    def __init__(self, num_classes):
        super().__init__()


class Inside(nn.Module):
    """A head whose class vectors lie in a layer of it."""

    def __init__(self, in_features, num_classes):
        super().__init__()
        self.inner = nn.Linear(in_features, num_classes)

    def forward(self, x, labels):
        return nn.functional.cross_entropy(self.logits(x), labels)

    def logits(self, x):
        return self.inner(x)


class Mute(nn.Linear):
    """A head without logits."""


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model.name": "no_dim", "loss.name": "arcface"}, "feature_dim=None.*in its attribute `feature_dim`"),
        ({"loss.name": "mute"}, r"no method logits\(features\)"),
        ({"loss.name": "inside", "loss.margin": 0.3}, "num_classes, margin: .*got an unexpected .*'margin'"),
    ],
)
def test_parts_that_lack_something_say_what(settings, message):
    with pytest.raises(TypeError, match="unit='%' is nothing that a head takes"):
        hs.register("head", "inside", Inside, unit="%")
    with pytest.raises(ValueError, match="once the module that registers it is imported"):
        with_values(Config(), {"loss.name": "of_another_process"})
    hs.register("model", "no_dim", NoDim)
    hs.register("head", "inside", Inside)
    hs.register("head", "mute", Mute)
    config = with_values(Config(), {"model.name": "mlp"} | settings)
    with pytest.raises(ValueError, match=message):
        hs.runs.make_networks(config, hs.runs.Facts(3, 1, (4, 4)))
    counted = NoDim(0)
    counted.feature_dim = np.int64(4)
    assert feature_dim(counted, "no_dim") == 4
    energies = hs.regularizers.energies(nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 8)), Inside(8, 3))
    assert list(energies.output) == ["head.inner.weight"]


class Flat(nn.Sequential):
    """A network with seven outputs, whatever it is asked for."""

    def __init__(self, num_classes):
        super().__init__(nn.Flatten(), nn.Linear(16, 7))
        self.feature_dim = 8


class Rigid:
    """A regularizer that takes no head."""

    def __init__(self, model):
        self.model = model


class Loose(Rigid):
    def __init__(self, model, head=None):
        super().__init__(model)


def test_what_does_not_fit_is_named_before_the_first_step():
    hs.register("model", "flat", Flat)
    facts = hs.runs.Facts(3, 1, (4, 4))
    for loss, message in (
        ("cross_entropy", r"'flat' gives \(2, 7\) .* not \(2, 3\): it must return logits"),
        ("arcface", r"'flat' gives \(2, 7\) .* not \(2, 8\): it must return under a head"),
    ):
        with pytest.raises(ValueError, match=message):
            make_objective(with_values(Config(), {"model.name": "flat", "loss.name": loss}), facts, 0)
    net = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 3))
    for part, message in ((Rigid, "is called with model, head: got an unexpected"), (Loose, "must be an nn.Module")):
        hs.register("regularizer", part.__name__.lower(), part)
        with pytest.raises(ValueError, match=message):
            make_penalty(RegularizerConfig(name=part.__name__.lower()), OrthogonalConfig(), net, None, 0)


class Denser(hs.regularizers.MHE):
    """An energy of one's own."""


def test_the_settings_of_regularizers_reach_all_that_have_arguments_for_them():
    net = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 3))
    hs.register("regularizer", "denser", Denser)
    settings = {"s": 1.0, "half_space": True, "hidden": 0.5, "weight": 0.1}
    for name, expected in {
        "denser": Denser(net, hidden=0.5, s=1.0, half_space=True, seed=3),
        "polarization": hs.regularizers.Polarization(net, 0.1, s=1.0),
        "separation": hs.regularizers.Separation(net, 0.1),
    }.items():
        config = RegularizerConfig(name=name, **settings)
        (part,) = make_penalty(config, OrthogonalConfig(), net, None, 3).parts
        torch.testing.assert_close(part(), expected())
        assert "s = 1" in dict(in_words(Config(regularizer=config)))["Regularizer"] or name != "denser"


class Steep(hs.angular.Cosine):
    """g = cos³ θ, derived from the built-in cosine."""

    def from_cos(self, c):
        return c**3

    def from_angle(self, theta):
        return theta.cos() ** 3


class SteepSigmoid(hs.angular.Sigmoid):
    from_cos, from_angle = Steep.from_cos, Steep.from_angle


class Halved(hs.magnitude.Tanh):
    """h = n/2, derived from the built-in tanh; ``ratio`` is not written again."""

    def forward(self, n):
        return n / 2


def test_rules_derived_from_built_in_ones_are_followed():
    x, labels = torch.randn(5, 8), torch.tensor([0, 1, 2, 3, 0])
    lengths = x.norm(dim=1, keepdim=True)
    for g, chunk in ((Steep(), "auto"), (SteepSigmoid(), "auto"), (SteepSigmoid(learnable=True), None)):
        head = hs.losses.GASoftmax(8, 4, margin=2, angular=g, chunk=chunk)
        cos = (x / lengths) @ nn.functional.normalize(head.weight).T
        torch.testing.assert_close(head.logits(x), lengths * cos**3)
        own = labels[:, None]
        target = torch.cos(2 * cos.gather(1, own).acos()) ** 3
        logits = lengths * (cos**3).scatter(1, own, target)
        torch.testing.assert_close(head(x, labels), nn.functional.cross_entropy(logits, labels))
    with pytest.raises(ValueError, match="blocks of classes cannot reach: pass chunk=None"):
        hs.losses.GASoftmax(8, 4, angular=SteepSigmoid(learnable=True))
    for g in ("cosine", "linear"):
        layer = hs.nn.DecoupledLinear(8, 4, magnitude=Halved(), angular=g, bias=False)
        cos = (x / lengths) @ nn.functional.normalize(layer.weight).T
        torch.testing.assert_close(layer(x), lengths / 2 * hs.functional.angular(cos, g))
    torch.testing.assert_close(layer.magnitude.weight_factor(lengths), lengths / 2)
