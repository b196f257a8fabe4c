"""Tiny files in the official formats, written with NumPy, SciPy and Pillow, which the readers do without."""

from __future__ import annotations

import gzip
import pickle
import struct
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.sparse import csr_matrix


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def pixels(*shape: int, seed: int = 0) -> np.ndarray:
    return rng(seed).integers(0, 256, shape, dtype=np.uint8)


def write_cifar10(root: Path, per_batch: int = 4, protocol: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Official layout; returns all training images and labels."""
    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    images, labels = [], []
    for number, name in enumerate([f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]):
        data = pixels(per_batch, 3072, seed=number)
        target = [(number + i) % 10 for i in range(per_batch)]
        table = {b"batch_label": b"some batch", b"labels": target, b"data": data, b"filenames": [b"a.png"] * per_batch}
        (folder / name).write_bytes(pickle.dumps(table, protocol=protocol))
        images.append(data.reshape(-1, 3, 32, 32))
        labels.append(target)
    return np.concatenate(images[:5]), np.concatenate(labels[:5])


def write_cifar100(root: Path, count: int = 6) -> None:
    folder = root / "cifar-100-python"
    folder.mkdir(parents=True)
    for name in ("train", "test"):
        fine, coarse = list(range(94, 94 + count)), [i % 20 for i in range(count)]
        table = {"filenames": ["x"] * count, "fine_labels": fine, "coarse_labels": coarse, "data": pixels(count, 3072)}
        (folder / name).write_bytes(pickle.dumps(table, protocol=2))


def write_idx(path: Path, array: np.ndarray, compress: bool = False) -> None:
    header = b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    content = header + array.astype(np.uint8).tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    if compress:
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(content))
    else:
        path.write_bytes(content)


def write_mnist(folder: Path, compress: bool = False) -> dict[str, np.ndarray]:
    arrays = {
        "train-images-idx3-ubyte": pixels(7, 28, 28),
        "train-labels-idx1-ubyte": np.arange(7),
        "t10k-images-idx3-ubyte": pixels(3, 28, 28, seed=1),
        "t10k-labels-idx1-ubyte": np.array([9, 0, 9]),
    }
    for name, array in arrays.items():
        write_idx(folder / name, array, compress)
    return arrays


def write_lfw(root: Path, lists: Path | None = None) -> None:
    """Three people with 2, 2 and 1 images; two folds of one same and one different pair."""
    for person, count in (("Ann_A", 2), ("Bob_B", 2), ("Cy_C", 1)):
        (root / "lfw" / person).mkdir(parents=True)
        for number in range(1, count + 1):
            grey = Image.fromarray(np.full((12, 10, 3), 40 * number + len(person), np.uint8))
            grey.save(root / "lfw" / person / f"{person}_{number:04d}.jpg", quality=95)
    lists = lists or root / "lfw"
    same, other = "Ann_A\t1\t2\n", "Ann_A\t2\tCy_C\t1\n"
    (lists / "pairs.txt").write_text("2\t1\n" + same + other + "Bob_B\t2\t1\n" + "Bob_B\t1\tCy_C\t1\n")
    (lists / "pairsDevTrain.txt").write_text("1\n" + same + other)
    (lists / "pairsDevTest.txt").write_text("1\nBob_B\t1\t2\n" + other)
    (lists / "peopleDevTrain.txt").write_text("2\nAnn_A\t2\nCy_C\t1\n")
    (lists / "peopleDevTest.txt").write_text("1\nBob_B\t2\n")


def write_omniglot(folders: Path, packed: Path) -> None:
    """The same drawings as official PNG folders and as the packed file: 2 + 1 characters of 2 drawings."""
    chars = ["images_background/Latin/character01", "images_background/Latin/character02",
             "images_evaluation/Ge_ez/character01"]  # fmt: skip
    ink = rng().random((6, 105, 105)) < 0.1
    for number in range(6):
        folder = folders / "omniglot" / chars[number // 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(~ink[number]).save(folder / f"{number // 2 + 1:04d}_{number % 2 + 1:02d}.png")
    (packed / "omniglot").mkdir(parents=True)
    np.savez(
        packed / "omniglot" / "omniglot_105_packbits.npz",
        bits=np.packbits(ink.reshape(6, -1), axis=1),
        label=np.array([0, 0, 1, 1, 2, 2], np.uint16),
        drawer=np.array([1, 2] * 3, np.uint8),
        chars=np.array(chars),
        split=np.array([0, 0, 1], np.uint8),
    )


def write_modelnet(root: Path, points: int = 16) -> np.ndarray:
    (root / "modelnet40").mkdir(parents=True)
    (root / "modelnet40" / "modelnet40_shape_names.txt").write_text("airplane\nbathtub\nbed\n")
    xyz = rng().integers(-(2**15), 2**15, (5, points, 3)).astype(np.int16)
    for part in ("train", "test"):
        path = root / "modelnet40" / f"modelnet40_{part}_1024_int16.npz"
        np.savez(path, xyz=xyz, label=np.array([0, 1, 2, 1, 0], np.uint8), scale=np.float32(3.125e-05))
    return xyz


def write_planetoid(root: Path, name: str = "cora") -> dict[str, np.ndarray]:
    """8 known nodes, test nodes 8, 9 and 11 (10 is described nowhere); dense features returned."""
    (root / "planetoid").mkdir(parents=True)
    features = (rng().random((11, 5)) < 0.4).astype(np.float32)
    onehot = np.eye(3, dtype=np.int32)[np.arange(11) % 3]
    order = [11, 8, 9]
    graph = {0: [1, 2, 0], 1: [0, 0], 2: [11], 3: [], 11: [2, 8]}
    parts = {
        "x": csr_matrix(features[:6]), "allx": csr_matrix(features[:8]), "tx": csr_matrix(features[8:]),
        "y": onehot[:6], "ally": onehot[:8], "ty": onehot[8:], "graph": graph,
    }  # fmt: skip
    for part, value in parts.items():
        (root / "planetoid" / f"ind.{name}.{part}").write_bytes(pickle.dumps(value, protocol=2))
    (root / "planetoid" / f"ind.{name}.test.index").write_text("".join(f"{node}\n" for node in order))
    return {"features": features, "onehot": onehot, "order": np.array(order)}


def write_tree(root: Path, size: int = 20) -> None:
    """``train`` with classes a (3 images, one nested), b (2); ``val`` with b (1)."""
    for number, name in enumerate(["train/a/0.png", "train/a/1.png", "train/a/deep/2.png", "train/b/0.png",
                                   "train/b/1.JPEG", "val/b/0.png"]):  # fmt: skip
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels(size, size + 4, 3, seed=number)).save(path)
    (root / "train" / "a" / "notes.txt").write_text("not an image")
