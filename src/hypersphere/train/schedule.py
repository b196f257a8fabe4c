"""Learning rate by step: warm-up, then constant, milestones or a cosine."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .._core.errors import check_choice, check_count, check_positive
from .options import option

__all__ = ["ScheduleConfig", "factors"]


@dataclass(frozen=True)
class ScheduleConfig:
    """How many steps, and what the learning rate is multiplied by at each."""

    steps: int = option(64000, "optimizer steps")
    kind: str = option("step", "step (times gamma at each milestone), cosine (to 0), constant")
    milestones: tuple[int, ...] = option((34000, 54000), "steps at which the rate is multiplied by gamma")
    gamma: float = option(0.1, "factor at a milestone")
    warmup: int = option(0, "steps over which the rate grows linearly from 0")

    def __post_init__(self) -> None:
        check_count("schedule.steps", self.steps)
        check_choice("schedule.kind", self.kind, ("step", "cosine", "constant"))
        check_positive("schedule.gamma", self.gamma)
        check_count("schedule.warmup", self.warmup, minimum=0)
        if list(self.milestones) != sorted(set(self.milestones)):
            raise ValueError(f"schedule.milestones={self.milestones} must increase")


def factors(config: ScheduleConfig) -> list[float]:
    """The factor of the learning rate at every step."""
    return [_factor(config, step) for step in range(config.steps)]


def _factor(config: ScheduleConfig, step: int) -> float:
    warm = min(1.0, (step + 1) / config.warmup) if config.warmup else 1.0
    if config.kind == "step":
        return float(warm * config.gamma ** sum(step >= milestone for milestone in config.milestones))
    if config.kind == "cosine":
        done = max(step - config.warmup, 0) / max(config.steps - config.warmup, 1)
        return warm * 0.5 * (1 + math.cos(math.pi * done))
    return warm
