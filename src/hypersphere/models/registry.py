"""Names of networks, what each stands for, and how one is made."""

from __future__ import annotations

import contextlib
import fnmatch
import inspect
import re
from typing import Any

import torch

from .._core.errors import check_choice
from . import gan, gcn, mlp, plain, pointnet, pointnet2, resnet, sphereface
from .entry import SLOT_OPTIONS, Entry
from .slots import Slots

__all__ = ["create", "describe", "list_models", "options"]

_MODELS: dict[str, Entry] = {
    **plain.MODELS,
    **resnet.MODELS,
    **sphereface.MODELS,
    **mlp.MODELS,
    **gcn.MODELS,
    **pointnet.MODELS,
    **pointnet2.MODELS,
    **gan.MODELS,
}


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
        name: one of :func:`list_models`.
        num_classes: outputs of the classifier; 0 for none (the network gives its embedding to a margin head), None
            for the classes of the data set that the documents use.
        device, dtype: where and in what precision to make it.
        **settings: those of :class:`~hypersphere.models.Slots` (``conv``, ``angular``, ``magnitude``, ``norm``,
            ``activation``, ...) and the network's own (``widths``, ``image_size``, ...): see :func:`options`.

    Returns:
        A module with ``features(x)``, ``feature_dim`` and ``classifier`` (the GAN's generator has none of them).
    """
    entry = _entry(name)
    known = entry.options()
    if num_classes is not None:
        settings["num_classes"] = num_classes
    for setting in settings:
        check_choice(f"{name} option", setting, known)
    chosen = {**entry.defaults, **settings}
    slots = Slots(**{key: value for key, value in chosen.items() if key in SLOT_OPTIONS})
    own = {key: value for key, value in chosen.items() if key not in SLOT_OPTIONS}
    with torch.device(device) if device is not None else contextlib.nullcontext():
        model = entry.build(slots=slots, **entry.fixed, **own)
    return model if dtype is None else model.to(dtype)


def list_models(pattern: str = "*") -> list[str]:
    """Names that match a shell pattern, numbers in numerical order."""
    return sorted(fnmatch.filter(_MODELS, pattern), key=_natural)


def options(name: str) -> dict[str, Any]:
    """The options that :func:`create` takes for a name, with their defaults."""
    return _entry(name).options()


def describe(name: str) -> str:
    """What a name stands for: its table in the documents, the builder's description, options and defaults."""
    entry = _entry(name)
    settings = ", ".join(f"{key}={value!r}" for key, value in entry.options().items())
    return f"{name}: {entry.table}\n\n{inspect.getdoc(entry.build)}\n\nOptions: {settings}"


def _entry(name: str) -> Entry:
    return _MODELS[check_choice("name", name, _MODELS)]


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name) if part]
