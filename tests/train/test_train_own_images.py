"""hypersphere train faces --data.root DIR: one's own images from the command line to the report."""

import csv
import json
import shutil
from dataclasses import replace

import pytest
import torch
from PIL import Image

import hypersphere as hs
from hypersphere.cli import main
from hypersphere.config import Config, with_values
from hypersphere.data.folder import UnreadableImage
from hypersphere.evaluation import candidate_of
from hypersphere.losses import fitting_margin, fitting_scale
from hypersphere.runs import Facts, Run, SeedFolder
from hypersphere.sources import as_evaluated, as_split, evaluation_source, make_source
from hypersphere.train import own_images

FAST = """--data.image-size 16 --data.resize 20 --data.batch-size 16 --data.pad 1 --data.workers 0 --model.name cnn3
--model.widths 4,4,4 --model.feature-dim 8 --schedule.steps 6 --schedule.milestones none --schedule.warmup 0
--run.eval-every 3 --run.checkpoint-every 3 --run.log-every 1 --run.device cpu --run.progress plain
--run.tensorboard no"""


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    root = tmp_path_factory.mktemp("pictures")
    generator = torch.Generator().manual_seed(0)
    for number in range(10):
        folder = root / f"class {number}"
        folder.mkdir()
        for image in range(8):
            noise = torch.randint(0, 60, (14 + image, 12, 3), generator=generator, dtype=torch.uint8)
            noise[..., number % 3] += number * 15
            Image.fromarray(noise.numpy()).save(folder / f"{image}.{'png' if image % 2 else 'jpg'}")
    (root / "class 0" / "broken.png").write_bytes(b"no image")
    return root


def train(recipe, root, folder, *words):
    place = ["--data.root", str(root), "--run.folder", str(folder)]
    return main(["train", recipe, *FAST.split(), *place, *words])


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        ("faces", "--data.held-out 0.5 --evaluation.folds 2 --evaluation.pairs 4 --loss.warmup 2"),
        ("products", "--data.held-out 0.5 --evaluation.folds 2 --evaluation.pairs 4"),
        ("few_shot", "--data.held-out 0.6 --evaluation.ways 3 --evaluation.shots 1 --evaluation.episodes 4"),
        ("classify", "--model.feature-dim 8"),
    ],
)
def test_the_recipes_train_on_a_folder(recipe, words, pictures, tmp_path, capsys):
    assert train(recipe, pictures, tmp_path, *words.split()) == 0
    said = capsys.readouterr()
    run = tmp_path / f"{recipe}.own"
    assert ("  retrieval: map " in said.out) == (recipe == "products")
    assert f"`hypersphere report {run}`" in said.out
    assert "1 file cannot be read and is left out, the first is class 0/broken.png" in said.out + said.err
    assert "broken.png" in (run / "seed-0" / "unreadable.txt").read_text()
    rows = list(csv.DictReader((run / "seed-0" / "split.csv").open()))
    assert len(rows) == 80
    trained = {row["label"] for row in rows if row["split"] == "train"}
    tested = {row["label"] for row in rows if row["split"] == "test"}
    assert bool(trained & tested) == (recipe == "classify")
    assert main(["evaluate", str(run)]) == 0
    assert main(["report", str(run), "--out", str(tmp_path / "report.html")]) == 0


