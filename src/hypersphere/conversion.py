"""Turn any module tree into its hyperspherical or decoupled twin."""

from __future__ import annotations

import copy
import inspect
import logging
from dataclasses import dataclass, field
from typing import Any

from torch import nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear
from torch.nn.utils import parametrize

from . import angular as angular_module
from . import magnitude as magnitude_module
from . import nn as twins
from ._neurons import Patterns, find_output_layer, is_named, select
from .functional._decoupled import AngularRule, MagnitudeRule
from .nn._layer import Decoupled
from .nn.recurrent import _DecoupledRNN

__all__ = ["ConversionReport", "convert"]

logger = logging.getLogger("hypersphere")

_PLAIN: tuple[type[nn.Module], ...] = (
    nn.Linear,
    nn.RNN,
    nn.LSTM,
    nn.GRU,
    nn.Conv1d,
    nn.Conv2d,
    nn.Conv3d,
    nn.ConvTranspose1d,
    nn.ConvTranspose2d,
    nn.ConvTranspose3d,
)


@dataclass(frozen=True)
class ConversionReport:
    """What :func:`convert` did: layer names with their new types, and names left alone with the reason."""

    converted: dict[str, str] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        width = max((len(name) for name in (*self.converted, *self.kept)), default=0)
        lines = [f"converted {len(self.converted)} layers, kept {len(self.kept)}"]
        lines += [f"  {name or '(itself)':{width}}  -> {what}" for name, what in self.converted.items()]
        lines += [f"  {name or '(itself)':{width}}  kept: {why}" for name, why in self.kept.items()]
        return "\n".join(lines)


def convert(
    model: nn.Module,
    *,
    magnitude: str | MagnitudeRule = "sphere",
    angular: str | AngularRule = "cosine",
    weighted: str | None = None,
    affine: bool = False,
    include: Patterns = None,
    skip: Patterns = None,
    output_layer: nn.Module | str | None = None,
    keep_weights: bool = True,
    inplace: bool = False,
) -> nn.Module:
    """Replace convolutions, linear and recurrent layers of ``model`` by their h·g twins.

    Args:
        model: any module; timm's and torchvision's too. A layer given itself becomes its twin.
        magnitude, angular, weighted, affine: as in :class:`hypersphere.nn.DecoupledConv2d`.
        include, skip: shell patterns of layer names (``"layer1.*"``), or lists of them.
        output_layer: the classifier, a module or its name; the last linear layer if None. It stays
            plain unless ``include`` has its exact name.
        keep_weights: start from the present weights and biases (thesis sec. 4.4.3), else draw new ones.
        inplace: change ``model`` itself instead of a copy.

    Returns:
        The converted model. Its ``conversion_report`` (printed by ``str``, logged at INFO to the logger
        "hypersphere") says what was changed and what was kept, and why. Layers with a forward of their
        own, parametrized weights (weight norm, orthogonal training) and weights that another module reads
        directly (attention) are kept.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, not {type(model).__name__}")
    if isinstance(output_layer, nn.Module):
        output_layer = find_output_layer(model, None, output_layer)[0]  # type: ignore[index]
    if not inplace:
        model = copy.deepcopy(model)
    rules: dict[str, Any] = {"angular": angular_module.resolve(angular), "affine": affine}
    family = "Sphere"
    if magnitude != "sphere" or weighted is not None:
        family = "Decoupled"
        rules |= {"magnitude": magnitude_module.resolve(magnitude), "weighted": weighted}
    layers = {name: module for name, module in model.named_modules() if isinstance(module, _PLAIN)}
    chosen = select(list(layers), include, skip)
    output = None if list(layers) == [""] else find_output_layer(model, None, output_layer)
    report = ConversionReport()
    replacements: dict[int, nn.Module] = {}
    for name, module in layers.items():
        reason = _reason_to_keep(name, module, chosen, output, include)
        if reason is not None:
            report.kept[name] = reason
            continue
        replacements[id(module)] = _make_twin(module, family, rules, keep_weights)
        report.converted[name] = type(replacements[id(module)]).__name__
    for parent in list(model.modules()):
        for child_name, child in list(parent.named_children()):
            if id(child) in replacements:
                parent._modules[child_name] = replacements[id(child)]
        if isinstance(parent, nn.TransformerEncoderLayer):
            parent.activation_relu_or_gelu = 0  # its inference shortcut would read the weights past the layers
    model = replacements.get(id(model), model)
    logger.info("%s", report)
    model.conversion_report = report  # type: ignore[assignment]
    return model


def _reason_to_keep(
    name: str, module: nn.Module, chosen: set[str], output: tuple[str, nn.Module] | None, include: Patterns
) -> str | None:
    if name not in chosen:
        return "not selected"
    if isinstance(module, Decoupled | _DecoupledRNN):
        return "is hyperspherical already"
    if output is not None and module is output[1] and not is_named(name, include):
        return "output layer"
    if isinstance(module, LazyModuleMixin):
        return "lazy: run a batch through the model first"
    if isinstance(module, NonDynamicallyQuantizableLinear):
        return "MultiheadAttention reads its weight without calling it"
    if parametrize.is_parametrized(module) or not all(name in module._parameters for name in _weight_names(module)):
        return "its weight is parametrized"
    plain = _plain_type(module)
    if any(getattr(type(module), method, None) is not getattr(plain, method, None) for method in _METHODS):
        return f"{type(module).__name__} has a forward of its own"
    return None


def _weight_names(module: nn.Module) -> list[str]:
    return module._flat_weights_names if isinstance(module, nn.RNNBase) else ["weight"]


_METHODS = ("forward", "_conv_forward", "__call__")


def _make_twin(module: nn.Module, family: str, rules: dict[str, Any], keep_weights: bool) -> nn.Module:
    twin_type: Any = getattr(twins, family + _plain_type(module).__name__)
    like = next(iter(module.parameters()))
    twin: nn.Module = twin_type(**_arguments(module), **rules, device=like.device, dtype=like.dtype)
    if keep_weights:
        own = dict(module.named_parameters(recurse=False))
        for name in own:
            twin._parameters[name] = own[name]  # the very parameters: optimizers and ties go on working
        if isinstance(twin, nn.RNNBase):
            twin._flat_weights = [getattr(twin, name) for name in twin._flat_weights_names]
    twin.__dict__.update({name: value for name, value in vars(module).items() if "_hooks" in name})
    return twin.train(module.training)


def _plain_type(module: nn.Module) -> type[nn.Module]:
    return next(plain for plain in _PLAIN if isinstance(module, plain))


def _arguments(module: nn.Module) -> dict[str, Any]:
    """The constructor arguments of a plain layer, read off its attributes."""
    base = nn.RNNBase if isinstance(module, nn.RNNBase) else _plain_type(module)
    names = [n for n in inspect.signature(base.__init__).parameters if n not in ("self", "mode", "device", "dtype")]
    arguments = {name: getattr(module, name) for name in names}
    if isinstance(module, nn.RNNBase):
        if isinstance(module, nn.RNN):
            arguments["nonlinearity"] = module.nonlinearity
        if not isinstance(module, nn.LSTM):
            arguments.pop("proj_size")
    else:
        arguments["bias"] = module.bias is not None
    return arguments
