"""One's own images: layouts, splits that stay, files that cannot be read."""

import csv
import hashlib
import os
import pickle
import shutil
import struct
import sys
import zlib
from pathlib import Path

import pytest
import torch
from PIL import EpsImagePlugin, Image

import hypersphere as hs
from hypersphere.config import DataConfig
from hypersphere.data import images as image_files
from hypersphere.data import list_images
from hypersphere.data.folder import UnreadableImage
from hypersphere.sources import make_source, training_moments


def paint(path, colour=(10, 20, 30), size=(12, 8), **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L" if isinstance(colour, int) else "RGB", size, colour).save(path, **options)


@pytest.fixture
def classes(tmp_path):
    for number, name in enumerate("abcde"):
        for image in range(10):
            paint(tmp_path / name / f"{image}.png", (number * 40, image * 20, 0), (8 + image, 6 + number))
    return tmp_path


def load(root, **options):
    return hs.data.load("folder", root, **options)


def members(tree, split):
    return {p.path for p in tree.pictures if p.split == split}


def test_split_by_image_holds_out_a_share_of_every_class(classes):
    tree = load(classes, held_out=0.3)
    assert tree.train.classes == tree.test.classes == tuple("abcde")
    assert torch.bincount(tree.test.labels).tolist() == [3] * 5
    assert torch.bincount(tree.train.labels).tolist() == [7] * 5
    assert not tree.unseen


def test_split_by_class_tests_on_classes_that_training_never_sees(classes):
    tree = load(classes, split="class", held_out=0.4)
    assert len(tree.test.classes) == 2
    assert not set(tree.train.classes) & set(tree.test.classes)
    assert tree.unseen
    assert tree.test.labels.unique().tolist() == [0, 1]


@pytest.mark.parametrize("split", ["image", "class"])
def test_the_split_is_a_function_of_seed_and_names(classes, split):
    first = load(classes, split=split)
    again = load(classes, split=split)
    assert members(first, "test") == members(again, "test")
    assert members(first, "test") != members(load(classes, split=split, split_seed=1), "test")
    for image in range(4):
        paint(classes / "f" / f"{image}.png")
    kept = {path for path in members(load(classes, split="image"), "test") if not path.startswith("f/")}
    assert kept == members(load(classes), "test") - {p for p in members(load(classes), "test") if p.startswith("f/")}


def test_a_split_that_is_written_down_is_read_again(classes, tmp_path):
    tree = load(classes, split="class")
    hs.data.write_table(tmp_path / "split.csv", tree.pictures)
    again = load(classes, table=str(tmp_path / "split.csv"))
    assert again.pictures == tree.pictures
    assert again.train.files == tree.train.files


def test_two_folders_for_one_part_are_named(tmp_path):
    for split in ("train", "dev", "eval"):
        for name in ("cat", "dog"):
            paint(tmp_path / split / name / "0.jpg")
    with pytest.raises(ValueError, match="two folders for val: dev and eval"):
        load(tmp_path)


def test_links_to_folders_are_followed_once(tmp_path, caplog):
    for name in ("own/a", "own/b", "elsewhere/more"):
        for image in range(2):
            paint(tmp_path / name / f"{image}.png")
    (tmp_path / "own" / "a" / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "round").symlink_to(tmp_path / "elsewhere")
    for name, target in (("up", "own/b"), ("root", "own"), ("above", ".")):
        (tmp_path / "own" / "b" / name).symlink_to(tmp_path / target)
    tree = load(tmp_path / "own", held_out=0.5)
    assert {p.path for p in tree.pictures} == {
        *(f"{name}/{image}.png" for name in ("a", "b", "a/linked/more") for image in range(2))
    }
    assert not caplog.records
    hs.data.write_table(tmp_path / "split.csv", tree.pictures)
    load(tmp_path / "own", held_out=0.5, table=str(tmp_path / "split.csv"))
    assert "the table says what is trained and tested on: held_out and split_seed change nothing" in caplog.text


def test_names_with_blanks_and_line_breaks_are_written_down_to_the_letter(tmp_path):
    for name in (" lead", "trail ", "new\nline", 'quo"te', "plain, with a comma"):
        for image in range(2):
            paint(tmp_path / "own" / name / f"{image}.png")
    tree, file = load(tmp_path / "own", held_out=0.5), tmp_path / "split.csv"
    hs.data.write_table(file, tree.pictures)
    assert load(tmp_path / "own", table=str(file)).pictures == tree.pictures
    file.write_text("path;label;label\na/0.png;x;y\n")
    with pytest.raises(ValueError, match="two columns named label"):
        load(tmp_path / "own", table=str(file))


def test_a_tree_of_splits_is_taken_as_it_is(tmp_path):
    for split, count in (("train", 3), ("val", 2), ("test", 1)):
        for name in ("cat", "dog"):
            for image in range(count):
                paint(tmp_path / split / name / f"{image}.jpg")
    assert (len(load(tmp_path).train), len(load(tmp_path).test)) == (6, 2)
    assert len(load(tmp_path, test="val").test) == 4
    for before, after in (("val", "eval"), ("eval", "Validation")):
        (tmp_path / before).rename(tmp_path / after)
        assert len(load(tmp_path, test="val").test) == 4  # not two classes, "train" and "Validation"
    for name in ("Bus", "Train", "Test"):  # vehicles, and parts of speech: folders with images are classes
        paint(tmp_path / "vehicles" / name / "0.jpg")
    assert len({p.label for p in list_images(tmp_path / "vehicles")}) == 3
    shutil.rmtree(tmp_path / "vehicles" / "Bus")
    with pytest.raises(FileNotFoundError, match="no images in class folders"):
        load(tmp_path / "vehicles")
    for name in ("Validation", "test", "vehicles"):
        shutil.rmtree(tmp_path / name)
    alone = load(tmp_path, held_out=0.4)  # a folder train alone is split here
    assert (alone.classes, len(alone.test)) == (("cat", "dog"), 2)


def test_what_programs_leave_beside_images_is_no_class_and_no_image(classes):
    before = load(classes).pictures
    paint(classes / ".ipynb_checkpoints" / "0.png")
    paint(classes / "__MACOSX" / "a" / "0.png")
    paint(classes / "a" / ".thumbnails" / "0.png")
    (classes / "a" / "._0.png").write_bytes(b"of another program")
    assert load(classes).pictures == before
    assert load(classes).not_read == {}
    assert repr(load(classes)).count("png") == 0
    scanned = hs.data.ImageFolder.scan(classes)
    assert scanned.classes == tuple("abcde")
    assert len(scanned) == len(before)
    assert scanned[0][0].shape[0] == 3
    (classes / "a" / "photo.HEIC").write_bytes(b"of a telephone")
    for name in ("__MACOSX/a/photo.HEIC", "a/._photo.HEIC"):
        (classes / name).write_bytes(b"of another program")
    paint(classes / "loose.png")
    told = load(classes).summary()
    assert f"not read: 1 images in {classes.name} itself, in no class folder" in told
    assert "not read: 1 .heic (save as JPEG or PNG)" in told
    for name in "abcde":
        shutil.rmtree(classes / name)
    with pytest.raises(FileNotFoundError, match=r"\(but 1 images in .* itself, in no class folder\): expected"):
        load(classes)


def test_a_table_names_paths_and_labels(classes, tmp_path):
    table = tmp_path / "list.csv"
    with table.open("w", newline="") as out:
        csv.writer(out).writerows([("path", "label"), *((f"a/{i}.png", "odd" if i % 2 else "even") for i in range(10))])
    tree = load(classes, table="list.csv")
    assert tree.classes == ("even", "odd")
    rows = [f'"a/{i}.png"; even' for i in range(8)] + ["", f"{classes / 'b' / '0.png'};odd", "b/1.png;odd"]
    table.write_text("\n".join(["Path ; LABEL", *rows]), encoding="utf-8-sig")
    assert load(classes, table="list.csv").unreadable == {}
    table.write_text("path,label\n" + "".join(f"a/{i}.png,{'xy'[i % 2]}\n" for i in range(10)) * 2)
    assert len(load(classes, table="list.csv").pictures) == 20  # listed twice, seen twice
    forms = ("a/{}.png", "./a//{}.png", f"{classes}/a/{{}}.png", "b/../link/{}.png")
    again = (form.format(i) for form in forms for i in range(10))
    (classes / "link").symlink_to("a")
    table.write_text("path,label\n" + "".join(f"{path},{'xy'[int(path[-5]) % 2]}\n" for path in again))
    once = load(classes, table="list.csv")
    parts = [{Path(file).resolve() for file in part.files} for part in (once.train, once.test)]
    assert (len(once.pictures), [len(part) for part in parts]) == (40, [8, 2])  # by any name, in one part
    assert not parts[0] & parts[1]
    table.write_text("path,label,split\na/1.png,x,train\n./a/1.png,x,test\n")
    with pytest.raises(ValueError, match="is listed before with another label or split"):
        load(classes, table="list.csv")
    (classes / "link").unlink()
    paths = [f"./a/{number}.png" for number in range(7)] * 2  # 3 of these 14 rows, by the names as they are written
    first = sorted(paths, key=lambda path: hashlib.blake2b(f"0:{path}".encode(), digest_size=8).digest())[:3]
    table.write_text("path,label\n" + "".join(f"{path},x\n" for path in paths) + "b/1.png,y\n")
    assert members(load(classes, table="list.csv"), "test") == set(first)
    table.write_text("\n".join(["Path ; LABEL", *rows]), encoding="utf-8-sig")
    assert load(classes, table="list.csv").classes == ("even", "odd")
    beside = tmp_path / "a" / "list.csv"  # paths relative to the table
    beside.write_text("path\tlabel\tsplit\n0.png\tx\tTrain\n1.png\ty\ttrain\n2.png\tx\tValidation\n")
    assert [p.path for p in load(classes, table=str(beside)).pictures] == ["a/0.png", "a/1.png", "a/2.png"]
    for text, why in (
        ("path,label\na/1.png,\n", "line 2: a row needs a path and a label"),
        ("path,label\na/1.png,Doe, Jane\n", "line 2: 3 columns, but the first line names 2: put a path or label"),
        ("path,label\na/1.png,x\na/1.png,y\n", "line 3: a/1.png is listed before with another"),
        ('path,label\na/1.png,a\n"a/2.png,a\na/3.png,a\n', "line 3: a quote begins that does not end in this line"),
        ('path,label\na/1.png,"a\na/2.png,a', "line 2: a quote begins"),
        ("path,label\n", "names no images"),
    ):
        table.write_text(text)
        with pytest.raises(ValueError, match=why):
            load(classes, table="list.csv")
    table.write_text("path,label\nnone/1.png,x\nnone/1.png,x\n")
    with pytest.raises(FileNotFoundError, match="none of the 1 images"):
        load(classes, table="list.csv")
    table.write_bytes("path,label\na/1.png,über\n".encode("latin-1"))
    with pytest.raises(ValueError, match="save it as `CSV UTF-8`"):
        load(classes, table="list.csv")
    table.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="columns path,label"):
        load(classes, table="list.csv")
    table.write_text("path,label,split\na/1.png,x,held\n")
    with pytest.raises(ValueError, match=r"line 2: split='held'"):
        load(classes, table="list.csv")


