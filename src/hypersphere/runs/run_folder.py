"""A run folder: configuration, versions, log, checkpoints, result. Enough to continue from.

RUN/config.json                   the settings
RUN/result.json                   every seed that is done
RUN/seed-0/environment.json       versions, device, commit, command
RUN/seed-0/log.jsonl              one line a log interval and evaluation
RUN/seed-0/checkpoints/step-00002000/{model,state}.safetensors, state.json, manifest.json
RUN/seed-0/latest                 name of the newest checkpoint
RUN/seed-0/model.safetensors      the trained network, orthogonal matrices merged
RUN/seed-0/manifest.json          its hash, shapes and settings
RUN/seed-0/result.json            final and best accuracy
RUN/seed-0/warnings.txt           what looked wrong while it was trained, for the report
RUN/seed-0/samples/               pictures of every evaluation, of networks that make some (GANs)
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .._core.leftovers import sweep
from .._core.trust import check_trusted
from ..config import Config, changed, from_dict, to_dict, with_values
from .files import PROBE, TEMPORARY, read_json, write_json
from .lock import locked
from .seed_folder import SeedFolder

logger = logging.getLogger("hypersphere")

WARNINGS = "warnings.txt"
WAIT = 60.0
"""Seconds to wait for another process that writes the files of the run itself, which takes it a moment."""


def run_path(config: Config) -> Path:
    """Return the folder of a run.

    Args:
        config: the settings of the run; ``run.folder`` and ``run.name`` give the path.

    Returns:
        ``run.folder/run.name``, or the recipe's name where ``run.name`` is None.

    Example:
        >>> from hypersphere import recipes
        >>> str(hs.runs.run_path(recipes.get("digits.cnn")))
        'runs/digits.cnn'
    """
    return Path(config.run.folder).expanduser() / (config.run.name or config.recipe)


def beside(config: Config, name: str) -> Path:
    """Find another run by name.

    Args:
        config: the settings of the run; ``run.folder`` is where its neighbours are.
        name: name of the other run, or a folder.

    Returns:
        The run of that name beside this one, else the folder ``name``.

    Example:
        >>> from hypersphere.config import Config
        >>> str(hs.runs.beside(Config(), "digits"))
        'runs/digits'
    """
    near = Path(config.run.folder).expanduser() / name
    return near if near.exists() else Path(name).expanduser()


def open_run(config: Config) -> Path:
    """Create the run folder, or continue in it if it holds a run with the same settings or one that never began.

    Args:
        config: the settings of the run; ``run.folder`` and ``run.name`` give the path.

    Returns:
        The path of the run folder.

    Raises:
        ValueError: If the folder holds a run with other settings.

    Example:
        >>> from hypersphere.config import Config, with_values
        >>> str(hs.runs.open_run(with_values(Config(), {"run.name": "new"})))
        'runs/new'
    """
    folder = run_path(config)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder, str(folder), wait=WAIT):
        sweep(folder, TEMPORARY, PROBE, ".lost")  # .lost: see hypersphere.train
        _take_over(folder, config)
    return folder


def check_settings(config: Config) -> Config | None:
    """See that the folder of a run holds no run with other settings that has begun.

    Args:
        config: the settings of the run; ``run.folder`` and ``run.name`` give the path.

    Returns:
        The settings that the folder holds, None if it holds none.

    Raises:
        ValueError: If it holds a run with other settings, or something else than a run.
    """
    folder = run_path(config)
    if not (folder / "config.json").exists():
        return None
    before = _own_config(folder)
    differences = changed(before, config)
    if differences and began(folder):
        raise ValueError(
            f"{folder} holds a run with other settings: {told_differences(differences)}. Choose another --run.name, or "
            "remove the folder"
        )
    return before


def told_differences(differences: Mapping[str, tuple[Any, Any]]) -> str:
    """The first of some settings that were changed, in words: ``optim.lr (0.1, now 0.2)``."""
    return ", ".join(f"{name} ({was!r}, now {now!r})" for name, (was, now) in list(differences.items())[:5])


def _take_over(folder: Path, config: Config) -> None:
    path = folder / "config.json"
    before = check_settings(config)
    if before is not None:
        known = {name: root for name, root in _roots(before).items() if os.path.isabs(root) and os.path.exists(root)}
        lost = [name for name, root in _roots(config).items() if root and not os.path.exists(root)]
        config = with_values(config, {name: known[name] for name in lost if name in known})  # started from elsewhere
    run = run_path(config)
    told = config if run.parts and not (run.is_absolute() or ".." in run.parts) else data_from(config, Path.cwd())
    write_json(path, to_dict(told))


def data_from(config: Config, folder: Path) -> Config:
    """The settings with full paths of the data that they name relative to a folder."""
    full = {
        name: os.path.abspath(folder / value)
        for name, value in _roots(config).items()
        if value and not os.path.isabs(value) and os.path.exists(folder / value)
    }  # exists() is False, not an error, where one may not enter
    return with_values(config, full) if full else config


def _roots(config: Config) -> dict[str, str]:
    """The folders of data that the settings name; the empty word where they name none."""
    named = {"data.root": config.data.root, "evaluation.root": config.evaluation.root}
    return {name: os.path.expanduser(value or "") for name, value in named.items()}


def _own_config(folder: Path) -> Config:
    """The settings of a run: those of anything else are never overwritten."""
    try:
        return read_config(folder, follow=False)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"{folder} is not a run folder of this version: its config.json is different ({error}). Choose another "
            "--run.name"
        ) from error


_SHOWN = ("log.jsonl", "result.json", "damaged.txt", "checkpoints/step-*")


def began(folder: Path) -> bool:
    """Whether a seed has anything to show for its settings."""
    return any(any(folder.glob(f"seed-*/{name}")) for name in _SHOWN)


def read_config(folder: Path, *, follow: bool = True) -> Config:
    """Read the settings of a run.

    Args:
        folder: Path of a run folder, which holds ``config.json``.
        follow: Whether addresses ``module:Name`` in them will be followed, which needs trust; False only to compare.

    Returns:
        The settings that ``config.json`` holds.

    Raises:
        ValueError: If there are none, they are damaged, or they name code that is not trusted.

    Example:
        >>> from pathlib import Path
        >>> hs.runs.read_config(Path("runs/digits")).data.name
        'digits'
    """
    path = Path(folder) / "config.json"
    if not path.exists():
        raise ValueError(f"{folder} is not a run folder: it has no config.json")
    values = read_json(path)
    if not isinstance(values, dict):
        raise ValueError(f"{path} is damaged: it holds {type(values).__name__}, not a JSON object")
    if follow:
        check_trusted(values, path)
    return from_dict(Config, _of_this_version(values))


def _of_this_version(values: Any) -> Any:
    """Settings of earlier versions as they are written now.

    ``optim.orthogonal_lr`` was a number that only orthogonal descent read; None now stands for that number there, and
    for the common rate elsewhere.
    """
    if not isinstance(values, dict) or not isinstance(values.get("orthogonal"), dict):
        return values
    optim = values.get("optim")
    if "neurons" not in values["orthogonal"] and isinstance(optim, dict) and optim.get("orthogonal_lr") == 0.02:
        return {**values, "optim": {**optim, "orthogonal_lr": None}}
    return values


def write_result(folder: Path, config: Config) -> dict[str, Any]:
    """Collect the results of all finished seeds in ``RUN/result.json``.

    If the result of a seed is damaged, those of the others are still collected: a warning names the damaged file, and
    ``damaged`` in the summary says what is wrong with it.

    Args:
        folder: path of a run folder, which holds ``config.json``.
        config: the settings of the run; ``run.folder`` and ``run.name`` give the path.

    Returns:
        The content of ``result.json`` as it was written.

    Example:
        >>> from pathlib import Path
        >>> folder = Path("runs/digits")
        >>> list(hs.runs.write_result(folder, hs.runs.read_config(folder)))[0]
        'recipe'
    """
    with locked(folder, str(folder), wait=WAIT):
        return _gather(folder, config)


def _gather(folder: Path, config: Config) -> dict[str, Any]:
    seeds = sorted(int(path.name[5:]) for path in folder.glob("seed-*") if path.name[5:].isdigit())
    done, damaged = [], []
    for seed in seeds:
        try:
            one = SeedFolder(folder, seed).result
        except (OSError, ValueError) as error:
            damaged.append(str(error))
            logger.warning("seed %d is left out of the summary of %s: %s", seed, folder, error)
        else:
            done += [] if one is None else [{"seed": seed, **one}]
    summary: dict[str, Any] = {"recipe": config.recipe, "seeds": done}
    for name in ("final_accuracy", "best_accuracy"):
        values = [one[name] for one in done]
        summary[f"mean_{name}"] = sum(values) / len(values) if values else None
    if damaged:
        summary["damaged"] = damaged
    write_json(folder / "result.json", summary)
    return summary
