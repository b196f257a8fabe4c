"""Converted networks in the files of transformers and timm: restored by hs.load_pretrained, refused by the plain one.

Stand-ins with the interfaces of the two libraries are used; tests/test_examples.py has the real Trainer.
"""

import copy
import json
import pickle
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import hypersphere as hs
from hypersphere._core.conversion_record import record_of
from hypersphere.pretrained import resumable

X = torch.randn(3, 2, 6, 6, generator=torch.Generator().manual_seed(0))


def layers():
    return [nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.Flatten(), nn.Linear(16, 5)]


class FromHub(nn.Sequential):
    """Saves and loads as transformers does: a config, weights by variant, unknown weights ignored."""

    def __init__(self, *modules):
        super().__init__(*(modules or layers()))
        self.config = SimpleNamespace(width=4)

    def save_pretrained(self, folder, variant=None):
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text(json.dumps(vars(self.config)))
        save_file(self.state_dict(), folder / f"model{'.' + variant if variant else ''}.safetensors")

    @classmethod
    def from_pretrained(cls, folder, variant=None):
        path = folder / f"model{'.' + variant if variant else ''}.safetensors"
        if not path.exists():
            raise OSError(f"no file named {path.name}")
        made = cls()
        made.config = SimpleNamespace(**json.loads((folder / "config.json").read_text()))
        made.load_state_dict(load_file(path), strict=False)
        return made


class FromTimm(nn.Sequential):
    def __init__(self):
        super().__init__(*layers())
        self.pretrained_cfg = {"architecture": "made"}


RULES = {
    "names": {"angular": "sigmoid"},
    "learned": {"magnitude": "tanh", "angular": hs.angular.Sigmoid(learnable=True), "affine": True},
    "objects": {"magnitude": hs.magnitude.Segment(2.0, 0.25, rho=3.0), "angular": hs.angular.Sigmoid(0.7)},
    "weighted": {"magnitude": "ball", "weighted": "linear"},
}


