"""The ``hypersphere`` command: a table of subcommands, each a function in ``arguments`` and a module with ``run``."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from .._core.streams import hush, spell
from .._core.version import __version__

if TYPE_CHECKING:
    import argparse

__all__ = ["main"]

# name → (module, one line for --help). The module has run(options) → exit code, ``arguments`` a function of its name.
COMMANDS: dict[str, tuple[str, str]] = {
    "energy": ("hypersphere.cli.energy", "measure the hyperspherical energy of each layer of a checkpoint"),
    "evaluate": ("hypersphere.cli.evaluate", "evaluate a run: accuracy, verification, retrieval, robustness"),
    "export": (
        "hypersphere.cli.export",
        "write a trained network as safetensors, torch.export and ONNX, with a model card",
    ),
    "list": (
        "hypersphere.cli.listing",
        "list recipes with published numbers and ours, models, data sets, losses and more",
    ),
    "report": ("hypersphere.cli.report", "write one HTML page about a run, or a comparison of several"),
    "reproduce": ("hypersphere.cli.reproduce", "train the networks of a published table and compare with its numbers"),
    "sweep": ("hypersphere.cli.sweep", "train a recipe under every combination of some settings"),
    "train": ("hypersphere.cli.train", "train a recipe, or continue an interrupted run"),
}
# What needs less memory, of the commands that train nothing; those that train say it themselves.
_SMALLER = {
    "energy": "lower --limit",
    "evaluate": "lower --batch-size, or give --device cpu",
    "export": "lower --samples",
    "report": "give --logs-only, or --device cpu",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand; 0 is success, 2 a mistake in what was asked, with a message on stderr.

    1 is a failure, e.g. memory that ran out, 130 is Ctrl-C, 141 a reader that left before the end (``| head``).
    """
    spell()
    if argv is None:
        _find_own_modules()
    words = list(sys.argv[1:] if argv is None else argv)
    if len(words) > 1 and words[0] in ("-h", "--help"):  # `--help COMMAND`, or a group of settings
        words = [words[1], "--help"] if words[1] in COMMANDS else ["train", "--help", words[1]]
    name = f"hypersphere {next((word for word in words if not word.startswith('-')), '')}".strip()
    code = 141
    try:
        with _at_once(name):  # nothing is written yet: modules are only imported, torch among them
            options = _parse(words)
            run = None if isinstance(options, int) else importlib.import_module(COMMANDS[options.command][0]).run
        code = int(options if run is None else run(options))
        _flush()
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return 130
    except (ValueError, TypeError, OSError, ImportError) as error:
        if isinstance(error, BrokenPipeError) and _unread():
            return code
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    except Exception as error:
        about = importlib.import_module("hypersphere._core.memory")  # which imports torch: not before it is needed
        command = name.rpartition(" ")[2]
        if command not in _SMALLER or not about.ran_out(error):
            raise
        print(f"{name}: memory ran out{about.asked_for(error)}: {_SMALLER[command]}", file=sys.stderr)
        return 1
    return code


def _find_own_modules() -> None:
    """Let ``module:Name`` be code of the current folder, as under ``python -m``; after all others, so it hides none."""
    if not sys.flags.safe_path:
        with suppress(OSError):  # the folder may be gone
            sys.path += [here] if (here := os.getcwd()) not in sys.path else []


def _parse(words: list[str]) -> argparse.Namespace | int:
    """The options, or the exit code where there is nothing to run."""
    arguments, parsing = (importlib.import_module(f"{__name__}.{part}") for part in ("arguments", "parser"))
    parser = parsing.Parser(prog="hypersphere", description="Deep learning on the hypersphere.")
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    chosen = next((word for word in words if not word.startswith("-")), None)
    for name, (module, summary) in COMMANDS.items():
        subparser = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        if name == chosen:
            getattr(arguments, module.rpartition(".")[2])(subparser)
    try:
        if chosen is not None and chosen not in COMMANDS:
            names = ", ".join(COMMANDS)
            parser.error(f"{chosen!r} is not a command{parsing.closest(chosen, COMMANDS)} (commands: {names})")
        options, strange = parser.parse_known_args(words)
        if strange:
            parsing.refuse(commands.choices.get(chosen or "", parser), strange)
    except SystemExit as stop:  # argparse has said why
        return int(stop.code or 0)
    if options.version:
        print(f"hypersphere {__version__}")
        return 0
    if options.command is None:
        parser.print_help()
        return 2
    return options


@contextmanager
def _at_once(name: str) -> Iterator[None]:
    """Let Ctrl-C end the process within: an exception could be lost, or garbled, in the imports of a large package."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: object) -> None:
        os.write(2, f"{name}: interrupted\n".encode())
        os._exit(130)

    before = signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _unread() -> bool:
    """Whether the reader of the standard output is gone; the rest of the output is then dropped."""
    try:
        print(flush=True)  # what failed before has left the buffer
    except BrokenPipeError:
        hush()
        return True
    return False


def _flush() -> None:
    if sys.stdout is not None:  # it is None where it was closed (>&-)
        sys.stdout.flush()
