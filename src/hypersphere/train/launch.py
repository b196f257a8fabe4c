"""``run(config)``: all seeds of a configuration, in its run folder."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from .._core.checks import check_folder_name
from .._core.memory import ran_out
from .._core.trust import named
from ..config import Config, to_dict
from ..runs import SeedFolder, Team, open_run, run_path, write_result
from ..runs.files import check_room
from .callbacks import Callback
from .distributed import team
from .memory import out_of_memory
from .own_images import check_root, settle
from .peers import together, writer_first
from .progress import Progress
from .step import Mark
from .stopped import Stopped
from .training import Training
from .unbegun import opening, withdraw


def run(config: Config, *, callbacks: Sequence[Callback] = ()) -> dict[str, Any]:
    """Train every seed of a configuration.

    Calling it again continues: finished seeds are not trained again, and an interrupted one continues from its newest
    checkpoint, with the same weights in the end as if it had not been interrupted. Ctrl-C (and a termination signal)
    saves first.

    Args:
        config: the settings of the run, from a recipe or your own.
        callbacks: told of start, steps, evaluations and end of every seed: see :class:`hypersphere.train.Callback`.

    Returns:
        The content of ``RUN/result.json``.

    Raises:
        Stopped: If training ends early.
        OSError: Before training, if the folder cannot be written.

    Example:
        >>> from hypersphere import recipes
        >>> from hypersphere.train import run, with_values
        >>> short = {"schedule.steps": 1, "schedule.milestones": (), "run.tensorboard": False, "run.progress": "off"}
        >>> result = run(with_values(recipes.get("digits.cnn"), {**short, "run.device": "cpu", "run.compile": "off"}))
        >>> result["recipe"]
        'digits.cnn'
    """
    named(to_dict(config))
    crew = team(config.run.device)
    with together(crew, run_path(config)):
        return _run(config, crew, callbacks)


def _run(config: Config, crew: Team, callbacks: Sequence[Callback]) -> dict[str, Any]:
    folder = begin(config, crew)
    for number, seed in enumerate(config.run.seeds, start=1):
        progress = Progress(config.run.progress if crew.writer else "off", events_of(config, seed, crew))
        begun: list[Training] = []
        with ExitStack() as listening:

            def listen(training: Training, stack: ExitStack = listening, begun: list[Training] = begun) -> None:
                begun.append(training)
                stack.enter_context(signals(lambda: interrupt([training])))

            for _ in seed_turns(config, seed, crew, progress, callbacks, listen):
                pass
        asked = any(training.interrupted for training in begun)  # in its last evaluation, which was finished
        if number < len(config.run.seeds) and crew.agree(asked):
            raise Stopped(f"stopped: seed {seed} is done. Give the same command again to continue", code=130)
    summary: dict[str, Any] = {}
    writer_first(crew, lambda: summary.update(write_result(folder, config)))
    return summary


def begin(config: Config, crew: Team) -> Path:
    """Make the run folder, or see that it may continue."""
    check_name(config)
    folder = run_path(config)

    def make() -> None:
        with opening(folder):
            check_room(folder, 2**16)
            check_root(folder, config)
            open_run(config)

    writer_first(crew, make)
    return folder


def check_name(config: Config) -> None:
    """Raise an error for a run that would be made outside of ``run.folder``, or be that folder itself."""
    named = ("recipe", config.recipe) if config.run.name is None else ("run.name", config.run.name)
    check_folder_name(*named)


def events_of(config: Config, seed: int, crew: Team) -> Path | None:
    """Where TensorBoard's events of a seed belong; None if they are not wanted of this process."""
    return run_path(config) / f"seed-{seed}" / "events" if config.run.tensorboard and crew.writer else None


def seed_turns(
    config: Config,
    seed: int,
    crew: Team,
    progress: Progress,
    callbacks: Sequence[Callback] = (),
    begun: Callable[[Training], None] = lambda training: None,
) -> Generator[Mark, None, dict[str, Any]]:
    """Train one seed in its run folder, a turn at a time, or find that it is done; the result is returned.

    See :meth:`Training.turns` for what is yielded. ``begun`` gets the training once it is there. If it fails before
    training begins, nothing of a new run stays.
    """
    try:
        return (yield from _seed_turns(config, seed, crew, progress, callbacks, begun))
    except BaseException:
        if crew.writer:
            withdraw(run_path(config))
        raise


def _seed_turns(
    config: Config,
    seed: int,
    crew: Team,
    progress: Progress,
    callbacks: Sequence[Callback],
    begun: Callable[[Training], None],
) -> Generator[Mark, None, dict[str, Any]]:
    folder = SeedFolder(run_path(config), seed, config)
    with ExitStack() as held:

        def hold() -> None:
            held.enter_context(folder.lock())
            settle(folder)

        writer_first(crew, hold)
        done = folder.result
        crew.wait()
        if done is not None:
            progress.say(f"{folder.path} is done: {done['final_accuracy']:.2f}%")
            return done
        training: Training | None = None
        try:
            training = Training(config, seed, crew, folder, progress, callbacks)
            begun(training)
            yield from training.turns()
        except (RuntimeError, MemoryError) as error:
            if isinstance(error, Stopped) or not ran_out(error):
                raise
            raise out_of_memory(error, config, folder, crew, training) from error
        finally:
            progress.stop()
        assert training.result is not None  # the loop above ends with a result or an error
        return training.result


def interrupt(trainings: Sequence[Training]) -> None:
    """Ask them to save after their next step, and to stop."""
    for training in trainings:
        training.interrupted = True


@contextmanager
def signals(ask: Callable[[], None], alone: bool = True) -> Iterator[None]:
    """Let the first Ctrl-C or termination finish the step and save; the same one again acts at once.

    Whoever listens further out is told, too. With ``alone=False`` it is only told: what comes while nobody listens
    further in acts at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    listener = _Listener(ask, alone, before)
    for number in before:
        signal.signal(number, listener)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


class _Listener:
    """What a signal calls."""

    def __init__(self, ask: Callable[[], None], alone: bool, before: dict[signal.Signals, Any]) -> None:
        outer = before[signal.SIGINT]
        self._outer = outer if isinstance(outer, _Listener) else None
        self._default: dict[signal.Signals, Any] = before if self._outer is None else self._outer._default
        self._ask, self._alone, self._heard = ask, alone, set[int]()

    def __call__(self, number: int, frame: object) -> None:
        if self._alone and number not in self._heard:  # a sweep's children get Ctrl-C and then a termination
            self._hear(number)
            return
        signal.signal(number, self._default[signal.Signals(number)])
        signal.raise_signal(number)

    def _hear(self, number: int) -> None:
        self._heard.add(number)
        self._ask()
        if self._outer is not None:
            self._outer._hear(number)
