"""Options of a command line that would change nothing, because what they belong to is off or another one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .._core.registries import DATASETS, REGULARIZERS
from .._core.registry import is_address
from .command_line import shown
from .config import Config
from .evaluation import FACES
from .optim import of_matrices
from .regularizer import is_energy

_FOLDER = ("split", "held_out", "split_seed", "table", "unreadable")
_TREES, _PEOPLE = ("imagenet", "miniimagenet", "cub"), ("casia", "imdb_face", "ms_celeb")
_HEAD = ("scale", "fitting", "annealing", "bias", "extra")


def _of(*names: str) -> Callable[[Config], bool]:
    """Whether the data set is one of these, or the user's own, which may be of any kind."""
    return lambda c: c.data.name in names or _shows(c) is None


def _shows(c: Config) -> str | None:
    """What a data set of ours shows: images, people, a graph or clouds."""
    return getattr(DATASETS.get(c.data.name), "of", None)


def _faces(c: Config) -> bool:
    return any(name in FACES for name in (c.evaluation.data, *c.evaluation.also))


def _own_measurement(c: Config) -> bool:
    """Whether one of the user's own is made, which may read any setting."""
    return any(map(is_address, (c.evaluation.protocol, *c.evaluation.also)))


_ROTATIONS = ("gram_schmidt", "householder", "lowdin", "canonical", "cayley", "exponential", "gradient")
_OF_ANGLES = ("orthonormal", "orthogonal", "srip", "uniformity", "separation")
_TURNED = (
    "neurons that do more than turn together, which is all that an orthogonal R lets them do: "
    "--orthogonal.learn-v yes, or another --orthogonal.method"
)


def _turned(c: Config) -> bool:
    """Whether all that hidden neurons do is to turn together."""
    return c.orthogonal.method in _ROTATIONS and not c.orthogonal.learn_v


