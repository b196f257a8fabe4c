"""What each subcommand takes. Torch is not imported here: a mistake is answered at once, and so is Ctrl-C."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from .._core.registries import KINDS, MEASUREMENTS
from ..config import Config, add_arguments
from ..config.command_line import LazyHelp

NAMED = {kind if kind == "angular" else f"{kind}s": table for kind, table in KINDS.items()}
"""Tables of all that has a name, built in or declared with ``hs.register``, by the words of ``hypersphere list``."""
LISTED = ("tables", "recipes", *NAMED)


def energy(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``hypersphere energy``."""
    add = _Adder(parser)
    add("checkpoint", ".safetensors file, torch file (weights_only), or run folder", type=Path)
    add("--s", "power of the distance; 0 is the logarithmic energy", 2.0)
    about = "distance of two neurons: that of their directions, or the angle between them"
    add("--distance", about, "euclidean", choices=("euclidean", "angular"))
    add("--half-space", "energy of the neurons together with their opposites", False)
    add("--include", "only weights whose name matches, e.g. 'layer1.*'", action="append", metavar="PATTERN")
    add("--skip", "leave out weights whose name matches", action="append", metavar="PATTERN")
    add("--limit", "subsample larger layers to LIMIT neurons", 1024)
    add("--steps", "steps that minimise the energy, for the column `refined`", 50)
    add("--seed", "seed of the random directions and of subsampling", 0)
    add("--json", "print JSON instead of a table", False)


