"""Callbacks: what a training tells others while it runs, for W&B, MLflow or anything else."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from .._core.modes import modes_kept
from ..config import Config


@dataclass(frozen=True, eq=False)
class Started:
    """The training that a callback is called for.

    Args:
        config: The settings; ``hypersphere.train.to_dict(config)`` gives plain values.
        seed: Number of the seed that is trained.
        folder: The folder of this seed. It stays the same when an interrupted training continues, so another program
            can derive an identity from it.
        step: The step from which training continues; 0 at the beginning. Callbacks may have seen later steps before.
        model: What is trained, network and head; only for reading.

    Example:
        >>> from pathlib import Path
        >>> from hypersphere.train import Config, Started
        >>> Started(Config(), 0, Path("runs/mine/seed-0"), 0, nn.Linear(2, 2)).step
        0
    """

    config: Config
    seed: int
    folder: Path
    step: int
    model: nn.Module


class Callback:
    """Base class of callbacks: override what you need. Only the process that writes the run folder calls them.

    An exception in a callback does not end the training: it becomes a warning, and the callback is not called again for
    this seed. Random numbers that a callback draws with torch do not change the training.

    Example:
        >>> from hypersphere.train import Callback
        >>> class Print(Callback):
        ...     def on_evaluation(self, training, step, values):
        ...         print(step, values["accuracy"])
        >>> callbacks = [Print()]  # for run(config, callbacks=callbacks)
    """

    def on_start(self, training: Started) -> None:
        """Called before the first step, or before the next step of a resumed training; not for finished seeds.

        Args:
            training: settings, seed, folder, step and model of the training.
        """

    def on_step(self, training: Started, step: int, values: Mapping[str, float]) -> None:
        """Called after each ``run.log_every`` steps.

        Args:
            training: settings, seed, folder, step and model of the training.
            step: number of training steps taken so far, from 1.
            values: loss, accuracy on the batches, steps per second and learning rate, as in the log.
        """

    def on_evaluation(self, training: Started, step: int, values: Mapping[str, float]) -> None:
        """Called after each evaluation.

        Args:
            training: settings, seed, folder, step and model of the training.
            step: number of training steps taken so far, from 1.
            values: accuracy, test loss, energies, and the numbers of the protocol.
        """

    def on_end(self, training: Started, result: Mapping[str, Any] | None) -> None:
        """Called at the end.

        Args:
            training: settings, seed, folder, step and model of the training.
            result: the content of ``result.json``, or None for a training that was stopped or failed.
        """


class Callbacks:
    """All callbacks of one training."""

    def __init__(self, callbacks: Sequence[Callback], device: torch.device) -> None:
        for one in callbacks:
            if not isinstance(one, Callback):
                raise TypeError(f"callbacks holds a {type(one).__name__}: derive from hypersphere.train.Callback")
        self._callbacks = list(callbacks)
        self._devices = [device] if device.type == "cuda" else []
        self._training: Started | None = None

    def start(self, training: Started) -> None:
        self._training = training
        self._tell("on_start", lambda one: one.on_start(training))

    def step(self, step: int, values: Mapping[str, float]) -> None:
        self._tell("on_step", lambda one: one.on_step(self._started, step, dict(values)))

    def evaluation(self, step: int, values: Mapping[str, float]) -> None:
        self._tell("on_evaluation", lambda one: one.on_evaluation(self._started, step, dict(values)))

    def end(self, result: Mapping[str, Any] | None) -> None:
        """Told once, and only if the start was."""
        if self._training is not None:
            self._tell("on_end", lambda one: one.on_end(self._started, result))
            self._training = None

    @property
    def _started(self) -> Started:
        assert self._training is not None  # start comes first
        return self._training

    def _tell(self, event: str, call: Callable[[Callback], None]) -> None:
        for one in list(self._callbacks):
            try:
                with modes_kept(self._started.model), torch.random.fork_rng(devices=self._devices):
                    call(one)
            except Exception as error:
                self._callbacks.remove(one)
                name = type(one).__name__
                warnings.warn(
                    f"{name}.{event} failed ({type(error).__name__}: {error}): training continues without {name}",
                    RuntimeWarning,
                    stacklevel=3,
                )
