"""Class vectors split over the processes of a run (``--loss.shard yes``), and their part of its checkpoints.

Every process holds, trains and saves its own classes; nothing of the size of all classes is gathered. Their part of
a checkpoint is a folder of torch.distributed.checkpoint, which any number of processes can read.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .._core.modes import whole
from ..config import Config
from ..losses import MarginSoftmax, shard
from ..losses.head import ClassHead
from ..runs import Team
from .objective import Objective
from .optimizer import Optimizers


def shard_head(config: Config, objective: Objective, team: Team) -> Sequence[nn.Parameter]:
    """Split the head over the processes, if ``loss.shard`` says so; the parameters that are (or would be) split.

    Raises:
        ValueError: If this head cannot be split.
    """
    if not config.loss.shard:
        return ()
    head = objective.head
    if not isinstance(head, ClassHead):
        raise ValueError(f"loss.shard: {type(head).__name__} is not a head with class vectors that can be split")
    if team.world > 1:
        import torch.distributed as dist
        from torch.distributed.device_mesh import DeviceMesh

        everyone = dist.group.WORLD
        assert everyone is not None  # the processes of a team have met
        shard(head, DeviceMesh.from_group(everyone, team.device.type))
        if isinstance(head, MarginSoftmax):
            head.everyone = None  # a head that is split sees the samples of all processes anyway
    return [p for p in head.class_tensors().values() if isinstance(p, nn.Parameter)]


class ClassState:
    """The class tensors of a head and what the optimizers keep of each of their entries, by name."""

    def __init__(self, head: ClassHead, optimizers: Optimizers) -> None:
        self.head, self.optimizers = head, optimizers

    @property
    def names(self) -> set[str]:
        """In the state of the objective."""
        return {f"head.{name}" for name in self.head.class_tensors()}

    def save(self, folder: Path) -> None:
        """Write this process's part; all processes call it."""
        from torch.distributed.checkpoint.state_dict_saver import save  # slow to import, and few runs need it

        with _quiet():
            save(self._tensors(), checkpoint_id=folder)

    def load(self, folder: Path) -> None:
        """Read this process's part, whatever number of processes wrote the folder."""
        from torch.distributed.checkpoint.state_dict_loader import load

        from .shard_reader import Reader  # slow to import, too

        with _quiet():
            load(self._tensors(), storage_reader=Reader(folder))

    def without(self, states: Sequence[Mapping[int, Mapping[str, Any]]]) -> list[Any]:
        """The states of the optimizers without what :meth:`save` writes."""
        out = []
        for part, state in zip(self.optimizers.parts, states, strict=True):
            own = {index for index, _, _ in self._own(part)}
            out.append({i: _small(entry) if i in own else entry for i, entry in state.items()})
        return out

    def filled(self, states: Sequence[dict[int, dict[str, Any]]], folder: Path) -> list[Any]:
        """These states with room for what :meth:`load` reads."""
        from .shard_reader import Reader

        names = set(Reader(folder).read_metadata().state_dict_metadata)
        out = [dict(state) for state in states]
        for part, state in zip(self.optimizers.parts, out, strict=True):
            for index, name, parameter in self._own(part):
                prefix = f"optimizer.{name}."
                keys = [key.removeprefix(prefix) for key in names if key.startswith(prefix)]
                if keys or index in state:
                    state[index] = {**state.get(index, {}), **{key: torch.zeros_like(parameter) for key in keys}}
        return out

    def _tensors(self) -> dict[str, Tensor]:
        found = {f"model.{name}": tensor.detach() for name, tensor in self.head.class_tensors().items()}
        for part in self.optimizers.parts:
            for _, name, parameter in self._own(part):
                for key, value in part.state.get(parameter, {}).items():
                    if isinstance(value, Tensor) and value.dim():
                        found[f"optimizer.{name}.{key}"] = value.detach()
        return found

    def _own(self, part: torch.optim.Optimizer) -> Iterator[tuple[int, str, Tensor]]:
        """(number, name, parameter) of the class tensors that this optimizer trains."""
        names = {id(tensor): name for name, tensor in self.head.class_tensors().items()}
        parameters = (p for group in part.param_groups for p in group["params"])
        return ((i, names[id(p)], p) for i, p in enumerate(parameters) if id(p) in names)


def clip_gradients(parameters: list[nn.Parameter], most: float, team: Team) -> None:
    """Scale gradients down to a norm of at most ``most``, the norm of all entries on all processes."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    split = [g for g in gradients if hasattr(g, "to_local")]
    if not split:
        nn.utils.clip_grad_norm_(parameters, most)
        return
    squares = [_square(local(group)) for group in (split, [g for g in gradients if not hasattr(g, "to_local")])]
    total = (team.sum(squares[0].clone()) + squares[1]).sqrt()
    factor = (most / (total + 1e-6)).clamp_max(1.0)
    for gradient in local(gradients):
        gradient.mul_(factor.to(gradient.dtype))


def local(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The parts of this process."""
    return [t.to_local() if hasattr(t, "to_local") else t for t in tensors]


def whole_state(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A state with every tensor whole; all processes call it."""
    return {name: whole(tensor.detach()) for name, tensor in state.items()}


def _square(gradients: list[Tensor]) -> Tensor:
    return torch.stack([g.float().square().sum() for g in gradients] or [torch.zeros(())]).sum()


def _small(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if not (isinstance(value, Tensor) and value.dim())}


@contextmanager
def _quiet() -> Iterator[None]:
    """A single process is allowed."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*torch.distributed is disabled, unavailable or uninitialized.*")
        yield
