"""Tiny folders of faces in the layouts of the published sets; a person is a colour, an image a shade of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from PIL import Image

SIZE = (16, 12)  # height, width


def write_face(path: Path, person: int, shade: int, size: tuple[int, int] = SIZE) -> None:
    """PNG content whatever the suffix, so that pixels are exact."""
    path.parent.mkdir(parents=True, exist_ok=True)
    base = np.random.default_rng(person).integers(30, 226, (*size, 3))
    noise = np.random.default_rng([person, shade]).integers(-25, 26, (*size, 3))
    Image.fromarray((base + noise).clip(0, 255).astype(np.uint8)).save(path, format="png")


def write_casia(root: Path, people: int = 6, each: int = 6, size: tuple[int, int] = SIZE) -> Path:
    folder = root / "casia-webface"
    for person in range(people):
        for number in range(each):
            write_face(folder / f"{person:07d}" / f"{number:03d}.jpg", person, number, size)
    return folder


def write_lfw_faces(root: Path, people: int = 20, size: tuple[int, int] = SIZE) -> Path:
    """Two images a person; ten folds of two people: a pair of either kind each. One image is in no pair."""
    folder = root / "lfw"
    names = [f"Face_{chr(65 + person)}" for person in range(people)]
    for person, name in enumerate(names):
        for number in (1, 2):
            write_face(folder / name / f"{name}_{number:04d}.jpg", 100 + person, number, size)
    write_face(folder / "Lonely_One" / "Lonely_One_0001.jpg", 99, 1, size)
    lines = [f"{people // 2}\t1"]
    for one, other in zip(names[::2], names[1::2], strict=True):
        lines += [f"{one}\t1\t2", f"{one}\t1\t{other}\t2"]
    (folder / "pairs.txt").write_text("\n".join(lines) + "\n")
    for name in ("pairsDevTrain.txt", "pairsDevTest.txt"):
        (folder / name).write_text("1\n" + "\n".join(lines[1:3]) + "\n")
    for name in ("peopleDevTrain.txt", "peopleDevTest.txt"):
        (folder / name).write_text(f"1\n{names[0]}\t2\n")
    return folder


def write_ytf(root: Path, people: int = 4, frames: int = 5) -> Path:
    """Two videos a person, of ``frames`` and ``frames`` + 1 frames; two splits of a pair of either kind each."""
    folder = root / "ytf"
    for person in range(people):
        for video in (0, 1):
            for frame in range(frames + video):
                write_face(folder / f"P{person}" / str(video) / f"f.{frame:03d}.jpg", 200 + person, 10 * video + frame)
    lines = ["split number, pair number, first name, second name, is same"]
    for split in range(people // 2):
        one, other = 2 * split, 2 * split + 1
        lines += [f"{split + 1}, 1, P{one}/0, P{one}/1, 1", f"{split + 1}, 2, P{one}/1, P{other}/0, 0"]
    (folder / "splits.txt").write_text("\n".join(lines) + "\n")
    return folder


def write_megaface(root: Path, people: int = 3, each: int = 3, distractors: int = 11, lists: bool = False) -> Path:
    folder = root / "megaface"
    probes, others = [], []
    for person in range(people):
        for number in range(each):
            probes.append(f"Probe_{person}/{number}.png")
            write_face(folder / "facescrub" / probes[-1], 300 + person, number)
    for number in range(distractors):
        others.append(f"{number % 3}/deep/{number:03d}.jpg")
        write_face(folder / "distractors" / others[-1], 400 + number, 0)
    if lists:  # the first images of each person, the distractors backwards
        (folder / "templatelists").mkdir()
        chosen = {"facescrub_features_list.json": [p for p in probes if not p.endswith("/2.png")]}
        chosen["megaface_features_list.json_1000000_1"] = others[::-1]
        for name, paths in chosen.items():
            (folder / "templatelists" / name).write_text(json.dumps({"path": paths, "id": ["x"] * len(paths)}))
    return folder
