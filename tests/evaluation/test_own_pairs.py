"""Pairs of one's own images: our lists and LFW's, sizes as in training, and what the report is given."""

import json
import shutil
from dataclasses import replace

import pytest
import torch
from PIL import Image

import hypersphere as hs
from hypersphere.config import Config, DataConfig, with_values
from hypersphere.evaluation.own_pairs import Size, find_images, read_list, read_pairs
from hypersphere.evaluation.pair_results import HardPair, KeptPairs, OwnVerified, _folds, _moments, read_kept
from hypersphere.evaluation.trained_on import trained_on, warning_of
from hypersphere.runs import Facts

LFW = "2\t1\nAnn_Lee\t1\t2\nAnn_Lee\t1\tBob\t1\nBob\t1\t3\nBob\t3\tAnn_Lee\t2\n"


@pytest.fixture
def people(tmp_path):
    for name, count in (("Ann_Lee", 2), ("Bob", 3)):
        (tmp_path / name).mkdir()
        for number in range(1, count + 1):
            Image.new("RGB", (20, 16), (number * 40, 0, 0)).save(tmp_path / name / f"{name}_{number:04d}.png")
    return tmp_path


def test_lfw_format(people):
    (people / "pairs.txt").write_text(LFW)
    found = read_pairs(people / "pairs.txt", people, Size(3, (16, 20)))
    assert found.files == ("Ann_Lee_0001", "Ann_Lee_0002", "Bob_0001", "Bob_0003")
    pairs = found.pairs
    assert pairs.same.tolist() == [True, False, True, False]
    assert pairs.fold.tolist() == [0, 0, 1, 1]
    assert (pairs.left.tolist(), pairs.right.tolist()) == ([0, 0, 2, 3], [1, 2, 3, 1])
    assert found.images[1, 0, 0, 0] == 80


def test_development_lists_have_one_number_and_one_fold(people):
    (people / "pairs.txt").write_text("1\nBob 1 2\nBob 1 Ann_Lee 1\n")
    assert [row[3] for row in read_list(people / "pairs.txt").rows] == [0, 0]


def test_our_format_with_spaces_and_folds(tmp_path):
    (tmp_path / "list.csv").write_text("a b/1.png, c.png, same, 3\n\n# a remark\na b/1.png\td.png\t0\t4\n")
    rows = read_list(tmp_path / "list.csv").rows
    assert rows == (("a b/1.png", "c.png", True, 3), ("a b/1.png", "d.png", False, 4))
    (tmp_path / "list.csv").write_text('left,right,same\n"a, b.png",c.png,1\n')  # as spreadsheets write it
    assert read_list(tmp_path / "list.csv").rows == (("a, b.png", "c.png", True, 0),)
    (tmp_path / "list.csv").write_text("right\tfold\tSame\tleft\nb.png\t0\t1\ta.png\n")
    assert read_list(tmp_path / "list.csv").rows == (("a.png", "b.png", True, 0),)
    (tmp_path / "list.csv").write_text("image,other,label\na.png,b.png,1\n#1/a.png,b.png,0\n#a,b\n")  # in our order
    assert read_list(tmp_path / "list.csv").rows == (("a.png", "b.png", True, 0), ("#1/a.png", "b.png", False, 0))
    text = "# fold 1\n# left right same\nimg1 img2 label fold\na.png b.png 1 2\n"
    (tmp_path / "list.csv").write_text(text)  # comments, and other words in our order
    assert read_list(tmp_path / "list.csv").rows == (("a.png", "b.png", True, 2),)
    (tmp_path / "list.csv").write_text("image,same,other\na.png,1,b.png\n")
    with pytest.raises(ValueError, match="line 1: the columns are named image, same, other"):
        read_list(tmp_path / "list.csv")
    for rows in ("left,right,fold,same,note\na.png,b.png,1,0,\n", "left,right,,fold,same\na.png,b.png,,1,0\n"):
        (tmp_path / "list.csv").write_text(rows)  # an empty column is one, too
        assert read_list(tmp_path / "list.csv").rows == (("a.png", "b.png", False, 1),)
    (tmp_path / "list.csv").write_text("same\tleft\tright\n1\t\ta.png\t\tb.png\n")  # tabs to align them
    assert read_list(tmp_path / "list.csv").rows == (("a.png", "b.png", True, 0),)
    (tmp_path / "list.csv").write_text("a.png b.png 1 1\na.png c.png 0 2\nb.png c.png 1\n")
    with pytest.raises(ValueError, match="line 3: this pair has no fold"):
        read_list(tmp_path / "list.csv")
    (tmp_path / "list.csv").write_text("a b/1.png c.png 1\n")
    with pytest.raises(ValueError, match="where a path has spaces, separate the columns by tabs or commas"):
        read_list(tmp_path / "list.csv")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2 1\nBob 1 2\nBob 1 Ann_Lee 1\n", "begins with '2 1', but 2 pairs follow"),
        ("1 1\nBob one 2\nBob 1 Ann_Lee 1\n", "line 2: 'Bob one 2' is not `name 1 4`"),
        ("1 1\nBob 1 2\nBob 1 Cid 1\n", "names Cid_0001, which"),
        ("1 1\n", "0 pairs follow"),
    ],
)
def test_mistakes_are_named(people, text, message):
    (people / "pairs.txt").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_pairs(people / "pairs.txt", people, Size(3, (16, 20)))