def test_any_size_grey_and_turned_images_become_one_tensor(tmp_path):
    paint(tmp_path / "a" / "wide.png", (200, 0, 0), (40, 10))
    paint(tmp_path / "a" / "grey.png", 77, (9, 30))
    turned = Image.new("RGB", (4, 2), (0, 0, 0))
    turned.putpixel((0, 0), (255, 255, 255))
    exif = turned.getexif()
    exif[0x0112] = 6  # to be turned clockwise
    (tmp_path / "b").mkdir()
    turned.save(tmp_path / "b" / "turned.png", exif=exif)
    paint(tmp_path / "b" / "other.webp")
    tree = load(tmp_path, held_out=0.5)
    data = tree.resident(16)
    assert data.train.images.shape[1:] == (3, 16, 16)
    assert len(data.train) + len(data.test) == 4
    assert tree.bytes_at(16) == 4 * 3 * 16 * 16
    upright = image_files.to_tensor(image_files.decode(tmp_path / "b" / "turned.png"))
    assert upright.shape == (3, 4, 2)
    assert upright[:, 0, 1].tolist() == [255, 255, 255]
    assert image_files.image_size(tmp_path / "b" / "turned.png") == (4, 2)


@pytest.mark.parametrize("end", ["png", "tiff"])
def test_grey_of_16_bits_keeps_its_shades(tmp_path, end):
    file = tmp_path / f"deep.{end}"
    deep = torch.arange(256, dtype=torch.int32).mul(257).to(torch.uint16).view(16, 16)
    Image.fromarray(deep.numpy()).save(file)
    for mode in ("L", "RGB"):
        pixels = image_files.to_tensor(image_files.decode(file, mode))
        assert pixels[0].flatten().tolist() == list(range(256))
    Image.fromarray(torch.rand(4, 4).numpy()).save(tmp_path / "real.tiff")
    with pytest.raises(ValueError, match=r"real\.tiff has floating-point pixels.*8 or 16 bits"):
        image_files.image_size(tmp_path / "real.tiff")