def evaluate(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``hypersphere evaluate``."""
    add = _Adder(parser)
    add("run", "run folder, or the folder of one seed in it", type=Path)
    add("--seed", "one seed only (default: every seed)", type=int)
    add("--parts", LazyHelp(_parts), metavar="PART,...")
    add("--root", "folder of the data, if it is not where it was at training")
    add("--device", "where the network runs", "cpu")
    add("--batch-size", "samples in memory at a time (default: that of the run)", type=int)
    add("--flip", "verification: append the features of the mirrored image", action=argparse.BooleanOptionalAction)
    add("--center", "verification: subtract the mean feature", action=argparse.BooleanOptionalAction)
    add("--inception", "GAN: the classifier that scores its images, FILE.onnx or a run folder")
    add("--pairs", "verify your own pairs: lines `left right 1|0 [fold]`, or LFW's pairs.txt", type=Path)
    add("--images", "folder of the images of --pairs (default: that of the list, or of the run's data)", type=Path)
    add("--folds", "number of folds, for a list of pairs without folds (default: that of the run)", type=int)
    add("--out", "JSON file (default SEED FOLDER/evaluation.json)", type=Path)
    add("--json", "print JSON instead of tables", False)
    add.trust()


def export(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``hypersphere export``."""
    add = _Adder(parser)
    add("run", "run folder, or the folder of one seed in it", type=Path)
    add("--seed", "which seed (default: the first)", type=int)
    add("--out", "folder to write (default: RUN/seed-N/export)", type=Path)
    add("--formats", "any of safetensors,torch,onnx (default: all)")
    add("--root", "folder of the data, if it is not where it was at training")
    add("--embedding", "leave out the class vectors: the program gives the embedding only", False)
    add("--with-normalization", "make the normalisation part of the program, which then takes uint8 images", False)
    add("--samples", "test samples to check with", 64)
    add("--tolerance", "largest difference of outputs that is allowed, relative for outputs above 1", 1e-4)
    add("--force", "replace an earlier export", False)
    add.trust()


def listing(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``hypersphere list``."""
    add = _Adder(parser)
    about = f"{', '.join(LISTED)}; or the name of a table, whose cells are shown"
    add("what", about, "tables", nargs="?", metavar="WHAT|TABLE")
    add(
        "pattern",
        "shell pattern of names, e.g. 'paper.*', or of the cells of a table; a whole name also shows its parameters",
        nargs="?",
        default="*",
    )
    add("--results", "folder of measured numbers (default: ./results, or the numbers in the package)", type=Path)


def report(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``hypersphere report``."""
    add = _Adder(parser)
    add("runs", "run folder, folder of a seed in it, or folder that holds runs at any depth", nargs="+", metavar="RUN")
    add("--out", "file to write (default: RUN/report.html, or report.html beside several runs)", metavar="FILE")
    add("--root", "folder of the data, if it is not where it was at training", metavar="DATA")
    add("--device", "where the networks run on their test splits", "cpu")
    add("--logs-only", "do not run the networks on their test splits", False)
    add("--force", "overwrite a file that is not a report", False)
    add.trust()


def reproduce(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``hypersphere reproduce``."""
    parser.usage = (
        "hypersphere reproduce TABLE|--plan FILE [--cells PATTERN] [--seeds 0,1,2] [--steps N] [--at-once K] "
        "[--within MINUTES] [--GROUP.FIELD VALUE ...]"
    )
    add = _Adder(parser)
    add("table", "table, see `hypersphere list tables`", nargs="?")
    about = "file with a table and its options on each line; a training that several lines share is done once"
    add("--plan", about, type=Path, metavar="FILE")
    add("--cells", "only cells that match, e.g. 'sigmoid0.3.*'", default="*", metavar="PATTERN")
    add("--seeds", "seeds, with commas", "0")
    add("--steps", "train for this many steps; milestones and warm-ups shrink in proportion", type=int)
    about = "train K cells and seeds at a time in this process; each ends as it does alone"
    add("--at-once", about, 1, metavar="K")
    about = "stop after this many minutes, and complete as many trainings as possible; the same command continues"
    add("--within", about, type=float, metavar="MINUTES")
    add("--results", "folder of measured numbers", type=Path, default=Path("results"))
    add("--print", "print the table and run nothing", False, dest="only_print")
    add_arguments(parser, Config)


def sweep(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``hypersphere sweep``."""
    parser.usage = "hypersphere sweep RECIPE [--name NAME] [--GROUP.FIELD VALUE,VALUE,... ...] [--help GROUP]"
    add = _Adder(parser)
    add("recipe", "recipe, see `hypersphere list recipes`, or `custom`", nargs="?")
    add("--config", "settings from a file, as in `hypersphere train`", metavar="FILE")
    add("--name", "folder of the sweep in --run.folder (default: RECIPE-sweep)")
    about = "number of runs at a time; auto (default): as many as fit, given the peak memory of the first"
    add("--jobs", about, default="auto")
    add("--show", "list the runs and train nothing", False)
    add.trust()
    parser.epilog = (
        "Commas separate values: every combination is trained. An option that is a list itself (--run.seeds, "
        "--schedule.milestones, ...) is one value, and `|` separates several: --schedule.milestones '10,20|15,25'. "
        "In a list with a `|`, commas never separate values: --model.widths '32,64|' is one value. After an "
        "interruption the same command continues and does not repeat finished runs."
    )
    add_arguments(parser, Config)
    for action in parser._actions:  # texts of several values, which are read once they are split
        if "." in action.dest:
            action.type = None


def train(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``hypersphere train``."""
    add = _Adder(parser)
    about = "recipe, see `hypersphere list recipes`; `custom` starts from the defaults below"
    add("recipe", about, nargs="?")
    about = "settings from a .json or .toml file, or those of a run folder; options override them"
    add("--config", about, metavar="FILE")
    add("--show", "print the settings as JSON and do not train", False)
    add.trust()
    parser.usage = "hypersphere train [RECIPE] [--config FILE] [--GROUP.FIELD VALUE ...] [--show] [--help GROUP]"
    parser.epilog = (
        "Defaults are those of `custom`; recipes set their own (see --show). The same command continues an "
        "interrupted run. Under torchrun the processes share the batch."
    )
    add_arguments(parser, Config)


class _Adder:
    """Adds arguments to a parser: a name, its help, and a default, which tells the type and ends the help."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._parser = parser

    def __call__(self, name: str, about: str, start: Any = None, **options: Any) -> None:
        if start is False:
            options["action"] = "store_true"
        elif start is not None:
            options = {"type": type(start), **options, "default": start}
            about += " (default %(default)s)"
        self._parser.add_argument(name, help=about, **options)

    def trust(self) -> None:
        about = "modules whose code a run folder may use by module:Name, beside those that this command line names"
        self("--trust", about, metavar="MODULE,...")


def _parts() -> str:
    names = ", ".join(MEASUREMENTS)
    return f"what to evaluate (default: what suits the data): {names}, or an address module:function"