def moved(model):
    """With every parameter, also of h and g, somewhere else than at its start."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES.keys())
def test_transformers(tmp_path, rules):
    twin = moved(hs.convert(FromHub(), **rules))
    twin = pickle.loads(pickle.dumps(copy.deepcopy(twin)))
    twin.save_pretrained(tmp_path / "saved")
    assert not hasattr(twin.config, "hypersphere")
    with pytest.raises(OSError, match="no file named"):
        FromHub.from_pretrained(tmp_path / "saved")
    for plain in (FromHub, FromHub()):
        again = hs.load_pretrained(tmp_path / "saved", plain).eval()
        assert torch.equal(again(X), twin(X))
        assert [type(m) for m in again.modules()] == [type(m) for m in twin.modules()]
        assert not hasattr(again.config, "hypersphere")
    again.save_pretrained(tmp_path / "twice", variant="fp16")
    assert (tmp_path / "twice" / "model.hypersphere-fp16.safetensors").exists()
    assert torch.equal(hs.load_pretrained(tmp_path / "twice", FromHub()).eval()(X), twin(X))


class Trainer:
    """As that of transformers: it looks for its own file names."""

    def __init__(self, model):
        self.model = model

    def _load_from_checkpoint(self, resume_from_checkpoint, model=None):
        raise ValueError(f"Can't find a valid checkpoint at {resume_from_checkpoint}")

    def _load_best_model(self):
        self.warned = True


def test_a_trainer_finds_its_checkpoints(tmp_path, caplog):
    twin = moved(hs.convert(FromHub(), angular="linear"))
    twin.save_pretrained(tmp_path / "checkpoint-2")
    assert "resumable(Trainer)" in caplog.text
    caplog.clear()
    other = hs.convert(FromHub(), angular="linear").eval()
    trainer = resumable(Trainer)(other)
    trainer._load_from_checkpoint(str(tmp_path / "checkpoint-2"))
    assert torch.equal(other(X), twin(X))
    trainer.model = moved(other)
    trainer.state = SimpleNamespace(best_model_checkpoint=str(tmp_path / "checkpoint-2"))
    trainer._load_best_model()
    assert torch.equal(other(X), twin(X))
    other.save_pretrained(tmp_path / "checkpoint-3")
    assert caplog.text == ""
    with pytest.raises(ValueError, match="converted with other options"):
        resumable(Trainer)(hs.convert(FromHub()))._load_from_checkpoint(tmp_path / "checkpoint-2")
    with pytest.raises(ValueError, match="Can't find"):  # what is not converted is loaded as before
        resumable(Trainer)(FromHub())._load_from_checkpoint(tmp_path / "checkpoint-2")
    with pytest.raises(TypeError, match=r"transformers\.Trainer"):
        resumable(FromHub)


def test_plain_networks_and_parts(tmp_path):
    plain = FromHub()
    plain.save_pretrained(tmp_path / "plain")
    assert (tmp_path / "plain" / "model.safetensors").exists()
    with pytest.raises(ValueError, match="does not say how its network was converted"):
        hs.load_pretrained(tmp_path / "plain", FromHub())
    twin = moved(hs.convert(FromHub(), angular="linear"))
    twin.save_pretrained(tmp_path / "plain")  # takes the place of the plain network, whose weights would be loaded else
    with pytest.raises(OSError, match="no file named"):
        FromHub.from_pretrained(tmp_path / "plain")
    outer = nn.Module()
    outer.inner, outer.last = FromHub(), nn.Linear(5, 2)
    twin = hs.convert(outer, output_layer="last", angular="linear").eval()
    twin.inner.save_pretrained(tmp_path / "part")  # the part is saved by itself
    assert torch.equal(hs.load_pretrained(tmp_path / "part", FromHub).eval()(X), twin.inner(X))
    unconverted = hs.convert(FromHub(), skip="*")
    unconverted.save_pretrained(tmp_path / "same")
    assert (tmp_path / "same" / "model.safetensors").exists()


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES.keys())
def test_timm(tmp_path, rules):
    twin = moved(hs.convert(FromTimm(), **rules))
    torch.save({"arch": "made", "state_dict": twin.state_dict()}, tmp_path / "checkpoint.pth.tar")
    save_file(nn.DataParallel(twin).state_dict(), tmp_path / "wrapped.safetensors")
    with pytest.raises(RuntimeError, match=r"Unexpected key\(s\) in state_dict: .*hypersphere"):
        FromTimm().load_state_dict(twin.state_dict())
    for name in ("checkpoint.pth.tar", "wrapped.safetensors"):
        assert torch.equal(hs.load_pretrained(tmp_path / name, FromTimm()).eval()(X), twin(X))
    other = hs.convert(FromTimm(), **rules)
    other.load_state_dict(copy.deepcopy(twin).state_dict())
    assert torch.equal(other.eval()(X), twin(X))


def test_weights_of_the_plain_network_still_load():
    plain = FromTimm()
    hs.convert(FromTimm()).load_state_dict(plain.state_dict())  # a pretrained network, as timm publishes it


def test_two_conversions(tmp_path):
    twin = hs.convert(hs.convert(FromTimm(), include="0"), include="2", angular="sigmoid").eval()
    torch.save(twin.state_dict(), tmp_path / "two.pth")
    again = hs.load_pretrained(tmp_path / "two.pth", FromTimm()).eval()
    assert torch.equal(again(X), twin(X))
    assert [again[i].angular.kind for i in (0, 2)] == ["cosine", "sigmoid"]


class Cubic:
    """A g of one's own."""

    def from_cos(self, c):
        return c**3


def test_own_rules_need_trust_and_a_name(tmp_path, monkeypatch):
    twin = hs.convert(FromTimm(), angular=Cubic()).eval()
    torch.save(twin.state_dict(), tmp_path / "own.pth")
    with pytest.raises(ValueError, match=r"names code to run, .*Cubic"):
        hs.load_pretrained(tmp_path / "own.pth", FromTimm())
    again = hs.load_pretrained(tmp_path / "own.pth", FromTimm(), trust=__name__).eval()
    assert torch.equal(again(X), twin(X))
    torch.save(hs.convert(FromTimm(), magnitude=torch.sqrt).state_dict(), tmp_path / "function.pth")
    with pytest.raises(ValueError, match=r"cannot be repeated from the file: .*has no name"):
        hs.load_pretrained(tmp_path / "function.pth", FromTimm())


