"""Turn any module tree into its hyperspherical or decoupled twin."""

from __future__ import annotations

import inspect
import logging
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear
from torch.nn.utils import parametrize

from . import angular as angular_module
from . import magnitude as magnitude_module
from . import nn as twins
from ._core.conversion_record import describe_rules, remember
from ._core.errors import check_model, copied
from ._core.neurons import Patterns, holds_columns, is_named, named_layers, select
from ._core.output_layer import OutputLayer, OutputLayers, announce, find_output_layers
from ._core.streams import aligned, html_table
from .functional.operators.decoupled import AngularRule, MagnitudeRule
from .nn.layer import Decoupled
from .nn.recurrent_layer import RecurrentLayer

__all__ = ["ConversionReport", "convert"]

logger = logging.getLogger("hypersphere")

_CHOSEN = ("not selected", "output layer", "is hyperspherical already")
"""Reasons to leave a layer as it is that a caller meant; the others are limits of the conversion."""

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
_LAYERS: tuple[type[nn.Module], ...] = (*_PLAIN, RecurrentLayer)
_NO_TWIN = (nn.RNNCellBase, nn.Bilinear)


@dataclass(frozen=True)
class ConversionReport:
    """What :func:`convert` did.

    Attributes:
        converted: The new type of each layer that was converted, by its name.
        kept: Why each other layer was left alone, by its name.

    Example:
        >>> model = hs.convert(nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8, 2)))
        >>> model.conversion_report.converted
        {'0': 'SphereConv2d'}
    """

    converted: dict[str, str] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return "\n".join([self._title(), *(f"  {line}" for line in aligned(self._rows(), left=2))])

    def _repr_html_(self) -> str:
        return html_table(self._title(), (), self._rows(), left=2)

    def _title(self) -> str:
        return f"converted {len(self.converted)} layers, kept {len(self.kept)}"

    def _rows(self) -> list[tuple[str, str]]:
        rows = [(name or "(itself)", f"-> {what}") for name, what in self.converted.items()]
        return rows + [(name or "(itself)", f"kept: {why}") for name, why in self.kept.items()]


