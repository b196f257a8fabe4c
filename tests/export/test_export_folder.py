"""The export folder: card, manifest, what is refused, and that nothing is lost or half written."""

import hashlib
import json
import os
import re
from pathlib import Path

import pytest
import torch
from cards import run_snippets
from folders import make_run
from tiny import tiny

import hypersphere as hs
from hypersphere._core import leftovers
from hypersphere._core.registries import DATASETS
from hypersphere.cli import main
from hypersphere.export import citations, export_run, formats, target
from hypersphere.runs import Facts
from hypersphere.train import DataConfig, ModelConfig, run

SMALL = ModelConfig(name="mlp", extra={"hidden": (8, 8)})
ROOT = Path(__file__).parents[2]


def snapshot(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_trained_run_from_the_command_line(tmp_path, capsys, monkeypatch):
    run(tiny(tmp_path, "digits.cnn", steps=4, model=SMALL))
    before = os.umask(0o027)
    try:
        assert main(["export", str(tmp_path / "digits.cnn")]) == 0
    finally:
        os.umask(before)
    out = capsys.readouterr().out
    for name in ("model.safetensors", "model.pt2", "model.onnx"):
        assert re.search(rf"{re.escape(name)}: max difference \S+ \(limit \S+\), top-1 agreement 100.00%", out)
    assert "checked with the first 64 test images of digits" in out
    folder = tmp_path / "digits.cnn" / "seed-0" / "export"
    assert {path.name for path in folder.iterdir()} == {
        *("README.md", "export.json", "model.safetensors", "model.pt2", "model.onnx")
    }
    modes = {file.name: oct(file.stat().st_mode & 0o777) for file in folder.iterdir()}
    assert set(modes.values()) == {"0o640"}, modes
    manifest = json.loads((folder / "export.json").read_text())
    card = (folder / "README.md").read_text()
    for name, about in manifest["files"].items():
        content = (folder / name).read_bytes()
        assert about == {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        assert about["sha256"] in card
    result = json.loads((folder.parent / "result.json").read_text())
    assert f"| 0 | {result['final_accuracy']:.2f}% | {result['best_accuracy']:.2f}% |" in card
    assert "(byte − 127.5) / 128" in card
    assert "Settings that differ from the recipe's: " in card  # it is no run of digits.cnn's settings
    assert [entry in card for entry in citations.LIBRARY] == [True] * 3
    assert DATASETS["digits"].citation in card
    assert run_snippets(folder, monkeypatch) == [{"logits": (5, 10), "embedding": (5, 8)}] * 3
    # training goes on beside an export, and the run reads as before
    assert run(tiny(tmp_path, "digits.cnn", steps=4, model=SMALL))["seeds"][0]["seed"] == 0
    assert hs.load(tmp_path / "digits.cnn").training is False


def test_without_data_the_checks_and_the_card_say_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HYPERSPHERE_DATA", str(tmp_path / "nothing"))
    data = DataConfig(name="mnist", normalize="standard")
    facts = Facts(10, 1, (28, 28))
    path, _ = make_run(tmp_path, model=SMALL, data=data, facts=facts)
    words = ["export", str(path), "--formats", "safetensors", "--out", str(tmp_path / "out")]
    assert main([*words, "--with-normalization"]) == 2
    assert "give their folder with --root" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert main(words) == 0
    assert "because mnist was not found here" in capsys.readouterr().out
    assert "checks used random inputs" in (tmp_path / "out" / "README.md").read_text()
    assert json.loads((tmp_path / "out" / "export.json").read_text())["real_inputs"] is False


def test_without_data_mean_and_deviation_are_those_of_the_run(tmp_path, monkeypatch):
    monkeypatch.setenv("HYPERSPHERE_DATA", str(tmp_path / "nothing"))
    facts = Facts(10, 1, (28, 28), mean=(0.25,), std=(0.5,))
    for kind, deviation in (("standard", "0.5"), ("mean", "1")):
        path, _ = make_run(tmp_path / kind, model=SMALL, data=DataConfig(name="mnist", normalize=kind), facts=facts)
        export_run(path, formats="torch", out=tmp_path / kind / "out", with_normalization=True)
        card = (tmp_path / kind / "out" / "README.md").read_text()
        assert f"mean = [0.25], std = [{deviation}]" in card


def test_an_unfinished_run_is_exported_as_such(tmp_path):
    path, _ = make_run(tmp_path, model=SMALL, finished=False)
    export_run(path, formats="safetensors", out=tmp_path / "out")
    assert "This training is not finished" in (tmp_path / "out" / "README.md").read_text()


# Nothing is lost -------------------------------------------------------------------------------------


def test_an_export_is_replaced_only_when_asked(tmp_path, capsys):
    path, _ = make_run(tmp_path, model=SMALL)
    out = tmp_path / "out"
    words = ["export", str(path), "--out", str(out), "--formats", "safetensors"]
    assert main(words) == 0
    before = snapshot(out)
    assert main([*words, "--embedding"]) == 2
    assert "give --force to replace it" in capsys.readouterr().err
    assert snapshot(out) == before
    assert main([*words, "--embedding", "--force"]) == 0
    assert snapshot(out) != before
    (out / "notes.txt").write_text("mine")
    before = snapshot(out)
    assert main([*words, "--force"]) == 2
    assert "holds notes.txt, which no export wrote" in capsys.readouterr().err
    assert snapshot(out) == before
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["made", "out"]  # no temporary folder is left


@pytest.mark.parametrize("force", [False, True])
def test_foreign_folders_and_files_are_never_replaced(tmp_path, force):
    path, _ = make_run(tmp_path, model=SMALL)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.tex").write_text("years of work")
    (tmp_path / "file").write_text("x")
    before = snapshot(tmp_path)
    with pytest.raises(ValueError, match=r"thesis\.tex, which no export wrote"):
        export_run(path, out=tmp_path / "folder", force=force)
    with pytest.raises(ValueError, match="is a file: choose another --out"):
        export_run(path, out=tmp_path / "file", force=force)
    with pytest.raises(OSError, match="choose another folder with --out"):
        export_run(path, out=tmp_path / "file" / "below", force=force)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("way", ["wrong", "nan", "torn"])
def test_a_file_that_is_wrong_is_not_written(tmp_path, capsys, monkeypatch, way):
    path, _ = make_run(tmp_path, model=SMALL)
    good = formats.FORMATS["torch"]

    def write(job, file):
        good.write(job, file)
        if way == "torn":
            file.write_bytes(file.read_bytes()[:1000])

    def reader(job, file):
        inner = good.reader(job, file)
        wrong = {"wrong": 0.1, "nan": float("nan"), "torn": 0.0}[way]
        return lambda *batch: tuple(part + wrong for part in inner(*batch))

    monkeypatch.setitem(formats.FORMATS, "torch", formats.Format("model.pt2", write, reader))
    before = snapshot(tmp_path)
    assert main(["export", str(path), "--formats", "safetensors,torch", "--samples", "4"]) == 2
    message = capsys.readouterr().err
    assert "model.pt2" in message
    assert "nothing was written" in message
    assert snapshot(tmp_path) == before
    assert sorted(entry.name for entry in (path / "seed-0").iterdir() if entry.name.startswith(".")) == []


def test_a_format_that_cannot_be_had_is_named_with_the_reason(tmp_path, capsys, monkeypatch):
    path, _ = make_run(tmp_path, model=SMALL)
    monkeypatch.setattr(formats.importlib.util, "find_spec", lambda name: None)
    words = ["export", str(path), "--out", str(tmp_path / "out")]
    assert main([*words, "--formats", "onnx"]) == 2
    assert "needs onnx and onnxscript: pip install 'hypersphere[export]'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert main([*words, "--formats", "safetensors,onnx"]) == 0
    assert "model.onnx: not written: needs onnx" in capsys.readouterr().out
    card = (tmp_path / "out" / "README.md").read_text()
    assert "`model.onnx` not written: needs onnx" in card
    assert "### `model.onnx`" not in card


def test_the_card_names_the_folder_of_the_images_however_it_was_given(tmp_path, monkeypatch):
    photos = tmp_path / "photos of [mine]"
    photos.mkdir()
    monkeypatch.chdir(photos)
    path, _ = make_run(tmp_path / "runs", model=SMALL)
    values = json.loads((path / "config.json").read_text())
    for root in (".", f"../{photos.name}/"):
        values["data"] |= {"name": "folder", "root": root}
        (path / "config.json").write_text(json.dumps(values))
        export_run(path, formats="safetensors", out=tmp_path / "out", force=True)
        assert r"- Data: the images in photos of \[mine\]" in (tmp_path / "out" / "README.md").read_text(), root


def test_without_a_runtime_onnx_is_written_and_said_to_be_unchecked(tmp_path, monkeypatch):
    path, _ = make_run(tmp_path, model=ModelConfig(name="mlp", extra={"hidden": (4,)}))
    genuine = formats.importlib.util.find_spec
    monkeypatch.setattr(
        formats.importlib.util, "find_spec", lambda name: None if name == "onnxruntime" else genuine(name)
    )
    made = export_run(path, formats="onnx", out=tmp_path / "out")
    assert made.checks == {"onnx": None}
    assert "onnxruntime is not installed" in made.notes["onnx"]
    assert "not checked" in (tmp_path / "out" / "README.md").read_text()


def test_networks_that_cannot_be_traced_keep_their_weights_file(tmp_path, monkeypatch):
    path, _ = make_run(tmp_path, model=SMALL)

    def refuse(*args, **kwargs):
        raise RuntimeError("data-dependent control flow")

    monkeypatch.setattr(torch.export, "export", refuse)
    made = export_run(path, out=tmp_path / "out")
    assert list(made.checks) == ["safetensors"]
    assert made.notes.keys() == {"torch", "onnx"}
    assert "cannot trace this network: RuntimeError: data-dependent control flow" in made.notes["torch"]


# Bad input -------------------------------------------------------------------------------------------


def test_options_that_make_no_sense_are_named(tmp_path, capsys):
    path, _ = make_run(tmp_path, model=SMALL)
    before = snapshot(tmp_path)
    for words, message in (
        (["--formats", "keras"], "must be one or more of safetensors, torch, onnx"),
        (["--formats", ""], "must be one or more of"),
        (["--samples", "1"], "samples=1 must be at least 2"),
        (["--tolerance", "0"], "tolerance=0.0 must be finite and > 0"),
        (["--seed", "5"], "has no seed 5"),
    ):
        assert main(["export", str(path), *words]) == 2
        assert message in capsys.readouterr().err
    assert snapshot(tmp_path) == before


def test_data_of_another_shape_are_named(tmp_path):
    path, _ = make_run(tmp_path, model=SMALL, facts=Facts(10, 1, (16, 16)))
    with pytest.raises(ValueError, match=r"not those of the run: .*8×8 pixels, .*16×16 pixels"):
        export_run(path)


def test_generators_are_named_as_what_cannot_be_exported(tmp_path, monkeypatch):
    path, _ = make_run(tmp_path, model=SMALL)
    before = snapshot(tmp_path)
    gan = hs.runs.Gan(hs.models.create("sngan_generator"), torch.nn.Identity())
    monkeypatch.setattr("hypersphere.export.run.load", lambda *args, **kwargs: gan)
    with pytest.raises(ValueError, match=r"is a Gan, which gives no logits.*weights are in .*model\.safetensors"):
        export_run(path)
    assert snapshot(tmp_path) == before


def test_networks_that_overflow_are_not_exported(tmp_path):
    path, _ = make_run(tmp_path, model=SMALL)
    from safetensors.torch import load_file, save_file

    file = path / "seed-0" / "model.safetensors"
    save_file({**load_file(file), "classifier.bias": torch.full((10,), float("nan"))}, file)
    (path / "seed-0" / "manifest.json").unlink()
    with pytest.raises(ValueError, match=r"values that are not finite.*nothing is exported"):
        export_run(path)


@pytest.mark.parametrize("content", [b"", b"garbage", None], ids=["empty", "garbage", "no settings"])
def test_a_damaged_export_is_named(tmp_path, content):
    path, _ = make_run(tmp_path, model=SMALL)
    export_run(path, formats="safetensors", out=tmp_path / "out")
    file = tmp_path / "out" / "model.safetensors"
    file.write_bytes((path / "seed-0" / "model.safetensors").read_bytes() if content is None else content)
    with pytest.raises(ValueError, match=r"model\.safetensors is not what was written"):
        hs.load(tmp_path / "out")
    (tmp_path / "alone.safetensors").write_bytes(file.read_bytes())  # nothing beside it says what it is to be
    with pytest.raises(ValueError, match=r"alone\.safetensors (is not a complete|does not carry)"):
        hs.load(tmp_path / "alone.safetensors")
    file.unlink()
    with pytest.raises(ValueError, match=r"export without model\.safetensors"):
        hs.load(tmp_path / "out")


def test_every_data_set_and_the_library_have_someone_to_cite():
    assert all(source.citation for source in DATASETS.values())
    cff = (ROOT / "CITATION.cff").read_text()
    for entry in citations.LIBRARY:
        title = next(
            part
            for part in ("deep learning on", "Deep Hyperspherical Learning", "Deep Representation")
            if part in entry
        )
        assert title in cff
    for name in re.findall(r"family-names: (\w+)", cff):
        assert any(name in entry for entry in citations.LIBRARY)


def test_names_mean_nothing_in_the_card(tmp_path):
    evil = ("a|b", "[x](https://x.y)", "<script>alert(1)</script>", "`rm`", "two\nlines\n# Title", "\u202eltr", *"6789")
    path, _ = make_run(tmp_path, model=SMALL, facts=Facts(len(evil), 1, (8, 8), classes=evil))
    environment = path / "seed-0" / "environment.json"
    environment.write_text(json.dumps({"command": "train `x` | y", "device": "<b>cpu</b>", "torch": "2"}))
    export_run(path, out=tmp_path / "out", formats="safetensors", samples=4)
    card = (tmp_path / "out" / "README.md").read_text()
    shown = next(line for line in card.splitlines() if line.startswith("- Classes"))
    assert r"a\|b" in shown
    assert r"\[x\]\(https\://x.y\)" in shown
    assert "&lt;script&gt;" in shown
    assert r"\`rm\`, two lines \# Title" in shown
    assert "\u202e" not in card
    assert "<" not in card.replace("&lt;", "")
    assert "`train 'x' ∣ y`" in card


def test_what_a_killed_export_left_is_swept_and_what_it_moved_away_comes_back(tmp_path):
    path, _ = make_run(tmp_path, model=SMALL)
    export_run(path, out=tmp_path / "out", formats="safetensors", samples=4)
    gone = f"{2**22 + 1}@{leftovers._HOST}"
    os.replace(tmp_path / "out", tmp_path / f".out.{gone}.old")
    (tmp_path / f".out.{gone}").mkdir()
    in_use = tmp_path / f".out.{os.getppid()}@{leftovers._HOST}"
    in_use.mkdir()
    with target.new_folder(tmp_path / "out") as folder:
        assert (tmp_path / "out" / "export.json").exists()
        (folder / "export.json").write_text("{}")
    assert sorted(entry.name for entry in tmp_path.iterdir() if "out" in entry.name) == [in_use.name, "out"]
