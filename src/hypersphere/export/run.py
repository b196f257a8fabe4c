"""``export_run(RUN)``: write every format that the network can have, check each, describe all of it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from torch import nn

from .._core.checks import check_count, check_positive
from .._core.version import __version__
from ..config import to_dict, with_values
from ..evaluation.own_loop import taking
from ..runs import Gan, Run, load
from ..runs.files import write_bytes, write_json
from ..sources import as_evaluated
from .card import card
from .checks import Check, compare, reference
from .formats import FORMATS, Job, Unable, parse_formats
from .inputs import Inputs, find_inputs
from .target import MANIFEST, check_target, new_folder


@dataclass(frozen=True)
class Export:
    """What was written.

    Args:
        folder: folder that holds the exported files and the model card.
        checks: comparison of each file with the network; None where this machine cannot run it, which ``notes``
            explains.
        notes: formats that were not written or not checked, with the reason.
        inputs: what the checks used, in words.
        real: whether those were samples of the run's data.

    Example:
        >>> from hypersphere.export import export_run
        >>> sorted(export_run("runs/digits", out="export-1", formats="safetensors").checks)
        ['safetensors']
    """

    folder: Path
    checks: dict[str, Check | None]
    notes: dict[str, str]
    inputs: str
    real: bool


def export_run(
    run: str | Path,
    *,
    seed: int | None = None,
    out: str | Path | None = None,
    formats: str | Sequence[str] = tuple(FORMATS),
    root: str | None = None,
    embedding: bool = False,
    with_normalization: bool = False,
    samples: int = 64,
    tolerance: float = 1e-4,
    force: bool = False,
    trust: str | Sequence[str] | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Export:
    """Write the network of a run as files, each checked against it, and a model card.

    The folder appears at the end, with all files at once. If a file does not compute what the network does, a
    ``ValueError`` is raised and nothing is written. A format that this network or machine does not support is left out,
    and ``notes`` of the result gives the reason.

    Args:
        run: the run folder, or the folder of one seed in it.
        seed: which seed; None is the first.
        out: folder to write; None is ``RUN/seed-N/export``.
        formats: which of ``safetensors``, ``torch`` and ``onnx`` to write.
        root: folder of the data, if it is not where it was at training.
        embedding: leave the class vectors out: the output is the embedding alone.
        with_normalization: make the normalisation a part of ``torch`` and ``onnx``, which then take uint8 images.
        samples: number of test samples to check with.
        tolerance: largest difference that is allowed, relative to the largest output if that is above 1. The weights
            file must agree exactly.
        force: replace an earlier export in ``out``; other files there are never replaced.
        trust: modules whose code the settings of the run may name by ``module:Name``.
        say: called with each line of progress.

    Returns:
        The folder, and how closely each file agrees.

    Raises:
        ValueError: If a file does not agree, or the folder holds an export and ``force`` is off.

    Example:
        >>> from hypersphere.export import export_run
        >>> export = export_run("runs/digits", out="export-2", formats="safetensors")
        >>> (export.folder / "README.md").exists()
        True
    """
    check_count("samples", samples, minimum=2)
    check_positive("tolerance", tolerance)
    names = parse_formats(formats if isinstance(formats, str) else ",".join(formats))
    found = Run(run, seed, trust=trust)
    number = found.seeds[0]
    target = found.folder(number).path / "export" if out is None else Path(out).expanduser()
    check_target(target, force)
    model = load(found.path, seed=number)
    if isinstance(model, Gan):
        raise ValueError(
            f"the network of {found.path} is a {type(model).__name__}, which gives no logits and embedding: it cannot "
            f"be exported. Its weights are in {found.folder(number).path / 'model.safetensors'}"
        )
    config = found.config if root is None else with_values(found.config, {"data.root": root})
    inputs = find_inputs(as_evaluated(config, found.folder(number)), found.facts(number), number, root, samples)
    if not inputs.real:
        say(f"note: checked with {inputs.origin}")
    inputs = inputs.bytes() if with_normalization else inputs
    own = found.own_loop(number)
    if own is not None:
        first = inputs.normalized(inputs.first(1))
        with taking(found, first), torch.no_grad():
            model(*first)
    rebuilds = own is None or bool(own.get("rebuilds"))
    job = Job(model, inputs, embedding, _metadata(found, number, inputs, model), rebuilds)
    with new_folder(target) as folder:
        result = _write(job, names, folder, target, tolerance, say)
        files = {FORMATS[name].file: _describe(folder / FORMATS[name].file) for name in result.checks}
        content = _manifest(found, number, job, result, files)
        write_json(folder / MANIFEST, content)
        write_bytes(folder / "README.md", card(found, number, job, result.notes, content).encode())
    return result


def _write(
    job: Job, names: Sequence[str], folder: Path, target: Path, tolerance: float, say: Callable[[str], None]
) -> Export:
    expected = reference(job.model, job.inputs, job.embedding)
    checks: dict[str, Check | None] = {}
    notes: dict[str, str] = {}
    for name in names:
        form = FORMATS[name]
        try:
            form.write(job, folder / form.file)
        except Unable as error:
            notes[name] = f"not written: {error}"
            (folder / form.file).unlink(missing_ok=True)
            say(f"{form.file}: {notes[name]}")
            continue
        checks[name] = check = _check(job, name, folder / form.file, expected, tolerance)
        if check is None:
            notes[name] = "not checked: onnxruntime is not installed (pip install onnxruntime)"
        say(f"{form.file}: {notes[name] if check is None else check}")
    if not checks:
        raise ValueError("nothing could be exported: " + "; ".join(f"{name} {why}" for name, why in notes.items()))
    return Export(target, checks, notes, job.inputs.origin, job.inputs.real)


def _check(job: Job, name: str, path: Path, expected: list[tuple[torch.Tensor, ...]], tolerance: float) -> Check | None:
    form = FORMATS[name]
    try:
        run = form.reader(job, path)
        check = None if run is None else compare(run, job.inputs, expected, 0.0 if form.exact else tolerance)
    except Exception as error:  # whatever a reader says of a file we have just written
        raise ValueError(f"{form.file} cannot be run again, so nothing was written: {error}") from error
    if check is not None and not check.passed:
        raise ValueError(f"{form.file} does not compute what the network does, so nothing was written: {check}")
    return check


def _metadata(run: Run, seed: int, inputs: Inputs, model: nn.Module) -> dict[str, str]:
    """What each file says of itself, as texts."""
    facts = run.facts(seed)
    # where it was trained and kept is private
    config = with_values(run.config, {"run.folder": "runs", "data.root": None})
    values: dict[str, Any] = {
        "recipe": run.recipe,
        "seed": seed,
        "classes": list(facts.classes),
        "normalization": "" if inputs.normalization is None else inputs.normalization.formula,
        "versions": versions(),
        "config": to_dict(config),
        "facts": dataclasses.asdict(facts),
        "parameters": sum(p.numel() for p in model.parameters()),
    }
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in values.items()}


def _manifest(run: Run, seed: int, job: Job, result: Export, files: dict[str, dict[str, Any]]) -> dict[str, Any]:
    checks = {name: None if one is None else dataclasses.asdict(one) for name, one in result.checks.items()}
    return {
        "recipe": run.recipe,
        "seed": seed,
        "files": files,
        "checks": checks,
        "notes": result.notes,
        "checked_with": result.inputs,
        "real_inputs": result.real,
        "inputs": {
            name: {"shape": [job.inputs.axis, *_rest(job, index)], "dtype": str(part.dtype).removeprefix("torch.")}
            for index, (name, part) in enumerate(zip(job.inputs.names, job.inputs.tensors, strict=True))
        },
        "outputs": list(job.outputs),
        "embedding_has_unit_length": True,
        "normalization": job.metadata["normalization"] or None,
        "normalization_included": job.inputs.raw,
        "versions": versions(),
    }


def _rest(job: Job, index: int) -> list[Any]:
    if job.inputs.kind == "graph" and index == 1:
        return [job.inputs.axis]
    return list(job.inputs.tensors[index].shape[1:])


def _describe(path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def versions() -> dict[str, str]:
    """Of what wrote the files."""
    found = {"hypersphere": __version__, "torch": str(torch.__version__)}
    for name in ("safetensors", "onnx", "onnxscript", "onnxruntime"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
