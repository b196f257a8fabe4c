"""The protocol of a recipe in fewer steps."""

from __future__ import annotations

from dataclasses import replace

from ..config import Config, with_values
from .registry import tables

STARTS = ("model.start", "adversarial.source")  # the settings that name another run, of the same table or not


def shortened(config: Config, steps: int) -> Config:
    """The same protocol in fewer steps: milestones and warm-ups shrink in proportion, intervals to at most ``steps``.

    The warm-ups are those of the learning rate and of the margin, the intervals those of evaluations, log, checkpoints
    and projections. An annealing (``loss.annealing``) stays: its λ is published as a function of the step, and was
    measured so in short runs. ``regularizer.refresh`` stays as well: an interval above ``steps`` is never reached, as
    one of ``steps`` is. The runs of the same table that it starts from or is attacked by are shortened, too.
    """
    share = steps / config.schedule.steps
    milestones = sorted({max(1, round(milestone * share)) for milestone in config.schedule.milestones})
    schedule = replace(
        config.schedule,
        steps=steps,
        milestones=tuple(milestones),
        warmup=round(config.schedule.warmup * share),
    )
    loss = replace(config.loss, warmup=round(config.loss.warmup * share))
    optim = replace(config.optim, projection_every=min(config.optim.projection_every, steps))
    run_config = replace(config.run, name=f"{config.recipe}-{steps}")
    for name in ("eval_every", "log_every", "checkpoint_every"):
        run_config = replace(run_config, **{name: max(1, min(getattr(run_config, name), steps))})
    beside = {name: run for name in STARTS if (run := named(config, name)) is not None and _beside(config, run)}
    config = with_values(config, {name: f"{run}-{steps}" for name, run in beside.items()})
    return replace(config, schedule=schedule, loss=loss, optim=optim, run=run_config)


def named(config: Config, setting: str) -> str | None:
    """The run that a setting of :data:`STARTS` names."""
    part, field = setting.split(".")
    run: str | None = getattr(getattr(config, part), field)
    return run


def _beside(config: Config, run: str) -> bool:
    """Whether a run is one of the same table."""
    known = {f"{table.name}.{cell.training}": table for table in tables().values() for cell in table.cells}
    return run in known and config.recipe.startswith(f"{known[run].name}.")