def test_own_pairs_of_a_trained_network_and_their_report(pictures, tmp_path, capsys):
    """`evaluate RUN --pairs pairs.txt`: the images are found, resized as in training, and shown in the report."""
    words = "--data.held-out 0.5 --evaluation.folds 2 --evaluation.pairs 4"
    assert train("faces", pictures, tmp_path, *words.split()) == 0
    listing, run = tmp_path / "pairs.txt", tmp_path / "faces.own"
    lines = [f"class {n}/{a}.png, class {n + d}/{a + 2}.png, {1 - d}" for n in range(4) for a in (1, 3) for d in (0, 1)]
    listing.write_text("\n".join(lines))
    capsys.readouterr()
    assert main(["evaluate", str(run), "--pairs", str(listing)]) == 0
    said = capsys.readouterr().out
    assert main(["evaluate", str(run), "--pairs", str(listing), "--json"]) == 0
    out = capsys.readouterr().out
    found = json.loads(out[out.index("{\n") :])
    assert found["data"] == str(pictures)
    assert (found["verification"]["pairs"], found["verification"]["folds"]) == (16, 2)
    assert found["verification"]["flip"]  # as the recipe evaluates
    assert {pair["same"] for pair in found["hardest"]} == {True, False}
    rows = [line.split(",") for line in (run / "seed-0" / "split.csv").read_text().splitlines()]
    listed = {name.strip() for line in lines for name in line.split(",")[:2]}
    assert found["trained_on"] == sorted(path for path, _, part in rows if part == "train" and path in listed)
    told = f"{len(found['trained_on'])} of the {len(listed)} listed images were trained on ({found['trained_on'][0]}, "
    assert f"warning: {told}" in said
    assert told in found["warning"]
    shown = hs.embed(
        hs.load(run),
        hs.data.images.decode_all([pictures / found["hardest"][0][side] for side in ("left", "right")], size=(16, 16)),
        flip=True,
    )
    angle = torch.nn.functional.cosine_similarity(*shown, dim=0).double().clamp(-1, 1).acos().rad2deg()
    assert found["hardest"][0]["degrees"] == pytest.approx(float(angle), abs=0.05)
    assert main(["report", str(run), "--out", str(tmp_path / "report.html")]) == 0
    page = (tmp_path / "report.html").read_text()
    assert "Your own pairs" in page
    assert "16 pairs of pairs.txt in 2 folds" in page
    assert told in page
    assert '"name":"pairs.txt","far":[0.0' in page
    assert main(["export", str(run), "--formats", "safetensors", "--embedding", "--samples", "4"]) == 0
    card = (run / "seed-0" / "export" / "README.md").read_text()
    assert "scaled until they cover 16×16 pixels" in card
    threshold = json.loads((run / "result.json").read_text())["seeds"][0]["metrics"]["threshold"]
    assert f"threshold = {threshold:.4f}" in card
    assert "of features of image and mirror side by side" in card


def test_large_sets_are_streamed_to_the_same_split(pictures, tmp_path, capsys):
    options = "--model.feature-dim 8 --data.resident 0"
    assert train("classify", pictures, tmp_path / "stream", *options.split()) == 0
    assert train("classify", pictures, tmp_path / "device", "--model.feature-dim", "8") == 0
    one, two = (
        (tmp_path / name / "classify.own" / "seed-0" / "split.csv").read_text() for name in ("stream", "device")
    )
    assert one == two
    seed = tmp_path / "device" / "classify.own" / "seed-0"
    (seed / "result.json").unlink()  # as if it had been stopped at its last checkpoint
    (pictures / "class 1" / "9.png").write_bytes((pictures / "class 1" / "1.png").read_bytes())
    try:
        assert train("classify", pictures, tmp_path / "device", "--model.feature-dim", "8") == 2
    finally:
        (pictures / "class 1" / "9.png").unlink()
    assert "are not those that" in capsys.readouterr().err
    assert train("classify", pictures, tmp_path / "device", "--model.feature-dim", "8") == 0
    _leaves_out_what_turns_out_damaged(pictures, tmp_path / "stream", options.split(), capsys)


