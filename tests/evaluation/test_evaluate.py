"""``hypersphere evaluate``: the numbers, the user's own pairs, and what goes wrong with exit code 2."""

import json
import shutil
from dataclasses import replace

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from sklearn.metrics import average_precision_score, confusion_matrix, roc_auc_score

import hypersphere as hs
from hypersphere import evaluation
from hypersphere.cli import main
from hypersphere.evaluation import candidate_of, evaluate, find, outputs_of
from hypersphere.train import (
    Config,
    DataConfig,
    LossConfig,
    ModelConfig,
    Run,
    RunConfig,
    ScheduleConfig,
    run,
    with_values,
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    config = Config(
        recipe="small",
        data=DataConfig(name="digits", batch_size=64),
        model=ModelConfig(name="cnn3", widths="8,8,8", feature_dim=16, conv="sphere"),
        loss=LossConfig(name="w_softmax"),
        schedule=ScheduleConfig(steps=60, milestones=()),
        run=RunConfig(folder=str(folder), device="cpu", eval_every=60, progress="off", tensorboard=False),
    )
    run(config)
    return folder / "small"


@pytest.fixture
def copy(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "small", ignore=shutil.ignore_patterns("evaluation*"))


def evaluated(path, *words):
    assert main(["evaluate", str(path), *words]) == 0
    return json.loads((path / "seed-0" / "evaluation.json").read_text())


def test_paths_and_one_name_are_enough(trained):
    found = evaluate(str(trained), parts="classification")
    assert found["classification"] == evaluate(Run(trained), parts=["classification"])["classification"]
    assert torch.equal(outputs_of(trained / "seed-0").logits, outputs_of(Run(trained)).logits)
    with pytest.raises(ValueError, match="parts='accuracies' is unknown"):
        evaluate(trained, parts="accuracies")


def test_classification_is_what_the_run_measured_and_sklearn_says(trained, capsys):
    found = evaluated(trained)
    seen = outputs_of(Run(trained))
    predicted = seen.logits.argmax(1)
    part = found["classification"]
    assert part["accuracy"] == pytest.approx(Run(trained).result()["final_accuracy"])
    assert part["confusion"] == confusion_matrix(seen.labels, predicted).tolist()
    for number, row in enumerate(part["classes"]):
        own = seen.labels == number
        assert row["error"] == pytest.approx(100 * float((predicted[own] != number).float().mean()), abs=1e-4)
    unit = torch.nn.functional.normalize
    cosines = unit(seen.features) @ unit(seen.class_vectors).T
    expected = torch.stack([cosines[seen.labels == number].mean(0) for number in range(10)])
    torch.testing.assert_close(torch.tensor(part["cosine_confusion"]), expected, rtol=1e-4, atol=1e-5)
    hardness = hs.metrics.angular_visual_hardness(seen.features, seen.class_vectors, seen.labels)
    assert found["hardness"]["hardest"][0]["sample"] == int(hardness.argmax())
    assert set(found["energy"]["layers"]) >= {"body.conv1.0.op.weight"}
    text = capsys.readouterr().out
    assert "most errors" in text
    assert "hardest" in text


def test_open_set_protocols_on_any_run(trained):
    found = evaluated(trained, "--parts", "verification,retrieval,identification,gallery,fgsm", "--flip")
    seen = outputs_of(Run(trained))
    unit = torch.nn.functional.normalize(seen.features)
    scores = unit @ unit.T
    precisions = []
    for row in range(len(seen)):
        others = torch.arange(len(seen)) != row
        precisions.append(average_precision_score(seen.labels[others] == seen.labels[row], scores[row][others]))
    assert found["retrieval"]["map"] == pytest.approx(100 * sum(precisions) / len(precisions), abs=0.02)
    both = torch.nn.functional.normalize(hs.embed(hs.load(trained), hs.data.load("digits").test.images, flip=True))
    apart = (both @ both.T).fill_diagonal_(-2)  # each sample among all others; of this protocol --flip is a setting
    nearest = (seen.labels[apart.argmax(1)] == seen.labels).float().mean()
    assert found["identification"]["rank1"] == pytest.approx(100 * float(nearest), abs=1e-3)
    assert found["gallery"]["gallery"] == 10
    first = torch.stack([(seen.labels == number).nonzero()[0, 0] for number in range(10)])
    probes = torch.tensor([row for row in range(len(seen)) if row not in set(first.tolist())])
    rank1 = (scores[probes][:, first].argmax(1) == seen.labels[probes]).float().mean()
    assert found["gallery"]["gallery_rank1"] == pytest.approx(100 * float(rank1), abs=1e-3)
    assert 50 < found["verification"]["accuracy"] <= 100
    assert found["fgsm"]["fgsm_accuracy"] < 100


def test_own_pairs(trained, tmp_path, capsys):
    test = hs.data.load("digits").test
    for number in range(40):
        Image.fromarray(test.images[number, 0].numpy()).save(tmp_path / f"{number}.png")
    rows = [(a, a + 20, int(test.labels[a] == test.labels[a + 20])) for a in range(20)]
    rows += [(a, b, 1) for a in range(20) for b in range(a + 1, 40) if test.labels[a] == test.labels[b]][:20]
    listing = tmp_path / "pairs.txt"
    listing.write_text("# left right same\n" + "\n".join(f"{a}.png {b}.png {same}" for a, b, same in rows))
    assert (
        main(["evaluate", str(trained), "--pairs", str(listing), "--images", str(tmp_path), "--no-flip", "--json"]) == 0
    )
    found = json.loads(capsys.readouterr().out)
    features = hs.embed(hs.load(trained), test.images[:40])
    cosines = torch.nn.functional.cosine_similarity(
        features[[a for a, _, _ in rows]], features[[b for _, b, _ in rows]]
    )
    expected = roc_auc_score([same for *_, same in rows], cosines)
    assert found["verification"]["auc"] == pytest.approx(100 * expected, abs=1e-3)


def test_batches_are_as_large_as_asked(copy, monkeypatch):
    whole = evaluated(copy, "--parts", "classification")["classification"]
    sizes, call = [], torch.nn.Module.__call__

    def spy(self, *args, **options):
        if args and isinstance(args[0], torch.Tensor) and args[0].dim() == 4:
            sizes.append(len(args[0]))
        return call(self, *args, **options)

    monkeypatch.setattr(torch.nn.Module, "__call__", spy)
    part = evaluated(copy, "--parts", "classification", "--batch-size", "50")["classification"]
    assert max(sizes) == 50
    assert part["confusion"] == whole["confusion"]


@pytest.mark.parametrize("batch_size", ["0", "-3"])
def test_batches_of_nothing_are_refused(trained, capsys, batch_size):
    assert main(["evaluate", str(trained), "--batch-size", batch_size]) == 2
    assert f"batch_size={batch_size} must be at least 1" in capsys.readouterr().err


BAD_LISTS = {
    "missing": ("0.png 99.png 1\n0.png 1.png 0", "names 99.png, which"),
    "words": ("0.png 1.png maybe", "line 1: '0.png 1.png maybe' is not"),
    "empty": ("# nothing\n", "names no pairs"),
    "one kind": ("0.png 1.png 1\n1.png 0.png 1", "has 2 pairs of one class and 0 of two"),
}


@pytest.mark.parametrize("case", BAD_LISTS)
def test_bad_pairs_are_named(copy, tmp_path, capsys, case):
    content, message = BAD_LISTS[case]
    for number in range(2):
        Image.new("L", (8, 8), 100 * number).save(tmp_path / f"{number}.png")
    (tmp_path / "pairs.txt").write_text(content)
    words = ["evaluate", str(copy), "--pairs", str(tmp_path / "pairs.txt"), "--images", str(tmp_path)]
    assert main(words) == 2
    assert message in capsys.readouterr().err
    assert not (copy / "seed-0" / "evaluation-pairs.json").exists()


def test_pairs_of_another_size(trained, tmp_path, capsys):
    Image.new("L", (9, 8)).save(tmp_path / "a.png")
    (tmp_path / "pairs.txt").write_text("a.png a.png 1\n")
    assert main(["evaluate", str(trained), "--pairs", str(tmp_path / "pairs.txt"), "--images", str(tmp_path)]) == 2
    assert "8×9, but the network takes 8×8" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--parts", "clasification"], "did you mean 'classification'"),
        (["--seed", "7"], "has no seed 7"),
        (["--device", "foo"], "device='foo' cannot be used here"),
        (["--device", "meta"], "device='meta' cannot be used here"),
        (["--images", "x"], "give the list with --pairs"),
        (["--pairs", "x"], "x is not a file"),
        (["--parts", "fgsm_transfer"], "--adversarial.source"),
        (["--pairs", "x", "--parts", "energy"], "give --parts and --inception in another command"),
        (["--parts", ","], "--parts names no measurement"),
        (["--flip"], "flip=True changes nothing in classification, energy, hardness: it is for verification"),
        (["--parts", "few_shot", "--no-center"], "center=False changes nothing in few_shot"),
        (["--inception", "x.onnx"], "scores the images of a GAN, and"),
        (["--out", "nowhere/x.json"], "--out nowhere/x.json must be a file in a folder that exists"),
        (["--root", "nowhere", "--parts", "energy"], None),
    ],
)
def test_wrong_options_of_evaluate_end_with_exit_code_2(trained, capsys, words, message):
    before = (
        (trained / "seed-0" / "evaluation.json").read_bytes() if (trained / "seed-0/evaluation.json").exists() else None
    )
    code = main(["evaluate", str(trained), *words])
    assert code == (0 if message is None else 2)
    if message is not None:
        assert message in capsys.readouterr().err
        after = (trained / "seed-0/evaluation.json").read_bytes() if before is not None else None
        assert after == before


