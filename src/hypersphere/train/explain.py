"""Why a training stopped at a value that is not finite: step, layer and last good checkpoint, in one sentence."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from ..sources import as_split
from .build import make_parts, make_step
from .diagnose import FINITE, blame, spoiled
from .record import diverged
from .step import ANGLE, Mark, NotFinite
from .stopped import Stopped

if TYPE_CHECKING:
    from .training import Training


def explain(training: Training, error: NotFinite) -> Generator[Mark, None, Stopped]:
    """Name the step and the layer; where the weights have moved on since, train again up to there.

    Other trainings have their turns between these steps. The exception to raise is returned. It has a record of the
    training, unless training again did not diverge, or was interrupted before that could be seen.
    """
    team, bad, last = training.team, error.step, training.folder.latest()
    training.progress.stop()
    at, record = bad, diverged(training, bad)  # of the training that diverged, not of the one that looks for the layer
    moved = team.device.type == "cuda" or team.world > 1 or _spread(training, error)
    evaluated = error.tensor == ANGLE and bad == training.config.schedule.steps  # no step has come after these weights
    if moved and not evaluated:
        at = yield from _go_back(training, bad)  # the weights are no longer those of the failing step
    again, at = at <= bad and not _stopped(training), min(at, bad)
    where = FINITE if _stopped(training) else blame(training.parts, training.parts.source.seek(at))
    if where == FINITE and error.tensor is not None:
        where = error.tensor
    where += f" of step {at}" if at != bad else ""
    where = "a layer that was not found, because the search was stopped" if _stopped(training) else where
    subject = (
        "the loss is not finite at"
        if error.tensor is None
        else f"{error.tensor} is not finite, though the loss is, after"
    )
    good = f"the last good checkpoint is {last}" if last is not None else "no checkpoint was written yet"
    ways = "Lower --optim.lr or clip gradients with --optim.clip"
    if training.config.run.precision != "float32":
        ways = "Lower --optim.lr, clip gradients with --optim.clip, or use --run.precision float32"
    message = f"{subject} step {bad}, first in {where}; {good}. {ways}, under another --run.name"
    return Stopped(message, result=record if again else None)


def _stopped(training: Training) -> bool:
    """Whether somebody wants to end it now; several processes look for the cause to the end, together."""
    return training.interrupted and training.team.world == 1


def _spread(training: Training, error: NotFinite) -> bool:
    """Whether more is not finite than what a single forward pass has touched."""
    return error.tensor is not None or spoiled(training.parts.objective, buffers=False) is not None


def _go_back(training: Training, bad: int) -> Generator[Mark, None, int]:
    """Train again from the last checkpoint, to just before the step that does the damage; return that step.

    What cannot be repeated, and so did not come from training, leaves everything as it is; the step is a later one.
    """
    found = training.parts
    training.progress.say("looking for the first value that is not finite, from the last checkpoint on")
    reached, whole = yield from _walk(training, bad + 1)
    if not whole:
        yield from _walk(training, reached - 1)
        return reached - 1
    if reached > bad:
        training.parts = found
    return reached


def _walk(training: Training, until: int) -> Generator[Mark, None, tuple[int, bool]]:
    """Step from the last checkpoint on, up to ``until`` or a failure: which step, and if all weights are finite."""
    training.parts = make_parts(as_split(training.config, training.folder), training.seed, training.team)
    step = make_step(training.parts, training.restore(), eager=True)
    try:
        while step.step < until and not _stopped(training):
            step()
            if training.team.agree(spoiled(training.parts.objective) is not None):
                return step.step, False
            yield None
    except NotFinite:  # the loss was not finite, so the step was not applied
        pass
    return step.step, True