def _leaves_out_what_turns_out_damaged(pictures, folder, options, capsys):
    """A file that is damaged behind its header stops a streamed training once; then it goes on, file or no file."""
    seed = folder / "classify.own" / "seed-0"
    before = list(csv.DictReader((seed / "split.csv").open()))
    name = next(row["path"] for row in before if row["split"] == "test" and row["path"].endswith(".png"))
    whole = (pictures / name).read_bytes()
    (pictures / name).write_bytes(whole[:60] + bytes(20) + whole[80:])
    (seed / "result.json").unlink()
    shutil.rmtree(seed / "checkpoints" / "step-00000006")
    capsys.readouterr()
    try:
        assert train("classify", pictures, folder, *options) == 2
        assert "damaged.txt: give the same command again to continue without it" in capsys.readouterr().err
        (pictures / name).unlink()
        assert train("classify", pictures, folder, *options) == 0
        said = capsys.readouterr()
        assert "1 left out since (in " in said.out + said.err
        assert list(csv.DictReader((seed / "split.csv").open())) == [row for row in before if row["path"] != name]
        assert candidate_of(Run(folder / "classify.own")).source.own.pictures[-1].path == before[-1]["path"]
        (pictures / name).write_bytes(whole[:60] + bytes(20) + whole[80:])
        first = [*options, "--run.name", "first"]  # before there is a checkpoint, too
        assert train("classify", pictures, folder, *first, "--run.checkpoint-every", "1000") == 2
        assert not list((folder / "first" / "seed-0" / "checkpoints").iterdir())
        others = shutil.copytree(pictures, folder / "others")
        shutil.copyfile(pictures / before[1]["path"], others / before[0]["path"])
        assert train("classify", others, folder, *first, "--run.checkpoint-every", "1000") == 2
        assert f"was started with the images in {pictures}; 1 of these are" in capsys.readouterr().err
        assert train("classify", pictures, folder, *first, "--run.checkpoint-every", "1000") == 0
        rows = list(csv.DictReader((folder / "first" / "seed-0" / "split.csv").open()))
        assert rows == [row for row in before if row["path"] != name]
    finally:
        (pictures / name).write_bytes(whole)


def test_a_split_is_known_again_and_other_sets_are_not_noted(tmp_path, monkeypatch):
    for name in (" a", "b "):  # blanks, as tables do not keep them
        for image in range(5):
            (tmp_path / "own" / name).mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 8)).save(tmp_path / "own" / name / f"{image}.png")
    own, folder = hs.data.load("folder", tmp_path / "own"), SeedFolder(tmp_path, 0)
    folder.path.mkdir()
    own_images.describe(own, Config(), folder)
    monkeypatch.setattr(SeedFolder, "latest", lambda self: self.path)
    own_images.describe(own, Config(), folder)
    other = UnreadableImage("lfw/1.jpg", "lfw/1.jpg is damaged")
    assert own_images.note(other, own, folder) == str(other)
    assert not folder.damaged.exists()
    assert "damaged.txt" in own_images.note(UnreadableImage(own.train.files[0], "why"), own, folder)
    alone = replace(own, pictures=tuple(p for p in own.pictures if p.label != "b " or p.path == "b /0.png"))
    told = own_images.note(UnreadableImage(str(tmp_path / "own" / "b " / "0.png"), "why"), alone, folder)
    assert "the only image of class 'b ' to train on" in told  # without it the network would be another

    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "own" / "list.csv").write_text("path,label\n")
    folder.damaged.unlink()
    for root, table, lost in (("~/own", "list.csv", False), ("~/own", "gone.csv", True)):
        config = with_values(Config(), {"data.root": root, "data.table": table})
        assert as_split(config, folder).data.table == (str(folder.split) if lost else table)

    config = with_values(Config(), {"data.name": "folder", "data.root": str(tmp_path / "own")})
    for name in (" a", "b "):
        (tmp_path / "own" / name).rename(tmp_path / "own" / name.strip())
    own = hs.data.load("folder", tmp_path / "own")
    hs.data.write_table(folder.split, own.pictures)
    assert as_split(config, folder) == config  # it has not ended: whether the images are still the same is looked at
    (folder.path / "result.json").write_text("{}")
    for image in range(5, 20):  # later ones
        shutil.copy(tmp_path / "own" / "a" / "0.png", tmp_path / "own" / "a" / f"{image}.png")
    again = make_source(replace(as_evaluated(config, folder).data, image_size=8, batch_size=1), 0, torch.device("cpu"))
    assert again.own.pictures == own.pictures
    moved = with_values(config, {"data.root": str(tmp_path / "elsewhere")})
    assert as_evaluated(moved, folder) == moved


