"""Every reader, on tiny files in the official format."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import synthetic_data as synthetic
import torch
from torch import Tensor

from hypersphere import data


def read(name: str, root: Path, **options: object):
    return data.load(name, root, download=False, verify=False, **options)


@pytest.mark.parametrize("protocol", [2, 4])
def test_cifar10(tmp_path: Path, protocol: int) -> None:
    images, labels = synthetic.write_cifar10(tmp_path, protocol=protocol)
    cifar = read("cifar10", tmp_path)
    assert torch.equal(cifar.train.images, torch.from_numpy(images))
    assert cifar.train.labels.tolist() == labels.tolist()
    assert len(cifar.test) == 4
    assert cifar.classes[:2] == ("airplane", "automobile")
    assert cifar.shape == (3, 32, 32)
    assert cifar.num_classes == 10


def test_root_may_be_the_set_s_own_folder(tmp_path: Path) -> None:
    synthetic.write_cifar10(tmp_path)
    assert len(read("cifar10", tmp_path / "cifar-10-batches-py").train) == 20


def test_cifar100_has_both_labels(tmp_path: Path) -> None:
    synthetic.write_cifar100(tmp_path)
    cifar = read("cifar100", tmp_path)
    assert cifar.num_classes == 100
    assert (
        " ".join(cifar.classes[label] for label in cifar.train.labels) == "wardrobe whale willow_tree wolf woman worm"
    )
    assert cifar.train.extra["coarse"].tolist() == list(range(6))


def test_cifar_batch_without_its_fields_is_named(tmp_path: Path) -> None:
    synthetic.write_cifar100(tmp_path)
    (tmp_path / "cifar-100-python" / "train").write_bytes(b"\x80\x02}U\x01aK\x01s.")
    with pytest.raises(ValueError, match=r"train has fields \['a'\]"):
        read("cifar100", tmp_path)
    (tmp_path / "cifar-100-python" / "train").write_bytes(b"\x80\x02K\x01.")
    with pytest.raises(ValueError, match="holds a int"):
        read("cifar100", tmp_path)


def cifar_batch(**fields: object) -> bytes:
    table = {b"data": np.zeros((3, 3072), np.uint8), b"labels": [0, 1, 2]}
    return pickle.dumps(table | {name.encode(): value for name, value in fields.items()}, protocol=2)


WRONG = {  # set, its writer, the file that is spoiled, its content, what is said of it
    "flat images": ("mnist", "train-images-idx3-ubyte", np.zeros((7, 5)), r"values of shape \(7, 5\)"),
    "few labels": ("mnist", "train-labels-idx1-ubyte", np.zeros(3), "has 3 labels, and train-images-idx3-ubyte has 7"),
    "strange labels": ("mnist", "train-labels-idx1-ubyte", np.full(7, 77), "labels run from 77 to 77"),
    "other size": ("mnist", "t10k-images-idx3-ubyte", np.zeros((3, 14, 14)), r"\(14, 14\) pixels, and train-images"),
    "few pixels": ("cifar10", "data_batch_2", cifar_batch(data=np.zeros((3, 100), np.uint8)), "invalid for input"),
    "real pixels": ("cifar10", "data_batch_2", cifar_batch(data=np.zeros((3, 3072))), "images must be uint8"),
    "unlabelled": ("cifar10", "data_batch_2", cifar_batch(labels=[0]), "labels must be int64"),
    "label 200": ("cifar10", "data_batch_2", cifar_batch(labels=[0, 1, 200]), "labels run from 0 to 200"),
    "vector": ("cora", "ind.cora.ally", pickle.dumps(np.zeros(8), protocol=2), "not a matrix"),
    "no test nodes": ("cora", "ind.cora.test.index", b"", "does not list the test nodes"),
}
WRITERS = {
    "mnist": lambda root: synthetic.write_mnist(root / "MNIST/raw"),
    "cifar10": synthetic.write_cifar10,
    "cora": synthetic.write_planetoid,
}


@pytest.mark.parametrize("case", WRONG)
def test_without_checksums_the_file_with_the_wrong_shape_is_named(tmp_path: Path, case: str) -> None:
    name, file, content, message = WRONG[case]
    WRITERS[name](tmp_path)
    (path,) = tmp_path.rglob(file)
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        synthetic.write_idx(path, content.astype(np.uint8))
    with pytest.raises(ValueError, match=rf"^{re.escape(str(path))} .*{message}"):
        read(name, tmp_path)


def test_a_packed_omniglot_without_some_of_its_columns_is_named(tmp_path: Path) -> None:
    synthetic.write_omniglot(tmp_path / "folders", tmp_path)
    (path,) = tmp_path.rglob("omniglot_105_packbits.npz")
    with np.load(path) as fields:
        columns = dict(fields)
    np.savez(path, **{**columns, "label": columns["label"][:0]})
    with pytest.raises(ValueError, match=rf"^{re.escape(str(path))} holds 6 drawings, 0 labels and 6 drawers"):
        read("omniglot", tmp_path)


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize(("name", "folder"), [("mnist", "MNIST/raw"), ("fashion_mnist", "FashionMNIST/raw")])
def test_idx_sets(tmp_path: Path, name: str, folder: str, compress: bool) -> None:
    arrays = synthetic.write_mnist(tmp_path / folder, compress)
    mnist = read(name, tmp_path)
    assert torch.equal(mnist.train.images[:, 0], torch.from_numpy(arrays["train-images-idx3-ubyte"]))
    assert mnist.train.labels.tolist() == list(range(7))
    assert mnist.test.labels.tolist() == [9, 0, 9]


def test_damaged_idx_files_are_named(tmp_path: Path) -> None:
    synthetic.write_mnist(tmp_path / "MNIST/raw")
    path = tmp_path / "MNIST/raw/train-images-idx3-ubyte"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(ValueError, match=r"train-images-idx3-ubyte has .* cut short"):
        read("mnist", tmp_path)
    path.write_bytes(b"<html>" + whole)
    with pytest.raises(ValueError, match="does not start like an idx file"):
        read("mnist", tmp_path)
    path.unlink()
    path.with_name(path.name + ".gz").write_bytes(b"\x1f\x8b\x08 broken")
    with pytest.raises(ValueError, match=r"train-images-idx3-ubyte\.gz is not a complete gzip"):
        read("mnist", tmp_path)


@pytest.mark.parametrize("beside", [False, True])
def test_lfw(tmp_path: Path, beside: bool) -> None:
    synthetic.write_lfw(tmp_path, tmp_path if beside else None)
    faces = read("lfw", tmp_path)
    assert len(faces) == 5
    assert faces.people == ("Ann_A", "Bob_B", "Cy_C")
    assert faces.labels.tolist() == [0, 0, 1, 1, 2]
    assert (faces.pairs.left.tolist(), faces.pairs.right.tolist()) == ([0, 1, 3, 2], [1, 4, 2, 4])
    assert faces.pairs.same.tolist() == [True, False, True, False]
    assert faces.pairs.fold.tolist() == [0, 0, 1, 1]
    assert faces.test_pairs.same.tolist() == [True, False]
    assert len(faces.train_pairs) == 2
    assert faces.train_index.tolist() == [0, 1, 4]
    assert faces.train.classes == ("Ann_A", "Cy_C")
    assert faces.train.labels.tolist() == [0, 0, 1]
    assert faces.test.images.shape == (2, 3, 12, 10)
    assert faces.images([3])[0, 0, 0, 0].item() == pytest.approx(85, abs=2)


def test_lfw_names_a_missing_image_and_a_wrong_size(tmp_path: Path) -> None:
    synthetic.write_lfw(tmp_path)
    faces = read("lfw", tmp_path)
    synthetic.Image.new("RGB", (4, 4)).save(faces.files[1])
    with pytest.raises(ValueError, match=r"Ann_A_0002\.jpg is \(3, 4, 4\)"):
        faces.images()
    faces.files[1].write_bytes(b"no picture")
    with pytest.raises(ValueError, match=r"Ann_A_0002\.jpg cannot be decoded"):
        faces.images()
    faces.files[4].unlink()
    with pytest.raises(FileNotFoundError, match=r"Cy_C"):
        read("lfw", tmp_path)


def test_omniglot_layouts_agree(tmp_path: Path) -> None:
    synthetic.write_omniglot(tmp_path / "png", tmp_path / "npz")
    folders, packed = read("omniglot", tmp_path / "png"), read("omniglot", tmp_path / "npz")
    for one, other in ((folders.train, packed.train), (folders.test, packed.test)):
        assert torch.equal(one.images, other.images)
        assert torch.equal(one.labels, other.labels)
        assert torch.equal(one.extra["drawer"], other.extra["drawer"])
        assert one.classes == other.classes
    assert packed.train.classes == ("Latin/character01", "Latin/character02")
    assert packed.test.labels.tolist() == [0, 0]
    assert 0.8 < packed.train.images.float().mean().item() / 255 < 0.95  # ink is 0, paper 255


def test_modelnet_packed(tmp_path: Path) -> None:
    xyz = synthetic.write_modelnet(tmp_path)
    clouds = read("modelnet40", tmp_path, points=8)
    torch.testing.assert_close(clouds.train.points, torch.from_numpy(xyz[:, :8] * np.float32(3.125e-05)))
    assert clouds.train.labels.tolist() == [0, 1, 2, 1, 0]
    assert clouds.train.counts.tolist() == [2, 2, 1]
    with pytest.raises(ValueError, match="points=17, but the clouds"):
        read("modelnet40", tmp_path, points=17)


def test_modelnet_as_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "modelnet40_ply_hdf5_2048"
    folder.mkdir()
    (folder / "shape_names.txt").write_text("airplane\nbathtub\n")
    (folder / "train_files.txt").write_text(
        "data/modelnet40_ply_hdf5_2048/one.h5\ndata/modelnet40_ply_hdf5_2048/two.h5\n"
    )
    (folder / "test_files.txt").write_text("data/modelnet40_ply_hdf5_2048/two.h5\n")
    tables = {
        name: {"data": synthetic.rng(seed).random((3, 16, 3), np.float32), "label": np.array([[0], [1], [1]], np.uint8)}
        for seed, name in enumerate(("one.h5", "two.h5"))
    }

    class File(dict):  # type: ignore[type-arg]
        def __init__(self, path: Path, mode: str) -> None:
            super().__init__(tables[path.name])

        def __enter__(self) -> File:
            return self

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setitem(sys.modules, "h5py", types.SimpleNamespace(File=File))
    clouds = read("modelnet40", tmp_path, points=8)
    assert torch.equal(clouds.train.points[3:], torch.from_numpy(tables["two.h5"]["data"][:, :8]))
    assert clouds.test.labels.tolist() == [0, 1, 1]
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ImportError, match="pip install h5py"):
        read("modelnet40", tmp_path)


def test_planetoid(tmp_path: Path) -> None:
    wrote = synthetic.write_planetoid(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hypersphere.data.planetoid.VALIDATION", 2)
        graph = read("cora", tmp_path)
    assert len(graph) == 12
    for node in range(8):
        assert graph.features[node].tolist() == wrote["features"][node].tolist()
    for row, node in enumerate([11, 8, 9]):  # tx and ty follow test.index, not the node's number
        assert graph.features[node].tolist() == wrote["features"][8 + row].tolist()
        assert graph.labels[node].item() == wrote["onehot"][8 + row].argmax()
    assert graph.features[10].sum() == 0
    assert (graph.train.tolist(), graph.val.tolist(), graph.test.tolist()) == (list(range(6)), [6, 7], [8, 9, 11])
    assert graph.edges.T.tolist() == [[0, 1], [0, 2], [1, 0], [2, 0], [2, 11], [8, 11], [11, 2], [11, 8]]


def test_graph_matrices_against_dense_numpy(tmp_path: Path) -> None:
    synthetic.write_planetoid(tmp_path)
    graph = read("cora", tmp_path)
    dense = np.eye(12)
    for source, target in graph.edges.T.tolist():
        dense[source, target] = 1
    root = 1 / np.sqrt(dense.sum(1))
    expected = torch.from_numpy(root[:, None] * dense * root).float()
    torch.testing.assert_close(graph.adjacency().to_dense(), expected)
    rows = graph.normalized_features().sum(1)
    assert torch.equal(rows > 0, graph.features.sum(1) > 0)
    torch.testing.assert_close(rows[rows > 0], torch.ones_like(rows[rows > 0]))


def test_digits_split_is_fixed_balanced_and_complete() -> None:
    from sklearn.datasets import load_digits

    digits = data.load("digits")
    values, labels = load_digits(return_X_y=True)
    assert (len(digits.train), len(digits.test)) == (1442, 355)
    assert digits.train.images.shape[1:] == (1, 8, 8)
    assert digits.test.counts.tolist() == [int((labels == c).sum()) // 5 for c in range(10)]
    seen: dict[int, int] = {}
    parts: dict[bool, list[np.ndarray]] = {True: [], False: []}
    for value, label in zip(values, labels, strict=True):
        seen[label] = seen.get(label, 0) + 1
        parts[seen[label] % 5 == 0].append(value)
    for test, split in ((True, digits.test), (False, digits.train)):
        expected = np.round(np.stack(parts[test]) * 255 / 16).astype(np.uint8)
        assert torch.equal(split.images.flatten(1), torch.from_numpy(expected))


def test_reading_needs_neither_numpy_nor_any_extra(tmp_path: Path) -> None:
    synthetic.write_cifar10(tmp_path)
    synthetic.write_mnist(tmp_path / "MNIST/raw", compress=True)
    synthetic.write_planetoid(tmp_path)
    code = f"""
