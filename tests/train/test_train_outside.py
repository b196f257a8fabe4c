"""One of each kind from outside the package, by its address: it trains, resumes, loads, evaluates and is reported."""

import shutil
import sys
from dataclasses import replace

import pytest
import torch
from tiny import tiny

import hypersphere as hs
from hypersphere import report
from hypersphere.cli import main
from hypersphere.evaluation import evaluate
from hypersphere.report.markup import element
from hypersphere.runs import Run
from hypersphere.train import LossConfig, RegularizerConfig, run, with_values

OUTSIDE = '''
import torch
import hypersphere as hs

class Cubic:
    def from_cos(self, c):
        return c**3

class Root:
    def __call__(self, norm):
        return norm.sqrt()

class Twice(hs.losses.Softmax):
    """Twice the softmax loss."""
    def forward(self, features, labels):
        return 2 * super().forward(features, labels)

class Sizes(torch.nn.Module):
    def __init__(self, model, head=None, weight=1e-3):
        super().__init__()
        self.weight, self.models = weight, [model]
    def forward(self):
        return self.weight * sum(p.square().sum() for p in self.models[0].parameters())

class Flat(torch.nn.Module):
    feature_dim = 6
    def __init__(self, num_classes):
        super().__init__()
        self.body = torch.nn.Linear(64, 6)
        self.classifier = torch.nn.Linear(6, num_classes) if num_classes else torch.nn.Identity()
    def features(self, x):
        return self.body(x.flatten(1))
    def forward(self, x):
        return self.classifier(self.features(x))

def flat(num_classes=10):
    """One linear layer."""
    return Flat(num_classes)

def noise(root):
    """Four classes of noise."""
    def split(seed):
        generator = torch.Generator().manual_seed(seed)
        images = torch.randint(256, (40, 1, 8, 8), generator=generator).to(torch.uint8)
        return hs.data.Split(images, torch.arange(40) % 4, tuple("abcd"))
    return hs.data.Dataset("noise", split(0), split(1))
'''
CASES = {
    "g and h": {"model.conv": "decoupled", "model.angular": "outside:Cubic", "model.magnitude": "outside:Root"},
    "head": {"loss.name": "outside:Twice"},
    "regularizer": {"regularizer.name": "outside:Sizes", "regularizer.weight": 0.01},
    "network": {"model.name": "outside:flat", "model.widths": None, "model.feature_dim": None},
    "data set": {"data.name": "outside:noise"},
}


@pytest.fixture
def outside(tmp_path, monkeypatch):
    (tmp_path / "outside.py").write_text(OUTSIDE)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("outside", None)


@pytest.mark.parametrize("kind", CASES)
def test_by_its_address_it_trains_resumes_loads_and_is_reported(outside, kind):
    config = with_values(tiny(outside, "run", 6), {"run.checkpoint_every": 2, **CASES[kind]})
    whole = run(config)["seeds"][0]
    assert whole["train_loss"] > 0
    seed = outside / "run" / "seed-0"
    (seed / "result.json").unlink()
    (seed / "model.safetensors").unlink()
    shutil.rmtree(seed / "checkpoints" / "step-00000006")
    again = run(config)["seeds"][0]
    assert (again["train_loss"], again["final_accuracy"]) == (whole["train_loss"], whole["final_accuracy"])
    assert evaluate(Run(outside / "run"), parts=["classification"])["classification"]["accuracy"] == pytest.approx(
        whole["final_accuracy"]
    )
    assert isinstance(hs.load(outside / "run"), torch.nn.Module)
    assert "<h2" in report.build([outside / "run"])


def test_what_they_compute_is_used(outside):
    plain = tiny(outside, "plain", 1, loss=LossConfig(name="softmax"))
    losses = {
        name: run(replace(plain, recipe=name, loss=LossConfig(name=loss)))["seeds"][0]["train_loss"]
        for name, loss in (("once", "softmax"), ("twice", "outside:Twice"))
    }
    assert losses["twice"] == pytest.approx(2 * losses["once"], rel=1e-5)
    rule = RegularizerConfig(name="outside:Sizes", weight=0.5)
    run(replace(plain, recipe="sized", regularizer=rule))
    assert Run(outside / "sized").log()[0]["penalty"] > 0


def test_a_panel_and_a_plot_of_ones_own(outside, monkeypatch, capsys):
    from hypersphere._core.registries import PANELS, PLOTS

    for table in (PANELS, PLOTS):
        list(table)
        monkeypatch.setattr(table, "_entries", dict(table._entries))
    run(tiny(outside, "shown", 2))

    @hs.register("panel", "steps", label="How far it came")
    def steps(view):
        return element("p", f"{view.subject.seeds[0].step} steps of <me>")

    hs.register("panel", "nothing", lambda view: None)
    page = report.build([outside / "shown"], data=False)
    assert "How far it came</h2><p>2 steps of &lt;me&gt;</p>" in page
    assert 'id="nothing-0"' not in page
    hs.register("plot", "my_picture", lambda: None, about="a picture of mine")
    assert main(["list", "plots", "my*"]) == 0
    assert "a picture of mine" in capsys.readouterr().out