def test_sizes_as_in_training(tmp_path):
    half = torch.zeros(30, 60, 3, dtype=torch.uint8)
    half[:, 30:] = 200
    Image.fromarray(half.numpy()).save(tmp_path / "wide.png")
    (tmp_path / "pairs.txt").write_text("wide.png wide.png 1\n")

    def at(size):
        return read_pairs(tmp_path / "pairs.txt", tmp_path, size).images[0, 0]

    cover = at(Size(3, (10, 10), "cover"))  # scaled to 10×20, the middle cut out
    window = at(Size(3, (10, 10), "window", resize=20))  # squeezed to 20×20: half as wide as the other
    shrunk = at(Size(3, (10, 20), None, shrink=3))
    for image, edge in ((cover, 5), (window, 5), (shrunk, 10)):
        assert (int(image[5, 0]), int(image[5, -1])) == (0, 200)
        assert (int(image[5, edge - 2]), int(image[5, edge + 1])) == (0, 200)
    tall = torch.zeros(60, 30, 3, dtype=torch.uint8)
    tall[:12] = 200  # cut away by "cover", a fifth of the height to "window"
    Image.fromarray(tall.numpy()).save(tmp_path / "wide.png")
    assert int(at(Size(3, (10, 10), "cover")).max()) == 0
    assert int(at(Size(3, (10, 10), "window", resize=12))[0, 5]) == 200
    with pytest.raises(ValueError, match="60×30, but the network takes 10×10"):
        at(Size(3, (10, 10)))


def test_the_folder_is_found(people, tmp_path_factory):
    listing = tmp_path_factory.mktemp("elsewhere") / "pairs.txt"
    listing.write_text(LFW)
    assert find_images(listing, [listing.parent, people]) == people
    with pytest.raises(ValueError, match=r"Ann_Lee_0001 and others, were not found in .*elsewhere0: name their folder"):
        find_images(listing, [listing.parent])
    (people / "Bob" / "Bob_0003.png").unlink()
    with pytest.raises(ValueError, match=r"^1 of the images that .* names are not in .*: Bob_0003$"):
        find_images(listing, [listing.parent, people])


