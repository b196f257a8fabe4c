"""``hypersphere report RUN [RUN ...]``: one HTML file about one run, or a comparison of several."""

from __future__ import annotations

import argparse

from ..report import write


def run(options: argparse.Namespace) -> int:
    """Run ``hypersphere report`` and return its exit status."""
    path = write(
        options.runs,
        options.out,
        root=options.root,
        device=options.device,
        data=not options.logs_only,
        force=options.force,
        trust=options.trust,
    )
    print(f"{path} ({path.stat().st_size / 1e6:.2f} MB): open it in a browser")
    return 0
