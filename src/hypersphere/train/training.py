"""One training of one seed: continue from the newest checkpoint, step, log, evaluate, save."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..config import Config
from ..data.folder import UnreadableImage
from ..data.loader import IGNORE
from ..evaluation import Candidate, evaluate_each, evaluate_protocol, layer_energies, mean_length
from ..functional.orthogonalize.algorithms import Unresolved
from ..orthogonal import asks_host, matrices, restart
from ..regularizers import Energies
from ..runs import WARNINGS, SeedFolder, Team, environment, merged
from ..runs.files import check_room, write_bytes, write_json
from ..runs.manifest import check_shapes, fitting
from ..runs.seed_folder import CLASSES
from ..sources import as_split
from . import own_images
from .build import make_parts, make_step
from .callbacks import Callback, Callbacks, Started
from .collapse import Collapse, sign_of_collapse
from .compiled import forget_compiled
from .explain import explain
from .peers import writer_first
from .progress import Progress
from .record import finished
from .shards import local, whole_state
from .step import Mark, NotFinite, unresolved
from .stopped import Stopped

TURN = 32
"""Steps between two turns of a training: a GPU has work for a while when another training has its turn."""


class Training:
    """``run()`` trains to the end and returns the result; the same call after a crash continues.

    :meth:`turns` does the same a few steps at a time, so that others can continue in between.
    """

    def __init__(
        self,
        config: Config,
        seed: int,
        team: Team,
        folder: SeedFolder,
        progress: Progress,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.config, self.seed, self.team, self.folder, self.progress = config, seed, team, folder, progress
        self.callbacks = Callbacks(callbacks if team.writer else (), team.device)
        self.interrupted = False
        self.evaluates = False  # it does, or it failed while it did
        self.idle = 0.0  # seconds since the last line of the log that are no training
        self.at_once = 1  # how many trainings share the device
        self._before = 1  # the same of the parts before the checkpoint that it continues from, at most
        self.result: dict[str, Any] | None = None
        self._mark: Mark = None
        self.best, self.best_step, self.seconds = -math.inf, 0, 0.0
        self.last: dict[str, float] = {}
        self.scores: dict[str, float] = {}
        self._warned: bool | None = None
        forget_compiled(config)
        self.parts = make_parts(as_split(config, folder), seed, team)
        self.step = make_step(self.parts)
        self.first_energies = self._energies(half_space=True).hidden

    def run(self) -> dict[str, Any]:
        for _ in self.turns():
            pass
        assert self.result is not None  # the turns end with it, or raise
        return self.result

    def turns(self) -> Iterator[Mark]:
        """Train to the end, a turn at a time; ``result`` is there afterwards.

        Yields:
            What the device should have done before the next turn, so that it neither idles nor is waited for.
            Nothing breaks if it is not looked at.
        """
        writer_first(self.team, self._prepare)
        self._resume()
        self.callbacks.start(Started(self.config, self.seed, self.folder.path, self.step.step, self.parts.objective))
        try:
            yield from self._steps()
            if self.config.evaluation.also and self.team.agree(self.interrupted):
                raise Stopped(self._goodbye(self.step.step), code=130)  # before what may take long
            self.result = self._finish()
        except (NotFinite, Unresolved) as error:
            found = error if isinstance(error, NotFinite) else unresolved(self.step.step)  # in an evaluation
            raise (yield from explain(self, found)) from error
        except UnreadableImage as error:
            own = self.parts.source.own
            if own is None or self.config.data.unreadable == "refuse":
                raise
            raise ValueError(own_images.note(error, own, self.folder)) from error
        finally:
            self.callbacks.end(self.result)

    def _prepare(self) -> None:
        """Make the folder, or see that it may continue; nothing of a run that may not is changed."""
        self.folder.prepare(self.config.run.keep)
        check_room(self.folder.path, self._bytes() * (self.config.run.keep + 2))
        if self.parts.source.own is not None:
            self.progress.say(own_images.describe(self.parts.source.own, self.config, self.folder))
        for damage in self.folder.set_aside():
            self.progress.say(damage)
        write_json(self.folder.path / "environment.json", environment(self.team.device))
        write_json(self.folder.path / "facts.json", dataclasses.asdict(self.parts.source.facts))

    # The loop ---------------------------------------------------------------------------------------

    def _steps(self) -> Iterator[Mark]:
        total = self.config.schedule.steps
        name = self.config.run.name or self.config.recipe
        self.progress.start(f"{name} seed {self.seed}", total, self.step.step)
        since, done, self.idle = time.perf_counter(), self.step.step, 0.0
        while self.step.step < total:
            self.step()
            now = self.step.step
            end, stop = now == total, self._stop(now)
            logs, evaluates, saves = (now % every == 0 or end for every in self._intervals)
            if self.step.settled:
                yield from self._pause(now, waits=logs or evaluates or saves)
            if logs:
                line = self.step.read()
                elapsed = time.perf_counter() - since - self.idle
                self.seconds += elapsed
                line |= {"rate": (now - done) / max(elapsed, 1e-9)} | self._margin(now)
                self._log(now, line)
                self.callbacks.step(now, line)
                since, done, self.idle = time.perf_counter(), now, 0.0
            pause = time.perf_counter()
            if evaluates:
                self._evaluate(now)
            if saves or stop:
                self.save()
            if stop and not end:
                raise Stopped(self._goodbye(now), code=130)
            self.idle += time.perf_counter() - pause

    def _pause(self, now: int, waits: bool) -> Iterator[Mark]:
        """Let others continue: before what waits for the device, until it is there; else with a turn still queued."""
        if waits:
            yield self.step.mark()
        elif now % TURN == 0:
            before, self._mark = self._mark, self.step.mark()
            yield before

    @property
    def _intervals(self) -> tuple[int, int, int]:
        run = self.config.run
        return run.log_every, run.eval_every, run.checkpoint_every

    def _stop(self, now: int) -> bool:
        if self.team.world == 1:
            return self.interrupted
        return now % self.config.run.log_every == 0 and self.team.agree(self.interrupted)

    def _evaluate(self, now: int) -> None:
        self.step.complete()
        self.evaluates = True
        candidate = self._candidate()
        scores = self.scores = evaluate_protocol(candidate)
        if scores["accuracy"] > self.best:
            self.best, self.best_step = scores["accuracy"], now
        line = {"test_loss" if name == "loss" else name: value for name, value in scores.items()}
        line["best_accuracy"] = self.best
        energies = self._energies()
        if energies.mean is not None:
            line["energy"] = energies.mean
            line |= {f"energy/{name}": value for name, value in energies.hidden.items()}
        self._log(now, line)
        self.callbacks.evaluation(now, line)
        self._warn_of_collapse(now, candidate)
        with candidate.evaluating():
            picture = self.parts.objective.picture()
        if picture is not None and self.team.writer:
            self.folder.show(now, picture)
        self.evaluates = False

    def _warn_of_collapse(self, now: int, candidate: Candidate) -> None:
        """Say it once, and write it down for the report."""
        config, path = self.config, self.folder.path / WARNINGS
        if self._warned is None:
            self._warned = bool(self.team.follow(int(path.exists())))
        if self._warned or config.gan.generator is not None:
            return
        signs = Collapse(
            step=now,
            warmup=max(config.loss.warmup, config.schedule.warmup),
            classes=self.parts.source.facts.num_classes,
            accuracy=self.last.get("train_accuracy", 1.0),
            samples=config.data.batch_size * min(config.run.log_every, now),
            frequent=self.parts.source.frequent,
        )
        if not self.team.agree(signs.at_chance or signs.one_answer):
            return
        with candidate.evaluating():
            inputs, labels = next(iter(self.parts.source.test()))
            features = candidate.features(inputs)[labels != IGNORE]
        text = sign_of_collapse(signs, mean_length(features), self.parts.objective.head)
        self._warned = bool(self.team.follow(int(bool(text))))
        if text and self.team.writer:
            write_bytes(path, f"{text}\n".encode())
            self.progress.say(f"warning: {text}")

    def _candidate(self) -> Candidate:
        return Candidate(self.parts.objective.classifier(), self.parts.source, self.team, self.config)

    def _log(self, now: int, line: dict[str, float]) -> None:
        self.last |= line
        if self.team.writer:
            self.folder.log({"step": now, **line})
            self.progress.update(now, line)

    def _margin(self, now: int) -> dict[str, float]:
        extra = {"lr": self.parts.optimizers.rate(now - 1)}
        for module in self.parts.objective.head.modules() if self.parts.objective.head is not None else ():
            if hasattr(module, "lam") and isinstance(module.lam, Tensor):
                extra["lambda"] = float(module.lam)
        return extra

    # Saving and resuming ----------------------------------------------------------------------------

    def save(self) -> None:
        """Write a checkpoint, unless the weights are not finite, or make no R: the last one on disk is always good."""
        self.step.complete()
        weights, classes = self.parts.objective.state_dict(), self.parts.classes
        floats = {n: local([value])[0].isfinite().all() for n, value in weights.items() if value.is_floating_point()}
        whole = bool(torch.stack(list(floats.values())).all())
        if not whole if classes is None else self.team.agree(not whole):
            self.step.check()
            bad = (name for name, finite in floats.items() if not finite)
            raise NotFinite(self.step.step, math.nan, next(bad, "a class vector of another process"))
        if asks_host(self.parts.objective):  # exponentials of finite weights may be Unresolved
            matrices(self.parts.objective)
        restart(self.parts.objective)  # a resumed run starts from the parameters alone: so must this one
        random = self.team.gather(torch.get_rng_state())
        device_random = self.team.gather(torch.cuda.get_rng_state()) if self.team.device.type == "cuda" else []
        meters, optimizers = self.step.state_dict(), self.parts.optimizers.state_dict()
        folder = None
        if classes is not None:
            folder = self.folder.class_folder(self.step.step, clear=self.team.writer)
            self.team.wait()
            classes.save(folder)
            self.team.wait()
            optimizers = classes.without(optimizers)
            weights = {name: value for name, value in weights.items() if name not in classes.names}
        projection = self.parts.projection
        state = {
            "optimizers": optimizers,
            "penalty": dict(self.parts.penalty.state_dict()),
            "projection": None if projection is None else projection.state_dict(),
            "meters": meters,
            "random": random,
            "device_random": device_random,
            "best": [self.best, self.best_step],
            "seconds": self.seconds,
            "last": {name: float(value) for name, value in self.last.items()},
            "at_once": self.most_at_once,
        }
        writer_first(self.team, partial(self._write_checkpoint, weights, state, folder))

    def _write_checkpoint(self, weights: dict[str, Tensor], state: dict[str, Any], classes: Path | None) -> None:
        try:
            self.folder.save(self.step.step, weights, state, self.config.run.keep, classes)
        except OSError as error:
            last = self.folder.latest()
            raise OSError(
                f"the checkpoint of step {self.step.step} could not be written ({error}); the last good "
                f"one is {last}: free some space and repeat the command"
            ) from error

    def _resume(self) -> None:
        step = self.restore()

        def rewind() -> None:
            lost = self.folder.rewind_log(step or -1)
            if lost is not None:
                self.progress.say(lost)
            if step:
                self.progress.say(f"continuing from step {step} ({self.folder.checkpoint(step)})")

        writer_first(self.team, rewind)

    def restore(self) -> int:
        """Load the newest checkpoint that the writer sees; 0 if there is none."""
        step = self.team.follow(self.folder.newest() if self.team.writer else 0)
        if not step:
            return 0
        checkpoint = self.folder.checkpoint(step)
        weights, state = self.folder.load(checkpoint)
        own, classes = self.parts.objective.state_dict(), self.parts.classes
        if classes is not None and "optimizers" in state:
            weights |= {name: own[name] for name in classes.names}
            state["optimizers"] = classes.filled(state["optimizers"], checkpoint / CLASSES)
        check_shapes(weights, own, checkpoint)
        with fitting(checkpoint):
            self._take(weights, state, step)
        return step

    def _take(self, weights: dict[str, Tensor], state: dict[str, Any], step: int) -> None:
        """Go on from what a checkpoint holds."""
        parts = self.parts
        parts.objective.load_state_dict(weights)
        parts.penalty.load_state_dict(state["penalty"])
        parts.optimizers.load_state_dict(state["optimizers"])
        if parts.classes is not None:
            parts.classes.load(self.folder.checkpoint(step) / CLASSES)
        if parts.projection is not None:
            parts.projection.load_state_dict(state["projection"])
        if len(state["random"]) == self.team.world:
            torch.set_rng_state(state["random"][self.team.rank])
            if state["device_random"] and self.team.device.type == "cuda":
                torch.cuda.set_rng_state(state["device_random"][self.team.rank])
        self.step = make_step(parts, step)
        self.step.load_state_dict(state["meters"])
        (self.best, best_step), self.seconds = state["best"], float(state["seconds"])
        self.best_step = int(best_step)
        self.last = dict(state.get("last", {}))
        self._before = int(state.get("at_once", 1))  # earlier versions did not note it

    # Ends -------------------------------------------------------------------------------------------

    def _finish(self) -> dict[str, Any]:
        self.evaluates = True
        done = self.folder.result
        if not self.scores:  # everything but the result was there: the log has this evaluation already
            self.scores = evaluate_protocol(self._candidate())
            self.last |= self.folder.logged()
        also = evaluate_each(self._candidate())
        result = finished(self, also)
        weights: dict[str, Tensor] = {}
        if done is None and (self.team.writer or self.parts.classes is not None):
            weights = whole_state(merged(self.parts.objective.classifier()).state_dict())

        def write() -> None:
            if done is None:
                self.folder.write_weights(weights)
                self.folder.write_result(result)

        self.progress.stop()
        writer_first(self.team, write)
        return result

    @property
    def most_at_once(self) -> int:
        """How many trainings have shared the device at most, for those who read its steps per second."""
        return max(self.at_once, self._before)

    def _goodbye(self, now: int) -> str:
        return (
            f"stopped at step {now}; everything is saved in {self.folder.path}. Give the same command again to continue"
        )

    def _bytes(self) -> int:
        """About the size of one checkpoint: weights, and two states of them."""
        tensors = [*self.parts.objective.parameters(), *self.parts.objective.buffers(), *self.parts.penalty.buffers()]
        return 3 * sum(t.numel() * t.element_size() for t in tensors) + 2**20

    def _energies(self, half_space: bool = False) -> Energies:
        """Of each layer; empty if they are not wanted or there is none."""
        if not self.config.run.energy:
            return Energies({}, {})
        candidate = self._candidate()
        with candidate.evaluating():  # so that reading a spectrally normalised weight is not a power iteration
            return layer_energies(candidate.network, half_space=half_space)
