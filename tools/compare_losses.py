"""Guard of refactorings: the losses of short trainings, step by step, against a recorded run.

    python tools/compare_losses.py              # compare with tools/compare_losses.json; exit 1 where a bit differs
    python tools/compare_losses.py --record     # write that file anew: only where numbers are meant to change

One recipe of each family trains for a few steps on the CPU through `hypersphere train`, on scikit-learn's digits or on
characters drawn here; what is compared is read from the run folders. Nothing is imported from the package, so its
inside can move freely. `PYTHONPATH=other/src` compares another copy of it. Every training has one thread and the
plainest instructions of each library, so that processors of one family give the same bits; another torch may not.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

RECORD = Path(__file__).with_suffix(".json")
STEPS = 8
COMPARED = ("loss", "penalty", "train_accuracy", "accuracy", "test_loss")  # numbers of a line of the log

# One thread, no instructions that only some processors have.
PLAIN = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MKL_CBWR": "COMPATIBLE",
    "ATEN_CPU_CAPABILITY": "default",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
}

DIGITS = "--data.name digits --data.batch-size 32 --data.pad 1 --data.hflip no"
SMALL = f"{DIGITS} --model.widths 8,8,8"
DRAWN = "--data.batch-size 32 --model.widths 4,4,4 --model.feature-dim 16"
PAIRS = f"{DRAWN} --evaluation.folds 3 --evaluation.pairs 12"

# Family: the recipe, and the settings that make it small.
RECIPES = {
    "SphereConv": ("digits.spherenet", "--data.batch-size 32 --optim.projection-every 3"),
    "margin head": ("paper.table1.sigmoid0.3.ga-softmax", SMALL),
    "decoupled, ρ learned": ("thesis.table4.4.segment.cosine", f"{DIGITS} --model.widths 4,4,4"),
    "MHE": ("thesis.table5.4.half-a-mhe.both", SMALL),
    "CoMHE": ("thesis.table6.1.rp-comhe", f"{SMALL} --regularizer.dim 4 --regularizer.refresh 3"),
    "CoMHE, adversarial": ("thesis.table6.1.adv-comhe", f"{SMALL} --regularizer.dim 4"),
    "OPT, Cayley": ("thesis.table7.4.cp.cnn6", SMALL),
    "OPT, orthogonal descent": ("thesis.table7.4.ogd.cnn6", SMALL),
    "GAN": (
        "open.cifar10_gan.mhe+sn",
        "--data.name digits --data.batch-size 16 --model.extra widths=4,4,8,8 --gan.extra widths=16,8,8,4 "
        "--evaluation.inception none --evaluation.also none --evaluation.samples 20 --evaluation.splits 2",
    ),
    "few-shot": (
        "open.omniglot_few_shot.baseline++.mhe.5shot",
        "--data.batch-size 32 --model.extra width=8 "
        "--evaluation.episodes 10 --evaluation.queries 4 --evaluation.shots 1,3",
    ),
    "open set, SphereFace+": ("open.omniglot.sphereface+", PAIRS),
    "open set, triplets": ("open.omniglot.triplet", PAIRS),
    "adversarial": (
        "thesis.table4.7.tanh.fgsm.none",
        f"{SMALL} --evaluation.also none --regularizer.name none --adversarial.losses log_odds",
    ),
}


def main() -> int:
    """Record or compare; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the record (the default)")
    parser.add_argument("--record", action="store_true", help="write the record instead of comparing with it")
    parser.add_argument("--file", type=Path, default=RECORD, help="the record (default: beside this script)")
    parser.add_argument("--only", metavar="TEXT", default="", help="families or recipes whose name holds this text")
    options = parser.parse_args()
    chosen = [family for family, (recipe, _) in RECIPES.items() if options.only.lower() in f"{family} {recipe}".lower()]
    if not chosen:
        parser.error(f"--only {options.only!r} matches none of: {', '.join(RECIPES)}")
    with tempfile.TemporaryDirectory() as folder:
        draw_characters(Path(folder) / "data")
        if options.record:
            return record(options.file, chosen, Path(folder))
        return check(options.file, chosen, Path(folder))


