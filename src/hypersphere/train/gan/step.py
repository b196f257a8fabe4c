"""One step of a GAN: ``gan.updates`` updates of the discriminator, then one of the generator."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..parts import Parts
from ..step import Step
from .objective import GanObjective


class GanStep(Step):
    """The batch of a step is shared out among the discriminator's updates; the generator's has as many images as one.

    One optimizer holds both networks: of each update only one of them has gradients, and what has none stays.
    """

    may_be_late = False  # the updates of one step see different matrices

    def __init__(self, parts: Parts, step: int = 0, *, eager: bool = False) -> None:
        super().__init__(parts, step, eager=eager)
        objective = parts.objective
        assert isinstance(objective, GanObjective)  # make_step has checked that
        objective.rank, objective.world = parts.team.rank, parts.team.world
        self._gan, self._turns = objective, objective.config.updates
        self._critic = [p for p in objective.model.parameters() if p.requires_grad]
        self._maker = [p for p in objective.generator.parameters() if p.requires_grad]
        self._fooled = torch.zeros(2, dtype=torch.float64, device=self.device)
        self._fool: Callable[..., tuple[Tensor, Tensor]] = self._plain_fool
        if objective.config.gradient_penalty:
            self._forward = self._plain_forward  # derivatives of derivatives are not compiled
        elif self._compiled:
            self._fool = torch.compile(self._plain_fool)

    def read(self) -> dict[str, float]:
        """As of every step, ``loss`` being the discriminator's; and ``generator_loss``."""
        line = super().read()
        loss, steps = self.parts.team.sum(self._fooled.clone()).tolist()
        self._fooled.zero_()
        return {**line, "generator_loss": loss / max(steps, 1.0)}

    def state_dict(self) -> dict[str, Any]:
        team = self.parts.team
        return {**super().state_dict(), "fooled": team.sum(self._fooled.clone()) / team.world}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._fooled.copy_(state["fooled"])

    def _updates(self) -> None:
        inputs, labels = self.parts.source.batch(self._position)
        for turn in range(self._turns):  # every n-th sample: the same ones however many processes share the batch
            images, own = inputs[0][turn :: self._turns], labels[turn :: self._turns]
            self._update(partial(self._forward, (images,), own), self._critic, self._sums)
            self._clip_weights()
        self._update(partial(self._fool, inputs[0][:: self._turns]), self._maker, self._fooled)

    def _plain_fool(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """The generator's loss; and loss, 1, to be summed."""
        half = self.parts.run.precision == "bfloat16"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=half, cache_enabled=False):
            loss = self._gan.fooled(like)
        return loss, torch.stack([loss.detach().double(), torch.ones((), dtype=torch.float64, device=self.device)])

    @torch.no_grad()
    def _clip_weights(self) -> None:
        bound = self._gan.config.clip
        if bound is not None:
            for parameter in self._critic:
                parameter.clamp_(-bound, bound)
