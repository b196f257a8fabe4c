"""How a network was converted, written down with it, so that nobody loads its weights into the plain network unawares.

A converted layer has the names and shapes of the plain one. Where another library reads a checkpoint by these alone,
the plain network would take the weights and compute something else. Two libraries are told:

- transformers: ``save_pretrained`` writes the record into ``config.json`` (``"hypersphere"``) and the weights under the
  variant ``hypersphere``, which ``from_pretrained`` does not find unless it is named; weights of a plain network that
  the folder had are replaced, as a plain network would replace them;
- timm: the ``state_dict`` has one more entry, ``hypersphere``, which a plain network refuses.
"""

from __future__ import annotations

import inspect
import json
import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .registries import ANGULAR, MAGNITUDES
from .registry import Registry, is_address

logger = logging.getLogger("hypersphere")
KEY = "hypersphere"
"""The entry of ``config.json`` and of a ``state_dict``."""
VARIANT = "hypersphere"
FORMAT = 1
RESUMES = "_hypersphere_resumes"
"""Set on a network whose Trainer finds its checkpoints."""
Record = dict[str, Any]
_RECORD = "_hypersphere_record"
_WRAPPERS = ("_checkpoint_wrapped_module", "_fsdp_wrapped_module", "_orig_mod")
_START = {"k": "_fixed", "rho": "_fixed"}  # attributes that hold what an argument was


def describe_rules(
    layers: Sequence[str], magnitude: Any, angular: Any, weighted: str | None, affine: bool
) -> dict[str, Any]:
    """One call of ``convert`` as JSON values. A rule that cannot be named is described by why it cannot."""
    return {
        "layers": list(layers),
        "magnitude": _described(magnitude, MAGNITUDES),
        "angular": _described(angular, ANGULAR),
        "weighted": weighted,
        "affine": affine,
    }


