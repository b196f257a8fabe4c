"""Adapters as files: the numbers that R is made of, without the network.

FOLDER/adapter.safetensors   for each weight and block size the free entries: of a skew A those below the diagonal
FOLDER/adapter.json          format, name, method, blocks, and of every weight those two, shape and a hash of its bytes
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .._core.checks import check_choice
from .._core.neurons import iter_neurons
from .._core.tensor_files import unpack_tensors
from .._core.trust import check_trusted
from .._core.trust import trust as allow
from .._core.version import __version__
from ._adapter import Adapters, adapter, adapters, enable, iter_adapters, uninstall
from ._adapter_peft import CONFIG as PEFT_CONFIG
from ._adapter_peft import WEIGHTS as PEFT_WEIGHTS
from ._adapter_peft import read_json, read_peft
from ._blocks import BlockMatrix

logger = logging.getLogger("hypersphere")
_FORMAT = 1
_MIXED = "mixed"  # where the weights have several methods: a version that reads one for all of them refuses this
_SKEW = ("cayley", "exponential")
_WEIGHTS, _CONFIG = "adapter.safetensors", "adapter.json"


def save_adapter(model: nn.Module, folder: str | Path, name: str | None = None) -> Path:
    """Write one adapter to a folder: a safetensors file and its settings.

    Args:
        model: A network with adapters that are not merged.
        folder: Folder to write; it is created if it does not exist, and an adapter in it is replaced.
        name: Name of the adapter; may be left out if there is only one.

    Returns:
        The path of the folder that was written.

    Raises:
        ValueError: If the model has no adapter of that name, or several and no name is given.

    Example:
        >>> model = hs.orthogonal.adapter(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)))
        >>> sorted(path.name for path in hs.orthogonal.save_adapter(model, "saved").iterdir())
        ['adapter.json', 'adapter.safetensors']
    """
    found = list(iter_adapters(model))
    known = adapters(model)
    if not found:
        raise ValueError("the adapters are merged into the weights: unmerge(model) first")
    if name is None and len(known) > 1:
        raise ValueError(f"name=None is ambiguous: the model has the adapters {', '.join(known)}; pass one")
    name = check_choice("name", name or known[0], known)
    tensors: dict[str, Tensor] = {}
    weights: dict[str, Any] = {}
    for weight, module, tensor_name, part in found:
        if name not in part.by_name:
            continue
        matrix = part.blocks(name)
        method, base = _method(matrix), _base(module, tensor_name)
        about = {"dim": matrix.dim, "method": method, "blocks": matrix.blocks, "shape": list(base.shape)}
        weights[weight] = {**about, **_fingerprint(base)}
        for index, raw in enumerate(matrix.raw):
            tensors[f"{weight}.{index}"] = _packed(raw.detach(), method).cpu().contiguous()
    of_all = {about["method"] for about in weights.values()}
    config = {
        "format": _FORMAT,
        "hypersphere": __version__,
        "name": name,
        "method": of_all.pop() if len(of_all) == 1 else _MIXED,
        "blocks": matrix.blocks,
        "weights": weights,
    }
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    (path / _WEIGHTS).write_bytes(_safetensors().save(tensors, {"format": "hypersphere.adapter"}))
    (path / _CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    return path


def load_adapter(
    model: nn.Module,
    folder: str | Path,
    name: str | None = None,
    *,
    trust: str | Iterable[str] | None = None,
) -> nn.Module:
    """Add an adapter that was saved by :func:`save_adapter` or PEFT to a network, and activate it.

    Args:
        model: The network that the adapter was trained on. It is changed in place and may have other adapters.
        folder: Folder that :func:`save_adapter` wrote, or ``save_pretrained`` of PEFT for an OFT adapter
            (``adapter_config.json`` and ``adapter_model.safetensors``), which becomes an exact Cayley adapter.
        name: Name of the adapter on this network; None takes the name it was saved under, ``"default"`` for PEFT. An
            adapter of that name is replaced if it is on the same weights and has the same shape.
        trust: Modules whose code the file may name: needed for a map given by its address ``"package.module:name"``,
            unless this process has named or registered it before. None trusts nothing more, since importing a module
            runs its code.

    Returns:
        ``model`` itself, with the adapter as the active one.

    Raises:
        FileNotFoundError: If the folder holds no adapter.
        ValueError: If a weight is missing in the network or has another shape, the network has an adapter of that name
            on other weights, a file is damaged or names code that is not trusted, or PEFT's adapter is not OFT. Nothing
            is changed then. If the network is another checkpoint of the same architecture, a warning is logged.

    Example:
        >>> model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
        >>> folder = hs.orthogonal.save_adapter(hs.orthogonal.adapter(model), "adapter")
        >>> model = hs.orthogonal.load_adapter(model, "adapter", name="again")
        >>> hs.orthogonal.adapters(model)
        ['default', 'again']
    """
    path = Path(folder)
    if not (path / _CONFIG).exists() and (path / PEFT_CONFIG).exists():
        return _load_peft(model, path, name or "default")
    for file in (_WEIGHTS, _CONFIG):
        if not (path / file).is_file():
            raise FileNotFoundError(f"{path / file} is missing: save_adapter(model, folder) writes it")
    config = _read_config(path / _CONFIG)
    made = {weight: _Made.read(about, config) for weight, about in config["weights"].items()}
    allow(trust)
    check_trusted({"method": [one.method for one in made.values()]}, path / _CONFIG)
    if any(one.method == "householder" for one in made.values()):
        raise ValueError(
            f"{path} holds a Householder adapter of an earlier version, whose first step turned a coordinate over: "
            "train it again, e.g. by method='gram_schmidt'"
        )
    name = config["name"] if name is None else name
    tensors = _read_tensors(path / _WEIGHTS)
    _check_shapes(model, path, config["weights"])
    with _restored_on_error(model, name):
        present = _present(model, path, made, name)
        parts = [(weight, one.method) for weight, one in made.items()]
        _fill(pair for weight, method in parts for pair in _values(present, weight, name, method, tensors, path))
        enable(model, name)
    _compare_fingerprints(model, path, config["weights"])
    return model


def _load_peft(model: nn.Module, path: Path, name: str) -> nn.Module:
    """PEFT's Cayley transform has the sign and the triangle of its own: R is formed, and our numbers made of it."""
    if not (path / PEFT_WEIGHTS).is_file():
        raise FileNotFoundError(f"{path / PEFT_WEIGHTS} is missing: PEFT writes it beside {PEFT_CONFIG}")
    found = read_peft(path, _read_tensors(path / PEFT_WEIGHTS))
    dims = {layer.name: layer.flatten(layer.weight.detach()).shape[-1] for layer in iter_neurons(model)}
    for weight, blocks in list(found.blocks.items()):
        count, size = blocks.shape[:2]
        dim = dims.get(weight)
        if dim is not None and count == 1 and dim % size == 0:  # block_share: one block for all
            found.blocks[weight] = blocks.expand(dim // size, size, size)
        elif dim is not None and count * size != dim:
            raise ValueError(f"{path} has {count} blocks of {size} for {weight}, whose dimension is {dim}")
    wanted = {weight: _Made("cayley", len(blocks)) for weight, blocks in found.blocks.items()}
    with _restored_on_error(model, name):
        present = _present(model, path, wanted, name)
        values = []
        for weight in wanted:
            part = present.get(weight)
            matrix = part.blocks(name) if part is not None and name in part.by_name else None
            if matrix is None or _Made(_method(matrix), matrix.blocks) != wanted[weight]:
                raise ValueError(f"this network has another adapter {name!r} than {path}: choose another name")
            values.append((matrix.raw[0], found.skew(weight).tril(-1)))
        _fill(values)
        enable(model, name)
    return model


class _Made(NamedTuple):
    """What the R of a weight is made by."""

    method: str
    blocks: int

    @classmethod
    def read(cls, about: dict[str, Any], config: dict[str, Any]) -> _Made:
        """From what a file says of a weight, or else of all: earlier versions wrote one method for all weights."""
        return cls(str(about.get("method", config["method"])), int(about.get("blocks", config["blocks"])))


def _present(model: nn.Module, path: Path, wanted: dict[str, _Made], name: str) -> dict[str, Adapters]:
    """The adapters of each weight, with one of this name: a new one, made as wanted, if there is none yet."""
    present = {weight: part for weight, _, _, part in iter_adapters(model)}
    having = {weight for weight, part in present.items() if name in part.by_name}
    if having:
        _check_same_weights(having, set(wanted), path, name)
        return present
    _check_names(path, wanted, [layer.name for layer in iter_neurons(model)])
    for made in sorted(set(wanted.values())):
        target = [_escaped(weight) for weight, one in wanted.items() if one == made]
        adapter(model, made.method, blocks=made.blocks, target=target, name=name)
    present = {weight: part for weight, _, _, part in iter_adapters(model)}
    for weight in wanted:
        present[weight].blocks(name).requires_grad_(True)  # each call has frozen those of the calls before
    return present


def _check_same_weights(having: set[str], wanted: set[str], path: Path, name: str) -> None:
    """A ValueError if an adapter of a network is on other weights than that of a file: a mixture would be neither."""
    beside, absent = sorted(having - wanted), sorted(wanted - having)
    if beside or absent:
        where = f"on {beside[0]}, which {path} does not adapt" if beside else f"not on {absent[0]}, as {path} is"
        raise ValueError(f"the adapter {name!r} of this network is {where}: load it under another name, name='...'")


@contextmanager
def _restored_on_error(model: nn.Module, name: str) -> Iterator[None]:
    """Take the adapter ``name`` away again if it cannot be loaded, and train and compute with what was there before."""
    before = {id(part): (set(part.by_name), part.active) for *_, part in iter_adapters(model)}
    trained = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    try:
        yield
    except Exception:
        for _, module, tensor_name, part in list(iter_adapters(model)):
            if id(part) not in before:
                uninstall(module, tensor_name, part)
                continue
            names, active = before[id(part)]
            if name not in names and name in part.by_name:
                del part.by_name[name]
            part.active = active
        for parameter, required in trained:
            parameter.requires_grad_(required)
        raise


def _check_names(path: Path, wanted: Iterable[str], names: Iterable[str]) -> None:
    missing = sorted(set(wanted) - set(names))
    if missing:
        raise ValueError(f"{path} adapts {missing[0]!r}, which this network does not have: is it the same network?")


def _check_shapes(model: nn.Module, path: Path, weights: dict[str, dict[str, Any]]) -> None:
    """A ValueError if a weight is missing, or has another shape than in training; old files do not say the shape."""
    layers = list(iter_neurons(model))
    _check_names(path, weights, [layer.name for layer in layers])
    for layer in layers:
        told = weights.get(layer.name, {}).get("shape")
        shape = tuple(layer.weight.shape)
        if told is not None and tuple(told) != shape:
            raise ValueError(
                f"{path} adapts {layer.name} of shape {tuple(told)}, that of this network has shape {shape}: "
                "is it the same network?"
            )


def _compare_fingerprints(model: nn.Module, path: Path, weights: dict[str, dict[str, Any]]) -> None:
    """Warn of weights that are not those that the adapter was trained on; in another dtype they cannot be compared."""
    found = {weight: _base(module, tensor_name) for weight, module, tensor_name, _ in iter_adapters(model)}
    other = []
    for weight, about in weights.items():
        here = _fingerprint(found[weight]) if about.get("sha256") is not None else {}
        if here and here["dtype"] == about.get("dtype") and here["sha256"] != about["sha256"]:
            other.append(weight)
    if other:
        logger.warning(
            "%s was trained on other values of %s%s: load it on the checkpoint that it was trained on",
            path, other[0], f" and {len(other) - 1} further weights" if len(other) > 1 else "",
        )  # fmt: skip


def _base(module: nn.Module, tensor_name: str) -> Tensor:
    """The weight under the adapters."""
    original: Tensor = module.parametrizations[tensor_name].original  # type: ignore[index, union-attr]
    return original.detach()


def _fingerprint(base: Tensor) -> dict[str, str]:
    """A short hash of the bytes of a weight, and its dtype; nothing of one whose bytes are not all here."""
    if type(base) is not Tensor or base.is_meta or base.layout is not torch.strided:
        return {}
    flat = base.cpu().contiguous().reshape(-1).view(torch.uint8)
    short = hashlib.sha256(flat.numpy().data).hexdigest()[:16]
    return {"dtype": str(base.dtype).removeprefix("torch."), "sha256": short}


def _fill(values: Iterable[tuple[Tensor, Tensor]]) -> None:
    """Give parameters their values, once all of them are known to fit."""
    pairs = list(values)
    with torch.no_grad():
        for raw, value in pairs:
            raw.copy_(value)


def _values(
    present: dict[str, Adapters], weight: str, name: str, method: str, tensors: dict[str, Tensor], path: Path
) -> Iterator[tuple[Tensor, Tensor]]:
    """The parameters of an adapter, and what the file has for them."""
    part = present.get(weight)
    matrix = None if part is None or name not in part.by_name else part.blocks(name)
    if matrix is None or _method(matrix) != method:
        raise ValueError(f"this network has another adapter {name!r} than {path}: choose another name")
    for index, raw in enumerate(matrix.raw):
        key = f"{weight}.{index}"
        values = tensors.get(key)
        wanted = _packed(raw.detach(), method).shape
        if values is None or values.shape != wanted:
            shape = None if values is None else tuple(values.shape)
            raise ValueError(f"{path}: {key} has shape {shape}, {tuple(wanted)} is needed: is it the same network?")
        yield raw, _unpacked(values, raw, method)


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
    return matrix.declared


def _read_config(path: Path) -> dict[str, Any]:
    config = read_json(path)
    fields = ("format", "name", "method", "blocks", "weights")
    if not isinstance(config, dict) or any(field not in config for field in fields):
        raise ValueError(f"{path} is not an adapter's config: it needs {', '.join(fields)}")
    if config["format"] != _FORMAT:
        raise ValueError(f"{path} has format {config['format']!r}, this version reads {_FORMAT}: update hypersphere")
    weights = config["weights"]
    if not isinstance(weights, dict) or not all(isinstance(about, dict) for about in weights.values()):
        raise ValueError(f"{path} is not an adapter's config: weights={weights!r} must say something of each weight")
    return config


def _read_tensors(path: Path) -> dict[str, Tensor]:
    _safetensors()
    try:
        return unpack_tensors(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}): save the adapter again") from error


def _escaped(name: str) -> str:
    """A pattern that matches this name alone."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _safetensors() -> Any:
    try:
        import safetensors.torch
    except ImportError:
        raise ImportError("adapters are stored as safetensors: pip install 'hypersphere[train]'") from None
    return safetensors.torch