def test_mistakes(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        hs.load_pretrained(tmp_path / "nowhere", FromTimm())
    twin = hs.convert(FromTimm())
    torch.save(twin.state_dict(), tmp_path / "twin.pth")
    with pytest.raises(ValueError, match="'2', which this network lacks"):
        hs.load_pretrained(tmp_path / "twin.pth", nn.Sequential(nn.Conv2d(2, 4, 3)))
    with pytest.raises(ValueError, match="converted with other options"):
        hs.convert(FromTimm(), angular="sigmoid").load_state_dict(twin.state_dict())
    with pytest.raises(TypeError, match="has no from_pretrained"):
        hs.load_pretrained(tmp_path / "twin.pth", FromTimm)
    state = twin.state_dict()
    state["hypersphere"] = torch.frombuffer(bytearray(b'{"format": 1}'), dtype=torch.uint8)
    torch.save(state, tmp_path / "damaged.pth")
    with pytest.raises(ValueError, match="damaged record"):
        hs.load_pretrained(tmp_path / "damaged.pth", FromTimm())
    state.pop("hypersphere")
    torch.save(state, tmp_path / "plain.pth")
    with pytest.raises(ValueError, match="does not say how"):
        hs.load_pretrained(tmp_path / "plain.pth", FromTimm())


def test_damaged_files_are_named(tmp_path):
    """Torch's own advice is weights_only=False, which would run what the file says."""
    twin = hs.convert(FromTimm(), angular="linear")
    torch.save(twin.state_dict(), tmp_path / "twin.pth")
    whole = (tmp_path / "twin.pth").read_bytes()
    torch.save({"state_dict": twin.state_dict(), "args": SimpleNamespace(lr=0.1)}, tmp_path / "more.pth")
    (tmp_path / "half.pth").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.pth").write_text("not found")
    (tmp_path / "none.pth").write_bytes(b"")
    (tmp_path / "half.safetensors").write_bytes(whole[:100])
    for name in ("more.pth", "half.pth", "text.pth", "none.pth", "half.safetensors"):
        with pytest.raises(ValueError, match=f"{name} is damaged") as caught:
            hs.load_pretrained(tmp_path / name, FromTimm())
        assert "weights_only" not in str(caught.value)


def test_a_layer_that_is_made_plain_again_is_plain_in_the_file(tmp_path):
    plain = FromTimm()
    model = hs.convert(copy.deepcopy(plain))
    model[0] = nn.Conv2d(2, 4, 3)
    torch.save(model.state_dict(), tmp_path / "some.pth")
    found = hs.load_pretrained(tmp_path / "some.pth", copy.deepcopy(plain))
    assert type(found[0]) is nn.Conv2d
    torch.testing.assert_close(found.eval()(X), model.eval()(X))
    model[2] = nn.Conv2d(4, 4, 3)  # no layer is left
    plain.load_state_dict(model.state_dict())
    hub = hs.convert(FromHub())
    hub[0], hub[2] = nn.Conv2d(2, 4, 3), nn.Conv2d(4, 4, 3)
    hub.save_pretrained(tmp_path / "hub")
    torch.testing.assert_close(FromHub.from_pretrained(tmp_path / "hub")(X), hub(X))


def test_a_layer_inside_a_wrapper_is_still_converted(tmp_path):
    """As activation checkpointing wraps it, whose state_dict has the names of before."""
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    plain = FromTimm()
    model = hs.convert(copy.deepcopy(plain))
    before = model.state_dict()
    model[0] = checkpoint_wrapper(model[0])
    torch.testing.assert_close(dict(model.state_dict()), dict(before))
    with pytest.raises(RuntimeError, match="hypersphere"):
        plain.load_state_dict(model.state_dict())
    model.load_state_dict(before)


def test_a_layer_inside_a_wrapper_of_another_library_is_still_converted():
    """As PEFT wraps it: the wrapper has the layer's name, and the layer a longer one."""

    class Lora(nn.Module):
        def __init__(self, layer):
            super().__init__()
            self.base_layer = layer

        def forward(self, x):
            return self.base_layer(x)

    model = hs.convert(FromTimm())
    before = record_of(model)
    for name in ("0", "2"):
        setattr(model, name, Lora(model.get_submodule(name)))
    assert record_of(model) == before
    assert "hypersphere" in model.state_dict()