def test_parts_are_added_to_those_of_the_same_network(copy):
    first = evaluated(copy, "--parts", "top5,energy")
    assert evaluated(copy, "--parts", "top5,classes").keys() == {*first, "classes"}
    assert "energy" not in evaluated(copy, "--parts", "verification", "--flip")  # by other rules
    manifest = copy / "seed-0" / "manifest.json"
    manifest.write_text(manifest.read_text().replace(first["weights"], "0"))
    (copy / "seed-0" / "model.safetensors").unlink()  # the network of the last checkpoint
    assert evaluated(copy, "--parts", "top5").keys() == first.keys() - {"energy"}


def test_out_replaces_nothing_but_an_evaluation(copy, tmp_path, capsys):
    words, out = ["evaluate", str(copy), "--parts", "energy", "--out"], tmp_path / "mine.json"
    out.touch()  # as mktemp does
    assert main([*words, str(out)]) == main([*words, str(out)]) == 0
    (tmp_path / "notes.txt").write_text("mine")
    network = copy / "seed-0" / "model.json"  # whose pairs would be in model.safetensors
    for more, file in ((words, tmp_path / "notes.txt"), (words, copy / "config.json"), (["--pairs", "x"], network)):
        start = more if more is words else ["evaluate", str(copy), *more, "--out"]
        assert main([*start, str(file)]) == 2
        assert f"--out {file} would replace a file that no evaluation wrote" in capsys.readouterr().err
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_folder_that_cannot_be_written_is_said_before_the_work(trained, monkeypatch, capsys):
    monkeypatch.setattr("os.access", lambda path, mode: path != trained / "seed-0")
    monkeypatch.setattr("hypersphere.cli.evaluate.evaluate", None)
    assert main(["evaluate", str(trained)]) == 2
    assert "seed-0 does not allow it: name another file with --out" in capsys.readouterr().err


