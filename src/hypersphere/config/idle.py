"""Options of a command line that would change nothing, because what they belong to is off or another one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .._core.registries import REGULARIZERS
from .._core.registry import is_address
from .command_line import shown
from .config import Config
from .regularizer import is_energy

_FOLDER = ("split", "held_out", "split_seed", "table", "unreadable", "resident")
_HEAD = ("scale", "fitting", "annealing", "bias", "extra")
_NEEDS: tuple[tuple[str, tuple[str, ...], Callable[[Config], bool], str], ...] = (
    ("orthogonal", ("*",), lambda c: c.orthogonal.method is not None, "--orthogonal.method"),
    ("optim", ("orthogonal_lr",), lambda c: c.orthogonal.method is not None, "--orthogonal.method"),
    ("gan", ("*",), lambda c: c.gan.generator is not None, "--gan.generator"),
    ("adversarial", ("mixture", "fraction"), lambda c: c.adversarial.train is not None, "--adversarial.train"),
    ("model", ("k", "learnable_k", "share_k"), lambda c: c.model.angular == "sigmoid", "--model.angular sigmoid"),
    ("model", ("alpha",), lambda c: c.model.magnitude is not None, "--model.magnitude"),
    ("loss", _HEAD, lambda c: not c.loss.own_classifier, "a head, --loss.name softmax, arcface, ..."),
    ("loss", ("k", "learnable_k"), lambda c: c.loss.angular == "sigmoid", "--loss.angular sigmoid"),
    ("loss", ("energy_s",), lambda c: bool(c.loss.energy), "--loss.energy"),
    ("loss", ("contrastive_margin",), lambda c: bool(c.loss.contrastive), "--loss.contrastive"),
    ("data", _FOLDER, lambda c: c.data.name == "folder" or is_address(c.data.name), "--data.name folder"),
    ("schedule", ("milestones", "gamma"), lambda c: c.schedule.kind == "step", "--schedule.kind step"),
    ("optim", ("projection_norm",), lambda c: c.optim.projection_every > 0, "--optim.projection-every"),
    ("optim", ("beta1", "beta2"), lambda c: c.optim.name not in ("sgd", "orthogonal_sgd"), "--optim.name adam"),
    (
        "optim",
        ("momentum", "nesterov"),
        lambda c: c.optim.name not in ("adam", "adamw", "adamh") or c.orthogonal.method == "gradient",
        "--optim.name sgd",
    ),
)
"""(group, fields, whether they are used, what they need): ``*`` is every field but the one that switches it on."""


def check_used(config: Config, given: Mapping[str, Any]) -> None:
    """Raise an error for an option that changes nothing: it was meant to.

    Args:
        config: the settings of the run, those of the command line among them.
        given: what the command line sets, values by dotted name.

    Raises:
        ValueError: If an option has no effect; the message says what it needs.

    Example:
        >>> from hypersphere.config import Config, check_used
        >>> check_used(Config(), {"model.k": 0.3})
        Traceback (most recent call last):
        ValueError: --model.k 0.3 changes nothing here: it needs --model.angular sigmoid
    """
    defaults = Config()
    for name, value in given.items():
        group, _, field = name.partition(".")
        if not value or value == getattr(getattr(defaults, group), field):
            continue  # switched off, or as it is anyway
        needs = next((needs for *where, used, needs in _NEEDS if _in(where, group, field) and not used(config)), None)
        if group == "regularizer" and needs is None:
            needs = _needs_regularizer(config, field)
        if needs is not None:
            raise ValueError(f"--{name.replace('_', '-')} {shown(value)} changes nothing here: it needs {needs}")


def _in(where: list[Any], group: str, field: str) -> bool:
    return where[0] == group and (field in where[1] or (where[1] == ("*",) and field not in ("method", "generator")))


def _needs_regularizer(config: Config, field: str) -> str | None:
    """A regularizer that has an argument for the setting; one of the user's own may take anything."""
    chosen = config.regularizer.name
    if field in ("name", "orthonormality", "transform") or is_address(chosen):
        return None
    if chosen == "none":
        return "--regularizer.name"
    entry = REGULARIZERS.entry(chosen)
    taken = {"extra", *(one.name for one in entry.parameters)} - ({"weight"} if is_energy(entry) else set())
    if field in taken:
        return None
    return f"another --regularizer.name than {chosen}" + (", which has --regularizer.hidden" * (field == "weight"))
