"""Learning rate by step: warm-up, then constant, milestones or a cosine."""

from __future__ import annotations

import math

from ..config import ScheduleConfig


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