def test_no_image_that_was_trained_on_is_tested(tmp_path, caplog):
    """Whatever became of the folder since, and whether the training ended or not."""
    root, folder = tmp_path / "own", SeedFolder(tmp_path / "run", 0)
    for name in (" a", "b\nb"):
        (root / name).mkdir(parents=True)
        for image in range(10):
            Image.new("RGB", (8, 8)).save(root / name / f"{image}.png")
    own = hs.data.load("folder", root, held_out=0.3)
    folder.path.mkdir(parents=True)
    hs.data.write_table(folder.split, own.pictures)
    config = with_values(Config(), {"data.name": "folder", "data.root": str(root), "data.held_out": 0.3})

    def tested():
        settings = replace(as_evaluated(config, folder).data, image_size=8, batch_size=1)
        return {p.path for p in make_source(settings, 0, torch.device("cpu")).own.pictures if p.split == "test"}

    before = {p.path for p in own.pictures if p.split == "test"}
    assert tested() == before
    assert not caplog.records
    for name in (" a", "b\nb"):
        for image in range(10, 40):
            shutil.copy(root / name / "0.png", root / name / f"{image}.png")
    assert tested() == before
    for path in sorted(before)[:-1]:
        (root / path).unlink()
    assert tested() == {max(before)}
    assert "of the 20 images of" in caplog.text
    (root / max(before)).unlink()
    with pytest.raises(ValueError, match="no images in 'test'"):
        tested()
    for path in sorted({p.path for p in own.pictures} - before)[1:]:
        (root / path).unlink()
    with pytest.raises(FileNotFoundError, match=r"19 of the 20 images of .* name the folder of the run's own images"):
        tested()
    elsewhere = with_values(config, {"data.root": str(tmp_path / "another")})
    assert as_evaluated(elsewhere, folder) == elsewhere  # none of its images: another set


def test_images_of_a_table_are_found_without_class_folders(pictures, tmp_path, capsys):
    """Report and export look for them as the run has listed them; a report tells of runs whose images are gone."""
    root = tmp_path / "flat"
    root.mkdir()
    rows = []
    for path in sorted(pictures.glob("class [0-4]/[0-7].*")):
        rows.append(f"{path.parent.name[-1]}{path.name},{path.parent.name}\n")
        shutil.copyfile(path, root / rows[-1].partition(",")[0])
    (root / "list.csv").write_text("".join(["path,label\n", *rows]))
    words = ["--data.table", "list.csv", "--model.feature-dim", "8"]
    assert train("classify", root, tmp_path, *words) == 0
    run, page = str(tmp_path / "classify.own"), tmp_path / "page.html"
    report, export = ["report", run, "--out", str(page)], ["export", run, "--formats", "safetensors", "--force"]
    capsys.readouterr()
    assert main(export) == 0
    assert "test images of folder" in capsys.readouterr().out
    assert main(report) == 0
    assert "could not be read" not in page.read_text()
    for row in rows[:-2]:
        (root / row.partition(",")[0]).unlink()
    assert main(report) == 0
    assert "38 of the 40 images of" in page.read_text()
    shutil.rmtree(root)
    root.mkdir()
    (root / "list.csv").write_text("".join(["path,label\n", *rows]))
    assert main(export) == 0
    assert "random inputs, because folder was not found here" in capsys.readouterr().out