def convert(
    model: nn.Module,
    *,
    magnitude: str | MagnitudeRule = "sphere",
    angular: str | AngularRule = "cosine",
    weighted: str | None = None,
    affine: bool = False,
    include: Patterns = None,
    skip: Patterns = None,
    output_layer: OutputLayer = None,
    keep_weights: bool = True,
    inplace: bool = False,
) -> nn.Module:
    """Replace convolutions, linear and recurrent layers of ``model`` by their h·g twins.

    Args:
        model: any module, also of timm and torchvision. If it is a single layer, its twin is returned.
        magnitude: h, a name or an object of :mod:`hypersphere.magnitude`.
        angular: g, a name or an object of :mod:`hypersphere.angular`.
        weighted: how ‖w‖ enters: ``"linear"``, ``"product"`` or ``"separate"``; None ignores it.
        affine: rescale the output of every layer to β·F + γ per channel, both learned.
        include: shell patterns of layer names (``"layer1.*"``), or a list of them; None takes all. A layer with several
            names is chosen if one is included and none skipped.
        skip: patterns of layers that stay plain.
        output_layer: the classifier, which stays plain unless ``include`` has its exact name: a module or its name, or
            a list of several; False for a backbone that has none. None takes the one the model declares
            (``get_classifier`` in timm, ``get_output_embeddings`` in transformers, or ``num_classes``). If it declares
            none, the last linear layer is taken, with those of further outputs, and a warning in the log names it.
        keep_weights: start from the present weights and biases (thesis sec. 4.4.3), else draw new ones. Either way the
            parameter objects are kept (with ``inplace`` those of ``model``), so that ties, frozen weights and
            optimizers continue to work.
        inplace: change ``model`` itself instead of a copy.

    Returns:
        The converted model. Its ``conversion_report`` (printed by ``str``, logged to the logger "hypersphere" at
        INFO, or at WARNING if nothing was converted) says what was changed and what was kept, and why. Layers with a
        custom forward, parametrized weights (weight norm, orthogonal training), weights that another module
        reads directly (attention) and layers without a twin (``LSTMCell``, ``Bilinear``) are kept, and a warning
        lists them.

        Files that a converted model of transformers or timm saves record the conversion: the plain network refuses to
        load them, and :func:`hypersphere.load_pretrained` restores the converted model.

    Raises:
        TypeError: If ``model`` is not a module or is scripted.
        ValueError: If a pattern matches no layer, ``output_layer`` is not part of the model, or it cannot be copied.

    Example:
        >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 10))
        >>> twin = hs.convert(net, angular="linear", output_layer="3")
        >>> type(twin[0]).__name__, type(twin[3]).__name__
        ('SphereConv2d', 'Linear')
    """
    check_model(model)
    if isinstance(model, torch.jit.ScriptModule):
        raise TypeError("model is scripted, its layers are fixed: convert the module before torch.jit.script")
    if output_layer is not None and not isinstance(output_layer, bool | str):
        output_layer = [name for name, _ in find_output_layers(model, None, output_layer).layers]
    if not inplace:
        model = copied(model, "pass inplace=True, or remove them first")
    rules: dict[str, Any] = {"angular": angular_module.resolve(angular), "affine": affine}
    family = "Sphere"
    if magnitude != "sphere" or weighted is not None:
        family = "Decoupled"
        rules |= {"magnitude": magnitude_module.resolve(magnitude), "weighted": weighted}
    layers = _layers(model)
    every_name = [name for names in layers.values() for name in names]
    chosen, skipped = select(every_name, include, skip), select(every_name, skip or ())
    output = OutputLayers((), "a layer itself") if model in layers else find_output_layers(model, None, output_layer)
    announce(output, model, "convert")
    report = ConversionReport(kept=_without_twin(model))
    twin_of: dict[nn.Module, nn.Module] = {}
    for module, names in layers.items():
        if not chosen.intersection(names) or skipped.intersection(names):
            report.kept[names[0]] = _CHOSEN[0]
        elif module in output and not any(is_named(name, include) for name in names):
            report.kept[names[0]] = _CHOSEN[1]
        elif reason := _reason_to_keep(module):
            report.kept[names[0]] = reason
        else:
            twin_of[module] = _make_twin(module, family, rules, keep_weights)
            report.converted[names[0]] = type(twin_of[module]).__name__
    for parent in list(model.modules()):
        _replace_children(parent, twin_of)
    model = twin_of.get(model, model)
    _log(report)
    model.conversion_report = report  # type: ignore[assignment]
    if report.converted:
        remember(model, describe_rules(list(report.converted), magnitude, angular, weighted, affine))
    return model


def _layers(model: nn.Module) -> dict[nn.Module, list[str]]:
    """The layers that a twin might replace, each with all its names."""
    layers: dict[nn.Module, list[str]] = {}
    for name, module in named_layers(model, remove_duplicate=False):
        if isinstance(module, _LAYERS) or holds_columns(module):
            layers.setdefault(module, []).append(name)
    return layers


def _log(report: ConversionReport) -> None:
    """The report, and a warning about layers that were wanted and could not be converted."""
    logger.log(logging.INFO if report.converted else logging.WARNING, "%s", report)
    unable = {name: why for name, why in report.kept.items() if why not in _CHOSEN}
    if report.converted and unable:
        listed = "; ".join(f"{name}: {why}" for name, why in list(unable.items())[:4])
        more = f"; and {len(unable) - 4} more" if len(unable) > 4 else ""
        logger.warning("convert left %d layers plain that it cannot convert: %s%s", len(unable), listed, more)


