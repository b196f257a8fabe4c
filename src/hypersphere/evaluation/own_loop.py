"""Networks of the user's own loop: whether they take the samples that the settings name."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor

from .._core.memory import ran_out
from ..runs import Gan, Run
from .candidate import Candidate


def check_taken(candidate: Candidate, run: Run, seed: int) -> None:
    """Raise ValueError if the network of a user's own loop does not take a sample; other networks were built for it."""
    batch = None
    if run.own_loop(seed) is not None and not isinstance(candidate.network, Gan):
        batch = next(iter(candidate.source.test()), None)
    if batch is None:
        return
    inputs = batch[0] if len(batch[0]) > 1 else (batch[0][0][:1],)  # a graph is one sample
    with taking(run, inputs), candidate.evaluating():
        candidate.logits(inputs)


@contextmanager
def taking(run: Run, inputs: tuple[Tensor, ...]) -> Iterator[None]:
    """Turn the error of a network that does not take these inputs into a sentence that says what to do.

    Args:
        run: the run of the user's own loop, for the message.
        inputs: what the network is called with inside.

    Raises:
        ValueError: In the place of every error of the network, unless memory ran out.
    """
    try:
        yield
    except Exception as error:  # whatever a network of the user's raises
        if ran_out(error):
            raise
        shape, why = tuple(inputs[0].shape[1:]), " ".join(str(error).split())[:200] or type(error).__name__
        fixes = "make what prepares them a part of the network"
        if len(shape) > 1:
            rows = f"in_features={math.prod(shape)} and no image_size"
            fixes = f"give Logger {rows} if it takes each as one row of numbers, or {fixes}"
        raise ValueError(
            f"the network of {run.path}, which your own loop trained, does not take samples of shape {shape} ({why}): "
            f"{fixes}"
        ) from error
