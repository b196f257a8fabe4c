"""Train a SphereNet beside its ordinary CNN, watch both curves, and write a report.

    python examples/first_run.py [--data digits|cifar10] [--seeds 2] [--steps N] [--out runs/first]

Everything goes through the training program: each network is `hypersphere train RECIPE` in a process of its own, so
what is left behind are run folders that `hypersphere evaluate`, `report` and `export` take. The two recipes differ in
the convolutions only (sigmoid SphereConv with weight projection). The digits take about a minute on a laptop;
--data cifar10 is the paper's protocol (64,000 steps: use a GPU, or --steps).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table

from hypersphere import plots, report
from hypersphere.evaluation import outputs_of
from hypersphere.train import Run

BLOCKS = "▁▂▃▄▅▆▇█"
RECIPES = {
    "digits": {"CNN": "digits.cnn", "SphereNet": "digits.spherenet"},
    "cifar10": {"CNN": "paper.table1.original.softmax", "SphereNet": "paper.table1.sigmoid0.3.softmax"},
}
# The same networks with a feature one can look at. A SphereNet's is bounded, so it keeps its normalisation.
PLANE = {
    "CNN": {"--model.feature-dim": "2", "--model.extra": "fc_norm=False"},
    "SphereNet": {"--model.feature-dim": "2"},
}
LONGER = {
    "digits": {"--schedule.steps": "1000", "--schedule.milestones": "700,900"},
    "cifar10": {},
}  # two numbers are few


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=tuple(RECIPES), default="digits")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=None, help="so many steps instead of the recipe's")
    parser.add_argument("--out", type=Path, default=Path("runs/first"))
    options = parser.parse_args()
    console, began = Console(), time.perf_counter()
    options.out.mkdir(parents=True, exist_ok=True)
    recipes, extra = RECIPES[options.data], {} if options.steps is None else {"--schedule.steps": str(options.steps)}
    seeds = {"--run.seeds": ",".join(map(str, range(options.seeds)))}
    console.print(f"[bold]{options.data}[/]: a CNN and its SphereNet twin, {options.seeds} seeds each")
    runs = train({name: (recipe, {**extra, **seeds}) for name, recipe in recipes.items()}, options.out, console)
    console.print("once more with two-dimensional features, to look at them")
    flat = train(
        {f"{name} 2-D": (recipe, {**LONGER[options.data], **extra, **PLANE[name]}) for name, recipe in recipes.items()},
        options.out,
        console,
    )
    console.print(summary(runs))
    plots.learning_curves(runs, title=options.data).savefig(options.out / "curves.png", dpi=130)
    for name, run in flat.items():
        seen = outputs_of(run)
        figure = plots.features_2d(seen.features, seen.labels, seen.class_vectors, seen.classes, title=name)
        figure.savefig(options.out / f"features_{name.split()[0].lower()}.png", dpi=130)
    page = report.write([run.path for run in (*runs.values(), *flat.values())], options.out / "report.html")
    console.print(f"{time.perf_counter() - began:.0f} s. Pictures and run folders are in {options.out}.")
    console.print(f"[bold]Open {page} in a browser.[/]")
    console.print("Next, from .venv/bin:")
    console.print(
        f"  hypersphere evaluate {runs['SphereNet'].path}          per-class errors, hardness, energies", soft_wrap=True
    )
    console.print(
        f"  hypersphere export {runs['SphereNet'].path}            safetensors, torch.export, ONNX, a model card",
        soft_wrap=True,
    )
    console.print(
        "  hypersphere train paper.table1.sigmoid0.3.softmax     CIFAR-10, as the paper (wants a GPU)", soft_wrap=True
    )
    return 0


def train(jobs: dict[str, tuple[str, dict[str, str]]], folder: Path, console: Console) -> dict[str, Run]:
    """Each job as a process of the training program, side by side, with live curves; a finished run is not repeated."""
    threads = str(max(1, (os.cpu_count() or 2) // len(jobs)))
    paths = {name: folder / name.lower().replace(" ", "-") for name in jobs}
    running = {}
    for name, (recipe, settings) in jobs.items():
        words = [word for pair in settings.items() for word in pair]
        command = [sys.executable, "-m", "hypersphere", "train", recipe, *words]
        command += ["--run.folder", str(folder), "--run.name", paths[name].name, "--run.progress", "off"]
        running[name] = subprocess.Popen(
            command,
            env={**os.environ, "OMP_NUM_THREADS": threads},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
    try:
        with Live(console=console, refresh_per_second=4) as live:
            while any(process.poll() is None for process in running.values()):
                live.update(curves(paths))
                time.sleep(0.25)
            live.update(curves(paths))
        if not console.is_terminal:  # there the last picture ends without a line feed
            console.line()
    finally:
        for process in running.values():
            process.terminate()
    for process in running.values():
        if process.returncode:
            sys.exit(process.stderr.read() if process.stderr else process.returncode)
    return {name: Run(path) for name, path in paths.items()}


def curves(paths: dict[str, Path]) -> Table:
    """Test accuracy so far: a bar an evaluation, a row a seed."""
    table = Table("network", "seed", "step", "loss", "accuracy", "test accuracy so far")
    for name, path in paths.items():
        for folder in sorted(path.glob("seed-*")):
            try:
                log = Run(folder).log()
            except ValueError:  # not written yet
                continue
            last = {key: value for line in log for key, value in line.items()}
            values = [line["accuracy"] for line in log if "accuracy" in line]
            shape = "".join(BLOCKS[min(7, max(0, int((value - 60) / 5)))] for value in values[-40:])
            shown = f"{values[-1]:.2f}%" if values else "-"
            seed, loss = folder.name.removeprefix("seed-"), last.get("loss")
            table.add_row(name, seed, str(last.get("step", 0)), "-" if loss is None else f"{loss:.3f}", shown, shape)
    return table


def summary(runs: dict[str, Run]) -> Table:
    table = Table("network", "parameters", "final accuracy, each seed", "mean final", "mean best", "steps/s")
    for name, run in runs.items():
        results = [run.result(seed) or {} for seed in run.seeds]
        final, best = ([one[f"{key}_accuracy"] for one in results] for key in ("final", "best"))
        rate = sum(one["steps_per_second"] for one in results) / len(results)
        cells = (", ".join(f"{value:.2f}" for value in final), f"{sum(final) / len(final):.2f}%")
        table.add_row(name, f"{results[0]['parameters']:,}", *cells, f"{sum(best) / len(best):.2f}%", f"{rate:.0f}")
    return table


if __name__ == "__main__":
    sys.exit(main())