def test_a_list_in_another_encoding_is_named(tmp_path):
    (tmp_path / "list.txt").write_bytes("\u00fc.png a.png 1\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"list\.txt is not a text in UTF-8"):
        read_list(tmp_path / "list.txt")


def test_pairs_too_few_for_folds_are_counted():
    same = torch.tensor([True] * 3 + [False])
    pairs = hs.data.Pairs(torch.zeros(4).long(), torch.ones(4).long(), same, torch.zeros(4).long())
    with pytest.raises(ValueError, match=r"list\.txt has 3 pairs of one class and 1 of two: there must be two or more"):
        _folds(pairs, None, 10, "list.txt")
    with pytest.raises(ValueError, match="folds=0"):
        _folds(pairs, 0, 10, "list.txt")
    more = hs.data.Pairs(pairs.left, pairs.right, torch.tensor([True, True, False, False]), pairs.fold)
    assert _folds(more, None, 10, "list.txt") == 2
    with pytest.raises(ValueError, match=r"folds=3, but list\.txt has 2 pairs of the rarer kind: give 2 or fewer"):
        _folds(more, 3, 10, "list.txt")
    with pytest.raises(ValueError, match=r"folds=2, but list\.txt has folds of its own"):
        _folds(hs.data.Pairs(more.left, more.right, more.same, torch.tensor([0, 1, 0, 1])), 2, 10, "list.txt")


def kept():
    pairs = (HardPair("a.png", "b.png", True, 80.5), HardPair("a.png", "<c>.png", False, 12.0))
    numbers = {
        "accuracy": 75.0,
        "accuracy_std": 2.0,
        "auc": 80.0,
        "pairs": 4,
        "folds": 2,
        "flip": True,
        "center": False,
    }
    roc = torch.tensor([[0, 0, 0.5, 1], [0, 0.5, 1, 1]], dtype=torch.float64)
    return KeptPairs("pairs.txt", numbers, roc, pairs, torch.randint(256, (2, 2, 3, 8, 8), dtype=torch.uint8))


def test_what_is_kept_is_read_again(tmp_path):
    OwnVerified({}, kept()).keep(tmp_path / "kept.safetensors")
    again = read_kept(tmp_path / "kept.safetensors")
    assert again.hardest == kept().hardest
    assert again.numbers == kept().numbers
    assert torch.equal(again.roc, kept().roc)


@pytest.mark.parametrize("damage", ["json", "shape", "rate"])
def test_damaged_files_are_refused(tmp_path, damage):
    from safetensors.torch import load_file, save_file

    path = tmp_path / "kept.safetensors"
    OwnVerified({}, kept()).keep(path)
    tensors = load_file(path)
    if damage == "json":
        tensors["about"] = torch.frombuffer(bytearray(json.dumps([1]).encode()), dtype=torch.uint8).clone()
    elif damage == "shape":
        tensors["pictures"] = tensors["pictures"][:1].clone()
    else:
        tensors["roc"] = tensors["roc"] * 2
    save_file(tensors, path)
    with pytest.raises(ValueError, match="holds no evaluated pairs"):
        read_kept(path)


class FakeRun:
    """A run folder of one seed, with the settings that tell what was trained on."""

    def __init__(self, path, name, root=None, classes=()):
        self.config = Config(data=DataConfig(name=name, root=None if root is None else str(root)))
        self.path, self.split, self._facts = path, path / "split.csv", Facts(2, classes=classes)
        self.damaged = path / "damaged.txt"

    def folder(self, seed):
        return self

    def facts(self, seed):
        return self._facts


def test_what_was_trained_on_is_told(people, tmp_path_factory):
    place, moved = tmp_path_factory.mktemp("run"), tmp_path_factory.mktemp("moved")
    files = sorted(people.glob("*/*.png"))
    bob = [number for number, file in enumerate(files) if file.parent.name == "Bob"]
    assert trained_on(FakeRun(place, "lfw", classes=("Bob", "Cid")), 0, files) == bob  # all images of a person
    assert trained_on(FakeRun(place, "cifar10", classes=("Bob", "Cid")), 0, files) == []
    parts = ["test" if number == 3 else "train" for number in range(len(files))]
    rows = [f"{file.relative_to(people)},{file.parent.name},{part}" for file, part in zip(files, parts, strict=True)]
    (place / "split.csv").write_text("\n".join(["path,label,split", *rows]))
    own = FakeRun(place, "folder", people)
    assert trained_on(own, 0, files) == [0, 1, 2, 4]
    own.config = with_values(
        own.config, {"data.table": "elsewhere.csv", "data.normalize": "mean", "data.image_size": 16}
    )
    trained = hs.data.images.decode_all([file for n, file in enumerate(files) if n != 3], size=(16, 16)) / 255
    assert _moments(own, 0, None)["mean"] == pytest.approx(trained.mean((0, 2, 3)).tolist())  # by its split
    own._facts = replace(own._facts, in_channels=3, mean=(0.1, 0.2, 0.3), std=(1.0, 1.0, 1.0))
    assert _moments(own, 0, "nowhere") == {"mean": (0.1, 0.2, 0.3), "std": (1.0, 1.0, 1.0)}  # without its images
    shutil.copytree(people, moved, dirs_exist_ok=True)
    copies = sorted(moved.glob("*/*.png"))
    Image.new("RGB", (20, 16)).save(copies[1])  # the same name, another picture
    assert trained_on(own, 0, copies) == [0, 2, 4]
    assert trained_on(FakeRun(place, "folder", people / "gone"), 0, copies) == [0, 1, 2, 4]  # names must do
    text = warning_of(["a", "b", "c", "d", "e"], 1200)
    assert text.startswith("5 of the 1,200 listed images were trained on (a, b, c and 2 more)")
