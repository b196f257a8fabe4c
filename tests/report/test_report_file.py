"""The file: what it says, that it needs nothing else, and what happens with bad input."""

import base64
import hashlib
import html
import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
import torch
from report_examples import outputs, verified

from hypersphere import data, metrics, recipes, report, train
from hypersphere.cli import main
from hypersphere.evaluation import Candidate
from hypersphere.report import page as page_module
from hypersphere.report.findings import Findings
from hypersphere.report.verification import hardest_pairs, roc_view


def embedded(page):
    """The data that the page's script reads."""
    text = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1]
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_one_run(runs):
    path = report.write(runs / "plain")
    assert path == runs / "plain" / "report.html"
    page = path.read_text()
    result = json.loads((runs / "plain" / "seed-1" / "result.json").read_text())
    assert f"{result['final_accuracy']:.2f}" in page
    assert f"{result['best_accuracy']:.2f}" in page
    assert "Recipe digits.cnn" in page
    assert "Its settings differ from the recipe: model.widths = 6,6,6 (recipe: 32,48,64)" in page
    for title in ("Result", "Learning curves", "Features on the sphere", "Energy", "Confusion", "Hard examples"):
        assert f">{title}</h2>" in page
    found = embedded(page)
    keys = {one["key"] for one in found["measures"]}
    assert {"accuracy", "loss", "energy"} <= keys
    assert any(key.startswith("energy/") for key in keys)
    curve = found["runs"][0]["curves"]["accuracy"]
    assert curve["steps"] == [10, 20, 30]
    log = train.Run(runs / "plain").log(1)
    assert curve["seeds"][1] == pytest.approx([line["accuracy"] for line in log if "accuracy" in line], rel=1e-4)
    assert "penalty" not in keys  # it is zero throughout


def test_a_page_needs_nothing_else(runs):
    page = report.build([runs / "learned", runs / "radius"])
    body = page.split("</style>")[1]
    assert not re.search(r"(?:src|href)=\"(?!data:|#)", page)
    assert "url(" not in page
    assert "@import" not in page
    assert not re.search(r"<[^>]+\son\w+=", body.split('<script type="application/json"')[0])
    script = re.search(r"<script>(.*?)</script>", page, re.S)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src &#x27;sha256-{digest}&#x27;" in page
    assert "default-src &#x27;none&#x27;" in page
    assert "{{" not in page
    assert "Curvature k" in page
    assert "Radius ρ" in page


def test_several_runs(runs, capsys):
    assert main(["report", str(runs / "plain"), str(runs / "flat")]) == 0
    assert str(runs / "report.html") in capsys.readouterr().out
    page = (runs / "report.html").read_text()
    assert "2 runs compared" in page
    assert "Settings in which the runs differ" in page
    assert "model.feature_dim" in page
    assert [run["label"] for run in embedded(page)["runs"]] == ["plain", "flat"]
    assert embedded(page)["runs"][1]["sphere"]["kind"] == "plane"


def test_names_that_are_the_same_are_told_apart(runs):
    shutil.copytree(runs / "flat", runs / "other" / "flat")
    page = report.build([runs / "flat", runs / "other" / "flat", runs / "plain" / "seed-0", runs / "plain" / "seed-1"])
    labels = [run["label"] for run in embedded(page)["runs"]]
    assert labels == ["runs/flat", "other/flat", "runs/plain seed 0", "runs/plain seed 1"]


def test_published_numbers(runs):
    name, cell, table = next(
        (name, table.cells[index], table)
        for name in recipes.list_recipes()
        for table, index in [recipes.find(name)]
        if table.cells[index].published is not None and table.metric == "error" and table.cells[index].run is None
    )
    _edit(runs / "flat" / "config.json", recipe=name)
    _edit(runs / "flat" / "seed-0" / "result.json", final_accuracy=50.0, metrics={"accuracy": 50.0})
    page = report.build([runs / "flat"], data=False)
    assert f"Published {table.metric}" in page
    assert f"{cell.published:.2f}%" in page
    assert f"ours 50.00 (+{50 - cell.published:.2f})" in page
    assert html.escape(table.title) in page


def test_everything_that_was_measured(runs):
    _edit(runs / "flat" / "seed-0" / "result.json", metrics={"accuracy": 50.0, "top5_accuracy": 91.25, "fgsm": None})
    assert "91.25" in report.build([runs / "flat"], data=False)
    page = report.build([runs / "flat", runs / "plain"], data=False)
    assert re.search(r"Top-5 accuracy, %, higher is better</th><td>91.25</td><td>–</td>", page)


def test_no_recipe_no_published_number(runs):
    _edit(runs / "flat" / "config.json", recipe="mine")
    assert "is not a recipe of the documents" in report.build([runs / "flat"], data=False)


