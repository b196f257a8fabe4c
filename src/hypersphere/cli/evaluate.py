"""``hypersphere evaluate RUN``: the protocols of the field on a trained network."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from ..evaluation import evaluate, find
from ..evaluation.measurement import number_lines
from ..evaluation.pair_results import PAIRS_FILE, read_kept, verify_own_pairs
from ..runs import Run
from ..runs.files import json_text, read_json, write_json

_ABOUT = {"run", "recipe", "seed", "samples", "environment"}
"""What every evaluation says, besides its parts."""


def run(options: argparse.Namespace) -> int:
    """Run ``hypersphere evaluate`` and return its exit status."""
    found = Run(options.run, options.seed, trust=options.trust)
    if options.pairs is None and options.images is not None:
        raise ValueError("--images is the folder of a list of pairs: give the list with --pairs")
    if options.pairs is None and options.folds is not None:
        raise ValueError("--folds divides a list of pairs: give the list with --pairs")
    if options.pairs is not None and (options.parts is not None or options.inception is not None):
        raise ValueError("--pairs verifies a list of pairs alone: give --parts and --inception in another command")
    if options.out is not None:
        _check_out(options.out, options.pairs is not None)
        if len(found.seeds) > 1:
            raise ValueError("--out writes one seed: add --seed, or leave --out out to write into each seed's folder")
    parts = None if options.parts is None else [part.strip() for part in options.parts.split(",") if part.strip()]
    if parts == []:
        raise ValueError("--parts names no measurement: see `hypersphere list measurements`")
    name = "evaluation.json" if options.pairs is None else Path(PAIRS_FILE).with_suffix(".json")
    paths = {seed: options.out or found.folder(seed).path / name for seed in found.seeds}
    for path in paths.values():
        if not os.access(path.parent, os.W_OK):  # said before the work, not after it
            raise OSError(f"{path} cannot be written, {path.parent} does not allow it: name another file with --out")
    results = []
    for seed, path in paths.items():
        if options.pairs is not None:
            pairs = verify_own_pairs(
                found,
                options.pairs,
                options.images,
                seed,
                device=options.device,
                flip=options.flip,
                center=options.center,
                folds=options.folds,
                root=options.root,
                batch_size=options.batch_size,
            )
            pairs.keep(path.with_suffix(".safetensors"))
            results.append(pairs.values)
        else:
            results.append(_evaluate(found, seed, parts, options))
        write_json(path, results[-1] | _kept(path, results[-1]))
        if not options.json:
            print(_text(results[-1]) + f"\nin {path}\n")
    if options.json:
        print(json_text(results if len(results) > 1 else results[0], indent=2))
    return 0


def _check_out(path: Path, pairs: bool) -> None:
    """Raise ValueError if the file cannot be written, or would replace what no evaluation wrote."""
    if path.is_dir() or not path.parent.is_dir():
        raise ValueError(f"--out {path} must be a file in a folder that exists")
    beside = path.with_suffix(".safetensors")  # what the report shows of a list of pairs
    try:
        if path.is_file() and path.stat().st_size and not set(read_json(path)) >= _ABOUT:
            raise ValueError(f"{path} holds something else")
        if pairs and beside.exists():
            read_kept(beside)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"--out {path} would replace a file that no evaluation wrote ({error}): choose another file"
        ) from None


def _evaluate(found: Run, seed: int, parts: list[str] | None, options: argparse.Namespace) -> dict[str, Any]:
    common: dict[str, Any] = {"device": options.device}
    common |= {"root": options.root, "flip": options.flip, "center": options.center, "inception": options.inception}
    common["batch_size"] = options.batch_size
    return evaluate(found, seed, parts, **common)


def _kept(path: Path, result: dict[str, Any]) -> dict[str, Any]:
    """The other parts in a file that an earlier command wrote about the same network, evaluated by the same rules."""
    try:
        earlier = read_json(path) if path.is_file() else None
    except (OSError, ValueError):
        return {}
    about = {name for name, value in result.items() if not isinstance(value, dict)}
    if "weights" not in about or result["weights"] is None or not isinstance(earlier, dict):
        return {}
    if any(earlier.get(name) != result[name] for name in about):
        return {}
    return {name: part for name, part in earlier.items() if name not in result}


def _text(result: dict[str, Any]) -> str:
    lines = [f"{result['recipe']} seed {result['seed']}: {result['samples']} test samples of {result['data']}"]
    for name, part in result.items():
        if isinstance(part, dict) and name != "environment":
            lines += [f"\n{name}", *(find(name).lines or number_lines)(part)]
    if "warning" in result:
        lines += [f"\nwarning: {result['warning']}"]
    return "\n".join(lines)
