"""Image trees through worker processes."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest
import synthetic_data as synthetic
import torch
from PIL import Image

from hypersphere import data
from hypersphere.data import folder
from hypersphere.data._random import epoch_key, words
from hypersphere.data.images import decode


@pytest.fixture
def tree(tmp_path: Path) -> data.ImageTree:
    synthetic.write_tree(tmp_path / "imagenet")
    return data.load("imagenet", tmp_path)


def test_scanning(tree: data.ImageTree, tmp_path: Path) -> None:
    assert tree.classes == ("a", "b")
    assert tree.num_classes == 2
    assert tree.train.labels.tolist() == [0, 0, 0, 1, 1]
    assert [Path(file).name for file in tree.train.files] == ["0.png", "1.png", "2.png", "0.png", "1.JPEG"]
    assert tree.test.labels.tolist() == [1]  # counted like the training folder
    assert data.available("imagenet", tmp_path)
    assert data.available("imagenet", tmp_path / "imagenet")
    assert len(data.ImageFolder.scan(tmp_path / "imagenet" / "val")) == 1


def test_testing_takes_the_middle_in_file_order(tree: data.ImageTree) -> None:
    loader = data.FolderLoader(tree.train, 2, train=False, size=8, resize=12, workers=0)
    images, labels = (torch.cat(column) for column in zip(*loader, strict=True))
    assert labels.tolist() == [0, 0, 0, 1, 1]
    for file, image in zip(tree.train.files, images, strict=True):
        with Image.open(file) as picture:
            whole = np.asarray(picture.convert("RGB").resize((12, 12), Image.Resampling.BILINEAR))
        assert np.array_equal(image.numpy(), whole[2:10, 2:10].transpose(2, 0, 1))


def test_training_cuts_and_mirrors_as_position_says(tree: data.ImageTree) -> None:
    loader = data.FolderLoader(tree.train, 5, size=8, resize=12, workers=0, seed=4)
    images, labels = next(loader.epoch(3))
    key = epoch_key(4, 3)
    order = sorted(range(5), key=lambda number: words(key, number, 3))
    assert labels.tolist() == [tree.train.labels[number].item() for number in order]
    for place, number in enumerate(order):
        with Image.open(tree.train.files[number]) as picture:
            whole = np.asarray(picture.convert("RGB").resize((12, 12), Image.Resampling.BILINEAR))
        top, left = (words(key, place, lane) * 5 // 2**32 for lane in (0, 1))
        cut = whole[top : top + 8, left : left + 8]
        cut = cut[:, ::-1] if words(key, place, 2) % 2 else cut
        assert np.array_equal(images[place].numpy(), cut.transpose(2, 0, 1))


def test_workers_processes_and_resuming_change_nothing(tree: data.ImageTree) -> None:
    options = {"size": 8, "resize": 12, "seed": 1}
    plain = data.FolderLoader(tree.train, 2, workers=0, **options)  # type: ignore[arg-type]
    worked = data.FolderLoader(tree.train, 2, workers=2, **options)  # type: ignore[arg-type]
    shared = [data.FolderLoader(tree.train, 2, workers=0, rank=r, world=2, **options) for r in (0, 1)]  # type: ignore[arg-type]
    assert len(plain) == 2
    for epoch in (0, 1):
        expected = list(plain.epoch(epoch))
        for (images, labels), (other, targets) in zip(expected, worked.epoch(epoch), strict=True):
            assert torch.equal(images, other)
            assert torch.equal(labels, targets)
        parts = zip(*(loader.epoch(epoch) for loader in shared), strict=True)
        for (images, _), halves in zip(expected, parts, strict=True):
            assert torch.equal(images, torch.cat([half for half, _ in halves]))
        late = list(worked.epoch(epoch, start=1))
        assert len(late) == 1
        assert torch.equal(late[0][0], expected[1][0])
    again = data.FolderLoader(tree.train, 2, workers=0, **options)  # type: ignore[arg-type]
    first, second = next(plain.epoch(0))[0], next(plain.epoch(1))[0]
    assert not torch.equal(first, second)
    assert torch.equal(next(iter(again))[0], first)
    assert torch.equal(next(iter(again))[0], second)  # a loop over the loader sees a new epoch each time


def test_errors_name_the_folder_and_the_file(tree: data.ImageTree, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="is not a folder"):
        data.ImageFolder.scan(tmp_path / "none")
    (tmp_path / "empty" / "a").mkdir(parents=True)
    with pytest.raises(FileNotFoundError, match="has no images in class folders"):
        data.ImageFolder.scan(tmp_path / "empty")
    with pytest.raises(ValueError, match="classes that are not in the first folder: a"):
        data.ImageFolder.scan(tmp_path / "imagenet" / "train", ("b",))
    for options, message in (
        ({"batch_size": 6}, "batch_size=6 is more than the 5 images"),
        ({"batch_size": 3, "world": 2}, "multiple of world=2"),
        ({"batch_size": 2, "size": 9, "resize": 8}, "resize=8 must be at least size=9"),
    ):
        with pytest.raises(ValueError, match=message):
            data.FolderLoader(tree.train, **options)
    Path(tree.train.files[0]).write_bytes(b"damaged")
    with pytest.raises(ValueError, match=r"a/0\.png cannot be decoded as an image"):
        list(data.FolderLoader(tree.train, 1, workers=0, size=8, resize=8))


def test_processes_get_as_many_filled_batches_of_one_size(tree: data.ImageTree) -> None:
    folder = tree.test
    whole = data.FolderLoader(folder, 4, train=False, size=16, resize=18, workers=0)
    plain = torch.cat([labels for _, labels in whole.filled()])
    assert torch.equal(plain, torch.cat([labels for _, labels in whole.epoch(0)]))
    parts = [
        list(data.FolderLoader(folder, 4, train=False, size=16, resize=18, workers=0, rank=rank, world=2).filled())
        for rank in range(2)
    ]
    assert len(parts[0]) == len(parts[1]) == -(-len(folder) // 4)
    assert all(images.shape == (2, 3, 16, 16) for part in parts for images, _ in part)
    together = torch.cat([labels for pair in zip(*parts, strict=True) for _, labels in pair])
    assert torch.equal(together[together >= 0], plain)
    assert len(together) % 4 == 0


def test_what_goes_wrong_in_a_worker_is_one_line(tree: data.ImageTree, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(tree.train.files[3]).write_bytes(b"damaged")
    loader = data.FolderLoader(tree.train, 1, workers=1, size=8, resize=8)
    with pytest.raises(ValueError) as one:
        list(loader)
    assert str(one.value).startswith(f"{tree.train.files[3]} cannot be decoded as an image")
    assert "Traceback" not in str(one.value)
    monkeypatch.setattr(folder, "decode", lambda path: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(OSError, match=r"a process that decodes the images of .* was killed.*--data.workers"):
        list(data.FolderLoader(tree.train, 1, workers=1, size=8, resize=8))


def test_grey_images_of_16_bits_are_scaled_alike_and_those_of_32_refused(tmp_path):
    """The largest value of one image does not choose its scale."""
    for top in (65535, 255):
        pixels = np.array([[0, top]], dtype=np.uint16)
        for name in ("wide.png", "wide.tif", "wide.pgm"):
            Image.fromarray(pixels).save(tmp_path / name)
            assert list(decode(tmp_path / name, "L").tobytes()) == [0, top // 257]
        Image.fromarray(pixels.astype(np.int32)).save(tmp_path / "whole.tif")
        with pytest.raises(ValueError, match=r"whole\.tif has pixels of 32 bits .*: save it with 8 or 16 bits"):
            decode(tmp_path / "whole.tif")
