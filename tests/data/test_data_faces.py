"""Folders of faces: people to learn from, videos in pairs, probes and distractors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import synthetic_faces as synthetic
import torch
from PIL import Image

from hypersphere import data
from hypersphere.data._random import epoch_key, words


def test_people_are_the_folders(tmp_path: Path) -> None:
    folder = synthetic.write_casia(tmp_path, people=3, each=2)
    for root in (tmp_path, folder):
        found = data.load("casia", root)
        assert isinstance(found, data.ImageFolder)
        assert found.classes == ("0000000", "0000001", "0000002")
        assert found.labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert data.available("casia", tmp_path)


def test_the_excluded_are_left_out_and_the_rest_counted_again(tmp_path: Path) -> None:
    folder = synthetic.write_casia(tmp_path, people=4, each=2)
    (folder / "excluded.txt").write_text("# also in LFW\n0000001\n\n0000003/001.jpg  # blurred\n7654321\n")
    found = data.load("casia", tmp_path)
    assert found.classes == ("0000000", "0000002", "0000003")
    assert found.labels.tolist() == [0, 0, 1, 1, 2]
    assert [Path(file).name for file in found.files] == ["000.jpg", "001.jpg", "000.jpg", "001.jpg", "000.jpg"]
    (folder / "excluded.txt").write_text("\n".join(f"{person:07d}" for person in range(4)))
    with pytest.raises(ValueError, match=r"excluded\.txt leaves out every image"):
        data.load("casia", tmp_path)


def test_other_sets_of_people_have_their_own_folders(tmp_path: Path) -> None:
    synthetic.write_casia(tmp_path, people=2, each=1).rename(tmp_path / "imdb-face")
    assert len(data.load("imdb_face", tmp_path)) == 2
    assert not data.available("casia", tmp_path)
    (tmp_path / "imdb-face").rename(tmp_path / "ms-celeb-1m")
    assert len(data.load("ms_celeb", tmp_path)) == 2


@pytest.mark.parametrize(
    ("name", "folder", "holding"),
    [
        ("casia", "casia-webface", "<identity>/*.jpg"),
        ("imdb_face", "imdb-face", "excluded.txt"),
        ("ms_celeb", "ms-celeb-1m", "112×96"),
        ("ytf", "ytf", "splits.txt"),
        ("megaface", "megaface", "distractors/**/*.jpg"),
    ],
)
def test_missing_folders_are_named(tmp_path: Path, name: str, folder: str, holding: str) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        data.load(name, tmp_path)
    assert str(tmp_path / folder) in str(caught.value)
    assert holding in str(caught.value)


def test_videos_and_their_pairs(tmp_path: Path) -> None:
    synthetic.write_ytf(tmp_path)
    found = data.load("ytf", tmp_path)
    assert found.names == ("P0/0", "P0/1", "P1/0", "P2/0", "P2/1", "P3/0")  # those that pairs name
    assert torch.bincount(found.video).tolist() == [5, 6, 5, 5, 6, 5]
    assert found.labels.tolist() == [0, 0, 1, 2, 2, 3]
    assert found.people == ("P0", "P1", "P2", "P3")
    assert all(found.names[video] in file for file, video in zip(found.files, found.video.tolist(), strict=True))
    pairs = found.pairs
    assert (pairs.left.tolist(), pairs.right.tolist()) == ([0, 1, 3, 4], [1, 2, 4, 5])
    assert (pairs.same.tolist(), pairs.fold.tolist()) == ([True, False, True, False], [0, 0, 1, 1])


def test_frames_are_thinned_evenly(tmp_path: Path) -> None:
    synthetic.write_ytf(tmp_path, frames=5)
    found = data.load("ytf", tmp_path)
    thin = found.thinned(3)
    assert torch.bincount(thin.video).tolist() == [3] * 6
    assert [Path(file).name for file in thin.files[:3]] == ["f.000.jpg", "f.001.jpg", "f.003.jpg"]  # of 5
    assert [Path(file).name for file in thin.files[3:6]] == ["f.000.jpg", "f.002.jpg", "f.004.jpg"]  # of 6
    assert found.thinned(9).files == found.files
    with pytest.raises(ValueError, match="frames"):
        found.thinned(0)


def test_the_corrected_list_counts_its_last_column(tmp_path: Path) -> None:
    folder = synthetic.write_ytf(tmp_path)
    (folder / "splits.txt").unlink()
    (tmp_path / "splits.txt").write_text("header\n1, 1, P0/0, P0/1, 1, 0\n2, 2, P1/0, P2/0, 0, 1\n")  # beside it
    assert data.load("ytf", tmp_path).pairs.same.tolist() == [False, True]


def test_bad_lists_of_videos_are_named(tmp_path: Path) -> None:
    folder = synthetic.write_ytf(tmp_path)
    (folder / "splits.txt").write_text("1, 1, P0/0, P9/7, 0\n")
    with pytest.raises(FileNotFoundError, match=r"splits\.txt names the video P9/7, but .*P9/7 holds no images"):
        data.load("ytf", tmp_path)
    (folder / "splits.txt").write_text("1, 1, P0/0, P1/0, maybe\n")
    with pytest.raises(ValueError, match=r"splits\.txt has the line '1, 1, P0/0, P1/0, maybe'"):
        data.load("ytf", tmp_path)
    (folder / "splits.txt").write_text("nothing\n")
    with pytest.raises(ValueError, match=r"splits\.txt names no pairs"):
        data.load("ytf", tmp_path)


def test_probes_and_distractors(tmp_path: Path) -> None:
    synthetic.write_megaface(tmp_path)
    found = data.load("megaface", tmp_path)
    assert found.probes.classes == ("Probe_0", "Probe_1", "Probe_2")
    assert found.probes.labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert len(found.distractors) == 11
    assert list(found.distractors.files) == sorted(found.distractors.files)


def test_the_lists_of_the_challenge_choose_and_order(tmp_path: Path) -> None:
    folder = synthetic.write_megaface(tmp_path, lists=True)
    found = data.load("megaface", tmp_path)
    assert found.probes.labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert [Path(file).stem for file in found.distractors.files] == [f"{number:03d}" for number in range(10, -1, -1)]
    (folder / "distractors" / "1" / "deep" / "001.jpg").unlink()
    with pytest.raises(FileNotFoundError, match=r"megaface_features_list.* names .*001\.jpg, which is not there"):
        data.load("megaface", tmp_path)
    (folder / "templatelists" / "facescrub_features_list.json").write_text("[1, 2")
    with pytest.raises(ValueError, match=r"facescrub_features_list\.json is not a list of the challenge"):
        data.load("megaface", tmp_path)


def test_without_lists_a_folder_must_hold_images(tmp_path: Path) -> None:
    folder = synthetic.write_megaface(tmp_path)
    for file in (folder / "distractors").rglob("*.jpg"):
        file.unlink()
    with pytest.raises(FileNotFoundError, match="distractors holds no images"):
        data.load("megaface", tmp_path)


def test_faces_are_taken_as_they_are_and_mirrored_as_position_says(tmp_path: Path) -> None:
    synthetic.write_casia(tmp_path, people=4, each=2)
    folder = data.load("casia", tmp_path)
    pictures = []
    for file in folder.files:
        with Image.open(file) as picture:
            pictures.append(np.asarray(picture).transpose(2, 0, 1))
    loader = data.FolderLoader(folder, 8, size=None, workers=0, seed=3)
    assert loader.shape == synthetic.SIZE
    images, _ = next(loader.epoch(2))
    key = epoch_key(3, 2)
    order = sorted(range(8), key=lambda number: words(key, number, 3))
    mirrored = [bool(words(key, place, 2) % 2) for place in range(8)]
    assert len(set(mirrored)) == 2
    for image, number, flip in zip(images, order, mirrored, strict=True):
        assert np.array_equal(image.numpy(), pictures[number][:, :, ::-1] if flip else pictures[number])
    for options in ({"hflip": False}, {"train": False}):
        plain = next(iter(data.FolderLoader(folder, 8, size=None, workers=0, seed=3, **options)))[0]
        found = {image.numpy().tobytes() for image in plain}
        assert found == {np.ascontiguousarray(picture).tobytes() for picture in pictures}


def test_a_face_of_another_size_is_named(tmp_path: Path) -> None:
    folder = synthetic.write_casia(tmp_path, people=2, each=2)
    synthetic.write_face(folder / "0000001" / "000.jpg", 1, 0, (20, 12))
    loader = data.FolderLoader(data.load("casia", tmp_path), 4, size=None, workers=0)
    with pytest.raises(ValueError, match=r"0000001/000\.jpg is 20×12 pixels, but .*0000000/000\.jpg is 16×12"):
        next(iter(loader))
