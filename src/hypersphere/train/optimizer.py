"""Optimizers whose learning rate is a number on the CPU and a tensor on a GPU, and the aids of thesis sec. 4.4."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW
from torch.optim.optimizer import Optimizer

from .. import optim
from .._core.neurons import matches
from .._core.registries import OPTIMIZERS
from ..config import OptimConfig
from ..optim.muon import Muon
from ..orthogonal import is_orthogonal, rotation_parameters


class Optimizers:
    """A few optimizers that step together under one schedule."""

    def __init__(self, parts: list[Optimizer], factors: list[float], device: torch.device) -> None:
        self.parts, self._factors = parts, factors
        self._groups = [group for part in parts for group in part.param_groups]
        self._base = [float(group["lr"]) for group in self._groups]
        self._tensor = device.type == "cuda"
        for part in parts:  # warm-up steps run uncaptured on purpose
            part._warned_capturable_if_run_uncaptured = True
        if self._tensor:
            self._table = torch.tensor(factors, dtype=torch.float32, device=device)
            self._bases = torch.tensor(self._base, dtype=torch.float32, device=device)
            self._rates = self._bases.clone()  # of all groups: one kernel sets them
            for group, rate in zip(self._groups, self._rates.unbind(), strict=True):
                group["lr"] = rate

    def schedule(self, step: Tensor, host_step: int) -> None:
        """Set the rates of a step: from the tensor on a GPU, where the host may be asleep, else from the number."""
        if self._tensor:
            torch.mul(self._bases, self._table.index_select(0, step.reshape(1)), out=self._rates)
        else:
            for group, base in zip(self._groups, self._base, strict=True):
                group["lr"] = base * self._factors[host_step]

    def rate(self, step: int) -> float:
        """The first learning rate at a step, for logging."""
        return self._base[0] * self._factors[min(step, len(self._factors) - 1)]

    def step(self) -> None:
        for part in reversed(self.parts):  # OrthogonalSGD, the last, refuses a bad gradient before anything is changed
            part.step()

    @property
    def can_skip(self) -> bool:
        """Whether :meth:`skip_where` works, as it does for the fused optimizers of PyTorch."""
        return all(isinstance(part, SGD | Adam) and part.defaults["fused"] for part in self.parts)

    def skip_where(self, flag: Tensor | None) -> None:
        """Let steps change nothing if this float32 scalar on the device is 1; None ends it."""
        for part in self.parts:
            part.found_inf = flag  # type: ignore[attr-defined]  # what a gradient scaler sets after an overflow

    @property
    def turns(self) -> bool:
        """Whether OrthogonalSGD turns matrices, which it refuses for a gradient that is not finite."""
        return any(isinstance(part, optim.OrthogonalSGD) for part in self.parts)

    def zero_grad(self) -> None:
        for part in self.parts:
            part.zero_grad(set_to_none=True)

    @property
    def capturable(self) -> bool:
        """Whether a CUDA graph can record a step, as far as is known."""
        return all(isinstance(part, SGD | Adam | Muon) or part.defaults.get("capturable") for part in self.parts)

    def state_dict(self) -> list[Any]:
        """The states by position of the parameter; rates and other settings belong to the configuration."""
        return [part.state_dict()["state"] for part in self.parts]

    def load_state_dict(self, states: list[Any]) -> None:
        for part, state in zip(self.parts, states, strict=True):
            rates = [group["lr"] for group in part.param_groups]
            part.load_state_dict({"state": state, "param_groups": part.state_dict()["param_groups"]})
            for group, rate in zip(part.param_groups, rates, strict=True):
                group["lr"] = rate  # the tensor that a captured graph knows
            for parameter, kept in part.state.items():
                kept |= {name: _fitted(value, parameter) for name, value in kept.items() if name != "step"}
        self._groups = [group for part in self.parts for group in part.param_groups]


def _fitted(value: Any, parameter: Tensor) -> Any:
    """The state of a parameter in its layout: files know no channels last, and fused optimizers refuse two layouts.

    The state of a single number takes the shape that it has now: older versions had radii of shape ().
    """
    if not isinstance(value, Tensor):
        return value
    if value.ndim == 0 and parameter.numel() == 1:
        return value.reshape(parameter.shape)
    if value.shape == parameter.shape and value.stride() != parameter.stride():
        return torch.empty_like(parameter, dtype=value.dtype).copy_(value)
    return value


def make_optimizers(
    config: OptimConfig,
    trained: nn.Module,
    factors: list[float],
    device: torch.device,
    apart: Sequence[Tensor] = (),
) -> Optimizers:
    """The optimizer of every trainable parameter of ``trained``.

    Those that are ``apart`` have groups of their own: one group never mixes tensors that processes share out
    with others, and the numbers of the parameters are the same for every number of processes.

    Matrices that must stay orthogonal (``orthogonal.method`` gradient) have their own: :class:`OrthogonalSGD` with
    ``orthogonal_lr`` and ``momentum``, steps of at most 1/‖W‖_F and two passes of 7.6, as in the authors' code. The
    named optimizer trains the others (thesis F.3), at ``orthogonal_lr`` those that R is computed from, if it is given.
    ``orthogonal_sgd`` trains all by the closed form 7.5.
    """
    groups = _groups(config, trained)
    if apart:
        splits = {id(p) for p in apart}
        split, rest = _pick(groups, lambda p: id(p) in splits)
        groups = [*rest, *split]
    if config.orthogonal_lr is not None:
        turning = {id(p) for p in rotation_parameters(trained)}
        rotations, rest = _pick(groups, lambda p: id(p) in turning)
        groups = [*rest, *({**group, "lr": config.orthogonal_lr} for group in rotations)]
    if config.name == "orthogonal_sgd":
        everything = optim.OrthogonalSGD(groups, config.lr, config.momentum, nesterov=config.nesterov)
        return Optimizers([everything], factors, device)
    matrices, others = _pick(groups, is_orthogonal)
    parts = _named(config, others, trained, device) if others else []
    if matrices:
        rotations = [p for group in matrices for p in group["params"]]
        own: dict[str, Any] = {"solver": "fixed_point", "iterations": 2, "bounded": True}
        parts.append(optim.OrthogonalSGD(rotations, config.manifold_lr, config.momentum, **own))
    return Optimizers(parts, factors, device)


def _groups(config: OptimConfig, trained: nn.Module) -> list[Any]:
    """The trainable parameters by their weight decay."""
    groups: list[Any] = optim.parameter_groups(trained, config.weight_decay)
    if config.decay == "all":
        everything = [p for p in trained.parameters() if p.requires_grad]
        groups = [{"params": everything, "weight_decay": config.weight_decay}]
    if config.undecayed:
        exempt = _matching(trained, config.undecayed)
        spared, rest = _pick(groups, lambda p: id(p) in exempt)
        groups = [*rest, *({**group, "weight_decay": 0.0} for group in spared)]
    return [group for group in groups if group["params"]]


def _matching(trained: nn.Module, patterns: tuple[str, ...]) -> set[int]:
    """The ids of the parameters that the patterns of ``optim.undecayed`` name; each has to name one."""
    named = dict(trained.named_parameters())
    for pattern in patterns:
        if not any(matches(name, pattern) for name in named):
            raise ValueError(f"optim.undecayed {pattern!r} matches no parameter of {', '.join(list(named)[:8])}, ...")
    return {id(parameter) for name, parameter in named.items() if matches(name, patterns)}


def _named(config: OptimConfig, groups: list[Any], trained: nn.Module, device: torch.device) -> list[Optimizer]:
    """The optimizer ``config.name`` of these groups, and AdamW of what it leaves, if it is for matrices."""
    entry = OPTIMIZERS.entry(config.name, "optim.name")
    if not entry.extra.get("matrices"):
        return [_make(config, entry.value, groups, config.lr, device)]
    apart = {id(p) for p in [p for p in trained.parameters() if p.requires_grad and p.dim() >= 2][-1:]}
    if entry.extra.get("keeps_length"):  # lengths of what R is computed from matter
        apart |= {id(p) for p in rotation_parameters(trained)}
    matrices, others = _pick(groups, lambda p: p.dim() >= 2 and id(p) not in apart)  # the output layer is for Adam
    if entry.extra.get("keeps_length"):
        matrices = [{**group, "weight_decay": 0.0} for group in matrices]
    parts = [_make(config, entry.value, matrices, config.lr, device)] if matrices else []
    return [*parts, _make(config, AdamW, others, config.adam_lr, device)] if others else parts


def _make(config: OptimConfig, kind: Any, groups: list[Any], lr: float, device: torch.device) -> Optimizer:
    """An optimizer, called with those of the settings that it has arguments for."""
    settings = {"momentum": config.momentum, "nesterov": config.nesterov, "betas": (config.beta1, config.beta2)}
    settings |= {"eps": config.eps}
    if device.type == "cuda":
        of_torch = isinstance(kind, type) and issubclass(kind, SGD | Adam)
        settings |= {"capturable": True} | ({"fused": True} if of_torch else {})
    taken = _arguments(kind)
    settings = {name: value for name, value in settings.items() if name in taken}
    try:
        made = kind(groups, lr=lr, **settings)
    except TypeError as error:
        raise ValueError(
            f"optim.name={config.name!r} is called with groups of parameters, lr{''.join(f', {n}' for n in settings)}: "
            f"{error}. Give its other arguments defaults"
        ) from error
    if not isinstance(made, Optimizer):
        raise ValueError(f"optim.name={config.name!r} gives a {type(made).__name__}, not a torch.optim.Optimizer")
    if "weight_decay" not in made.defaults and any(group.get("weight_decay") for group in groups):
        raise ValueError(f"optim.name={config.name!r} has no weight decay: set --optim.weight-decay 0")
    return made


def _arguments(kind: Any) -> set[str]:
    """Names of the arguments of a class or function; those of its bases as well, if it has ``**options``."""
    found: set[str] = set()
    for one in getattr(kind, "__mro__", (kind,)):
        arguments = signature(one).parameters.values()
        found |= {argument.name for argument in arguments}
        if all(argument.kind is not argument.VAR_KEYWORD for argument in arguments):
            break
    return found


def make_projection(config: OptimConfig, model: nn.Module) -> optim.WeightProjection | None:
    """Weight projection and weighted gradients, where asked for."""
    if config.weighted_gradients:
        with _or("--optim.weighted-gradients no"):
            optim.weighted_gradients(model)
    if config.projection_every:
        with _or("--optim.projection-every 0"):
            return optim.WeightProjection(model, config.projection_every, config.projection_norm)
    return None


@contextmanager
def _or(option: str) -> Iterator[None]:
    """Add to an error the option that does without."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{error}, or give {option}") from error


def _pick(groups: list[Any], wanted: Callable[[Tensor], bool]) -> tuple[list[Any], list[Any]]:
    """The groups of the wanted parameters, and those of the others."""

    def pick(answer: bool) -> list[Any]:
        picked = [{**group, "params": [p for p in group["params"] if wanted(p) == answer]} for group in groups]
        return [group for group in picked if group["params"]]

    return pick(True), pick(False)
