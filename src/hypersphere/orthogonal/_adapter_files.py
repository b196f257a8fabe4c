"""Adapters as files: the numbers that R is made of, without the network.

FOLDER/adapter.safetensors   for each weight and block size the free entries: of a skew A those below the diagonal
FOLDER/adapter.json          format, method, blocks, name, and dimension of every weight
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .._core.errors import check_choice
from .._core.neurons import iter_neurons
from .._core.version import __version__
from ._adapter import Adapters, adapter, adapters, enable, iter_adapters
from ._blocks import BlockMatrix

__all__ = ["load_adapter", "save_adapter"]

_FORMAT = 1
_SKEW = ("cayley", "exponential")
_WEIGHTS, _CONFIG = "adapter.safetensors", "adapter.json"


def save_adapter(model: nn.Module, folder: str | Path, name: str | None = None) -> Path:
    """Write one adapter to a folder: a safetensors file and its settings.

    Args:
        model: A network with adapters that are not merged.
        folder: Made if it does not exist; an adapter in it is replaced.
        name: Which adapter; may be left out if there is only one.

    Returns:
        The folder.

    Raises:
        ValueError: If the model has no adapter of that name, or several and no name is given.

    Example:
        >>> model = hs.orthogonal.adapter(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)))
        >>> sorted(path.name for path in hs.orthogonal.save_adapter(model, "saved").iterdir())
        ['adapter.json', 'adapter.safetensors']
    """
    found = [(weight, part) for weight, _, _, part in iter_adapters(model)]
    known = adapters(model)
    if not found:
        raise ValueError("the adapters are merged into the weights: unmerge(model) first")
    if name is None and len(known) > 1:
        raise ValueError(f"name: the model has the adapters {', '.join(known)}: say which")
    name = check_choice("name", name or known[0], known)
    tensors: dict[str, Tensor] = {}
    weights: dict[str, Any] = {}
    method, blocks = "", 0
    for weight, part in found:
        if name not in part.by_name:
            continue
        matrix = part.blocks(name)
        method, blocks = _method(matrix), matrix.blocks
        weights[weight] = {"dim": matrix.dim}
        for index, raw in enumerate(matrix.raw):
            tensors[f"{weight}.{index}"] = _packed(raw.detach(), method).cpu().contiguous()
    config = {
        "format": _FORMAT,
        "hypersphere": __version__,
        "name": name,
        "method": method,
        "blocks": blocks,
        "weights": weights,
    }
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    (path / _WEIGHTS).write_bytes(_safetensors().save(tensors, {"format": "hypersphere.adapter"}))
    (path / _CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    return path


def load_adapter(model: nn.Module, folder: str | Path, name: str | None = None) -> nn.Module:
    """Put an adapter that :func:`save_adapter` wrote on a network and make it the active one.

    Args:
        model: The network that it was trained on, in place; it may have other adapters.
        folder: Where it was saved.
        name: Its name on this network; by default the one it was saved under. An adapter of that name is
            replaced if it has the same shape.

    Returns:
        ``model``.

    Raises:
        FileNotFoundError: If the folder holds no adapter.
        ValueError: If a weight is missing in the network or has another size.

    Example:
        >>> model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
        >>> folder = hs.orthogonal.save_adapter(hs.orthogonal.adapter(model), "adapter")
        >>> model = hs.orthogonal.load_adapter(model, "adapter", name="again")
        >>> hs.orthogonal.adapters(model)
        ['default', 'again']
    """
    path = Path(folder)
    for file in (_WEIGHTS, _CONFIG):
        if not (path / file).is_file():
            raise FileNotFoundError(f"{path / file} is missing: save_adapter(model, folder) writes it")
    config = _read_config(path / _CONFIG)
    name = config["name"] if name is None else name
    tensors: dict[str, Tensor] = _safetensors().load((path / _WEIGHTS).read_bytes())
    present = {weight: part for weight, _, _, part in iter_adapters(model)}
    if not any(name in part.by_name for part in present.values()):
        wanted = list(config["weights"])
        missing = sorted(set(wanted) - set(_weight_names(model)))
        if missing:
            raise ValueError(f"{path} adapts {missing[0]!r}, which this network does not have: is it the same network?")
        adapter(model, config["method"], blocks=config["blocks"], target=[_escaped(w) for w in wanted], name=name)
        present = {weight: part for weight, _, _, part in iter_adapters(model)}
    with torch.no_grad():
        for weight in config["weights"]:
            _fill(present, weight, name, config, tensors, path)
    return enable(model, name)


def _fill(
    present: dict[str, Adapters], weight: str, name: str, config: dict[str, Any], tensors: dict[str, Tensor], path: Path
) -> None:
    part = present.get(weight)
    matrix = None if part is None or name not in part.by_name else part.blocks(name)
    if matrix is None or _method(matrix) != config["method"]:
        raise ValueError(f"the adapter {name!r} of this network is another than {path}'s: choose another name")
    for index, raw in enumerate(matrix.raw):
        key = f"{weight}.{index}"
        values = tensors.get(key)
        wanted = _packed(raw.detach(), config["method"]).shape
        if values is None or values.shape != wanted:
            shape = None if values is None else tuple(values.shape)
            raise ValueError(f"{path}: {key} has shape {shape}, {tuple(wanted)} is needed: is it the same network?")
        raw.copy_(_unpacked(values, raw, config["method"]))


def _packed(raw: Tensor, method: str) -> Tensor:
    """(count, k(k−1)/2): the entries below the diagonal, row by row, of maps that read no others."""
    if method not in _SKEW:
        return raw
    row, col = torch.tril_indices(raw.shape[-1], raw.shape[-1], -1, device=raw.device)
    return raw[..., row, col]


def _unpacked(values: Tensor, like: Tensor, method: str) -> Tensor:
    values = values.to(like)
    if method not in _SKEW:
        return values
    row, col = torch.tril_indices(like.shape[-1], like.shape[-1], -1, device=like.device)
    raw = torch.zeros_like(like)
    raw[..., row, col] = values
    return raw


def _method(matrix: BlockMatrix) -> str:
    return str(getattr(matrix.method, "method", ""))


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    fields = ("format", "name", "method", "blocks", "weights")
    if not isinstance(config, dict) or any(field not in config for field in fields):
        raise ValueError(f"{path} is not an adapter's config: it needs {', '.join(fields)}")
    if config["format"] != _FORMAT:
        raise ValueError(f"{path} has format {config['format']!r}, this version reads {_FORMAT}: update hypersphere")
    return config


def _weight_names(model: nn.Module) -> list[str]:
    return [layer.name for layer in iter_neurons(model)]


def _escaped(name: str) -> str:
    """A pattern that matches this name alone."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _safetensors() -> Any:
    try:
        import safetensors.torch
    except ImportError:
        raise ImportError("adapters are stored as safetensors: pip install 'hypersphere[train]'") from None
    return safetensors.torch