def test_any_recipe_takes_a_folder_and_mistakes_come_before_training(pictures, tmp_path, capsys):
    words = "--data.name folder --model.feature-dim 8 --optim.clip 1"
    assert train("digits.cnn", pictures, tmp_path, *words.split()) == 0
    capsys.readouterr()
    assert train("faces", pictures, tmp_path, "--data.held-out", "0.3", "--evaluation.folds", "10") == 2
    assert "folds" in capsys.readouterr().err
    assert not list((tmp_path / "faces.own").glob("seed-0/log.jsonl"))
    streamed = ("--data.held-out", "0.3", "--data.resident", "0")
    for recipe, words, message in (
        ("faces", ("--evaluation.folds", "10", *streamed), "folds"),
        ("few_shot", ("--evaluation.ways", "5", *streamed), "lower --evaluation.ways"),
        ("few_shot", ("--evaluation.queries", "9", *streamed), "0 of the 3 classes that are held out have the 14"),
        ("faces", ("--data.held-out", "0.9", "--evaluation.folds", "2"), "has one class to train on"),
        (
            "open.lfw.arcface",
            ("--data.name", "folder"),
            "never saw, and data.split=image holds out images of every class",
        ),
        ("classify", ("--data.batch-size", "999"), "images to train on: give --data.batch-size"),
        ("classify", ("--data.shrink", "2"), "data.shrink=2 is for a set of images of one size"),
        ("products", ("--data.validate", "yes"), "data.validate=True is for an open set"),
        ("classify", ("--data.vflip", "yes", "--data.resident", "0"), "leave it out, or raise --data.resident"),
    ):
        assert train(recipe, pictures, tmp_path / "early", *words) == 2
        assert message in capsys.readouterr().err
    assert not list((tmp_path / "early").rglob("log.jsonl"))
    settings = {"data.name": "folder", "data.root": str(pictures), "data.resident": 0.0, "data.vflip": True}
    earlier = with_values(Config(), settings)  # by a version that took vflip, and is evaluated without it anyway
    assert evaluation_source(earlier, Facts(2), 0, torch.device("cpu")).test_classes
    assert train("faces", tmp_path / "nowhere", tmp_path) == 2
    assert "nowhere is not a folder" in capsys.readouterr().err


def test_margin_and_scale_follow_the_number_of_classes():
    for classes in (2, 10, 1000, 100_000):
        scale = fitting_scale(classes)
        assert scale >= 2**0.5 * torch.tensor(classes - 1.0).log()  # AdaCos
        logits = torch.full((classes,), -scale / max(classes - 1, 1))
        logits[0] = scale
        assert logits.softmax(0)[0] > 0.999
        assert 0.2 <= fitting_margin(classes) <= 0.5
    head = hs.losses.ArcFace(4, 10, fitting_margin(10), scale=fitting_scale(10))
    head(torch.randn(3, 4), torch.tensor([0, 1, 2])).backward()


def test_what_fits_is_in_the_run(pictures, tmp_path):
    words = "--data.held-out 0.5 --evaluation.folds 2 --evaluation.pairs 4"
    assert train("faces", pictures, tmp_path, *words.split()) == 0
    config = json.loads((tmp_path / "faces.own" / "config.json").read_text())
    assert config["loss"]["fitting"]
    head = hs.load(tmp_path / "faces.own").head
    assert head.scale == pytest.approx(fitting_scale(5))
    assert head.margin == pytest.approx(fitting_margin(5))