def test_unreadable_files_are_listed_or_refused(classes):
    (classes / "a" / "bad.jpg").write_bytes(b"no image")
    tree = load(classes)
    assert list(tree.unreadable) == ["a/bad.jpg"]
    assert "cannot be decoded" in tree.unreadable["a/bad.jpg"]
    with pytest.raises(ValueError, match=r"1 of 51 images cannot be read; the first is a/bad.jpg"):
        load(classes, unreadable="refuse")
    noise = torch.randint(0, 256, (32, 32, 3), dtype=torch.uint8).numpy()
    Image.fromarray(noise).save(classes / "a" / "half.png")
    whole = (classes / "a" / "half.png").read_bytes()
    (classes / "a" / "half.png").write_bytes(whole[:1000])
    assert "cut off" in load(classes).unreadable["a/half.png"]
    (classes / "a" / "half.png").write_bytes(whole[:1000] + bytes(8) + whole[1008:])
    assert "a/half.png" not in load(classes).unreadable  # begin and end are right
    assert "a/half.png" in load(classes, check="full").unreadable
    settings = DataConfig(name="folder", root=str(classes), image_size=8, batch_size=4)
    source = make_source(settings, 0, torch.device("cpu"))  # all of them are decoded, and it is skipped
    assert source.own is not None
    assert set(source.own.unreadable) == {"a/bad.jpg", "a/half.png"}
    Image.fromarray(noise).save(classes / "a" / "moves.jpg")
    with (classes / "a" / "moves.jpg").open("ab") as file:
        file.write(bytes(100))  # what follows the end of a JPEG does not matter
    assert "a/moves.jpg" not in load(classes).unreadable


