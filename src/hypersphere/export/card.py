"""The model card: what it is, how good, what goes in and out, how to load it, whom to cite.

User text (names of classes, recipes and commands) is shown as it is and means nothing in Markdown.
"""

from __future__ import annotations

import html
import json
import os
import re
from pathlib import Path
from typing import Any

import torch

from .. import data
from .._core.features import features_of
from .._core.registries import ANGULAR, DATASETS, HEADS, MAPS, MEASUREMENTS, OPTIMIZERS
from ..config.loss import OWN_CLASSIFIER
from ..recipes import Published, published
from ..runs import Run
from ..runs.logger import UNNAMED
from .citations import LIBRARY
from .formats import FORMATS, Job
from .snippets import comparison, snippet

_TITLES = {
    "safetensors": "`model.safetensors`: weights, for hypersphere",
    "torch": "`model.pt2`: a program, for PyTorch alone; loading it runs what is in it",
    "onnx": "`model.onnx`: a program, for ONNX Runtime and others",
}


def card(run: Run, seed: int, job: Job, notes: dict[str, str], manifest: dict[str, Any]) -> str:
    """README.md of an export."""
    sections = [
        _front(run),
        f"# {plain(run.recipe)}, seed {seed}",
        _what(run, seed, job),
        "## How good",
        _results(run),
        "## What goes in, what comes out",
        _contract(run, seed, job, manifest),
        "## Files",
        _files(manifest, notes),
        "## How to use them",
        *(f"### {_TITLES[name]}\n\n```python\n{snippet(name, job)}\n```" for name in manifest["checks"]),
        *_comparing(run, job),
        "## How it was made",
        _making(run, seed, manifest),
        "## Limits",
        _limits(run, seed, job, manifest),
        "## Licence and citation",
        _citation(run),
    ]
    return "\n\n".join(sections) + "\n"


def _front(run: Run) -> str:
    """The block that model hubs read."""
    name = run.config.data.name
    datasets = [] if name in (UNNAMED, "folder") else [f"datasets: [{quoted(name)}]"]
    return "\n".join(["---", "library_name: hypersphere", "license: other", *datasets, "---"])


def _what(run: Run, seed: int, job: Job) -> str:
    config, facts = run.config, run.facts(seed)
    operator = "" if config.model.operator == "plain" else f" with {config.model.operator} operators"
    if config.model.angular and operator:
        operator += f" (g: {plain(ANGULAR.label(config.model.angular))})"
    own = OWN_CLASSIFIER.get(config.loss.name)
    head = own or f"the head {plain(HEADS.label(config.loss.name))} ({code(config.loss.name)})"
    opt = config.orthogonal.method and plain(MAPS.label(config.orthogonal.method))
    rows = [
        f"- Network: {code(config.model.name)}{operator}, {int(job.metadata['parameters']):,} parameters, float32",
        f"- Trained with {head}" + (f", orthogonal over-parameterized ({opt}), merged here" if opt else ""),
        f"- Data: {_data(run)}"
        + ("" if config.data.name == UNNAMED else f" ({plain(data.describe(config.data.name))})"),
        f"- Classes ({facts.num_classes}): {_classes(facts.classes)}",
    ]
    return "\n".join(rows)


def _data(run: Run) -> str:
    """The data set by its name, those of a loop that named none in words; of a folder, the name of the folder."""
    settings = run.config.data
    if settings.name == "folder" and settings.root:
        return f"the images in {plain(Path(os.path.abspath(os.path.expanduser(settings.root))).name)}"
    return "data of your own" if settings.name == UNNAMED else plain(settings.name)


def _classes(names: tuple[str, ...]) -> str:
    if not names:
        return "unnamed"
    shown = ", ".join(map(plain, names[:20]))
    return shown if len(names) <= 20 else f"{shown}, ...; all of them are in `model.safetensors` (metadata `classes`)"


def _results(run: Run) -> str:
    everything = Run(run.path)
    done = [(number, result) for number in everything.seeds if (result := everything.result(number)) is not None]
    if not done:
        return "This training is not finished: the weights are those of its newest checkpoint, without an evaluation."
    score = MEASUREMENTS.label(run.config.evaluation.protocol)
    rows = [f"| seed | {score}, final | best over the evaluations |", "| --- | ---: | ---: |"]
    rows += [f"| {number} | {one['final_accuracy']:.2f}% | {one['best_accuracy']:.2f}% |" for number, one in done]
    rows += ["", "The run measured these numbers on the test split. The exported files hold the final weights."]
    known = published(run.config, [result for _, result in done])
    printed = _published_rows(known)
    if printed:
        head = ["", "| cell | measure | published | ours (mean of the seeds) |", "| --- | --- | ---: | ---: |"]
        rows += [*head, *printed]
    else:
        rows.append("The paper and the dissertation print no number for this training.")
    return "\n".join(rows + _departures(known))