def _without_twin(model: nn.Module) -> dict[str, str]:
    """Layers with neurons that have no h·g form here."""
    kept = {}
    for name, module in named_layers(model):
        if isinstance(module, torch.jit.ScriptModule):
            if any(True for _ in module.parameters(recurse=False)):
                kept[name] = "it is scripted: convert it before torch.jit.script"
        elif isinstance(module, _NO_TWIN):
            kept[name] = f"{type(module).__name__} has no hyperspherical twin"
        elif isinstance(module, nn.MultiheadAttention):
            own = "in_proj_weight" if module.in_proj_weight is not None else "q_proj_weight"
            kept[f"{name}.{own}".lstrip(".")] = "MultiheadAttention computes its projections without a layer"
        elif not isinstance(module, (*_LAYERS, Decoupled)):
            for own, weight in module.named_parameters(recurse=False):
                if weight.dim() == 3 and min(weight.shape) > 1:  # (experts, out, in) of a mixture of experts
                    kept[f"{name}.{own}".lstrip(".")] = f"{type(module).__name__} computes with it without a layer"
    return kept


def _reason_to_keep(module: nn.Module) -> str | None:
    if isinstance(module, Decoupled | RecurrentLayer):
        return _CHOSEN[2]
    if isinstance(module, LazyModuleMixin):
        return "lazy: run a batch through the model first"
    if isinstance(module, NonDynamicallyQuantizableLinear):
        return "MultiheadAttention reads its weight without calling it"
    weights = module._flat_weights_names if isinstance(module, nn.RNNBase) else ["weight"]
    if parametrize.is_parametrized(module) or not all(name in module._parameters for name in weights):
        return "its weight is parametrized"
    if any(module._parameters[name].is_complex() for name in weights):  # type: ignore[union-attr]
        return "its weight is complex"
    if holds_columns(module):
        return None
    plain = _plain_type(module)
    methods = ("forward", "_conv_forward", "__call__")
    if any(getattr(type(module), name, None) is not getattr(plain, name, None) for name in methods):
        return f"{type(module).__name__} has a custom forward"
    if "forward" in vars(module):
        return "its forward was replaced"
    return None


def _make_twin(module: nn.Module, family: str, rules: dict[str, Any], keep_weights: bool) -> nn.Module:
    kind = "TransposedLinear" if holds_columns(module) else _plain_type(module).__name__
    twin_type: Any = getattr(twins, family + kind)
    like = next(iter(module.parameters()))
    twin: Any = twin_type(**_arguments(module), **rules, device=like.device, dtype=like.dtype)
    twin._parameters.update(module._parameters)  # the very parameters: optimizers and ties keep working
    twin._buffers.update(module._buffers)
    twin._non_persistent_buffers_set |= module._non_persistent_buffers_set
    twin._modules.update(module._modules)
    if isinstance(twin, nn.RNNBase):
        twin._flat_weights = [getattr(twin, name) for name in twin._flat_weights_names]
    if not keep_weights:
        twin.reset_parameters()
    known = vars(twin)
    known.update({name: value for name, value in vars(module).items() if "_hook" in name or name not in known})
    twin.train(module.training)
    return twin


def _replace_children(parent: nn.Module, twin_of: dict[nn.Module, nn.Module]) -> None:
    replaced = {name: twin_of[child] for name, child in parent._modules.items() if child in twin_of}
    if replaced:  # not into a scripted module, which has another kind of table
        parent._modules.update(replaced)
    # The inference shortcuts of torch's encoder read weights past the layers that own them.
    if isinstance(parent, nn.TransformerEncoderLayer) and replaced:
        parent.activation_relu_or_gelu = 0
    if isinstance(parent, nn.TransformerEncoder) and any(module in twin_of for module in parent.modules()):
        parent.use_nested_tensor = False


def _plain_type(module: nn.Module) -> type[nn.Module]:
    return next(plain for plain in _PLAIN if isinstance(module, plain))


def _arguments(module: nn.Module) -> dict[str, Any]:
    """The constructor arguments of a plain layer, read off its attributes."""
    if holds_columns(module):
        rows, columns = module.weight.shape  # type: ignore[misc]
        return {"in_features": rows, "out_features": columns, "bias": module.bias is not None}
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
