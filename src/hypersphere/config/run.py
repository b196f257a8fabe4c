"""``--run.*``: where, how precisely and how often."""

from __future__ import annotations

from dataclasses import dataclass

from .._core.checks import check_choice, check_count
from .options import option

_SWITCH = ("auto", "on", "off")
_SEEDS = 2**63


@dataclass(frozen=True)
class RunConfig:
    """Where, how precisely and how often: device, seeds, folder, evaluation, checkpoints.

    Raises:
        ValueError: If a setting is unknown, out of its range or contradicts another one; the message names it.

    Example:
        >>> from hypersphere.config import RunConfig
        >>> RunConfig(seeds=(0, 1)).folder
        'runs'
    """

    seeds: tuple[int, ...] = option((0,), "one training for each seed", material=False)
    folder: str = option("runs", "folder that holds the run folders", material=False)
    name: str | None = option(None, "name of the run folder; none: the recipe's name", material=False)
    device: str = option("auto", "auto (a GPU if there is one), cpu, cuda, cuda:1, ...", material=False)
    precision: str = option("float32", "float32, or bfloat16: autocast of the forward pass")
    matmul: str = option("high", "precision of float32 matrix products: highest, high (TF32 on a GPU), medium")
    channels_last: bool = option(False, "store images and filters channels last")
    compile: str = option("auto", "torch.compile the forward pass: auto (on a GPU, unless kernels run it all), on, off")
    graph: str = option("auto", "replay the whole step as one CUDA graph: auto (where the run allows it), on, off")
    log_every: int = option(100, "steps between lines of the log", material=False)
    eval_every: int = option(1000, "steps between evaluations on the test split; the best accuracy is one of these")
    checkpoint_every: int = option(2000, "steps between checkpoints", material=False)
    keep: int = option(2, "how many checkpoints to keep", material=False)
    energy: bool = option(True, "log the hyperspherical energy of the hidden layers at each evaluation", material=False)
    tensorboard: bool = option(True, "write TensorBoard events, if tensorboard is installed", material=False)
    progress: str = option("auto", "live progress: auto (in a terminal), rich, plain, off", material=False)

    def __post_init__(self) -> None:
        check_choice("run.precision", self.precision, ("float32", "bfloat16"))
        check_choice("run.matmul", self.matmul, ("highest", "high", "medium"))
        check_choice("run.compile", self.compile, _SWITCH)
        check_choice("run.graph", self.graph, _SWITCH)
        check_choice("run.progress", self.progress, ("auto", "rich", "plain", "off"))
        for name in ("log_every", "eval_every", "checkpoint_every", "keep"):
            check_count(f"run.{name}", getattr(self, name))
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"run.seeds={self.seeds} must be one or more different numbers")
        for seed in self.seeds:
            if check_count("run.seeds", seed, minimum=0) >= _SEEDS:
                raise ValueError(f"run.seeds={seed} must be below 2**63 = {_SEEDS}: torch's generators take no more")