def test_a_collapsed_margin_warns_with_its_cause(pictures, tmp_path, capsys, monkeypatch):
    """Everything that is learned points in one direction: the warning, its file and the report name the margin."""
    monkeypatch.setattr("hypersphere.train.collapse.EARLIEST", 3)
    monkeypatch.setattr("hypersphere.train.training.mean_length", lambda features: 0.999)
    monkeypatch.setattr("hypersphere.train.collapse.Collapse.at_chance", property(lambda signs: signs.step >= 3))
    words = "--data.held-out 0.5 --evaluation.folds 2 --evaluation.pairs 4 --loss.fitting no --loss.margin 0.9"
    assert train("faces", pictures, tmp_path, *words.split(), "--loss.warmup", "2") == 0
    said = capsys.readouterr().out
    assert said.count("the margin has collapsed; the margin 0.9 is more than this network can follow") == 1
    assert "a smaller --loss.margin, e.g. 0.27" in (tmp_path / "faces.own" / "seed-0" / "warnings.txt").read_text()
    result = json.loads((tmp_path / "faces.own" / "seed-0" / "result.json").read_text())
    assert "the margin has collapsed" in result["warning"]
    assert 0 <= result["train_accuracy"] <= 100
    assert 0 < result["metrics"]["mean_length"] <= 1
    assert main(["report", str(tmp_path / "faces.own"), "--logs-only", "--out", str(tmp_path / "page.html")]) == 0
    assert "the margin has collapsed" in (tmp_path / "page.html").read_text()


def test_another_folder_of_images_is_another_run(pictures, tmp_path, capsys):
    """Also where names and sizes are the same; a copy is not another one."""
    first, copied = tmp_path / "first", tmp_path / "copied"
    shutil.copytree(pictures, first)
    shutil.copytree(pictures, copied)
    assert train("classify", first, tmp_path) == 0
    assert train("classify", copied, tmp_path) == 0
    (path,) = tmp_path.glob("*/config.json")
    before = path.read_text()
    one = first / "class 0" / "0.jpg"
    one.write_bytes(bytes(reversed(one.read_bytes())))
    capsys.readouterr()
    assert train("classify", first, tmp_path) == 2
    said = capsys.readouterr().err
    assert f"was started with the images in {copied}; 1 of these are missing or different in {first}" in said
    assert path.read_text() == before
    shutil.rmtree(copied)  # nothing is left to compare with
    assert train("classify", first, tmp_path) == 0
    shutil.rmtree(first / "class 9")
    assert main(["evaluate", str(path.parent), "--parts", "classification"]) == 2
    assert "are of other classes than the network was trained on: class 0, class 1" in capsys.readouterr().err


def test_a_network_trained_on_another_folder_is_another_one_to_attack_by(pictures, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(pictures.parent)
    others = shutil.copytree(pictures, tmp_path / "others")
    (others / "class 0" / "0.jpg").unlink()
    assert train("classify", others, tmp_path, "--run.name", "source") == 0
    attacked = ["--adversarial.source", "source", "--evaluation.also", "fgsm_transfer", "--run.name"]
    assert train("classify", pictures, tmp_path, *attacked, "attacked") == 0
    assert train("classify", pictures.name, tmp_path, "--run.name", "relative") == 0
    attacked[1] = "relative"
    assert train("classify", pictures, tmp_path, *attacked, "itself") == 2
    assert "is the same training from the same seed" in capsys.readouterr().err


def test_the_seeds_of_a_run_see_the_same_images(pictures, tmp_path, capsys):
    """A further seed is compared with those that have begun, not only with itself."""
    root = tmp_path / "own"
    shutil.copytree(pictures, root)
    assert train("classify", root, tmp_path) == 0
    run = tmp_path / "classify.own"
    shutil.copytree(root / "class 9", root / "class 10")
    capsys.readouterr()
    assert train("classify", root, tmp_path, "--run.seeds", "0,1") == 2
    said = capsys.readouterr().err
    assert f"the images in {root} are not those that {run / 'seed-0'} was started with: 8 differ" in said
    assert "class 10/0.jpg" in said
    assert not (run / "seed-1" / "split.csv").exists()
    shutil.rmtree(root / "class 10")
    (run / "seed-0" / "damaged.txt").write_text("class 3/1.png: damaged\n")  # which only seed 0 has come to
    own_images.settle(SeedFolder(run, 0))
    assert train("classify", root, tmp_path, "--run.seeds", "0,1") == 0
    assert len(json.loads((run / "result.json").read_text())["seeds"]) == 2