def test_formats_that_start_other_programs_are_not_opened(classes, monkeypatch):
    started = []
    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *values, **options: started.append(values))
    file = classes / "a" / "1.png"
    file.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n")
    for read in (image_files.decode, image_files.image_size):
        with pytest.raises(ValueError, match=r"1\.png cannot be decoded"):
            read(file)
    assert "a/1.png" in load(classes).unreadable
    assert started == []
    with Image.open(file) as image, pytest.raises(Exception):  # noqa: B017
        image.load()  # Pillow by itself would
    assert started != []


def test_a_small_file_that_declares_a_huge_image_is_one_line(classes):
    file = classes / "a" / "1.png"
    content = bytearray(file.read_bytes())
    content[16:24] = struct.pack(">II", 60_000, 60_000)  # IHDR: width, height
    content[29:33] = struct.pack(">I", zlib.crc32(content[12:29]))
    file.write_bytes(bytes(content))
    for read in (image_files.decode, image_files.image_size):
        with pytest.raises(
            ValueError, match=r"^.*1\.png cannot be decoded as an image: Image size \(3600000000 pixels\)"
        ):
            read(file)
    assert "a/1.png" in load(classes).unreadable


def test_an_image_that_declares_too_many_pixels_is_refused_before_decoding(tmp_path, monkeypatch):
    paint(tmp_path / "a.png", size=(50, 50))
    monkeypatch.setattr(image_files, "MAX_PIXELS", 2000)
    with pytest.raises(ValueError, match=r"a\.png declares 50×50 pixels"):
        image_files.decode(tmp_path / "a.png")


