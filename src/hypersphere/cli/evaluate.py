"""``hypersphere evaluate RUN``: the protocols of the field on a trained network."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from ..evaluation import PARTS, judge, judge_pairs
from ..train import Run
from ..train.files import write_json

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="run folder, or the folder of one seed in it")
    parser.add_argument("--seed", type=int, default=None, help="one seed only (default: every seed)")
    parser.add_argument(
        "--parts",
        default=None,
        metavar="PART,...",
        help=f"what to measure (default: what suits the data): {', '.join(PARTS)}",
    )
    parser.add_argument("--root", default=None, help="folder of the data, if it lies elsewhere than at training")
    parser.add_argument("--device", default="cpu", help="where the network runs (default %(default)s)")
    for name, about in (("flip", "features of image and mirror"), ("center", "subtract the mean feature")):
        parser.add_argument(
            f"--{name}", action=argparse.BooleanOptionalAction, default=None, help=f"verification: {about}"
        )
    parser.add_argument("--inception", default=None, help="GAN: what scores its images, FILE.pt2 or a classifier's run")
    parser.add_argument("--pairs", type=Path, default=None, help="verify your own pairs: lines `left right 1|0 [fold]`")
    parser.add_argument("--images", type=Path, default=None, help="folder that the names of --pairs lie in")
    parser.add_argument("--out", type=Path, default=None, help="JSON file (default SEED FOLDER/evaluation.json)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")


def run(options: argparse.Namespace) -> int:
    found = Run(options.run, options.seed)
    if (options.pairs is None) != (options.images is None):
        raise ValueError("--pairs and --images belong together: a list of pairs and the folder of its images")
    if options.out is not None and len(found.seeds) > 1:
        raise ValueError("--out takes one seed: add --seed, or leave it to each seed's folder")
    parts = None if options.parts is None else [part.strip() for part in options.parts.split(",") if part.strip()]
    results = [_judge(found, seed, parts, options) for seed in found.seeds]
    for seed, result in zip(found.seeds, results, strict=True):
        name = "evaluation.json" if options.pairs is None else "evaluation-pairs.json"
        path = options.out or found.folder(seed).path / name
        write_json(path, result)
        if not options.json:
            print(_text(result) + f"\nin {path}\n")
    if options.json:
        print(json.dumps(results if len(results) > 1 else results[0], indent=2))
    return 0


def _judge(found: Run, seed: int, parts: list[str] | None, options: argparse.Namespace) -> dict[str, Any]:
    common: dict[str, Any] = {"device": options.device}
    if options.pairs is not None:
        flip = True if options.flip is None else options.flip
        return judge_pairs(found, options.pairs, options.images, seed, flip=flip, center=bool(options.center), **common)
    common |= {"root": options.root, "flip": options.flip, "center": options.center, "inception": options.inception}
    return judge(found, seed, parts, **common)


def _text(result: dict[str, Any]) -> str:
    lines = [f"{result['recipe']} seed {result['seed']}: {result['samples']} test samples of {result['data']}"]
    for name, part in result.items():
        if isinstance(part, dict) and name != "environment":
            lines += [f"\n{name}", *_SHOWN.get(name, _numbers)(part)]
    return "\n".join(lines)


def _numbers(part: dict[str, Any]) -> list[str]:
    return [
        f"  {key:18s} {value:.2f}" if isinstance(value, float) else f"  {key:18s} {value}"
        for key, value in part.items()
    ]


def _classification(part: dict[str, Any]) -> list[str]:
    numbers = _numbers({key: part[key] for key in ("accuracy", "top5_accuracy", "balanced_accuracy")})
    worst = sorted(part["classes"], key=lambda one: -one["error"])[:5]
    return [
        *numbers,
        "  most errors:",
        *(f"    {one['name']:16s} {one['error']:.2f}% of {one['samples']}" for one in worst),
    ]


def _hardness(part: dict[str, Any]) -> list[str]:
    rows = [
        f"    sample {one['sample']:5d}  {one['class']} taken for {one['predicted']}  {one['hardness']:.4f}"
        for one in part["hardest"][:5]
    ]
    return [f"  mean               {part['mean']:.4f}", "  hardest:", *rows]


def _energy(part: dict[str, Any]) -> list[str]:
    return [f"  {name:32s} {value:.4f}" for name, value in {"mean": part["mean"], **part["layers"]}.items()]


_SHOWN = {"classification": _classification, "hardness": _hardness, "energy": _energy}
