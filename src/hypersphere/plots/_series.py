"""Runs as numbers: for each run and seed the steps and values of one key, and their mean and band over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .._core.checks import check_choice
from ..runs import Run
from ._data import float_values

BANDS = ("range", "std")
Series = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Band:
    """Mean, lower and upper end over seeds at each step."""

    steps: Tensor
    mean: Tensor
    low: Tensor
    high: Tensor
    seeds: int


def named_runs(runs: Any) -> dict[str, Any]:
    """name → run of what users pass: a mapping, one run folder, or a list of them."""
    if isinstance(runs, Mapping):
        named = {str(name): run for name, run in runs.items()}
    elif _is_folder(runs):
        named = {_folder_name(runs): runs}
    elif isinstance(runs, Sequence) and len(runs) and all(_is_folder(run) for run in runs):
        named = {}
        for run in runs:
            name = _folder_name(run)
            if name in named:
                raise ValueError(f"runs holds two runs named {name!r}: pass a mapping with a name for each")
            named[name] = run
    else:
        raise TypeError(
            f"runs is {type(runs).__name__}: pass a run folder, a list of run folders, or a mapping from names to run "
            "folders, logs or (steps, values)"
        )
    if not named:
        raise ValueError("runs is empty: pass at least one run")
    return named


def seed_series(name: str, run: Any, key: str) -> list[Series]:
    """(steps, values) of ``key`` for each seed of a run, whatever form the run has; an error if there is none."""
    if _is_folder(run):
        found = [_of_log(log, f"{name} seed {seed}", key) for seed, log in _logs(run).items()]
    elif _is_log(run):
        found = [_of_log(run, name, key)]
    elif _is_pair(run):
        found = [_of_pair(run, name)]
    elif isinstance(run, Sequence) and not isinstance(run, str) and len(run):
        found = [
            _of_log(one, f"{name} seed {seed}", key) if _is_log(one) else _of_pair(one, f"{name} seed {seed}")
            for seed, one in enumerate(run)
        ]
    else:
        raise ValueError(f"runs[{name!r}] is not a run folder, log or (steps, values): {type(run).__name__}, or empty")
    series = [one for one in found if len(one[0])]
    if not series:
        known = ", ".join(run_keys(run)) or "none"
        raise ValueError(f"runs[{name!r}] never logged {key!r}: its keys are {known}")
    return series


def run_keys(run: Any) -> list[str]:
    """The keys that a run's logs hold, in the order of their first line; none for bare numbers."""
    if _is_folder(run):
        logs = list(_logs(run).values())
    elif _is_log(run):
        logs = [run]
    else:
        logs = [] if _is_pair(run) else [one for one in run if _is_log(one)]
    return [key for key in dict.fromkeys(key for log in logs for record in log for key in record) if key != "step"]


def band_of(series: Sequence[Series], band: str) -> Band:
    """Mean over seeds at each step, with a band.

    The band goes from the smallest to the largest value (``"range"``), or is mean ± sample standard deviation
    (``"std"``, divisor n − 1; 0 for one seed). The steps are those of all seeds; between its own steps a seed
    counts with straight lines, before its first and after its last it does not count.
    """
    check_choice("band", band, BANDS)
    steps = torch.cat([one[0] for one in series]).unique()
    table = torch.stack([_interpolate(one, steps) for one in series])
    there = ~table.isnan()
    count = there.sum(0)
    mean = table.nan_to_num(0.0).sum(0) / count
    if band == "range":
        low = torch.where(there, table, torch.inf).amin(0)
        high = torch.where(there, table, -torch.inf).amax(0)
    else:
        squares = torch.where(there, (table - mean).square(), 0.0).sum(0)
        deviation = (squares / (count - 1).clamp_min(1)).sqrt()
        low, high = mean - deviation, mean + deviation
    return Band(steps, mean, low, high, len(series))


def _interpolate(series: Series, steps: Tensor) -> Tensor:
    own, values = series
    right = torch.searchsorted(own, steps).clamp(max=len(own) - 1)
    left = (right - 1).clamp_min(0)
    width = own[right] - own[left]
    share = torch.where(width > 0, (steps - own[left]) / torch.where(width > 0, width, 1.0), 1.0)
    between = torch.where(share == 1, values[right], values[left] + share * (values[right] - values[left]))
    return torch.where((steps >= own[0]) & (steps <= own[-1]), between, torch.nan)


def _of_log(log: Sequence[Mapping[str, Any]], where: str, key: str) -> Series:
    """The lines that hold ``key``; of lines with the same step the last, which a resumed run wrote."""
    found: dict[float, float] = {}
    for record in log:
        if "step" not in record:
            raise ValueError(f"a record of {where} has no 'step': {dict(record)!r}")
        if record.get(key) is not None:
            found[float(record["step"])] = float(record[key])
    steps = sorted(found)
    return _checked(steps, [found[step] for step in steps], where)


def _of_pair(pair: Any, where: str) -> Series:
    if not _is_pair(pair):
        raise ValueError(f"{where} is neither a log nor a pair (steps, values): {type(pair).__name__}")
    return _checked(pair[0], pair[1], where)


def _checked(steps: Any, values: Any, where: str) -> Series:
    x = float_values(f"steps of {where}", steps, 1, empty=True)
    y = float_values(f"values of {where}", values, 1, empty=True)
    if len(x) != len(y):
        raise ValueError(f"{where} has {len(x)} steps and {len(y)} values: pass equally many")
    if bool((x.diff() <= 0).any()):
        raise ValueError(f"the steps of {where} do not rise: sort them, and keep one value for each step")
    return x, y


def _logs(run: Any) -> dict[int, list[dict[str, Any]]]:
    if isinstance(run, str | PathLike):
        run = Run(Path(run))
    return {seed: run.log(seed) for seed in run.seeds}


def _is_folder(run: Any) -> bool:
    return isinstance(run, str | PathLike) or (hasattr(run, "seeds") and hasattr(run, "log"))


def _folder_name(run: Any) -> str:
    return Path(run).resolve().name if isinstance(run, str | PathLike) else str(getattr(run, "name", "run"))


def _is_log(run: Any) -> bool:
    return isinstance(run, Sequence) and not isinstance(run, str) and len(run) > 0 and isinstance(run[0], Mapping)


def _is_pair(run: Any) -> bool:
    """Two sequences or tensors of numbers, not of pairs or records."""
    if not isinstance(run, Sequence) or isinstance(run, str) or len(run) != 2:
        return False
    return all(isinstance(part, Tensor) or _holds_numbers(part) for part in run)


def _holds_numbers(part: Any) -> bool:
    if not hasattr(part, "__len__") or isinstance(part, str | Mapping):
        return False
    return all(not hasattr(entry, "__len__") for entry in part)
