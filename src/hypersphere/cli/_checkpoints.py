"""Reading the weights in a file without running anything that is in it."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor

from .._core.neurons import iter_neurons, without_ties
from ..runs import Classifier, files, load
from ..runs.manifest import read_manifest

_MODEL_KEYS = ("state_dict", "model_state_dict", "model", "module", "net", "network", "params")


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Every tensor of a safetensors or torch file (``weights_only``)."""
    if not path.exists():
        raise ValueError(f"{path} does not exist: pass a .safetensors or torch file, or a run folder")
    tensors = _read_safetensors(path) if path.suffix == ".safetensors" else _read_torch(path)
    if not tensors:
        raise ValueError(f"{path} holds no tensors: pass a checkpoint with a model's state_dict")
    return tensors


def neuron_sets(tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """(name, (groups, neurons, dim)) of each weight, as far as shapes and names tell.

    Rows are neurons and trailing dimensions one vector; packed attention is three sets, recurrent
    weights a set per gate. Grouped and transposed convolutions look like ordinary ones in a file.
    Weights under spectral or weight normalisation have the directions of what it is computed from.
    Those of :func:`scaled` are left out.
    """
    left_out = set(scaled(tensors))
    known = {name: tensor.to_dense() for name, tensor in tensors.items() if name not in left_out}
    tensors = {_weight_of(name, tensors): tensor for name, tensor in known.items()}
    matrices = {name: t for name, t in tensors.items() if t.ndim >= 2 and t.is_floating_point() and t.numel()}
    named = {name: t for name, t in matrices.items() if "weight" in name.rsplit(".", 1)[-1]}
    for name, tensor in (named or matrices).items():
        groups = _groups(name, tensor, tensors)
        yield name, tensor.reshape(groups, tensor.shape[0] // groups, -1)


def scaled(tensors: Mapping[str, Tensor]) -> list[str]:
    """The weights of 8 bits, whose blocks are scaled by other tensors of the file: their directions are not known."""
    return [name for name, t in tensors.items() if t.ndim >= 2 and t.is_floating_point() and t.dtype.itemsize == 1]


def unlike_ordinary(tensors: Mapping[str, Tensor]) -> list[str]:
    """The convolutions of the file that look transposed, by the length of their bias, or depthwise, by one channel."""
    filters = {name: t for name, t in tensors.items() if name.endswith("weight") and t.ndim in (3, 4, 5)}
    found = []
    for place, (name, weight) in enumerate(filters.items()):
        bias = tensors.get(f"{name.removesuffix('weight')}bias")
        transposed = bias is not None and bias.numel() != weight.shape[0]
        depthwise = weight.shape[1] == 1 < weight.shape[0] and place > 0  # the first may see grey images
        if transposed or depthwise:
            found.append(name)
    return found


def run_sets(path: Path, file: Path) -> dict[str, Tensor] | None:
    """(groups, neurons, dim) of the layers of a run or export, as its network has them.

    None where ``path`` is neither, or its network cannot be built here: then the file has to do.
    """
    seed = next((folder for folder in file.parents if re.fullmatch(r"seed-\d+", folder.name)), None)
    if not path.is_dir() or (seed is None and not (path / "export.json").exists()):
        return None
    try:
        model = load(seed or path)
    except ValueError:
        return None
    sets = {layer.name: layer.matrix().detach() for layer in without_ties(iter_neurons(model))}
    vectors = getattr(model.head, "weight", None) if isinstance(model, Classifier) else None
    if isinstance(vectors, Tensor) and vectors.ndim == 2:
        sets["head.weight"] = vectors.detach()[None]
    return sets or None


def computed(tensors: Mapping[str, Tensor]) -> list[str]:
    """The weights that are computed from several tensors of the file, e.g. rotated in orthogonal training."""
    names = (name for name in tensors if name.endswith(".original") and _weight_of(name, tensors) == name)
    return [name.removesuffix(".original") for name in names if ".parametrizations." in name]


def _weight_of(name: str, tensors: Mapping[str, Tensor]) -> str:
    layer, between, last = name.rpartition(".parametrizations.weight.")
    spectral = last == "original" and f"{layer}{between}0._u" in tensors
    return f"{layer}.weight" if spectral or (between and last == "original1") else name


def _groups(name: str, tensor: Tensor, tensors: Mapping[str, Tensor]) -> int:
    last = name.rsplit(".", 1)[-1]
    if last == "in_proj_weight":
        groups = 3
    elif last.startswith(("weight_ih_l", "weight_hh_l")):
        recurrent = tensors.get(name.replace("weight_ih_l", "weight_hh_l"), tensor)
        projected = tensors.get(name.replace(last[:9], "weight_hr"))
        hidden = recurrent.shape[1] if projected is None else projected.shape[1]
        groups = tensor.shape[0] // hidden
    else:
        groups = 1
    return groups if groups > 0 and tensor.shape[0] % groups == 0 else 1


def find_file(path: Path) -> Path:
    """The file to read: ``path`` itself, or the model of a run folder.

    A run of ours keeps RUN/seed-K/model.safetensors, and before its end
    RUN/seed-K/checkpoints/step-N/model.safetensors: the first seed's, the last step's.
    """
    if not path.is_dir():
        return path
    for pattern in ("{}", "seed-*/{}", "checkpoints/step-*/{}", "seed-*/checkpoints/step-*/{}"):
        every = [list(path.glob(pattern.format(f"model.{end}"))) for end in ("safetensors", "pt")]
        found = sorted(every[0] or every[1], key=lambda file: _natural(str(file)))
        if found:
            seed = found[0].relative_to(path).parts[0]
            return [f for f in found if f.relative_to(path).parts[0] == seed][-1] if "seed" in pattern else found[-1]
    found = sorted(p for p in path.iterdir() if p.suffix in (".safetensors", ".pt", ".pth", ".bin"))
    if len(found) != 1:
        names = ", ".join(p.name for p in found) or "none"
        raise ValueError(f"{path} has no model.safetensors and not exactly one checkpoint (found: {names})")
    return found[0]


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        found = files.read_tensors(path, _known_hash(path))
        return {name: found[name] for name in sorted(found, key=_natural)}  # such files have no order of their own
    except ImportError:
        raise ValueError(f"{path} needs the safetensors package: pip install safetensors") from None


def _natural(name: str) -> list[tuple[int, str]]:
    """Sorts layer2 before layer10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _known_hash(path: Path) -> str | None:
    """What a manifest of ours beside the file says; those of other programs say nothing."""
    try:
        return read_manifest(path.parent)["files"].get(path.name)
    except (ValueError, KeyError):
        return None


def _read_torch(path: Path) -> dict[str, Tensor]:
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # pickle, zip, runtime and end-of-file errors alike
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        if isinstance(error, pickle.UnpicklingError):
            reason = "it is not such a file, or it holds objects other than tensors"
        raise ValueError(
            f"{path} is not a torch checkpoint that can be read safely (weights_only): {reason}. "
            "Save the model's state_dict with torch.save or safetensors."
        ) from error
    if isinstance(content, Tensor):
        return {"weight": content}
    return dict(_flatten(_model_part(content)))


def _model_part(content: object) -> object:
    """The model's state in a training checkpoint, else everything."""
    if isinstance(content, Mapping):
        for key in _MODEL_KEYS:
            if isinstance(content.get(key), Mapping) and any(True for _ in _flatten(content[key])):
                return content[key]
    return content


def _flatten(content: object, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
    if isinstance(content, Tensor):
        yield prefix, content
    elif isinstance(content, Mapping):
        for key, value in content.items():
            if not str(key).startswith("optim"):
                yield from _flatten(value, f"{prefix}.{key}" if prefix else str(key))