import sys, warnings
warnings.simplefilter("ignore")
for name in ("numpy", "scipy", "PIL", "sklearn", "rich", "h5py"):
    sys.modules[name] = None
from hypersphere import data
for name in ("cifar10", "mnist", "cora"):
    print(name, len(data.load(name, {str(tmp_path)!r}, verify=False).train))
try:
    data.load("digits")
except ImportError as error:
    print(error)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    assert out[:3] == ["cifar10 20", "mnist 7", "cora 6"]
    assert "hypersphere[train]" in out[3]


def test_splits_check_themselves_and_move_together() -> None:
    images, labels = torch.zeros(3, 1, 2, 2, dtype=torch.uint8), torch.tensor([0, 1, 1])
    split = data.Split(images, labels, ("a", "b"), {"n": torch.arange(3)})
    part = split.subset(torch.tensor([2, 0]))
    assert (part.labels.tolist(), part.extra["n"].tolist(), part.counts.tolist()) == ([1, 0], [2, 0], [1, 1])
    moved = data.Dataset("x", split, split).to("meta")
    assert {moved.train.images.device.type, moved.test.extra["n"].device.type} == {"meta"}
    bad: list[tuple[Tensor, Tensor, tuple[str, ...], str]] = [
        (images.float(), labels, ("a", "b"), "must be uint8"),
        (images, labels.int(), ("a", "b"), "labels must be int64"),
        (images, labels[:2], ("a", "b"), r"labels must be int64 \(3,\)"),
        (images, labels, ("a",), "labels run from 0 to 1, but there are 1 classes"),
    ]
    for pictures, targets, classes, message in bad:
        with pytest.raises(ValueError, match=message):
            data.Split(pictures, targets, classes)
    with pytest.raises(ValueError, match=r"extra\['n'\] has 2 rows"):
        data.Split(images, labels, ("a", "b"), {"n": torch.arange(2)})
    with pytest.raises(ValueError, match=r"points must be float \(N, P, 3\)"):
        data.CloudSplit(torch.zeros(3, 4), labels, ("a", "b"))


def test_pixel_statistics_are_exact() -> None:
    images = torch.randint(0, 256, (50, 3, 5, 4), dtype=torch.uint8)
    split = data.Split(images, torch.zeros(50, dtype=torch.int64), ("a",))
    dataset = data.Dataset("x", split, split)
    values = images.double().numpy().transpose(1, 0, 2, 3).reshape(3, -1) / 255
    np.testing.assert_allclose(dataset.mean, values.mean(1), rtol=1e-12)
    np.testing.assert_allclose(dataset.std, values.std(1), rtol=1e-12)
