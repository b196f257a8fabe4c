"""Names of networks, what each stands for, and how one is made."""

from __future__ import annotations

import contextlib
import fnmatch
import inspect
import re
from typing import Any

import torch
from torch import nn

from .._core.checks import check_choice
from .._core.registries import MODELS
from ..nn import fuse
from . import gan, gcn, mlp, plain, pointnet, pointnet2, resnet
from .entry import SLOT_OPTIONS, Entry
from .slots import Slots

for _family in (plain, resnet, mlp, gcn, pointnet, pointnet2, gan):
    for _name, _entry in _family.MODELS.items():
        MODELS.add(_name, _entry, label=_name, about=_entry.table, parameters=_entry.parameters)


def create(
    name: str,
    num_classes: int | None = None,
    *,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
    **settings: Any,
) -> Any:
    """Make the network ``name`` of the documents.

    Args:
        name: one of :func:`list_models`, or ``package.module:function`` of a builder of your own.
        num_classes: outputs of the classifier; 0 for none (the network gives its embedding to a margin head), None for
            the classes of the data set that the documents use.
        device: device on which the network is created; ``"meta"`` gives shapes without memory.
        dtype: floating-point type of its parameters; None is torch's default.
        **settings: options of every network, as described in :class:`~hypersphere.models.Slots`: ``conv``, ``angular``,
            ``magnitude``, ``weighted``, ``affine``, ``norm``, ``norm_eps``, ``norm_momentum``, ``activation``,
            ``bias``, ``init``, ``spectral_norm`` and ``classifier_bias``. Networks for images take ``in_channels``,
            ``image_size`` (a number or (height, width)), ``widths`` (filters of each stage, or the name of a set) and
            ``feature_dim`` (length of the embedding). Some have options of their own, such as ``fc_norm``,
            ``shortcut``, ``branch_std``, ``last_relu``, ``hidden``, ``dropout``, ``points`` or ``latent_dim``;
            :func:`options` lists those of one network with their defaults.

    Returns:
        A module with ``features(x)``, ``feature_dim`` and ``classifier`` (the GAN's generator has none of them).

    Raises:
        ValueError: If the name or an option is unknown; the message names the closest known one.

    Example:
        >>> net = hs.models.create("cnn9", num_classes=10, conv="sphere", angular="sigmoid")
        >>> net(torch.randn(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """
    if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        raise TypeError(f"dtype={dtype!r} must be a floating-point type of torch, e.g. torch.float16")
    entry = _find(name)
    known = entry.options()
    if num_classes is not None:
        settings["num_classes"] = num_classes
    for setting in () if entry.takes_any else settings:
        check_choice(f"{name} option", setting, known)
    chosen = {**entry.defaults, **settings}
    if entry.slots:
        chosen["slots"] = Slots(**{key: chosen.pop(key) for key in SLOT_OPTIONS if key in chosen})
    with torch.device(device) if device is not None else contextlib.nullcontext():
        model = entry.build(**entry.fixed, **chosen)
    if not isinstance(model, nn.Module):
        raise ValueError(f"name={name!r} gives a {type(model).__name__}, not a torch.nn.Module: return the network")
    if entry.slots:  # a builder from outside the package is left as it is
        fuse(model)
    return model if dtype is None else model.to(dtype)


def list_models(pattern: str = "*") -> list[str]:
    """List the networks, with numbers in numerical order.

    Args:
        pattern: shell pattern that the names must match, e.g. ``"cnn*"``; ``"*"`` lists all.

    Returns:
        The names that match, with numbers in numerical order.

    Example:
        >>> hs.models.list_models("sphereface*")
        ['sphereface4', 'sphereface10', 'sphereface20', 'sphereface36', 'sphereface64']
    """
    return sorted(fnmatch.filter(MODELS, pattern), key=_natural)


def options(name: str) -> dict[str, Any]:
    """Return the options that :func:`create` takes for a network.

    Args:
        name: name of a network, one of :func:`list_models`.

    Returns:
        The options and their defaults by name.

    Example:
        >>> hs.models.options("cnn9")["image_size"]
        32
    """
    return _find(name).options()


def describe(name: str) -> str:
    """Describe a network: its table in the documents, the builder's description, options and defaults.

    Args:
        name: name of a network, one of :func:`list_models`.

    Returns:
        The description, a text of several lines.

    Example:
        >>> hs.models.describe("cnn9").splitlines()[0]
        'cnn9: paper Table 5; thesis Tables B.1, C.1, D.1, E.1, E.3, F.1'
    """
    entry = _find(name)
    settings = ", ".join(f"{key}={value!r}" for key, value in entry.options().items())
    return f"{name}: {entry.table}\n\n{inspect.getdoc(entry.build)}\n\nOptions: {settings}"


def _find(name: str) -> Entry:
    found: Any = MODELS.find(name, "name")
    return found if isinstance(found, Entry) else Entry(found, MODELS.entry(name).about, slots=False)


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name) if part]
