"""What a training step is made of, and what follows from it: whether it can be one CUDA graph, compiled, undone."""

from __future__ import annotations

from dataclasses import dataclass

from .. import kernels
from ..config import RunConfig
from ..nn.fuse import is_row_of_blocks
from ..optim import WeightProjection
from ..orthogonal import asks_host
from ..runs import Team
from ..sources import Source
from .adversary import Adversary
from .objective import Objective
from .optimizer import Optimizers
from .penalty import Penalty
from .shards import ClassState


@dataclass
class Parts:
    """What a step is made of."""

    source: Source
    objective: Objective
    penalty: Penalty
    optimizers: Optimizers
    projection: WeightProjection | None
    team: Team
    run: RunConfig
    clip: float | None = None
    adversary: Adversary | None = None
    classes: ClassState | None = None

    @property
    def can_undo(self) -> bool:
        """Whether all that a step changes can be undone on the device; else the host waits for its matrices."""
        alone = self.team.world == 1 and self.classes is None and self.projection is None
        return alone and self.optimizers.can_skip


def obstacle(parts: Parts) -> str | None:
    """Why a step cannot be captured in CUDA graphs, or None if it can and is wanted."""
    why = None
    if parts.team.device.type != "cuda":
        why = "there is no GPU"
    elif not parts.source.resident:
        why = "the data are not kept on the GPU"
    elif parts.team.backend == "gloo":
        why = "the processes share a GPU, so their messages go through the host"
    elif parts.classes is not None and parts.team.world > 1:
        why = "the class vectors are split over processes"
    elif not parts.optimizers.capturable:
        why = "this optimizer waits for values of the GPU"
    elif asks_host(parts.objective):
        why = "the matrix exponential waits for values of the GPU"
    if parts.run.graph == "on" and why is not None:
        raise ValueError(f"run.graph='on' is not possible: {why}. Use auto or off")
    return "run.graph is off" if parts.run.graph == "off" else why


def is_fused(parts: Parts) -> bool:
    """Whether kernels leave a compiler nothing but the loss, which takes less time than compiling it."""
    objective = parts.objective
    if objective.head is not None or objective.generator is not None or parts.adversary is not None or parts.penalty:
        return False
    weight = next(objective.model.parameters(), None)
    return weight is not None and kernels.usable(weight) and is_row_of_blocks(objective.model)
