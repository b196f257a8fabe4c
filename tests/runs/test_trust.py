"""What is read from a run folder runs no code: every way to name some is refused, unless its module is trusted."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from folders import make_run
from torch import nn

import hypersphere as hs
from hypersphere._core import registry, trust
from hypersphere._core.registries import KINDS
from hypersphere.cli import main
from hypersphere.config import Config, to_dict
from hypersphere.export import export_run
from hypersphere.export.formats import Job
from hypersphere.export.snippets import snippet
from hypersphere.report import write
from hypersphere.runs import Run
from hypersphere.train import ModelConfig

SMALL = ModelConfig(name="cnn3", widths="4,4,4", feature_dim=8)
# setting → where an address may stand in it; `open_up` is a module that leaves a mark when it is imported
PLACES = {
    "data.name": "open_up:thing",
    "model.name": "open_up:thing",
    "model.angular": "open_up:thing",
    "model.magnitude": "open_up:thing",
    "model.extra": {"angular": "open_up:thing"},
    "loss.name": "open_up:thing",
    "loss.angular": "open_up:thing",
    "loss.extra": {"a": [{"b": "open_up:thing"}]},
    "regularizer.name": "open_up:thing",
    "orthogonal.method": "open_up:thing",
    "gan.generator": "open_up:thing",
    "evaluation.protocol": "open_up:thing",
    "evaluation.also": ["classes", "open_up:thing"],
}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run folder, and on the path a module beside it that leaves a mark when it is imported."""
    (tmp_path / "open_up.py").write_text(
        f"open({str(tmp_path / 'mark')!r}, 'w')\nfrom hypersphere.angular import Cosine as thing\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    kept = [(one, set(one)) for one in (trust._MODULES, registry.followed)]
    path, _ = make_run(tmp_path, model=SMALL)
    yield path
    for values, before in kept:
        values.clear()
        values.update(before)
    sys.modules.pop("open_up", None)


def name_in(path, setting, value):
    config = json.loads((path / "config.json").read_text())
    group, _, field = setting.partition(".")
    config[group][field] = value
    (path / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("setting", PLACES)
def test_an_address_in_a_run_folder_is_not_followed(run, setting, tmp_path):
    name_in(run, setting, PLACES[setting])
    for read in (hs.load, Run, export_run, write):
        with pytest.raises(
            ValueError, match=rf"config\.json names code to run, {setting}.*'open_up:thing'.*--trust open_up"
        ):
            read(run)
    assert not (tmp_path / "mark").exists()


def test_commands_do_not_follow_addresses_of_imported_modules(run, capsys):
    for address in ("os:system", "builtins:exec", "subprocess:call", "hypersphere.cli:main", "torch:load"):
        name_in(run, "data.name", address)
        for command in ("evaluate", "report", "export"):
            assert main([command, str(run)]) == 2
            said = capsys.readouterr().err
            assert said.startswith(f"hypersphere {command}: ")
            assert said.count("\n") == 1
            assert f"data.name='{address}'" in said


def test_trust_is_given_to_a_module(run, tmp_path):
    name_in(run, "model.angular", "open_up:thing")
    with pytest.raises(ValueError, match="if you trust it"):
        Run(run, trust="open")
    assert Run(run, trust="other, open_up").config.model.angular == "open_up:thing"
    with pytest.raises(ValueError, match=r"trust='open up' is not the name of a module"):
        Run(run, trust="open up")


def test_the_command_line_trusts_what_it_is_told(run, capsys, tmp_path):
    name_in(run, "evaluation.also", ["open_up:thing"])
    assert main(["report", str(run), "--logs-only"]) == 2
    assert main(["report", str(run), "--logs-only", "--trust", "open_up"]) == 0


@pytest.mark.parametrize("setting", ["data.name", "model.angular", "loss.name"])
def test_a_file_of_settings_names_no_code_for_training(run, setting, tmp_path, capsys):
    name_in(run, setting, "open_up:thing")
    words = ["train", "--config", str(run / "config.json"), "--run.folder", str(tmp_path / "new")]
    assert main(words) == 2
    assert f"config.json names code to run, {setting}='open_up:thing'" in capsys.readouterr().err
    assert not (tmp_path / "mark").exists()
    assert not (tmp_path / "new").exists()


def test_what_was_registered_or_named_by_a_program_may_be_named_by_a_file(run):
    class Own:
        def from_cos(self, c):
            return c

    address = f"{Own.__module__}:Own"
    Own.__qualname__ = "Own"
    name_in(run, "model.angular", address)
    with pytest.raises(ValueError, match="names code"):
        Run(run)
    hs.register("angular", "own_of_this_test", Own)
    try:
        assert Run(run).config.model.angular == address
    finally:
        KINDS["angular"]._entries.pop("own_of_this_test")
    trust.named({"model": {"angular": address}})
    assert Run(run).config.model.angular == address


def test_paths_and_run_names_are_not_taken_for_addresses(run):
    for setting, value in (("run.name", "a:b"), ("data.root", "C:data"), ("model.start", "host:run")):
        name_in(run, setting, value)
    assert Run(run).config.run.name == "a:b"
    assert list(trust.addresses(to_dict(Config()))) == []


def test_an_export_names_no_code_either(run, tmp_path):
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file

    made = export_run(run, formats="safetensors", samples=4)
    file = made.folder / "model.safetensors"
    hs.load(file)
    assert 'hs.load("model.safetensors")' in (made.folder / "README.md").read_text()
    with safe_open(file, framework="pt") as content:
        about = dict(content.metadata())
    config = json.loads(about["config"])
    config["loss"]["name"] = "open_up:thing"
    save_file(load_file(file), tmp_path / "alone.safetensors", {**about, "config": json.dumps(config)})
    with pytest.raises(ValueError, match=r"alone\.safetensors names code to run, loss\.name='open_up:thing'"):
        hs.load(tmp_path / "alone.safetensors")
    inputs = SimpleNamespace(kind="own", tensors=[torch.ones(1, 2)])
    job = Job(nn.Identity(), inputs, False, {"config": json.dumps(config)})
    assert 'hs.load("model.safetensors", trust="open_up")' in snippet("safetensors", job)
    deep = "[" * 100_000 + "]" * 100_000
    save_file({"x": torch.ones(1)}, tmp_path / "deep.safetensors", {**about, "config": deep})
    with pytest.raises(ValueError, match=r"deep\.safetensors carries damaged settings"):
        hs.load(tmp_path / "deep.safetensors")
    assert not (tmp_path / "mark").exists()


def test_a_flipped_bit_in_an_export_is_noticed(run):
    made = export_run(run, formats="safetensors", samples=4)
    file = made.folder / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-3] ^= 4
    file.write_bytes(bytes(content))
    for path in (file, made.folder):
        with pytest.raises(ValueError, match=r"model\.safetensors is not what was written.*export the run again"):
            hs.load(path)
    (made.folder / "export.json").write_text("{}")
    with pytest.raises(ValueError, match=r"export\.json does not list model\.safetensors"):
        hs.load(made.folder)


def test_the_command_line_is_parsed_without_torch():
    code = (
        "import sys; from hypersphere.cli import main; "
        "assert main(['train', 'digits.cnn', '--nothing']) == 2; assert main(['list', '--help']) == 0; "
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=False)
    assert done.returncode == 0, done.stderr