def _published_rows(known: Published | None) -> list[str]:
    """A row for each number that the documents print for this training."""
    rows = []
    for cell in known.cells if known is not None else ():
        if known is not None and cell.published is not None:
            ours = "not measured" if cell.ours is None else f"{cell.ours:.2f}"
            rows.append(f"| {known.table} {cell.cell} | {cell.metric} | {cell.published:.2f} | {ours} |")
    return rows


def _departures(known: Published | None) -> list[str]:
    """Settings that are not the recipe's: its published number is then not comparable."""
    changes = known.changed if known is not None else {}
    shown = [f"{code(name)} {code(repr(old))} → {code(repr(new))}" for name, (old, new) in changes.items()]
    return ["", f"Settings that differ from the recipe's: {', '.join(shown)}."] if shown else []


def _contract(run: Run, seed: int, job: Job, manifest: dict[str, Any]) -> str:
    rows = ["| | name | shape | type |", "| --- | --- | --- | --- |"]
    for name, about in manifest["inputs"].items():
        rows.append(f"| in | `{name}` | ({', '.join(map(str, about['shape']))}) | {about['dtype']} |")
    sizes = {"logits": run.facts(seed).num_classes, "embedding": _width(job)}
    rows += [f"| out | `{name}` | ({job.inputs.axis}, {sizes[name]}) | float32 |" for name in job.outputs]
    return "\n".join([*rows, "", f"`{job.inputs.axis}` is any number from 1 on. {_meaning(run, seed, job)}"])


def _width(job: Job) -> int:
    with torch.no_grad():
        return features_of(job.model, *job.inputs.normalized(job.inputs.first(1))).shape[1]


def _sizing(run: Run, seed: int) -> str:
    """How images were brought to the size of the network, in training and evaluation."""
    facts, resize = run.facts(seed), run.config.data.resize
    size = facts.image_size and f"{facts.image_size[0]}×{facts.image_size[1]}"
    if facts.resized == "cover":
        return f"They are scaled until they cover {size} pixels (bilinear), and cropped to the middle."
    if facts.resized == "window":
        return f"They are resized to {resize}×{resize} pixels (bilinear), and cropped to the middle {size}."
    return "Nothing else is done to them: no crop, no mirror image."


def _meaning(run: Run, seed: int, job: Job) -> str:
    norm = job.inputs.normalization
    if norm is not None and job.inputs.raw:
        return (
            "The inputs of `model.pt2` and `model.onnx` are the bytes 0 to 255 of the images, channels first. Both "
            f"programs compute {norm.formula} first. `model.safetensors` holds the network alone, which takes the "
            f"result of this formula. {_sizing(run, seed)}"
        )
    if norm is not None:
        return (
            f"The inputs are images, channels first. Each number is {norm.formula}, where a byte is 0 to 255. "
            f"{_sizing(run, seed)}"
        )
    if job.inputs.kind == "points":
        return "The inputs are clouds as `hypersphere.data` gives them: centred, farthest point at distance 1."
    if job.inputs.kind == "own":
        return "The inputs are made by the loop that trained the network: only their shape is known here."
    return (
        "The rows of `features` sum to 1, and `adjacency` is Â = D^(−1/2)(A + I)D^(−1/2) of the graph "
        "(`hypersphere.models.normalize_adjacency`). Both are dense; only `model.safetensors` takes sparse ones."
    )


def _files(manifest: dict[str, Any], notes: dict[str, str]) -> str:
    rows = ["| file | bytes | sha256 | largest difference | top-1 agreement |", "| --- | ---: | --- | ---: | ---: |"]
    for name, check in manifest["checks"].items():
        about = manifest["files"][FORMATS[name].file]
        gap = "not checked" if check is None else f"{check['difference']:.1e}"
        agreement = check and check["agreement"]
        top = "-" if agreement is None else f"{100 * agreement:.2f}%"
        rows.append(f"| `{FORMATS[name].file}` | {about['bytes']:,} | `{about['sha256']}` | {gap} | {top} |")
    rows += ["", f"Each file was run and compared with the network on {manifest['checked_with']}, in batches of"]
    sizes = next((check["batches"] for check in manifest["checks"].values() if check), ())
    rows[-1] += f" {', '.join(map(str, sizes))}. `export.json` holds the same numbers for programs to read."
    rows += [f"- `{FORMATS[name].file}` {why}" for name, why in notes.items()]
    return "\n".join(rows)


