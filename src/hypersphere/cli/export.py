"""``hypersphere export RUN``: the trained network as files for others, each checked, with a model card."""

from __future__ import annotations

import argparse

from ..export import FORMATS, export_run


def run(options: argparse.Namespace) -> int:
    """Run ``hypersphere export`` and return its exit status."""
    made = export_run(
        options.run,
        seed=options.seed,
        out=options.out,
        formats=tuple(FORMATS) if options.formats is None else options.formats,
        root=options.root,
        embedding=options.embedding,
        with_normalization=options.with_normalization,
        samples=options.samples,
        tolerance=options.tolerance,
        force=options.force,
        trust=options.trust,
        say=lambda line: print(line, flush=True),
    )
    print(f"checked with {made.inputs}")
    print(f"in {made.folder}; its README.md says how to use each file")
    return 0
