"""``Run`` and ``hs.load``: what a run folder says, and what is said of one that is damaged."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from folders import DIGITS, make_run
from safetensors.torch import load_file, save_file

import hypersphere as hs
from hypersphere._core.registries import HEADS, MAPS
from hypersphere.cli import main
from hypersphere.runs import open_run
from hypersphere.train import Config, DataConfig, LossConfig, ModelConfig, OrthogonalConfig, Run, RunConfig

IMAGES = torch.linspace(-1, 1, 5 * 64).view(5, 1, 8, 8)
SMALL = ModelConfig(name="cnn3", widths="4,4,4", feature_dim=8)


def expected(objective):
    with torch.no_grad():
        return objective.classifier()(IMAGES), objective.classifier().features(IMAGES)


def check_same(model, objective, **tolerance):
    assert not model.training
    with torch.no_grad():
        got = model(IMAGES), model.features(IMAGES)
    torch.testing.assert_close(got, expected(objective), **tolerance)


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# hs.load ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("finished", [True, False], ids=["finished", "interrupted"])
@pytest.mark.parametrize("method", MAPS)
def test_orthogonal_matrices_are_merged(tmp_path, method, finished):
    orthogonal = OrthogonalConfig(method=method, refine="full" if method == "cayley" else None)
    path, objective = make_run(tmp_path, model=SMALL, orthogonal=orthogonal, finished=finished)
    model = hs.load(path)
    check_same(model, objective, atol=1e-5, rtol=1e-5)
    plain = hs.models.create("cnn3", 10, widths=(4, 4, 4), feature_dim=8, in_channels=1, image_size=8)
    assert model.state_dict().keys() == plain.state_dict().keys()


def test_blocks_and_normalized_neurons_are_merged(tmp_path):
    orthogonal = OrthogonalConfig(method="cayley", blocks=4, normalize=True, learn_v=False)
    path, objective = make_run(tmp_path, model=SMALL, orthogonal=orthogonal)
    check_same(hs.load(path), objective, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", HEADS)
def test_heads_come_back(tmp_path, name):
    path, objective = make_run(tmp_path, model=SMALL, loss=LossConfig(name=name))
    check_same(hs.load(path), objective)


def test_a_head_with_energy_on_an_operator_that_learns_comes_back(tmp_path):
    model = replace(SMALL, conv="sphere", angular="sigmoid", learnable_k=True)
    path, objective = make_run(tmp_path, model=model, loss=LossConfig(name="a_softmax", energy=1.0))
    check_same(hs.load(path), objective)


def test_an_interrupted_run_gives_its_newest_checkpoint(tmp_path):
    path, objective = make_run(tmp_path, model=SMALL, finished=False)
    check_same(hs.load(path), objective)
    newest = path / "seed-0" / "checkpoints" / "step-00000008"
    older = load_file(newest.parent / "step-00000004" / "model.safetensors")
    save_file({name: value + 1 for name, value in older.items()}, newest / "model.safetensors")
    (newest / "manifest.json").unlink()  # as in folders of before
    bias = "model.classifier.bias"
    assert torch.equal(hs.load(path).classifier.bias, older[bias] + 1)
    shutil.rmtree(newest)
    assert torch.equal(hs.load(path).classifier.bias, older[bias])


def test_seeds_devices_and_random_numbers(tmp_path):
    path, objective = make_run(tmp_path, model=SMALL, seeds=(2, 10))
    assert Run(path).seeds == (2, 10)
    check_same(hs.load(path, seed=10), objective)
    check_same(hs.load(path / "seed-10"), objective)
    before = torch.get_rng_state()
    assert all(value.device.type == "meta" for value in hs.load(path, device="meta").state_dict().values())
    assert torch.equal(torch.get_rng_state(), before)
    for bad in ("cuda:99", "nonsense"):
        with pytest.raises(ValueError, match=f"device='{bad}' cannot be used here"):
            hs.load(path, device=bad)
    with pytest.raises(ValueError, match="has no seed 3: it has 2, 10"):
        hs.load(path, seed=3)
    with pytest.raises(ValueError, match="seed=2 contradicts the folder"):
        hs.load(path / "seed-10", seed=2)
    with pytest.raises(ValueError, match="was opened for seed 2, not 10"):
        Run(path, 2).folder(10)


def test_a_seed_folder_is_known_from_within(tmp_path, monkeypatch):
    path, objective = make_run(tmp_path, model=SMALL, seeds=(0, 1))
    monkeypatch.chdir(path / "seed-1")
    assert Run(".").seeds == (1,)
    check_same(hs.load("."), objective)
    monkeypatch.chdir(path)
    assert Run(".").seeds == Run("seed-1/..").seeds == (0, 1)


def test_a_data_folder_that_was_named_from_elsewhere_is_found(tmp_path, monkeypatch):
    (tmp_path / "start" / "photos").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "start")
    path, _ = make_run(Path("runs"), model=SMALL)
    values = json.loads((path / "config.json").read_text())
    values["data"]["root"] = "photos"
    (path / "config.json").write_text(json.dumps(values))
    assert Run(path).config.data.root == "photos"
    monkeypatch.chdir(tmp_path)
    assert Run(tmp_path / "start" / path).config.data.root == str(tmp_path / "start" / "photos")
    monkeypatch.chdir(tmp_path / "start" / "photos")
    above = Config(
        data=DataConfig(root="."), run=RunConfig(folder="../above", name="one")
    )  # no path leads back from there
    assert Run(_with_a_seed(open_run(above))).config.data.root == str(tmp_path / "start" / "photos")
    absolute = Config(data=DataConfig(root="photos"), run=RunConfig(folder=str(tmp_path / "above"), name="two"))
    for place in ("start", ""):  # started again where there are no such photos: those of before are not forgotten
        monkeypatch.chdir(tmp_path / place)
        open_run(absolute)
        assert Run(_with_a_seed(tmp_path / "above" / "two")).config.data.root == str(tmp_path / "start" / "photos")
    (tmp_path / "photos").mkdir()  # another one, which the run never saw
    assert Run(tmp_path / "start" / path).config.data.root == str(tmp_path / "start" / "photos")
    (tmp_path / "start" / "runs").rename(tmp_path / "moved")
    assert Run(tmp_path / "moved" / path.name).config.data.root == "photos"  # nobody knows from where


def _with_a_seed(folder):
    (folder / "seed-0").mkdir(exist_ok=True)
    (folder / "seed-0" / "facts.json").touch()
    return folder


def test_folders_that_do_not_belong_to_a_seed_are_ignored(tmp_path):
    path, _ = make_run(tmp_path, model=SMALL)
    for name in ("seed-0 (copy)", "seed-x", "seed-01", "seed-"):
        (path / name).mkdir()
    (path / "seed-7").write_text("a file")
    (path / "seed-1" / "checkpoints").mkdir(parents=True)  # of a training that failed before it began
    (path / "seed-1" / "environment.json").write_text("{}")
    assert Run(path).seeds == (0,)
    assert main(["evaluate", str(path), "--parts", "classification"]) == 0
    with pytest.raises(ValueError, match="seed-x is not a run folder"):
        Run(path / "seed-x")


# Bad input -------------------------------------------------------------------------------------------


def test_a_path_that_is_not_a_run_folder_is_named(tmp_path, capsys):
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    cases = {"missing": "does not exist", "file": "is a file", "empty": "is not a run folder: it has no config.json"}
    for name, message in cases.items():
        with pytest.raises(ValueError, match=message):
            hs.load(tmp_path / name)
        assert main(["export", str(tmp_path / name)]) == 2
        assert message in capsys.readouterr().err
    assert snapshot(tmp_path) == {"file": b"x"}


def test_a_run_without_seeds_or_network_is_named(tmp_path):
    path, _ = make_run(tmp_path, model=SMALL, finished=False)
    shutil.rmtree(path / "seed-0" / "checkpoints")
    with pytest.raises(ValueError, match="holds no network yet: train it first"):
        hs.load(path)
    (path / "seed-0" / "facts.json").unlink()
    with pytest.raises(ValueError, match="holds no training that began"):
        hs.load(path)
    shutil.rmtree(path / "seed-0")
    with pytest.raises(ValueError, match="holds no seed yet"):
        hs.load(path)


def test_settings_of_another_version_are_named(tmp_path):
    path, _ = make_run(tmp_path, model=SMALL)
    config = json.loads((path / "config.json").read_text())
    for change in ({"future": 1}, {"model": {"name": "cnn3", "future": 1}}, {"model": 3}, {"run": None}):
        (path / "config.json").write_text(json.dumps({**config, **change}))
        with pytest.raises(ValueError, match=r"config\.json does not hold the settings of a run of this version"):
            Run(path)


def test_weights_that_do_not_fit_are_named(tmp_path):
    path, _ = make_run(tmp_path, model=SMALL)
    file = path / "seed-0" / "model.safetensors"
    tensors = load_file(file)
    tensors["body.fc.0.op.weight"] = torch.zeros(3, 3)
    save_file(tensors, file)
    (path / "seed-0" / "manifest.json").unlink()  # as of before there were any: its hash would tell, too
    with pytest.raises(ValueError, match=r"model\.safetensors does not fit the settings.*body\.fc.*remove the file"):
        hs.load(path)
    save_file({"other": torch.zeros(1)}, file)
    with pytest.raises(ValueError, match=r"does not fit the settings of its run: Missing key.*Remedy"):
        hs.load(path)


def test_a_damaged_network_names_the_remedy_and_the_remedy_helps(tmp_path):
    path, objective = make_run(tmp_path, model=SMALL)
    file = path / "seed-0" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(ValueError, match=r"model\.safetensors is not what was written.*remove the file to get"):
        hs.load(path)
    file.unlink()
    check_same(hs.load(path), objective)
    newest = path / "seed-0" / "checkpoints" / "step-00000008"
    (newest / "model.safetensors").write_bytes(b"garbage")
    with pytest.raises(ValueError, match=r"step-00000008, then step-00000004 is used"):
        hs.load(path)
    (newest / "model.safetensors").unlink()
    with pytest.raises(ValueError, match="not a complete checkpoint: remove the folder"):
        hs.load(path)
    shutil.rmtree(newest)
    check_same(hs.load(path), objective)


FILES = (
    "config.json",
    "result.json",
    *(f"seed-0/{name}" for name in ("facts.json", "environment.json", "log.jsonl", "result.json", "latest")),
    "seed-0/model.safetensors",
    *(f"seed-0/checkpoints/step-00000008/{name}" for name in ("model.safetensors", "state.safetensors", "state.json")),
)
DAMAGES = {
    "missing": lambda content: None,
    "empty": lambda content: b"",
    "truncated": lambda content: content[: len(content) // 2],
    "bytes": lambda content: b"\xff\xfe\x00garbage\x80" * 9,
    "list": lambda content: b"[1, 2]",
    "number": lambda content: b"3",
    "object": lambda content: b'{"a": 1}',
    "nulls": lambda content: b'{"num_classes": null, "step": null, "final_accuracy": null, "image_size": 8}\n{}\n{}',
}
NEEDED = ("config.json", "seed-0/facts.json", "seed-0/model.safetensors")


@pytest.fixture(scope="module")
def good_run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("good"), model=SMALL)[0]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", FILES)
def test_no_damage_is_anything_but_a_clear_error(tmp_path, good_run, name, damage):
    path = tmp_path / "run"
    shutil.copytree(good_run, path)
    content = DAMAGES[damage]((path / name).read_bytes())
    (path / name).unlink() if content is None else (path / name).write_bytes(content)
    before = snapshot(path)
    run_actions = ("log", "result", "environment", "facts", "load")
    failed = {action for action in run_actions if not survives(path, action, Path(name).name)}
    if name in NEEDED and (name, damage) != ("seed-0/model.safetensors", "missing"):
        assert "load" in failed
    elif name in ("result.json", "seed-0/latest") or "checkpoints" in name:
        assert not failed
    assert snapshot(path) == before


def survives(path, action, name):
    try:
        hs.load(path) if action == "load" else getattr(Run(path), action)()
    except ValueError as error:
        message = str(error)
    else:
        return True
    assert name in message or path.name in message
    return False


def test_a_file_that_must_not_be_read_is_an_error_of_the_system(good_run, monkeypatch, capsys):
    def refuse(self, *args, **kwargs):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(PermissionError):
        hs.load(good_run)
    assert main(["export", str(good_run)]) == 2
    assert "Permission denied" in capsys.readouterr().err


def test_a_torn_last_line_of_the_log_is_dropped_and_an_inner_one_named(tmp_path):
    path, _ = make_run(tmp_path, model=SMALL)
    log = path / "seed-0" / "log.jsonl"
    good = log.read_text()
    log.write_text(good + '{"step": 12, "los')
    assert [line["step"] for line in Run(path).log()] == [4, 8]
    log.write_text('{"step": Infinity}\n' + good)
    with pytest.raises(ValueError, match=r"log\.jsonl is damaged in line 1"):
        Run(path).log()
    for whole in ("garbage\n", '{"step": "a"}\n'):  # a line that ends was not torn
        log.write_text(good + whole)
        with pytest.raises(ValueError, match=r"log\.jsonl is damaged in line \d"):
            Run(path).log()


def test_facts_are_read_as_they_were_written(good_run):
    assert Run(good_run).facts() == DIGITS
    assert Run(good_run).finished == (0,)
    assert Run(good_run).command == "hypersphere train made"
