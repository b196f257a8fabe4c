"""``hypersphere export RUN``: the trained network as files for others, each checked, with a model card."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..export import FORMATS, export_run

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="run folder, or the folder of one seed in it")
    parser.add_argument("--seed", type=int, help="which seed (default: the first)")
    parser.add_argument("--out", type=Path, help="folder to write (default: RUN/seed-N/export)")
    parser.add_argument("--formats", default=",".join(FORMATS), help="any of %(default)s (default: all)")
    parser.add_argument("--root", help="folder of the data, if it lies elsewhere than at training")
    parser.add_argument("--embedding", action="store_true", help="leave the class vectors out: embedding only")
    parser.add_argument(
        "--with-normalization", action="store_true", help="make bytes to numbers part of the program: uint8 images in"
    )
    parser.add_argument("--samples", type=int, default=64, help="test samples to check with (default %(default)s)")
    parser.add_argument(
        "--tolerance",
        type=float,
        default=1e-4,
        help="largest difference allowed, relative to outputs above 1 (default %(default)s)",
    )
    parser.add_argument("--force", action="store_true", help="replace an earlier export")


def run(options: argparse.Namespace) -> int:
    made = export_run(
        options.run,
        seed=options.seed,
        out=options.out,
        formats=options.formats,
        root=options.root,
        embedding=options.embedding,
        with_normalization=options.with_normalization,
        samples=options.samples,
        tolerance=options.tolerance,
        force=options.force,
        say=lambda line: print(line, flush=True),
    )
    print(f"checked with {made.inputs}")
    print(f"in {made.folder}; its README.md says how to use each file")
    return 0