def _comparing(run: Run, job: Job) -> list[str]:
    """How to tell whether two images show one class."""
    if job.inputs.kind == "graph":
        return []
    found = [result.get("metrics", {}).get("threshold") for number in run.seeds if (result := run.result(number))]
    known = next((value for value in found if isinstance(value, float) and abs(value) <= 1), None)
    rule = run.config.evaluation
    plain = "".join(f" --no-{aid}" for aid in ("flip", "center") if getattr(rule, aid))  # as the snippets embed
    command = f"`hypersphere evaluate RUN --pairs pairs.txt{plain}`"
    if known is None:
        where = (
            f"Choose `threshold` on pairs of classes that training never saw: {command} prints the best one, in Python "
            "`hs.metrics.verification(cosines, same).thresholds` gives it."
        )
    else:
        aids = [
            text
            for given, text in (
                (rule.flip, "of features of image and mirror side by side"),
                (rule.center, "after the mean feature was subtracted"),
            )
            if given
        ]
        where = (
            f"The run's own pairs of unseen classes were separated best at `threshold = {known:.4f}` (mean over the "
            f"folds{', ' + ' and '.join(aids) if aids else ''}). Choose it again on pairs of your own images, with "
            f"{command}."
        )
    return [
        "## How to compare two images",
        "The rows of `embedding` have unit length. The cosine of two of them, their inner product, says how alike the "
        f"images are; after any snippet above:\n\n```text\n{comparison()}\n```\n\n{where}",
    ]


def _making(run: Run, seed: int, manifest: dict[str, Any]) -> str:
    trained = run.environment(seed)
    versions = ", ".join(f"{name} {value}" for name, value in manifest["versions"].items())
    made_by = ", ".join(f"{name} {trained[name]}" for name in ("hypersphere", "torch", "python") if trained.get(name))
    lines = [
        f"- Training: {code(trained.get('command') or run.command)}",
        f"- On {plain(trained.get('device', 'an unknown device'))}, with {plain(made_by or 'unknown versions')}"
        + (f", commit {plain(trained['commit'])}" if trained.get("commit") else ""),
        f"- Exported by `hypersphere export`, with {versions}",
        f"- All settings: metadata `config` of each file; steps {run.config.schedule.steps}, "
        f"batch {run.config.data.batch_size}, {plain(OPTIMIZERS.label(run.config.optim.name))} with lr "
        f"{run.config.optim.lr}",
    ]
    return "\n".join(lines)


def _limits(run: Run, seed: int, job: Job, manifest: dict[str, Any]) -> str:
    facts = run.facts(seed)
    count, name = facts.num_classes, _data(run)
    knows = f"It knows the {count} classes of {name} and always names one of them; logits are"
    learned = f"It learned from {count} classes of {name}; other kinds of inputs may lie anywhere. Cosines are"
    lines = [
        f"- {learned if job.embedding else knows} not calibrated probabilities.",
        "- Its accuracy was measured on that set's test split, and says nothing about other images, cameras or people.",
        "- The files compute in float32. The differences above come from the order of sums.",
    ]
    shown = DATASETS.get(run.config.data.name)
    if getattr(shown, "of", None) == "people":
        label = plain(DATASETS.label(run.config.data.name))
        lines.append(f"- Faces: do not use it to identify people without their consent; {label} is not a fair sample.")
    if facts.image_size is not None:
        lines.append(f"- Images must have {facts.image_size[0]}×{facts.image_size[1]} pixels.")
    if not manifest["real_inputs"] and run.config.data.name == UNNAMED:
        lines.append("- The checks used random inputs, because the loop that trained it named no data.")
    elif not manifest["real_inputs"]:
        lines.append("- The checks used random inputs, because the data were not found where it was exported.")
    return "\n".join(lines)


def _citation(run: Run) -> str:
    name = run.config.data.name
    makers = getattr(DATASETS.get(name), "citation", "see its makers.")
    lines = [
        "The library is under the MIT licence. Weights learned from data are subject to the terms of that data: see "
        "its makers.",
        "",
        *(f"- {entry}" for entry in LIBRARY),
        *([] if name == UNNAMED else [f"- Data ({plain(name)}): {makers}"]),
    ]
    return "\n".join(lines)


_MARKS = re.compile(r"([\\`*_{}\[\]()#+!|~$:@])")


def plain(text: object) -> str:
    """Text that is neither markup, nor HTML, nor a link, nor a second line."""
    return _MARKS.sub(r"\\\1", html.escape(_line(text), quote=False))


def code(text: object) -> str:
    """The same between backquotes, of which it has none of its own; it does not end a table's cell."""
    return f"`{_line(text).replace('`', chr(39)).replace('|', chr(0x2223))}`"


def quoted(text: object) -> str:
    """A YAML string: JSON's are such."""
    return json.dumps(_line(text))


def _line(text: object) -> str:
    """One line, without what cannot be printed or changes the direction of writing."""
    return "".join(letter if letter.isprintable() else " " for letter in " ".join(str(text).split()))