def rules_from(call: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of ``convert`` that :func:`describe_rules` wrote down.

    Raises:
        ValueError: If a rule could not be named, or is not known here.
    """
    rules = {name: _rule(call[name], table) for name, table in (("magnitude", MAGNITUDES), ("angular", ANGULAR))}
    return {**rules, "weighted": call["weighted"], "affine": bool(call["affine"])}


def remember(model: nn.Module, call: Mapping[str, Any]) -> None:
    """Write down one conversion with the model, and with each part of it that another library saves by itself."""
    marked: list[str] = []
    for name, module in model.named_modules():
        prefix = f"{name}." if name else ""
        layers = [layer.removeprefix(prefix) for layer in call["layers"] if layer.startswith(prefix)]
        own = not name or _saves_itself(module) or _is_timm(module)
        if not own or not layers:
            continue
        calls = [*record_of(module).get("conversions", []), {**call, "layers": layers}]
        module.__dict__[_RECORD] = {"format": FORMAT, "conversions": calls}
        if _saves_itself(module) and not isinstance(module.__dict__.get("save_pretrained"), Saver):
            module.__dict__["save_pretrained"] = Saver(module)
        inside = any(prefix.startswith(other) for other in marked)
        if _is_timm(module) and not inside:
            marked.append(prefix)
            if _mark not in module._state_dict_hooks.values():
                module.register_state_dict_post_hook(_mark)
                module.register_load_state_dict_pre_hook(_unmark)


def record_of(module: nn.Module) -> Record:
    """What :func:`remember` wrote of layers that are still converted; empty for a network that has none."""
    found = module.__dict__.get(_RECORD)
    if not isinstance(found, dict):
        return {}
    calls = [{**call, "layers": _converted(module, call["layers"])} for call in found["conversions"]]
    left = [call for call in calls if call["layers"]]
    return {**found, "conversions": left} if left else {}


def _converted(module: nn.Module, layers: Sequence[str]) -> list[str]:
    """The layers that nobody has made plain since, by their names in a ``state_dict``, without those of wrappers.

    A layer may be inside a wrapper that is not known here: below its name, or, if that is not found, above it.
    """
    inside = {_unwrapped(name): one for name, one in module.named_modules(remove_duplicate=False)}
    return [name for name in layers if name not in inside or any(_is_ours(part) for part in inside[name].modules())]


def _unwrapped(name: str) -> str:
    return ".".join(part for part in name.split(".") if part not in _WRAPPERS)


def _is_ours(layer: nn.Module) -> bool:
    return any(base.__module__.startswith("hypersphere.nn.") for base in type(layer).__mro__)


def decoded(marker: Tensor) -> Any:
    """The record in the entry of a ``state_dict``.

    Raises:
        ValueError: If it holds no JSON.
    """
    try:
        return json.loads(bytes(marker.to(torch.uint8).flatten().tolist()))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the entry {KEY!r} of the checkpoint is not a record of a conversion: {error}") from error


class Saver:
    """``save_pretrained`` of a converted network of transformers."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module

    def __call__(self, save_directory: Any, *args: Any, variant: str | None = None, **options: Any) -> Any:
        module: Any = self.module
        config, record, save = module.config, record_of(module), type(module).save_pretrained
        if not record:  # its layers are plain again
            return save(module, save_directory, *args, **({} if variant is None else {"variant": variant}), **options)
        before = getattr(config, KEY, None)
        setattr(config, KEY, record)
        name = VARIANT if variant is None else f"{VARIANT}-{variant}"
        if "save_original_format" in inspect.signature(save).parameters:
            options["save_original_format"] = False  # the names of an older version of the plain network
        try:
            saved = save(module, save_directory, *args, variant=name, **options)
        finally:
            if before is None:
                delattr(config, KEY)
            else:
                setattr(config, KEY, before)
        if options.get("is_main_process", True):
            _replace_plain(Path(save_directory))
        if re.fullmatch(r"checkpoint-\d+", Path(save_directory).name) and not module.__dict__.get(RESUMES):
            module.__dict__[RESUMES] = True  # said once
            logger.warning(
                "the Trainer does not find checkpoints of a converted network when it resumes or takes the best one: "
                "make it with hypersphere.pretrained.resumable(Trainer)"
            )
        return saved


def _replace_plain(folder: Path) -> None:
    """Remove the weights of a plain network: ``from_pretrained`` would load them in the place of those just saved."""
    stem = r"(model|pytorch_model)(-\d{5}-of-\d{5})?\.(safetensors|bin)(\.index\.json)?"
    for file in [file for file in folder.iterdir() if re.fullmatch(stem, file.name)]:
        logger.warning("%s was of a network that is not converted, and is replaced by the one that is saved", file)
        file.unlink()


def _saves_itself(module: nn.Module) -> bool:
    return callable(getattr(type(module), "save_pretrained", None)) and hasattr(module, "config")


def _is_timm(module: nn.Module) -> bool:
    return any(getattr(module, name, None) is not None for name in ("pretrained_cfg", "default_cfg"))


def _mark(module: nn.Module, state: dict[str, Any], prefix: str, metadata: Any) -> None:
    if record := record_of(module):
        state[prefix + KEY] = torch.frombuffer(bytearray(json.dumps(record).encode()), dtype=torch.uint8)


def _unmark(module: nn.Module, state: dict[str, Any], prefix: str, *rest: Any) -> None:
    """Take the entry out again; a checkpoint of the plain network, which has none, is taken as it is."""
    marker = state.pop(prefix + KEY, None)
    if marker is not None and decoded(marker) != record_of(module):
        raise ValueError(
            "the checkpoint belongs to a network that was converted with other options: load it with "
            "hs.load_pretrained(file, plain_network), which repeats the conversion"
        )


def _described(rule: Any, table: Registry[Any]) -> dict[str, Any]:
    if isinstance(rule, str):
        return {"name": rule, "arguments": {}}
    cls = type(rule)
    name = next((entry.name for entry in table.entries() if entry.value is cls), f"{cls.__module__}:{cls.__qualname__}")
    if inspect.isroutine(rule) or (name not in table and not is_address(name)):
        return {"why_not": f"{rule!r} has no name: register it with hs.register, or define a class in a module"}
    arguments = {}
    for parameter in inspect.signature(cls).parameters:
        value = getattr(rule, _START.get(parameter, parameter), getattr(rule, parameter, None))
        if not isinstance(value, bool | int | float | str) and value is not None:
            return {"why_not": f"{name} does not keep its argument {parameter!r} as an attribute of that name"}
        arguments[parameter] = value
    return {"name": name, "arguments": arguments}


def _rule(found: Mapping[str, Any], table: Registry[Any]) -> Any:
    if "why_not" in found:
        raise ValueError(f"the conversion cannot be repeated from the file: {found['why_not']}")
    name, arguments = str(found["name"]), found["arguments"]
    return table.find(name, table.kind)(**arguments) if arguments else name