def record(file: Path, chosen: list[str], folder: Path) -> int:
    """Train and write; families not chosen keep what the file has."""
    content = json.loads(file.read_text()) if file.exists() else {}
    trainings = content.get("trainings", {}) | {family: train(family, folder) for family in chosen}
    content = {
        "environment": environment(),
        "trainings": {name: trainings[name] for name in RECIPES if name in trainings},
    }
    file.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    print(f"{file}: {len(chosen)} trainings of {STEPS} steps recorded")
    return 0


def check(file: Path, chosen: list[str], folder: Path) -> int:
    """Train and compare; 1 if anything differs or was never recorded."""
    content = json.loads(file.read_text())
    if content["environment"] != environment():
        print(f"recorded with {content['environment']}, compared with {environment()}: bits may differ for that alone")
    different = 0
    for family in chosen:
        wanted = content["trainings"].get(family)
        found = train(family, folder)
        difference = "not recorded" if wanted is None else first_difference(wanted, found)
        different += difference is not None
        print(f"{family:24} {RECIPES[family][0]:46} {difference or 'identical'}", flush=True)
    print(f"{len(chosen) - different} of {len(chosen)} identical")
    return int(different > 0)


def train(family: str, folder: Path) -> dict[str, Any]:
    """Run one recipe with `hypersphere train`; its settings and the numbers of its log, as exact hexadecimal."""
    recipe, settings = RECIPES[family]
    often = f"--schedule.steps {STEPS} --run.log-every 1 --run.eval-every 4 --run.checkpoint-every {STEPS}"
    name = recipe.replace(".", "_")
    where = f"--run.folder {folder} --run.name {name} --run.device cpu --run.tensorboard no --run.progress off"
    command = [sys.executable, "-m", "hypersphere", "train", recipe, *f"{settings} {often} {where}".split()]
    place = os.environ | PLAIN | {"HYPERSPHERE_DATA": str(folder / "data")}
    done = subprocess.run(command, env=place, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    (log,) = (folder / name).glob("seed-*/log.jsonl")
    return {"recipe": recipe, "settings": settings, "lines": [exact(json.loads(line)) for line in open(log)]}


def exact(line: dict[str, Any]) -> dict[str, Any]:
    """The compared numbers of a line of the log, every bit of them."""
    return {"step": line["step"]} | {name: float(line[name]).hex() for name in COMPARED if name in line}


def first_difference(wanted: dict[str, Any], found: dict[str, Any]) -> str | None:
    """Where two trainings part, in words; None if nowhere."""
    for name in ("recipe", "settings"):
        if wanted[name] != found[name]:
            return f"recorded with another {name}: {wanted[name]}"
    for before, after in zip(wanted["lines"], found["lines"], strict=False):
        for name in ordered(before, after):
            if before.get(name) != after.get(name):
                return f"step {after['step']}: {name} was {shown(before.get(name))}, is {shown(after.get(name))}"
    if len(wanted["lines"]) != len(found["lines"]):
        return f"the log had {len(wanted['lines'])} lines, has {len(found['lines'])}"
    return None


def ordered(*lines: dict[str, Any]) -> Iterable[str]:
    return [name for name in ("step", *COMPARED) if any(name in line for line in lines)]


def shown(value: Any) -> str:
    return f"{float.fromhex(value)!r} ({value})" if isinstance(value, str) else str(value)


def environment() -> dict[str, str]:
    """What bits may depend on."""
    return {"torch": version("torch"), "machine": platform.machine()}


def draw_characters(root: Path) -> None:
    """Omniglot's folders with 10 + 8 characters of 8 drawings: bars of ink, in one place for each character."""
    import numpy as np
    from PIL import Image

    for part, characters, first in (("images_background", 10, 0), ("images_evaluation", 8, 10)):
        for character in range(characters):
            bars = np.random.default_rng(first + character).integers(8, 80, (6, 2))
            folder = root / "omniglot" / part / "Drawn" / f"character{character + 1:02d}"
            folder.mkdir(parents=True)
            for drawing in range(8):
                paper = np.full((105, 105), True)
                ends = np.random.default_rng([first + character, drawing]).integers(10, 25, 6)
                for number, ((row, column), end) in enumerate(zip(bars, ends, strict=True)):
                    stroke = paper if number % 2 else paper.T
                    stroke[row : row + 4, column : column + end] = False
                Image.fromarray(paper).save(folder / f"{first + character + 1:04d}_{drawing + 1:02d}.png")


if __name__ == "__main__":
    sys.exit(main())