def test_foreign_and_damaged_folders(copy, tmp_path, capsys):
    (tmp_path / "other").mkdir()
    assert main(["evaluate", str(tmp_path / "other")]) == 2
    assert "is not a run folder" in capsys.readouterr().err
    assert main(["evaluate", str(tmp_path / "none")]) == 2
    assert "does not exist" in capsys.readouterr().err
    weights = copy / "seed-0" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-9])
    assert main(["evaluate", str(copy)]) == 2
    assert "model.safetensors" in capsys.readouterr().err


def test_features_that_are_not_finite(copy, capsys):
    path = copy / "seed-0" / "model.safetensors"
    tensors = load_file(path)
    name = next(name for name in tensors if name.endswith("fc.0.op.weight"))
    tensors[name] = torch.full_like(tensors[name], torch.nan)
    save_file(tensors, path)
    (copy / "seed-0" / "manifest.json").unlink()  # as if it had been trained so
    assert main(["evaluate", str(copy)]) == 2
    assert "not finite" in capsys.readouterr().err
    assert not (copy / "seed-0" / "evaluation.json").exists()


def test_hardness_is_left_out_where_a_class_has_several_vectors(trained, monkeypatch):
    candidate = candidate_of(Run(trained))
    hardness = find("hardness")
    hardness.check(candidate.config, candidate.source, candidate.team)
    for change in ({"loss.name": "subcenter_arcface"}, {"loss.name": "arcface", "loss.extra": {"sub_centers": 2}}):
        with pytest.raises(ValueError, match="one class vector for each test class"):
            hardness.check(with_values(candidate.config, change), candidate.source, candidate.team)
    monkeypatch.setattr("hypersphere.evaluation.candidate.class_vectors", lambda *_: None)
    found = evaluate(Run(trained))
    assert {"classification", "energy"} <= found.keys()
    assert "hardness" not in found


def test_one_class_in_the_test_set(trained, monkeypatch, capsys):
    digits = hs.data.load("digits")
    ones = replace(digits, test=digits.test.subset(digits.test.labels == 1))
    monkeypatch.setattr("hypersphere.data.load", lambda *_, **__: ones)
    found = evaluate(Run(trained))
    assert [row["name"] for row in found["classification"]["classes"]] == ["1"]
    for part, message in (("verification", "too few"), ("gallery", "two classes")):
        assert main(["evaluate", str(trained), "--parts", part]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("former", "name"), [("judge", "evaluate"), ("examine", "outputs_of"), ("judge_pairs", "evaluate_pairs")]
)
def test_names_of_before_go_on_working(former, name):
    with pytest.warns(DeprecationWarning, match=f"now evaluation.{name}"):
        assert getattr(evaluation, former) is getattr(evaluation, name)
    with pytest.raises(AttributeError, match="no attribute 'examined'"):
        _ = evaluation.examined
