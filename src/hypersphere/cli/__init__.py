"""The ``hypersphere`` command: a table of subcommands, each a module with ``configure`` and ``run``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from .._core.streams import hush
from .._core.version import __version__
from .parser import Parser, refuse

__all__ = ["main"]

# name → (module, one line for --help). The module has configure(parser) and run(options) → exit code.
COMMANDS: dict[str, tuple[str, str]] = {
    "energy": ("hypersphere.cli.energy", "hyperspherical energy of each layer of a checkpoint"),
    "evaluate": ("hypersphere.cli.evaluate", "accuracy, verification, retrieval, robustness of a run"),
    "export": ("hypersphere.cli.export", "a trained network as safetensors, torch.export and ONNX, with a model card"),
    "list": ("hypersphere.cli.listing", "recipes with published numbers and ours, models, data sets"),
    "report": ("hypersphere.cli.report", "one HTML page about a run, or a comparison of several"),
    "reproduce": ("hypersphere.cli.reproduce", "run a table of the documents and compare"),
    "sweep": ("hypersphere.cli.sweep", "train a recipe under every combination of some settings"),
    "train": ("hypersphere.cli.train", "train a recipe, or go on with an interrupted run"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand; 0 is success, 2 a mistake in what was asked, with a message on stderr.

    130 is Ctrl-C, 141 a reader that left before the end (``| head``).
    """
    words = list(sys.argv[1:] if argv is None else argv)
    name = f"hypersphere {next((word for word in words if not word.startswith('-')), '')}".strip()
    code = 141
    try:
        code = _run(words)
        _flush()
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return 130
    except (ValueError, TypeError, OSError, ImportError) as error:
        if isinstance(error, BrokenPipeError) and _unread():
            return code
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    return code


def _run(words: list[str]) -> int:
    parser = Parser(prog="hypersphere", description="Deep learning on the hypersphere.")
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    chosen = next((word for word in words if not word.startswith("-")), None)
    for name, (module, summary) in COMMANDS.items():
        subparser = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        if name == chosen:  # only the chosen module is imported
            importlib.import_module(module).configure(subparser)
    try:
        options, strange = parser.parse_known_args(words)
        if strange:
            refuse(commands.choices.get(chosen or "", parser), strange)
    except SystemExit as stop:  # argparse has said why
        return int(stop.code or 0)
    if options.version:
        print(f"hypersphere {__version__}")
        return 0
    if options.command is None:
        parser.print_help()
        return 2
    return int(importlib.import_module(COMMANDS[options.command][0]).run(options))


def _unread() -> bool:
    """Whether nobody reads the standard output any more; the rest of it then goes nowhere."""
    try:
        print(flush=True)  # what failed before has left the buffer
    except BrokenPipeError:
        hush()
        return True
    return False


def _flush() -> None:
    if sys.stdout is not None:  # it is None where it was closed (>&-)
        sys.stdout.flush()
