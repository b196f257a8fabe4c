"""What each subcommand takes. Torch is not imported here: a mistake is answered at once, and so is Ctrl-C."""

from __future__ import annotations

import argparse
from pathlib import Path

from .._core.registries import MEASUREMENTS
from ..config import Config, add_arguments
from ..config.command_line import LazyHelp

KINDS = ("angular", "magnitudes", "heads", "regularizers", "maps", "measurements", "plots", "panels")
"""What has a name beside recipes, networks and data sets: built in, or declared with ``hs.register``."""


def energy(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``hypersphere energy``."""
    parser.add_argument("checkpoint", type=Path, help=".safetensors file, torch file (weights_only), or run folder")
    parser.add_argument(
        "--s", type=float, default=2.0, help="power of the distance; 0 is the logarithmic energy (default %(default)s)"
    )
    parser.add_argument(
        "--distance",
        default="euclidean",
        choices=("euclidean", "angular"),
        help="distance of two neurons: that of their directions, or the angle between them (default %(default)s)",
    )
    parser.add_argument("--half-space", action="store_true", help="energy of the neurons together with their opposites")
    parser.add_argument(
        "--include", action="append", metavar="PATTERN", help="only weights whose name matches, e.g. 'layer1.*'"
    )
    parser.add_argument("--skip", action="append", metavar="PATTERN", help="leave out weights whose name matches")
    parser.add_argument(
        "--limit", type=int, default=1024, help="subsample larger layers to LIMIT neurons (default %(default)s)"
    )
    parser.add_argument(
        "--steps",
        type=int,
        default=50,
        help="steps that minimise the energy, for the column of refined directions (default %(default)s)",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the random directions and of subsampling (default %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def evaluate(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``hypersphere evaluate``."""
    parser.add_argument("run", type=Path, help="run folder, or the folder of one seed in it")
    parser.add_argument("--seed", type=int, default=None, help="one seed only (default: every seed)")
    parser.add_argument(
        "--parts",
        default=None,
        metavar="PART,...",
        help=LazyHelp(
            lambda: (
                "what to evaluate (default: what suits the data): "
                f"{', '.join(MEASUREMENTS)}, or an address module:function"
            )
        ),
    )
    parser.add_argument("--root", default=None, help="folder of the data, if it is not where it was at training")
    parser.add_argument("--device", default="cpu", help="where the network runs (default %(default)s)")
    for name, about in (("flip", "append the features of the mirrored image"), ("center", "subtract the mean feature")):
        parser.add_argument(
            f"--{name}", action=argparse.BooleanOptionalAction, default=None, help=f"verification: {about}"
        )
    parser.add_argument(
        "--inception", default=None, help="GAN: the classifier that scores its images, FILE.onnx or a run folder"
    )
    parser.add_argument(
        "--pairs",
        type=Path,
        default=None,
        help="verify your own pairs: lines `left right 1|0 [fold]`, or LFW's pairs.txt",
    )
    parser.add_argument(
        "--images",
        type=Path,
        default=None,
        help="folder of these images (default: that of the list, or of the run's data)",
    )
    parser.add_argument("--out", type=Path, default=None, help="JSON file (default SEED FOLDER/evaluation.json)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    _trust(parser)


def export(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``hypersphere export``."""
    parser.add_argument("run", type=Path, help="run folder, or the folder of one seed in it")
    parser.add_argument("--seed", type=int, help="which seed (default: the first)")
    parser.add_argument("--out", type=Path, help="folder to write (default: RUN/seed-N/export)")
    parser.add_argument("--formats", help="any of safetensors,torch,onnx (default: all)")
    parser.add_argument("--root", help="folder of the data, if it is not where it was at training")
    parser.add_argument(
        "--embedding", action="store_true", help="leave out the class vectors: the program gives the embedding only"
    )
    parser.add_argument(
        "--with-normalization", action="store_true", help="make the normalisation part of the program: uint8 images in"
    )
    parser.add_argument("--samples", type=int, default=64, help="test samples to check with (default %(default)s)")
    parser.add_argument(
        "--tolerance",
        type=float,
        default=1e-4,
        help="largest difference allowed, relative to outputs above 1 (default %(default)s)",
    )
    parser.add_argument("--force", action="store_true", help="replace an earlier export")
    _trust(parser)


def listing(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``hypersphere list``."""
    parser.add_argument(
        "what",
        nargs="?",
        default="tables",
        choices=("tables", "recipes", "models", "datasets", *KINDS),
        help="what to list (default %(default)s)",
    )
    parser.add_argument("pattern", nargs="?", default="*", help="shell pattern on names, e.g. 'paper.*'")
    parser.add_argument(
        "--results", type=Path, help="folder of measured numbers (default: ./results, or the numbers in the package)"
    )


def report(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``hypersphere report``."""
    parser.add_argument(
        "runs", nargs="+", metavar="RUN", help="run folder, the folder of one seed in it, or a folder of runs"
    )
    parser.add_argument(
        "--out", metavar="FILE", help="file to write (default: RUN/report.html, or report.html beside several runs)"
    )
    parser.add_argument("--root", metavar="DATA", help="folder of the data, if it is not where it was at training")
    parser.add_argument("--device", default="cpu", help="where the networks run on their test splits (default cpu)")
    parser.add_argument("--logs-only", action="store_true", help="do not run the networks on their test splits")
    parser.add_argument("--force", action="store_true", help="overwrite a file that is not a report")
    _trust(parser)


def reproduce(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``hypersphere reproduce``."""
    parser.usage = (
        "hypersphere reproduce TABLE|--plan FILE [--cells PATTERN] [--seeds 0,1,2] [--steps N] [--at-once K] "
        "[--GROUP.FIELD VALUE ...]"
    )
    parser.add_argument("table", nargs="?", help="table, see `hypersphere list tables`")
    parser.add_argument(
        "--plan",
        type=Path,
        metavar="FILE",
        help="a table with its options on each line of a file; what is the same training is trained once",
    )
    parser.add_argument("--cells", default="*", metavar="PATTERN", help="only cells that match, e.g. 'sigmoid0.3.*'")
    parser.add_argument("--seeds", default="0", help="seeds, with commas (default %(default)s)")
    parser.add_argument("--steps", type=int, default=None, help="so many steps instead of all; milestones shrink along")
    parser.add_argument(
        "--at-once",
        type=int,
        default=1,
        metavar="K",
        help="train K cells and seeds at a time in this process, with the results of one at a time (default 1)",
    )
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of measured numbers")
    parser.add_argument("--print", dest="only_print", action="store_true", help="print the table and run nothing")
    add_arguments(parser, Config)


def sweep(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``hypersphere sweep``."""
    parser.usage = "hypersphere sweep RECIPE [--name NAME] [--GROUP.FIELD VALUE,VALUE,... ...] [--help GROUP]"
    parser.add_argument("recipe", nargs="?", help="recipe, see `hypersphere list recipes`, or `custom`")
    parser.add_argument("--config", metavar="FILE", help="settings from a file, as in `hypersphere train`")
    parser.add_argument("--name", help="folder of the sweep in --run.folder (default: RECIPE-sweep)")
    parser.add_argument(
        "--jobs",
        default="auto",
        help="number of runs at a time; auto (default): as many as fit, given the peak memory of the first",
    )
    parser.add_argument("--show", action="store_true", help="list the runs and train nothing")
    _trust(parser)
    parser.epilog = (
        "Commas separate values: every combination is trained. An option that is a list itself (--run.seeds, "
        "--schedule.milestones, ...) is one value, and `|` separates several: --schedule.milestones '10,20|15,25'. "
        "With a `|` commas belong to the value for every option: --model.widths '32,64|' is one value. The same "
        "command continues: what is done is not trained again."
    )
    add_arguments(parser, Config)
    for action in parser._actions:  # texts of several values, which are read once they are split
        if "." in action.dest:
            action.type = None


def train(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``hypersphere train``."""
    parser.add_argument(
        "recipe", nargs="?", help="recipe, see `hypersphere list recipes`; `custom` starts from the defaults below"
    )
    parser.add_argument(
        "--config", metavar="FILE", help="settings from a .json or .toml file, or those of a run folder; options win"
    )
    parser.add_argument("--show", action="store_true", help="print the settings as JSON and do not train")
    _trust(parser)
    parser.usage = "hypersphere train [RECIPE] [--config FILE] [--GROUP.FIELD VALUE ...] [--show] [--help GROUP]"
    parser.epilog = (
        "Defaults are those of `custom`; recipes set their own (see --show). The same command continues with an "
        "interrupted run. Under torchrun the batch is shared by the processes."
    )
    add_arguments(parser, Config)


def _trust(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trust",
        metavar="MODULE,...",
        help="modules whose code a run folder may name by module:Name; what this command line names is trusted",
    )