def test_mistakes_say_what_to_do(classes, tmp_path):
    with pytest.raises(FileNotFoundError, match="name the one that holds your images"):
        load(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="<class>/<image>"):
        load(tmp_path / "empty")
    with pytest.raises(ValueError, match="held_out=1"):
        load(classes, held_out=1)
    one = tmp_path / "one"
    paint(one / "a" / "0.png")
    paint(one / "a" / "1.png")
    with pytest.raises(ValueError, match="cannot be split by class"):
        load(one, split="class")
    paint(one / "b" / "0.png")
    (one / "a" / "1.png").unlink()
    with pytest.raises(ValueError, match="each class has one image"):
        load(one)


def test_an_unreadable_image_crosses_processes():
    error = pickle.loads(pickle.dumps(UnreadableImage("a.png", "a.png is damaged")))
    assert (str(error), error.file) == ("a.png is damaged; remove or replace this file", "a.png")


def test_moments_are_those_of_training_where_a_file_is_damaged_behind_its_header(classes):
    file = classes / load(classes).train.files[0]
    whole = file.read_bytes()
    file.write_bytes(whole[:45] + bytes(8) + whole[53:])
    config = DataConfig(name="folder", root=str(classes), image_size=8, batch_size=4, normalize="mean")
    source = make_source(config, 0, torch.device("cpu"))
    assert len(source.own.unreadable) == 1
    expected = hs.data.types.pixel_moments(source.loader.inputs)
    found = training_moments(config, 0)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(torch.tensor(ours).double(), theirs, rtol=1e-6, atol=1e-6)
    assert training_moments(DataConfig(name="folder", root=str(classes), resident=0), 0)[0] == (0.485, 0.456, 0.406)


def test_a_large_share_held_out_leaves_an_image_of_every_class_to_train_on(classes):
    tree = load(classes, held_out=0.97)
    assert torch.bincount(tree.train.labels).tolist() == [1] * 5
    with pytest.raises(ValueError, match="hold out fewer"):
        load(classes, split="class", held_out=0.97)


def test_a_folder_that_may_not_be_listed_is_no_class_without_images(classes, monkeypatch):
    scan = os.scandir

    def refusing(place):
        if Path(place).name == "c":
            raise PermissionError(13, "Permission denied", str(place))
        return scan(place)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(OSError, match=r"c cannot be listed \(Permission denied\): make it readable"):
        load(classes)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems keep names as text")
def test_a_name_that_is_not_text_is_told(classes):
    os.rename(classes / "b" / "3.png", os.fsencode(classes / "b") + b"/gr\xfcn.png")
    with pytest.raises(ValueError, match=r"b/gr\\xfcn.png has a name that is not in UTF-8.*rename it"):
        load(classes)