def test_missing_data_leave_a_report_that_says_so(runs, tmp_path, capsys):
    _edit(runs / "flat" / "config.json", data={"name": "cifar10", "root": str(tmp_path / "nowhere")})
    assert main(["report", str(runs / "flat")]) == 0
    page = (runs / "flat" / "report.html").read_text()
    assert "The test data could not be read" in page
    assert "cifar-10-batches-py" in page
    assert "Features on the" not in page
    assert embedded(page)["runs"][0]["curves"]["accuracy"]["steps"] == [10, 20, 30]
    assert not (tmp_path / "nowhere").exists()  # nothing was fetched


def test_numbers_that_are_not_finite(runs):
    log = runs / "flat" / "seed-0" / "log.jsonl"
    lines = log.read_text().splitlines()
    lines.insert(3, '{"step": 12, "loss": NaN, "accuracy": Infinity, "test_loss": -Infinity}')
    log.write_text("\n".join(lines) + "\n")
    found = embedded(report.build([runs / "flat"], data=False))["runs"][0]["curves"]
    assert found["accuracy"]["seeds"][0][found["accuracy"]["steps"].index(12)] is None


def test_unfinished_runs(runs):
    seed = runs / "flat" / "seed-0"
    for name in ("result.json", "model.safetensors"):
        (seed / name).unlink()
    page = report.build([runs / "flat"])
    assert "so far, at step 30 of 30" in page
    assert "Features in the plane" in page  # from the newest checkpoint
    shutil.rmtree(seed / "checkpoints")
    assert "has no network yet" in report.build([runs / "flat"])
    (seed / "log.jsonl").write_text("")
    assert "has no network yet" in report.build([runs / "flat"])


def test_an_incomplete_last_line_of_the_log_is_ignored(runs):
    with open(runs / "flat" / "seed-0" / "log.jsonl", "a") as file:
        file.write('{"step": 31, "lo')
    assert report.write(runs / "flat").exists()


def test_a_log_that_was_edited_is_not_reported_without_a_word(runs, capsys, caplog):
    seed = runs / "plain" / "seed-1"
    lines = (seed / "log.jsonl").read_text().splitlines(keepends=True)
    changed = json.dumps(json.loads(lines[0]) | {"loss": 0.001}) + "\n"
    page = runs / "page.html"
    for edited, how in (
        ([changed, *lines[1:]], "some of its numbers have changed"),
        (lines[1:], f"it has {len(lines) - 1} lines, not {len(lines)}"),
    ):
        (seed / "log.jsonl").write_text("".join(edited))
        caplog.clear()
        assert main(["report", str(runs / "plain"), "--logs-only", "--out", str(page), "--force"]) == 0
        told = f"{seed / 'log.jsonl'} is not what was written: {how} since the training ended"
        assert told in page.read_text()
        assert [told in record.getMessage() for record in caplog.records] == [True]  # which goes to stderr
    manifest = seed / "manifest.json"
    known = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({name: value for name, value in known.items() if name not in ("log", "log_lines")}))
    assert "is not what was written" not in report.build([runs / "plain"], data=False)  # of an earlier version
    (seed / "log.jsonl").write_text("".join(lines))
    manifest.write_text(json.dumps(known))
    assert "is not what was written" not in report.build([runs / "plain"], data=False)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda run: shutil.rmtree(run), "runs/flat"),
        (lambda run: (run / "config.json").unlink(), "config.json"),
        (lambda run: (run / "config.json").write_text("{"), "config.json"),
        (lambda run: (run / "seed-0" / "log.jsonl").write_text('{"st\n{"step": 1}\n'), "log.jsonl"),
        (lambda run: (run / "seed-0" / "result.json").write_text("[]"), "result.json"),
        (lambda run: _cut(run / "seed-0" / "model.safetensors"), "model.safetensors"),
    ],
    ids=["missing", "foreign", "torn settings", "torn log", "foreign result", "torn network"],
)
def test_bad_runs_leave_everything_as_it_was(runs, damage, message, capsys):
    out = report.write(runs / "flat", runs / "kept.html")
    before = out.read_bytes()
    damage(runs / "flat")
    assert main(["report", str(runs / "flat"), "--out", str(out)]) == 2
    assert message in capsys.readouterr().err
    assert out.read_bytes() == before
    assert not list(runs.glob("*.tmp*"))


def test_bad_outputs(runs, capsys):
    run = str(runs / "flat")
    for out, message in ((runs, "is a folder"), (runs / "plain" / "config.json" / "x.html", "cannot be written")):
        assert main(["report", run, "--out", str(out), "--logs-only"]) == 2
        assert message in capsys.readouterr().err
    mine = runs / "mine.html"
    mine.write_text("my notes")
    assert main(["report", run, "--out", str(mine), "--logs-only"]) == 2
    assert "is not a report" in capsys.readouterr().err
    assert mine.read_text() == "my notes"
    assert main(["report", run, "--out", str(mine), "--logs-only", "--force"]) == 0
    assert main(["report", run, "--out", str(mine), "--logs-only"]) == 0  # a report may be replaced
    assert main(["report", run, "--out", str(runs / "new" / "folder" / "r.html"), "--logs-only"]) == 0


