"""``Logger(folder)``: the run folder of a training loop that is not ours."""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from .._core.checks import check_count, is_number
from .._core.errors import check_model
from .._core.output_layer import find_output_layer
from .._core.registry import followed
from .._core.trust import named
from ..config import Config, to_dict, with_values
from .environment import environment
from .facts import Facts
from .files import write_json
from .loading import build_again, forget, keep_alive
from .model import Classifier
from .networks import merged
from .run_folder import open_run, write_result
from .seed_folder import LOOP, SeedFolder

UNNAMED = f"{__name__}:unnamed"
"""The address in the place of a network or data set that the settings do not name."""
followed.add(UNNAMED)  # harmless, so a file may name it


def unnamed(num_classes: int = 0, **_: Any) -> Any:
    """Stands for a network or data set that the settings do not name."""
    raise ValueError(
        "the loop that made this run named no data set (or network): give Logger settings={'data.name': ..., "
        "'model.name': ...}; your own are named by their addresses, 'mypackage.data:Mine'"
    )


class Logger:
    """Write the files of a run from your own loop: settings, environment, log, network, result.

    ``hypersphere report``, ``evaluate`` and ``export`` then read the folder like any other. The report always has the
    curves and tables. Features, evaluation and export must build the network again. For this, ``settings`` names the
    network, ``{"model.name": "mypackage.nets:Net"}``, with its arguments in ``model.extra``, the head in ``loss.name``
    and the data in ``data.name``. Another process imports such an address only with ``--trust mypackage``. :meth:`save`
    tries to build the network; if that fails, the folder records why. In the process of the loop, as long as the logger
    exists, ``hs.load``, ``hs.evaluation.evaluate``, ``hs.export.export_run`` and ``hs.report.write`` use the network
    that the logger was given, so any network works there.

    A folder that holds a finished seed, or checkpoints of ``hypersphere train``, raises a ValueError. An unfinished log
    in the folder is started again.

    Args:
        folder: The run folder, e.g. ``"runs/mine"``.
        model: The network; its device is recorded as that of the run.
        head: A head of :mod:`hypersphere.losses` or any module with ``logits``, if the class vectors are not in the
            model.
        settings: Settings by dotted name, as the command line has them, or a whole ``Config``.
        steps: Number of steps of the training, for the report.
        seed: The number of this training; several of them make one run.
        num_classes: Number of classes; None takes that of the head, or of ``classes``.
        classes: Names of the classes, in the order of their indices.
        image_size: Height and width of images, if there are any.
        in_channels: Number of channels of the images that the network takes.
        in_features: Number of features of other inputs. If it is that of the pixels of an image, evaluation and export
            give the network each image as one row, which a plain ``nn.Linear`` needs.

    Raises:
        ValueError: If a setting is unknown, or the folder holds another run or a training by the program.

    Example:
        >>> model = nn.Linear(4, 3)
        >>> with hs.runs.Logger("runs/mine", model=model, steps=200, num_classes=3, in_features=4) as log:
        ...     log(100, loss=1.1)
        ...     log.evaluate(200, accuracy=33.3, test_loss=1.1)
        >>> [line["step"] for line in hs.runs.Run("runs/mine").log()]
        [100, 200]
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        model: nn.Module | None = None,
        head: nn.Module | None = None,
        settings: Mapping[str, Any] | Config | None = None,
        steps: int | None = None,
        seed: int = 0,
        num_classes: int | None = None,
        classes: Sequence[str] = (),
        image_size: tuple[int, int] | None = None,
        in_channels: int | None = None,
        in_features: int | None = None,
    ) -> None:
        if model is not None:
            check_model(model, head)
        self.path = Path(folder).expanduser()
        self.model, self.head, self.seed = model, head, check_count("seed", seed, minimum=0)
        self.config = _config(self.path, settings, steps, self.seed)
        count = num_classes or len(classes) or getattr(head, "num_classes", None) or _outputs(model)
        self.facts = Facts(count, in_channels, image_size, in_features, tuple(classes))
        named(to_dict(self.config))  # this program gives the addresses, so the folder may name them
        self.why_not: str | None = "no network was saved"
        self._folder = SeedFolder(self.path, self.seed, self.config)
        self._held = ExitStack()
        self._entered = False
        self._best, self._best_step, self._last_step = -math.inf, 0, 0
        self._last: dict[str, float] = {}
        self._scores: dict[str, float] = {}
        self._scored, self._accuracy = 0, math.nan

    def __enter__(self) -> Logger:
        if self._folder.result is not None:
            raise ValueError(f"{self._folder.path} holds a finished training: choose another folder or seed")
        if self._folder.latest() is not None:  # a logger writes none
            raise ValueError(
                f"{self._folder.path} holds a training by `hypersphere train`, with a checkpoint of step "
                f"{self._folder.newest()}: continue it with `hypersphere train --config {self.path}`, or choose "
                "another folder or seed"
            )
        open_run(self.config)
        self._held.enter_context(self._folder.lock())
        try:
            self._folder.prepare()
            self._folder.rewind_log(-1)
            forget(self.path, self.seed)
            write_json(self._folder.path / "environment.json", environment(self._device))
            write_json(self._folder.path / "facts.json", dataclasses.asdict(self.facts))
            self._note(self.why_not)
        except BaseException:
            self._held.close()
            raise
        self._begin = time.perf_counter()
        self._entered = True
        return self

    def __call__(self, step: int, **values: Any) -> None:
        """Log numbers of a step: ``loss``, ``train_accuracy`` (a share), ``lr``, or any name of yours.

        Args:
            step: Its number, usually from 1 on; steps must not decrease.
            **values: Numbers, or tensors with one element.

        Raises:
            ValueError: If a value is not a number, the step is before the last one, or the logger was not entered by
                ``with``.
        """
        self._check_entered()
        step = check_count("step", step, minimum=0)
        if step < self._last_step:
            raise ValueError(f"step={step} comes after step {self._last_step}: steps must not decrease")
        line = {name: _number(name, value) for name, value in values.items()}
        self._last_step = step
        self._last |= line
        self._folder.log({"step": step, **line})

    def evaluate(self, step: int, **values: Any) -> None:
        """Log an evaluation.

        Args:
            step: Step after which the network was evaluated.
            **values: Numbers by name: ``accuracy`` in percent is the main one, ``test_loss`` and others are shown
                beside it.
        """
        self._check_entered()
        line = {name: _number(name, value) for name, value in values.items()}
        accuracy = line.get("accuracy", math.nan)
        if accuracy > self._best:
            self._best, self._best_step = accuracy, step
        if "accuracy" in line and math.isfinite(self._best):
            line["best_accuracy"] = self._best
        self(step, **line)
        self._scores = {**(self._scores if step == self._scored else {}), **line}
        self._scored, self._accuracy = step, line.get("accuracy", self._accuracy)

    def save(self, model: nn.Module | None = None, head: nn.Module | None = None) -> None:
        """Write the trained network, and try to build it again from the settings.

        Args:
            model: The network; None: the one that the logger was given.
            head: Its head; None: the one that the logger was given.
        """
        self._check_entered()
        model = model if model is not None else self.model
        head = head if head is not None else self.head
        if model is None:
            raise ValueError("there is no network to save: give model=... to Logger or to save")
        check_model(model, head)
        self.model, self.head = model, head
        self._whole = model if head is None else Classifier(model, head)
        self._folder.write_weights(merged(self._whole).state_dict())
        self._note(self._rebuilt())
        keep_alive(self.path, self.seed, self._whole)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """After an error the log stays and nothing is called finished."""
        try:
            if kind is None:
                self._finish()
        finally:
            self._held.close()

    @property
    def rebuilds(self) -> bool:
        """Whether the saved network can be built again from the settings; if not, ``why_not`` gives the reason."""
        return self.why_not is None

    # ------------------------------------------------------------------------------------------------

    @property
    def _device(self) -> torch.device:
        tensors = () if self.model is None else (*self.model.parameters(), *self.model.buffers())
        return next((tensor.device for tensor in tensors), torch.device("cpu"))

    def _check_entered(self) -> None:
        if not self._entered:  # the folder is made and locked there, and its result written at the end
            raise ValueError(f"the run folder {self.path} is not open: write `with Logger(...) as log:`, then log(...)")

    def _finish(self) -> None:
        seconds = time.perf_counter() - self._begin
        if self.model is not None and not self._folder.weights_path.exists():
            self.save()
        parameters = [p for part in (self.model, self.head) if part is not None for p in part.parameters()]
        result = {
            "recipe": self.config.recipe,
            "seed": self.seed,
            "steps": self._last_step,
            "final_accuracy": self._accuracy,
            "best_accuracy": self._best if math.isfinite(self._best) else math.nan,
            "best_step": self._best_step,
            "test_loss": self._scores.get("test_loss"),
            "train_loss": self._last.get("loss"),
            "metrics": {name: value for name, value in self._scores.items() if name != "best_accuracy"},
            "parameters": sum(p.numel() for p in parameters),
            "seconds": round(seconds, 3),
            "steps_per_second": round(self._last_step / max(seconds, 1e-9), 2),
            "processes": 1,
            "precision": self.config.run.precision,
            "environment": environment(self._device),
        }
        self._folder.write_result(result)
        write_result(self.path, self.config)

    def _rebuilt(self) -> str | None:
        """None if its settings give the same network, else what is in the way."""
        try:
            again = build_again(self.path, self.seed)
        except Exception as error:  # whatever a builder of the user's raises
            return f"its settings do not build it again ({' '.join(str(error.__cause__ or error).split())[:400]})"
        lines, others = ([line.strip() for line in repr(one).splitlines()] for one in (merged(self._whole), again))
        if lines == others or self._computes_like(again):
            return None
        mine, other = next(pair for pair in itertools.zip_longest(lines, others, fillvalue="") if pair[0] != pair[1])
        return f"its settings build another network, with {other[:200] or 'less'!r} instead of {mine[:200]!r}"

    @torch.no_grad()
    def _computes_like(self, again: nn.Module) -> bool:
        """Whether both give the same numbers in evaluation mode, where the shape of an input is known.

        Names may differ in what evaluation does not use: a momentum, the margin of a head, SyncBatchNorm.
        """
        facts = self.facts
        shape = (facts.in_features,) if facts.image_size is None else (facts.in_channels or 3, *facts.image_size)
        if None in shape:
            return False
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(4, *shape, generator=generator, device="cpu")
        try:
            mine, other = (one.eval().to("cpu", torch.float64)(x.double()) for one in (merged(self._whole), again))
            return mine.shape == other.shape and torch.allclose(mine, other, rtol=1e-6, atol=1e-9)
        except Exception:  # whatever a network of the user's raises: they are told apart by their lines
            return False

    def _note(self, why: str | None) -> None:
        self.why_not = why
        about = {"rebuilds": why is None, "why_not": why, "data": self.config.data.name != UNNAMED}
        kind = None if self.model is None else f"{type(self.model).__module__}:{type(self.model).__qualname__}"
        write_json(self._folder.path / LOOP, about | {"model": kind})


def _config(path: Path, settings: Mapping[str, Any] | Config | None, steps: int | None, seed: int) -> Config:
    path = path if path.name not in ("", "..") else Path(os.path.abspath(path))  # "." and ".." name a folder, too
    place: dict[str, Any] = {"run.folder": str(path.parent), "run.name": path.name, "run.seeds": (seed,)}
    if steps is not None:
        place["schedule.steps"] = check_count("steps", steps)
    if isinstance(settings, Config):
        return with_values(settings, place)
    own = {"recipe": path.name, "data.name": UNNAMED, "model.name": UNNAMED}
    return with_values(Config(), own | dict(settings or {}) | place)


def _outputs(model: nn.Module | None) -> int:
    """How many outputs the last layer has; 1 where there is none to be found."""
    last = None if model is None else find_output_layer(model, None)
    weight = None if last is None else getattr(last[1], "weight", None)
    return int(weight.shape[0]) if isinstance(weight, Tensor) else 1


def _number(name: str, value: Any) -> float:
    if isinstance(value, Tensor) and value.numel() == 1:
        value = value.detach().item()
    if not is_number(value):
        raise ValueError(f"{name}={value!r} must be a number or a tensor with one element")
    return float(value)
