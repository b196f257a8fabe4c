"""A network, the data it is judged on, and the processes that share the work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ...data.loader import IGNORE
from ..data import Source
from ..distributed import Team

if TYPE_CHECKING:
    from ..config import Config

__all__ = ["Judged"]


@dataclass(frozen=True)
class Judged:
    """What every measurement is given. ``network`` maps inputs to logits and has ``features`` for the embedding."""

    network: nn.Module
    source: Source
    team: Team
    config: Config

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Evaluation mode without gradients; the modes of all modules are restored."""
        modes = {module: module.training for module in self.network.modules()}
        self.network.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            for module, mode in modes.items():
                module.training = mode

    def logits(self, inputs: tuple[Tensor, ...]) -> Tensor:
        """Logits of a batch in float32, at the precision of the training."""
        with self._autocast():
            out: Tensor = self.network(*inputs)
        return out.float()

    def features(self, inputs: tuple[Tensor, ...]) -> Tensor:
        """The embedding of a batch in float32, at the precision of the training."""
        with self._autocast():
            out: Tensor = self.network.features(*inputs)  # type: ignore[operator]
        return out.float()

    def embedding(self, flip: bool = False) -> tuple[Tensor, Tensor]:
        """Features and labels of the whole test split, of all processes, in order, on the CPU.

        ``flip`` appends the features of the mirrored images.
        """
        rows, numbers = [], []
        for inputs, labels in self.source.test():
            features = self.features(inputs)
            if flip:
                features = torch.cat([features, self.features((inputs[0].flip(-1), *inputs[1:]))], 1)
            rows += self.team.gather(features)  # the processes hold consecutive rows of the batch
            numbers += self.team.gather(labels)
        labels = torch.cat(numbers)
        return torch.cat(rows)[labels != IGNORE], labels[labels != IGNORE]

    def _autocast(self) -> torch.autocast:
        half = self.config.run.precision == "bfloat16"
        return torch.autocast(self.team.device.type, torch.bfloat16, enabled=half)
