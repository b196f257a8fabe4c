"""``hs.load_pretrained``: a converted network of transformers or timm from what these libraries saved.

``resumable(Trainer)`` finds the checkpoints of a converted network again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ._core.conversion_record import FORMAT, KEY, RESUMES, VARIANT, decoded, record_of, rules_from
from ._core.errors import check_model
from ._core.tensor_files import unpack_tensors
from ._core.trust import check_trusted
from ._core.trust import trust as trust_modules
from .conversion import convert

__all__ = ["load_pretrained", "resumable"]


def load_pretrained(
    source: str | Path, model: nn.Module | type[Any], *, trust: str | Iterable[str] | None = None
) -> nn.Module:
    """The network that was converted with :func:`hypersphere.convert` and saved by transformers or timm.

    The file says how it was converted. ``from_pretrained`` and ``load_state_dict`` of the plain network refuse such a
    file, because they would compute something else with its weights.

    Args:
        source: A folder that ``save_pretrained`` (transformers) or ``save_for_hf`` (timm) wrote, or a checkpoint file
            of a timm model: ``.safetensors``, or a torch file, which is read with ``weights_only=True``.
        model: The plain network to fill, which is converted in place; for transformers also a class that has
            ``from_pretrained``, such as ``AutoModelForImageClassification``.
        trust: Modules whose code the file may name by ``module:Name``, for an h or a g of your own.

    Returns:
        The converted network with the saved weights.

    Raises:
        FileNotFoundError: If there is no such file, or no weights in the folder.
        ValueError: If the file is damaged, not of a converted network, names code that is not trusted, or is of another
            one.

    Example:
        >>> # twin = hs.convert(timm.create_model("resnet18"), angular="sigmoid")
        >>> # torch.save(twin.state_dict(), "twin.pth")
        >>> # again = hs.load_pretrained("twin.pth", timm.create_model("resnet18"))
    """
    trust_modules(trust)
    path = Path(source).expanduser()
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist: give a folder of save_pretrained, or a checkpoint file")
    record, weights = _folder(path) if path.is_dir() else _checkpoint(path)
    _check(record, path)
    check_trusted(record, path)
    if isinstance(model, type):
        plain = _from_class(model, path)
    else:
        check_model(model)
        plain = model
    for call in record["conversions"]:
        plain = _converted(plain, call, path)
    _fill(plain, weights, path)
    return plain


def resumable(trainer: type[Any]) -> type[Any]:
    """A Trainer of transformers whose checkpoints of converted networks are found again.

    The weights of a converted network have a name of their own, so that no plain network takes them. The Trainer
    looks for its own name when it resumes (``resume_from_checkpoint``), where it ends with an error, and when it takes
    the best checkpoint at the end (``load_best_model_at_end``), where it would go on with the last weights.

    Args:
        trainer: ``transformers.Trainer``, or a class that derives from it.

    Returns:
        A class that derives from it and is used alike; plain networks are trained as before.

    Raises:
        TypeError: If ``trainer`` is not such a class.

    Example:
        >>> # from hypersphere.pretrained import resumable
        >>> # trainer = resumable(Trainer)(hs.convert(model), arguments, train_dataset=data)
        >>> # trainer.train(resume_from_checkpoint=True)
    """
    methods = ("_load_from_checkpoint", "_load_best_model")
    if not isinstance(trainer, type) or not all(callable(getattr(trainer, name, None)) for name in methods):
        raise TypeError(f"trainer={trainer!r} must be transformers.Trainer or a class that derives from it")
    base: Any = trainer

    class Resumable(base):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.model.__dict__[RESUMES] = True

        def _load_from_checkpoint(self, resume_from_checkpoint: Any, model: Any = None) -> None:
            if self._in_pieces() or not _refilled(self.model, resume_from_checkpoint):
                super()._load_from_checkpoint(resume_from_checkpoint, model)

        def _load_best_model(self) -> None:
            if self._in_pieces() or not _refilled(self.model, self.state.best_model_checkpoint):
                super()._load_best_model()

        def _in_pieces(self) -> bool:
            """Whether another library holds the weights, and writes files of its own."""
            return any(getattr(self, name, False) for name in ("is_fsdp_enabled", "is_deepspeed_enabled"))

    Resumable.__name__ = Resumable.__qualname__ = trainer.__name__
    return Resumable


def _refilled(model: nn.Module, folder: str | Path) -> bool:
    """Whether the folder holds weights of a converted network, which ``model`` then has."""
    path, own = Path(folder), record_of(model)
    file = path / "config.json"
    if not own or not file.exists() or KEY not in _json(file):
        return False
    record, weights = _folder(path)
    if record != own:
        raise ValueError(f"{path} is of a network that was converted with other options: convert this one alike")
    _fill(model, weights, path)
    return True


def _folder(path: Path) -> tuple[Any, dict[str, Tensor]]:
    file = path / "config.json"
    config = _json(file) if file.exists() else {}
    record = config.get(KEY) if isinstance(config, dict) else None
    if record is None:
        own = [found for name in ("model.safetensors", "pytorch_model.bin") if (found := path / name).exists()]
        if not own:
            raise FileNotFoundError(f"{path} holds neither a config.json with an entry {KEY!r} nor a model.safetensors")
        return _checkpoint(own[0])
    index = next(iter(sorted(path.glob(f"*.index.{VARIANT}*.json"))), None)
    if index is not None:
        names = sorted({str(name) for name in _json(index)["weight_map"].values()})
    else:
        names = sorted(found.name for kind in ("safetensors", "bin") for found in path.glob(f"*.{VARIANT}*.{kind}"))[:1]
    if not names or not all(name == Path(name).name for name in names):
        raise FileNotFoundError(f"{path} holds no weights named *.{VARIANT}.safetensors: save the network again")
    weights: dict[str, Tensor] = {}
    for name in names:
        weights.update(_tensors(path / name))
    return record, weights


def _checkpoint(path: Path) -> tuple[Any, dict[str, Tensor]]:
    tensors = _tensors(path)
    marks = [name for name in tensors if name == KEY or name.endswith(f".{KEY}")]
    if len(marks) != 1:
        raise ValueError(
            f"{path} does not say how its network was converted: hs.convert writes it down for models of timm and "
            "transformers. Convert the plain network yourself and use load_state_dict"
        )
    prefix = marks[0].removesuffix(KEY)
    record = decoded(tensors.pop(marks[0]))
    return record, {name.removeprefix(prefix): value for name, value in tensors.items()}


def _check(record: Any, path: Path) -> None:
    calls = record.get("conversions") if isinstance(record, dict) else None
    fields = ("layers", "magnitude", "angular", "weighted", "affine")
    whole = isinstance(calls, list) and all(isinstance(one, dict) and set(fields) <= set(one) for one in calls)
    if not whole:
        raise ValueError(f"{path} has a damaged record of its conversion: it needs a list of {', '.join(fields)}")
    if record.get("format") != FORMAT:
        raise ValueError(f"{path} has format {record.get('format')!r}, this version reads {FORMAT}: update hypersphere")


def _from_class(cls: type[Any], path: Path) -> nn.Module:
    if not callable(getattr(cls, "from_pretrained", None)):
        raise TypeError(f"model={cls.__name__} has no from_pretrained: pass a network, or a class of transformers")
    made: nn.Module = cls.from_pretrained(path, variant=VARIANT)
    if hasattr(made.config, KEY):
        delattr(made.config, KEY)  # saving the converted network writes it again; a plain one must not have it
    return made


def _converted(plain: nn.Module, call: Mapping[str, Any], path: Path) -> nn.Module:
    layers = [str(name) for name in call["layers"]]
    missing = sorted(set(layers) - {name for name, _ in plain.named_modules()})
    if missing:
        raise ValueError(f"{path} has the layer {missing[0]!r}, which this network lacks: is it the same network?")
    whole = layers == [""]
    include = None if whole else layers
    twin = convert(plain, **rules_from(call), include=include, output_layer=False, inplace=True)
    done: Any = twin.conversion_report
    left = [name for name in layers if name not in done.converted]
    if left:
        why = done.kept.get(left[0], "it was not found")
        raise ValueError(f"{path}: the layer {left[0]!r} could not be converted again: {why}")
    return twin


def _fill(model: nn.Module, weights: dict[str, Tensor], path: Path) -> None:
    weights.pop(KEY, None)
    missing, strange = model.load_state_dict(weights, strict=False)
    tie = getattr(model, "tie_weights", None)
    if callable(tie):
        tie()
    filled = {value.data_ptr() for name, value in model.state_dict().items() if name in weights}
    lost = [name for name in missing if model.state_dict()[name].data_ptr() not in filled]
    if lost or strange:
        problem = f"lacks {lost[0]!r}" if lost else f"has {strange[0]!r}, which the network lacks"
        raise ValueError(f"{path} {problem}: is it the same network?")


def _tensors(path: Path) -> dict[str, Tensor]:
    if path.suffix == ".safetensors":
        try:
            return unpack_tensors(path.read_bytes())
        except ImportError as error:
            raise ImportError(f"{path} needs the safetensors package: pip install 'hypersphere[train]'") from error
        except ValueError as error:
            raise ValueError(f"{path} is damaged ({error}): save or download it again") from error
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # of zip, pickle or torch: their advice is to read it without weights_only
        raise ValueError(
            f"{path} is damaged, or holds more than tensors, which is not read since it could run code: save the "
            "state_dict() again, e.g. as safetensors"
        ) from error
    for name in ("state_dict_ema", "state_dict", "model_ema", "model"):
        if isinstance(found, dict) and isinstance(found.get(name), dict):
            found = found[name]
            break
    if not isinstance(found, dict) or not all(isinstance(value, Tensor) for value in found.values()):
        raise ValueError(f"{path} is not a checkpoint: it does not map names to tensors")
    return dict(found)


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a JSON file: {error}") from error
