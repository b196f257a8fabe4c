"""One training step: data → forward → loss + penalty → backward → optimizer → schedule, the same code everywhere.

On a GPU the forward pass is compiled, unless kernels compute nearly all of it, and the whole step replayed as one CUDA
graph: positions, learning rates and sums live in tensors that the step itself advances, so the host is asked for
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..data.loader import IGNORE
from ..functional.orthogonalize.algorithms import Unresolved
from ..optim.orthogonal_sgd import TooLong
from ..orthogonal import prepared, record, rotation_parameters
from .fused import rehearse, side_stream, tally
from .late import Matrices
from .parts import Parts, is_fused, obstacle
from .shards import clip_gradients

Mark = torch.cuda.Event | None
"""A place in the work of a GPU, which can be asked whether it has come that far; None on a CPU, which has."""

_NEVER = 2**62
_WARM_UP = 3  # eager steps before a capture: they are part of the training


class NotFinite(RuntimeError):
    """The loss of a step is NaN or infinite; nothing of that step was applied on a CPU.

    ``tensor`` names a weight, a buffer or a gradient that is, after so many steps, where the loss is finite.
    """

    def __init__(self, step: int, value: float, tensor: str | None = None) -> None:
        super().__init__(f"{'loss' if tensor is None else tensor} {value} at step {step}")
        self.step, self.value, self.tensor = step, value, tensor


ANGLE = "an angle of an orthogonal matrix"


def unresolved(step: int) -> NotFinite:
    """What a matrix whose angles are too large says of the step before which it was so."""
    return NotFinite(step, math.nan, ANGLE)


class Step:
    """Call it once a step, in order; ``step`` counts. ``read()`` gives and clears what was summed since.

    The last steps may still have to be done again (see :meth:`_catch_up`): call :meth:`complete` before you look at
    anything that a step changes.
    """

    may_be_late = True

    def __init__(self, parts: Parts, step: int = 0, *, eager: bool = False) -> None:
        self.parts, self.step = parts, step
        self.device = parts.team.device
        self._cuda = self.device.type == "cuda"
        self._trained = [p for p in parts.objective.parameters() if p.requires_grad]
        self._position = torch.zeros((), dtype=torch.int64, device=self.device)
        self._counter = torch.full((), step, dtype=torch.int64, device=self.device)
        self._sums = torch.zeros(5, dtype=torch.float64, device=self.device)
        self._bad = torch.full((), -1, dtype=torch.int64, device=self.device)
        self._forward: Callable[..., tuple[Tensor, Tensor]] = self._plain_forward
        self._forward_at: Callable[[Tensor], tuple[Tensor, Tensor]] = self._plain_forward_at
        self._penalized = bool(parts.penalty)
        self._nothing = torch.zeros((), dtype=torch.float64, device=self.device)
        self._one = torch.ones((), dtype=torch.float64, device=self.device)
        fused = is_fused(parts)
        self._compiled = not eager and _wanted(parts.run.compile, self._cuda and parts.team.world == 1 and not fused)
        self._fused = fused and not self._compiled
        if self._compiled:
            self._forward, self._forward_at = torch.compile(self._plain_forward), torch.compile(self._plain_forward_at)
        self.why_no_graph = obstacle(parts)
        turned = bool(rotation_parameters(parts.objective))  # the maps of matrices remember the last step
        self._rehearses = self._fused and self._cuda and self.why_no_graph is None and not turned
        self._graph: Any = None
        self._maps: Matrices | None = None  # the orthogonal matrices that start from the last step
        self._goes = torch.ones((), dtype=torch.int64, device=self.device)  # 0 in a step that must change nothing
        self._eager_left = _WARM_UP if not eager and self.why_no_graph is None else -1
        self._expected = 0

    def __call__(self) -> None:
        """Do step ``self.step``."""
        self._catch_up()
        self._next()

    def complete(self) -> None:
        """Wait until all steps so far are done, and done right."""
        self._catch_up(wait=True)

    def _next(self) -> None:
        parts = self.parts
        position = parts.source.seek(self.step)
        if self._rehearses and self._expected == 0:
            rehearse(parts.objective, parts.source, self._position, parts.run.precision == "bfloat16")
            parts.optimizers.zero_grad()
        if position != self._expected or position == 0 or self._graph is None:
            self._position.fill_(position)
        self._expected = position + 1
        if self._graph is not None:
            self._replay()
        elif self._eager_left == 0:
            self._capture()
        else:
            self._eager_left -= 1
            with side_stream(self._cuda and self._eager_left >= 0):
                self._work()
        if parts.projection is not None:
            parts.projection.step()
        self.step += 1

    def read(self) -> dict[str, float]:
        """Mean loss, penalty and accuracy since the last time; waits for the device. Raises :class:`NotFinite`."""
        self.complete()
        loss, penalty, right, samples, steps = self.parts.team.sum(self._sums.clone()).tolist()
        self.check()
        self._sums.zero_()
        steps = max(steps, 1.0)
        return {"loss": loss / steps, "penalty": penalty / steps, "train_accuracy": right / max(samples, 1.0)}

    def check(self) -> None:
        """Raise :class:`NotFinite` with the first step whose loss was not, in any process."""
        self.complete()
        bad = int(self._bad)
        first = self.parts.team.smallest(bad if bad >= 0 else _NEVER)
        if first < _NEVER:
            raise NotFinite(first, math.nan)

    @property
    def settled(self) -> bool:
        """Whether the step is captured, or never will be: until then no other training may begin in this process."""
        return self._graph is not None or self._eager_left < 0

    def mark(self) -> Mark:
        """The end of what the device was asked for so far."""
        return torch.cuda.current_stream(self.device).record_event() if self._cuda else None

    def state_dict(self) -> dict[str, Any]:
        """The mean over the processes, which all of them ask for: any number of them can go on from it."""
        self.complete()
        return {"sums": self.parts.team.sum(self._sums.clone()) / self.parts.team.world}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._sums.copy_(state["sums"])

    # The step itself --------------------------------------------------------------------------------

    def _work(self) -> None:
        parts, maps = self.parts, self._maps
        changed: list[nn.Module] = [parts.objective, parts.penalty]
        with nullcontext() if maps is None else maps.undoing(changed, parts.optimizers, self._goes):
            parts.optimizers.schedule(self._counter, self.step)
            self._updates()
        torch._foreach_add_([self._position, self._counter], [self._goes, self._goes])

    def _updates(self) -> None:
        """What a step does to the weights: one update of all of them."""
        if self.parts.source.resident:
            forward = partial(self._forward_at, self._position)
        else:
            forward = partial(self._forward, *self.parts.source.batch(self._position))
        self._update(forward, self._trained, self._sums)

    def _update(self, forward: Callable[[], tuple[Tensor, Tensor]], trained: list[nn.Parameter], sums: Tensor) -> None:
        """Forward, backward and optimizer for ``trained``; its numbers are added to ``sums``."""
        parts = self.parts
        parts.optimizers.zero_grad()
        try:  # under compiled code, R by the maps as they are
            with prepared(parts.objective) if self._compiled else nullcontext():
                total, stats = forward()
        except Unresolved as error:
            raise unresolved(self.step) from error
        if not self._cuda:
            self._check(total.item())
        total.backward(inputs=None if trained is self._trained else trained)
        parts.team.average_gradients(trained)
        if parts.clip is not None:
            clip_gradients(trained, parts.clip, parts.team)
        self._apply()
        if self._cuda:
            tally(total.detach(), stats, self._goes, self._counter, self._bad, sums)
        else:
            sums.add_(stats)

    def _apply(self) -> None:
        try:
            self.parts.optimizers.step()
        except TooLong as error:
            raise NotFinite(self.step, math.nan, "the step of an orthogonal matrix") from error
        except RuntimeError as error:
            if not self.parts.optimizers.turns:  # by no gradient that is not finite
                raise
            gradients = ((name, p.grad) for name, p in self.parts.objective.named_parameters() if p.grad is not None)
            bad = next((name for name, gradient in gradients if not gradient.isfinite().all()), None)
            if bad is None:
                raise
            raise NotFinite(self.step, math.nan, f"the gradient of {bad}") from error

    def _check(self, value: float) -> None:
        if not math.isfinite(value):
            if self.parts.team.world == 1:
                raise NotFinite(self.step, value)
            if int(self._bad) < 0:
                self._bad.fill_(self.step)  # the others wait in the exchange of gradients: all stop at the next reading

    def _plain_forward_at(self, position: Tensor) -> tuple[Tensor, Tensor]:
        """:meth:`_plain_forward` of the batch at a position of data that live on the device."""
        return self._plain_forward(*self.parts.source.batch(position))

    def _plain_forward(self, inputs: tuple[Tensor, ...], labels: Tensor) -> tuple[Tensor, Tensor]:
        """The loss with its penalty; and loss, penalty, right answers, samples, 1, to be summed."""
        parts = self.parts
        half = parts.run.precision == "bfloat16"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=half, cache_enabled=False):
            if parts.adversary is not None:
                inputs, labels = parts.adversary(inputs, labels)
            if self._fused:
                logits = parts.objective.model(*inputs)
                found = parts.objective.counted(logits, labels)
                if found is not None:
                    return found
                loss, right = parts.objective.loss_and_hits(logits, labels)
            else:
                loss, right = parts.objective(inputs, labels)
        penalty = parts.penalty() if self._penalized else self._nothing
        samples = (labels != IGNORE).sum()
        stats = torch.stack([value.detach().double() for value in (loss, penalty, right, samples, self._one)])
        return loss + penalty if self._penalized else loss, stats

    # Graphs -----------------------------------------------------------------------------------------

    def _capture(self) -> None:
        """Record the step without doing it, then do it by the first replay.

        A training on its own stream is recorded there: products keep their scratch memory by stream, and those
        of two graphs that run at once must not be the same. Orthogonal matrices that start from the last step are a
        graph of their own, so that the rest of the step can be done again with matrices that were computed exactly.
        """
        torch.cuda.synchronize()
        stream = torch.cuda.current_stream(self.device)
        own = None if stream == torch.cuda.default_stream(self.device) else stream
        graph, recorded = torch.cuda.CUDAGraph(), record(self.parts.objective, own)
        self._maps = None if recorded is None else Matrices(recorded, self.may_be_late and self.parts.can_undo)
        with torch.cuda.graph(graph, stream=own, pool=None if recorded is None else recorded.pool()):
            self._work()
        self._graph = graph
        self._replay()

    def _replay(self) -> None:
        if self._maps is not None:
            self._maps.replay()
        self._graph.replay()

    def _catch_up(self, wait: bool = False) -> None:
        """If a matrix was found to have failed, do that step again with exact matrices, and those after it.

        None of them has changed anything, the number of steps on the device included.
        """
        if self._maps is None or not self._maps.failed(wait):
            return
        asked, self.step = self.step, int(self._counter)
        self._maps.settle()
        position = self.parts.source.seek(self.step)
        self._position.fill_(position)
        self._expected = position + 1
        self._graph.replay()
        self.step += 1
        while self.step < asked:
            self._next()


def _wanted(switch: str, automatic: bool) -> bool:
    return automatic if switch == "auto" else switch == "on"