_NEEDS: tuple[tuple[str, tuple[str, ...], Callable[[Config], bool], str], ...] = (
    ("orthogonal", ("*",), lambda c: c.orthogonal.method is not None, "--orthogonal.method"),
    ("orthogonal", ("beta",), lambda c: c.orthogonal.method == "relaxed", "--orthogonal.method relaxed"),
    ("orthogonal", ("refine_steps", "refine_lr"), lambda c: c.orthogonal.refine is not None, "--orthogonal.refine"),
    ("regularizer", ("name",), lambda c: c.regularizer.name not in _OF_ANGLES or not _turned(c), _TURNED),
    ("regularizer", ("orthonormality",), lambda c: not _turned(c), _TURNED),
    ("regularizer", ("hidden",), lambda c: c.regularizer.name != "mhe" or not _turned(c), _TURNED),
    ("optim", ("orthogonal_lr",), lambda c: c.orthogonal.method is not None, "--orthogonal.method"),
    ("gan", ("*",), lambda c: c.gan.generator is not None, "--gan.generator"),
    ("adversarial", ("mixture", "fraction"), lambda c: c.adversarial.train is not None, "--adversarial.train"),
    ("model", ("k", "learnable_k", "share_k"), lambda c: c.model.angular == "sigmoid", "--model.angular sigmoid"),
    ("model", ("share_k",), lambda c: c.model.learnable_k, "--model.learnable-k yes"),
    ("model", ("alpha",), lambda c: c.model.magnitude is not None, "--model.magnitude"),
    ("loss", _HEAD, lambda c: not c.loss.own_classifier, "a head, --loss.name softmax, arcface, ..."),
    ("loss", ("k", "learnable_k"), lambda c: c.loss.angular == "sigmoid", "--loss.angular sigmoid"),
    (
        "loss",
        ("fitting",),
        lambda c: c.loss.margin is None or c.loss.scale is None,
        "--loss.margin none or --loss.scale none, which it chooses",
    ),
    ("loss", ("energy_s",), lambda c: bool(c.loss.energy), "--loss.energy"),
    ("loss", ("contrastive_margin",), lambda c: bool(c.loss.contrastive), "--loss.contrastive"),
    ("data", _FOLDER, lambda c: c.data.name == "folder", "--data.name folder"),
    ("data", ("resident",), _of("folder"), "--data.name folder"),
    ("data", ("image_size", "resize"), _of("folder", *_TREES), "--data.name folder"),
    ("data", ("workers",), lambda c: _of("folder", *_TREES, *_PEOPLE)(c) or _faces(c), "--data.name folder"),
    ("data", ("root",), lambda c: c.data.name != "digits" or _faces(c), "--data.name, e.g. folder"),
    ("data", ("points", "rotate"), _of("modelnet40"), "--data.name modelnet40"),
    ("data", ("hflip", "vflip", "pad", "normalize"), lambda c: _shows(c) not in ("graph", "clouds"), "a set of images"),
    ("data", ("pad_mode",), lambda c: c.data.pad > 0, "--data.pad"),
    ("data", ("pad",), lambda c: c.data.name not in (*_TREES, *_PEOPLE), "images that are kept in memory"),
    ("schedule", ("milestones", "gamma"), lambda c: c.schedule.kind == "step", "--schedule.kind step"),
    ("schedule", ("gamma",), lambda c: bool(c.schedule.milestones), "--schedule.milestones"),
    (
        "schedule",
        ("milestones", "gamma"),
        lambda c: any(step < c.schedule.steps for step in c.schedule.milestones),
        "a milestone before the last step, or more --schedule.steps",
    ),
    ("evaluation", ("inception",), lambda c: c.gan.generator is not None or _own_measurement(c), "--gan.generator"),
    ("optim", ("adam_lr",), lambda c: c.optim.name in of_matrices(), "--optim.name muon"),
    (
        "optim",
        ("projection_every", "projection_norm"),
        lambda c: c.optim.name not in ("adamh", "muonh"),
        "another --optim.name than adamh and muonh, which keep the lengths that weights start with",
    ),
    ("optim", ("projection_norm",), lambda c: c.optim.projection_every > 0, "--optim.projection-every"),
    ("optim", ("beta1", "beta2", "eps"), lambda c: c.optim.name not in ("sgd", "orthogonal_sgd"), "--optim.name adam"),
    (
        "optim",
        ("momentum", "nesterov"),
        lambda c: c.optim.name not in ("adam", "adamw", "adamh") or c.orthogonal.method == "gradient",
        "--optim.name sgd",
    ),
)
"""(group, fields, whether they are used, what they need): ``*`` is every field but the one that switches it on."""


def check_used(config: Config, given: Iterable[str], *others: Config) -> None:
    """Raise an error for an option that changes nothing: it was meant to.

    Args:
        config: the settings of the run, those of the command line among them.
        given: what the command line sets, by dotted name.
        *others: the settings of further runs of the command; an option has to be used by one of them.

    Raises:
        ValueError: If an option has no effect; the message says what it needs.

    Example:
        >>> from hypersphere.config import Config, check_used, with_values
        >>> check_used(with_values(Config(), {"model.k": 0.3}), {"model.k"})
        Traceback (most recent call last):
        ValueError: --model.k 0.3 changes nothing here: it needs --model.angular sigmoid
    """
    defaults = Config()
    for name in given:
        group, _, field = name.partition(".")
        values = [(one, getattr(getattr(one, group), field)) for one in (config, *others)]
        start = getattr(getattr(defaults, group), field)
        # not as it is anyway, nor off; `no` for what is on by itself is more than that
        set_by = [(one, value) for one, value in values if value != start and (value or start is True)]
        needs = [_needs(one, group, field) for one, _ in set_by]
        if needs and all(needs):
            told = f"--{name.replace('_', '-')} {shown(set_by[0][1])}"
            raise ValueError(f"{told} changes nothing here: it needs {needs[0]}")


def _needs(config: Config, group: str, field: str) -> str | None:
    needs = next((needs for *where, used, needs in _NEEDS if _in(where, group, field) and not used(config)), None)
    return _needs_regularizer(config, field) if group == "regularizer" and needs is None else needs


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
