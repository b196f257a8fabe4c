"""``evaluate(run)``: everything that is measured of a trained network, as JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from .._core.checks import check_count
from .._core.registries import MEASUREMENTS
from ..config import Config
from ..runs import Run, Team, environment, load, usable_device
from ..sources import as_evaluated, evaluation_source
from .candidate import Candidate, Outputs
from .inception import check_inherited
from .measurement import find, known
from .own_loop import check_taken

_USERS = {
    "flip": ("verification", "identification", "few_shot", "fisher", "lfw", "ytf", "megaface"),
    "center": ("verification", "lfw", "ytf"),
}
"""The measurements that a rule of the run is for."""


def evaluate(
    run: Run | str | Path,
    seed: int | None = None,
    parts: str | Sequence[str] | None = None,
    *,
    root: str | None = None,
    device: torch.device | str = "cpu",
    flip: bool | None = None,
    center: bool | None = None,
    inception: str | None = None,
    batch_size: int | None = None,
) -> dict[str, Any]:
    """Evaluate the network of a seed on its test split, by the settings of its run.

    Args:
        run: The run folder, as a path or opened, whose network is loaded.
        seed: Which seed of it; None is the first.
        parts: One measurement or several, see `hypersphere list measurements`, or addresses ``module:function``; None
            takes what suits the run: closed set, open set or GAN.
        root: Folder of the data, if it is not where it was at training.
        device: Device on which the network runs, ``"cpu"`` by default.
        flip: Use the features of image and mirror in verification; None follows the run.
        center: Subtract the mean feature in verification; None follows the run.
        inception: What scores the images of a GAN; None follows the run.
        batch_size: How many samples are in memory at a time; None follows the run.

    Returns:
        What was evaluated and where, and for each part its numbers and details.

    Raises:
        ValueError: If a part is unknown or does not suit the run, no part uses ``flip`` or ``center``, or the run holds
            no network.

    Example:
        >>> from hypersphere.evaluation import evaluate
        >>> found = evaluate(hs.runs.Run("runs/digits"), parts=["classification"])
        >>> "accuracy" in found["classification"]
        True
    """
    run = _opened(run, seed)
    parts = (parts,) if isinstance(parts, str) else parts
    for part in parts or ():
        MEASUREMENTS.check("parts", part)
    if inception is None:
        check_inherited(run.config, root)
    elif run.config.gan.generator is None and "real_inception" not in (parts or ()):
        raise ValueError(f"inception={inception!r} scores the images of a GAN, and {run.path} has no generator")
    changes: dict[str, Any] = {"flip": flip, "center": center, "inception": inception}
    rule = replace(run.config.evaluation, **{name: value for name, value in changes.items() if value is not None})
    data = run.config.data
    if batch_size is not None:
        data = replace(data, eval_batch_size=check_count("batch_size", batch_size))
    config = replace(run.config, evaluation=rule, data=data)
    candidate = candidate_of(run, seed, config=config, root=root, device=device)
    out: dict[str, Any] = {
        "run": run.name,
        "recipe": run.recipe,
        "seed": run.seeds[0] if seed is None else seed,
        "data": candidate.config.data.name,
        "samples": _samples(candidate),
        "flip": rule.flip,
        "center": rule.center,
        "weights": run.folder(seed).known().get("model.safetensors"),
        "environment": environment(candidate.team.device),
    }
    chosen = tuple(parts) if parts is not None else _suiting(candidate)
    for name, users in _USERS.items():
        if changes[name] is not None and not any(part in users or _foreign(part) for part in chosen):
            raise ValueError(
                f"{name}={changes[name]} changes nothing in {', '.join(chosen)}: it is for {', '.join(users)}; choose "
                "one of these by parts= (--parts), or leave it out"
            )
    with candidate.evaluating():
        for part in chosen:
            one = find(part, "parts")
            fitting = _with_fewer_folds(candidate) if part == "verification" else candidate
            out[part] = {**one.numbers(fitting), **one.details(fitting)}
    return out


def outputs_of(
    run: Run | str | Path, seed: int | None = None, *, root: str | None = None, device: torch.device | str = "cpu"
) -> Outputs:
    """Compute what the network of a seed gives for its whole test split, in float32.

    Args:
        run: The run folder, as a path or opened, whose network is loaded.
        seed: Which seed of it; None is the first.
        root: Folder of the data, if it is not where it was at training.
        device: Device on which the network runs, ``"cpu"`` by default.

    Returns:
        Features, logits, labels and images of the whole test split.

    Example:
        >>> from hypersphere.evaluation import outputs_of
        >>> outputs_of(hs.runs.Run("runs/digits")).features.shape[1]
        64
    """
    candidate = candidate_of(run, seed, root=root, device=device)
    with candidate.evaluating():
        return candidate.outputs


def candidate_of(
    run: Run | str | Path,
    seed: int | None = None,
    *,
    config: Config | None = None,
    root: str | None = None,
    device: torch.device | str = "cpu",
) -> Candidate:
    """Load the trained network of a seed and its test split, for measurements in one process.

    Args:
        run: the run folder, as a path or opened, whose network is loaded.
        seed: which seed; None is the first.
        config: settings to evaluate with; None takes those of the run.
        root: folder of the data, if it is not where it was at training.
        device: device on which the network runs, ``"cpu"`` by default.

    Returns:
        The trained network of the seed and its test split.

    Raises:
        ValueError: If the network of your own loop does not take the samples of its data.

    Example:
        >>> from hypersphere.evaluation import candidate_of
        >>> candidate_of(hs.runs.Run("runs/digits")).config.data.name
        'digits'
    """
    run = _opened(run, seed)
    place = usable_device(device)
    number = run.seeds[0] if seed is None else seed
    config = config or run.config
    if root is not None:
        config = replace(config, data=replace(config.data, root=root), evaluation=replace(config.evaluation, root=root))
    network, facts = load(run.path, seed=number, device=place), run.facts(number)
    source = evaluation_source(as_evaluated(config, run.folder(number)), facts, number, place)
    candidate = Candidate(network, source, Team(0, 1, place), config, rows=facts.is_row_of(source.facts))
    check_taken(candidate, run, number)
    return candidate


def _opened(run: Run | str | Path, seed: int | None) -> Run:
    return run if isinstance(run, Run) else Run(run, seed)


def _foreign(part: str) -> bool:
    """Whether a measurement is the user's own, which may follow any rule."""
    function = find(part, "parts").evaluate
    return not str(getattr(getattr(function, "func", function), "__module__", "")).startswith("hypersphere.")


def _samples(candidate: Candidate) -> int:
    if candidate.config.gan.generator is None:
        with candidate.evaluating():
            return len(candidate.outputs)
    pictures = candidate.source.pictures
    return 0 if pictures is None else len(pictures)


def _suiting(candidate: Candidate) -> tuple[str, ...]:
    """The run's own protocol, and what suits its data."""
    kind = "open" if candidate.source.open_set else "closed"
    if candidate.config.gan.generator is not None:
        kind = "gan"
    own = candidate.config.evaluation.protocol
    names = [own, *(one.name for one in known() if kind in one.suits and one.name != own)]
    if kind == "closed" and candidate.outputs.class_vectors is None:  # e.g. several for a class
        names.remove("hardness")
    return tuple(names)


def _with_fewer_folds(candidate: Candidate) -> Candidate:
    """Where the run itself was not verified, its folds are a default: no more of them than there are class pairs."""
    rule = candidate.config.evaluation
    if rule.protocol == "verification" or candidate.source.pairs is not None:
        return candidate
    classes = int((candidate.outputs.labels.bincount() > 1).sum())
    folds = max(2, min(rule.folds, classes // 2))
    return replace(candidate, config=replace(candidate.config, evaluation=replace(rule, folds=folds)))
