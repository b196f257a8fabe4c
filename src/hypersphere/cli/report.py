"""``hypersphere report RUN [RUN ...]``: one HTML file about one run, or a comparison of several."""

from __future__ import annotations

import argparse

from ..report import write

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs", nargs="+", metavar="RUN", help="run folder, the folder of one seed in it, or a folder of runs"
    )
    parser.add_argument("--out", metavar="FILE", help="default: RUN/report.html, or report.html beside several runs")
    parser.add_argument("--root", metavar="DATA", help="folder of the data, if it lies elsewhere than at training")
    parser.add_argument("--device", default="cpu", help="where the networks look at their test splits (default cpu)")
    parser.add_argument("--logs-only", action="store_true", help="do not run the networks on their test splits")
    parser.add_argument("--force", action="store_true", help="write over a file that is no report")


def run(options: argparse.Namespace) -> int:
    path = write(
        options.runs,
        options.out,
        root=options.root,
        device=options.device,
        data=not options.logs_only,
        force=options.force,
    )
    print(f"{path} ({path.stat().st_size / 1e6:.2f} MB): open it in a browser")
    return 0
