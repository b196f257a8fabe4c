"""``--schedule.*``: how many steps, and the learning rate at each."""

from __future__ import annotations

from dataclasses import dataclass

from .._core.checks import check_choice, check_count, check_positive
from .options import option


@dataclass(frozen=True)
class ScheduleConfig:
    """How many steps training takes, and what the learning rate is multiplied by at each.

    Raises:
        ValueError: If a setting is unknown, out of its range or contradicts another one; the message names it.

    Example:
        >>> from hypersphere.config import ScheduleConfig
        >>> ScheduleConfig(steps=1000, milestones=(500,)).gamma
        0.1
    """

    steps: int = option(64000, "number of optimizer steps of a training")
    kind: str = option("step", "step (times gamma at each milestone), cosine (to 0), constant")
    milestones: tuple[int, ...] = option((34000, 54000), "steps at which the learning rate is multiplied by gamma")
    gamma: float = option(0.1, "factor of the learning rate at a milestone")
    warmup: int = option(0, "steps over which the learning rate grows linearly from 0")

    def __post_init__(self) -> None:
        check_count("schedule.steps", self.steps)
        check_choice("schedule.kind", self.kind, ("step", "cosine", "constant"))
        check_positive("schedule.gamma", self.gamma)
        check_count("schedule.warmup", self.warmup, minimum=0)
        if list(self.milestones) != sorted(set(self.milestones)) or any(step < 1 for step in self.milestones):
            raise ValueError(f"schedule.milestones={self.milestones} must be steps from 1 on that increase")