def test_the_same_run_twice(runs, capsys):
    assert main(["report", str(runs / "flat"), f"{runs}/./flat"]) == 2
    assert "is named twice" in capsys.readouterr().err
    with pytest.raises(ValueError, match="device='gpu9'"):
        report.build([runs / "flat"], device="gpu9")
    with pytest.raises(ValueError, match="no run folder was named"):
        report.write([])


def test_evil_names_stay_text(runs, monkeypatch):
    evil = "</script><script>alert(1)</script>"
    found = outputs(40, 4, names=(evil, "<img src=x onerror=alert(1)>", "a&b", '"quoted"'))
    monkeypatch.setattr(Candidate, "outputs", found)
    page = report.build([runs / "flat"])
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert page.count("</script>") == 2
    assert evil in embedded(page)["runs"][0]["sphere"]["classes"]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems keep names as text")
def test_a_folder_whose_name_is_not_text_has_a_report(runs):
    folder = Path(os.fsdecode(os.fsencode(runs) + b"/gr\xfcn"))
    shutil.copytree(runs / "flat", folder)
    assert r"gr\udcfcn" in report.write(folder, data=False).read_text()


def test_size_of_cifar_like_data(runs, monkeypatch):
    """Several runs with incompressible pictures and 100 classes stay under the limit, with less detail."""
    found = outputs(2100, 100, 64, (3, 32, 32))
    monkeypatch.setattr(page_module, "evaluate_subject", lambda *args, **options: Findings(0, found=found))
    one = report.build([runs / "flat"])
    assert 2e5 < len(one) < 1.3e6
    names = [shutil.copytree(runs / "flat", runs / f"copy{i}") for i in range(3)]
    monkeypatch.setattr(page_module, "LIMIT", 1_000_000)
    many = report.build(names)
    assert len(many.encode()) < 1_000_000
    assert len(embedded(many)["runs"][0]["sphere"]["labels"]) < 2000
    monkeypatch.setattr(page_module, "LIMIT", 1000)
    with pytest.raises(ValueError, match="report on fewer at once"):
        report.build(names[:2])


# Open sets ----------------------------------------------------------------------------------------------


def test_verification_is_that_of_training():
    found, source = verified()
    pairs = data.make_pairs(source.labels, 5, 20)
    expected = metrics.verify_pairs(source.inputs, pairs)
    assert found.result.accuracy == expected.accuracy
    roc = roc_view(found.result.roc.fpr, found.result.roc.tpr, 40)
    assert (roc["far"][0], roc["tar"][0], roc["far"][-1], roc["tar"][-1]) == (0, 0, 100, 100)
    assert roc["far"] == sorted(roc["far"])
    assert len(roc["far"]) == len(roc["tar"])
    images = torch.zeros(300, 1, 4, 4, dtype=torch.uint8)
    same, different = hardest_pairs(found, images, tuple(map(str, range(30))), 3)
    cosines = torch.cosine_similarity(source.inputs[pairs.left], source.inputs[pairs.right])
    lowest, highest = cosines[pairs.same].min(), cosines[~pairs.same].max()
    assert same[0].degrees == pytest.approx(float(lowest.acos().rad2deg()), abs=1e-3)
    assert different[0].degrees == pytest.approx(float(highest.acos().rad2deg()), abs=1e-3)
    assert same[0].classes[0] == same[0].classes[1]
    assert different[0].classes[0] != different[0].classes[1]


def test_open_set_page(runs, monkeypatch):
    found, _ = verified()
    look = Findings(0, found=outputs(300, 30, 6, logits=None, class_vectors=None), verified=found)
    monkeypatch.setattr(page_module, "evaluate_subject", lambda *args, **options: look)
    _edit(runs / "flat" / "config.json", evaluation={"protocol": "verification"})
    page = report.build([runs / "flat"])
    assert ">Confusion</h2>" not in page
    assert "Two classes, closest together" in page
    assert f"{100 * found.result.accuracy:.2f} ± {100 * found.result.std:.2f}" in page
    assert "Verification accuracy" in page
    assert embedded(page)["runs"][0]["rocs"][0]["tar"][-1] == 100


def _edit(path, **changes):
    content = json.loads(path.read_text())
    for name, value in changes.items():
        if isinstance(value, dict) and isinstance(content.get(name), dict):
            content[name] |= value
        else:
            content[name] = value
    path.write_text(json.dumps(content))
    for manifest in next(one for one in path.parents if one.name == "flat").rglob("manifest.json"):
        manifest.unlink()  # it would say that this is not what training wrote


def _cut(path):
    path.write_bytes(path.read_bytes()[:200])
