"""What to say when memory runs out, in a sentence: where, at which batch size, and which options need less."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from .._core.memory import asked_for
from ..config import Config
from ..runs import SeedFolder, Team
from .stopped import Stopped

if TYPE_CHECKING:
    from .training import Training


class OutOfMemory(Stopped):
    """Memory ran out, in this process alone; everything on disk is as it was."""


def out_of_memory(
    error: BaseException, config: Config, folder: SeedFolder, team: Team, training: Training | None
) -> OutOfMemory:
    """What to raise; ``training`` is None if there was no memory to build it."""
    evaluates = training is not None and training.evaluates
    number = config.data.eval_batch_size if evaluates else config.data.batch_size
    size = f"--data.{'eval-' if evaluates else ''}batch-size {number}"
    text = f"{_place(error, team)} ran out of memory {_when(training)}, at {size}{asked_for(error)}; {_saved(folder)}. "
    return OutOfMemory(text + _advice(config, folder, training), speaker=team.rank)


def _place(error: BaseException, team: Team) -> str:
    """The GPU, or the host: data are prepared there for a GPU as well."""
    words = str(error)
    if team.device.type != "cuda" or isinstance(error, MemoryError) or "CPUAllocator" in words:
        return "the CPU"
    about = torch.cuda.get_device_properties(team.device)
    return f"{team.device} ({about.name}, {about.total_memory / 2**30:.1f} GiB)"


def _when(training: Training | None) -> str:
    if training is None:
        return "while data and network were prepared"
    return f"in the evaluation of step {training.step.step}" if training.evaluates else f"at step {training.step.step}"


def _saved(folder: SeedFolder) -> str:
    last = folder.latest()
    if last is None:
        return "no checkpoint was written yet"
    return f"the last good checkpoint is {last}, from which the same command continues"


def _advice(config: Config, folder: SeedFolder, training: Training | None) -> str:
    """Which options need less memory; another result needs another name, once there is something of this one."""
    free = ["train fewer at a time (--at-once, --jobs)"] if training is not None and training.at_once > 1 else []
    if config.data.name == "folder" and config.data.resident > 0:
        free.append("give --data.resident 0")
    if training is not None and training.evaluates:
        return _either("Lower --data.eval-batch-size", *free)
    less = ["lower --data.batch-size"]
    if config.run.precision == "float32":
        less.append("use --run.precision bfloat16")
    if folder.log_path.exists() or folder.latest() is not None:
        less[-1] += ", under another --run.name"
    return _either(*free, *less)


def _either(*ways: str) -> str:
    text = " or ".join(ways) if len(ways) < 3 else f"{', '.join(ways[:-1])}, or {ways[-1]}"
    return text[0].upper() + text[1:]
