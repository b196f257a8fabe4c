"""What every hyperspherical layer has besides its weight: an h, a g, a weighting and a rescaling."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.fx
from torch import Tensor, nn

from .. import angular as angular_module
from .. import kernels
from .. import magnitude as magnitude_module
from .._core.checks import check_choice
from .._core.modes import behind, class_of, is_exporting, outside_the_tracer
from ..functional.operators.closed_forms import form_of
from ..functional.operators.decoupled import WEIGHTED, AngularRule, MagnitudeRule
from ..functional.operators.deployed import deployed, deployed_unit
from ..functional.operators.geometry import Geometry
from .block import Parts, affine_of, constants_of, fused_step


class Decoupled(nn.Module):
    """Mixin: holds h, g, ``weighted`` and SphereNorm's β·F + γ (paper sec. 2.5)."""

    magnitude: MagnitudeRule
    angular: AngularRule
    weighted: str | None
    scale: nn.Parameter | None
    shift: nn.Parameter | None
    follows: Any = None
    """A row of BatchNorm and activation that this layer computes as well, put there by :func:`hypersphere.nn.fuse`."""
    reads_itself = False
    """Whether this is a layer whose forward pass is the operator on what :meth:`read` gives: others can compute it."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "read" in vars(cls) or "forward" in vars(cls):
            cls.reads_itself = "read" in vars(cls)

    def _set_rules(
        self,
        channels: int,
        magnitude: str | MagnitudeRule,
        angular: str | AngularRule,
        weighted: str | None,
        affine: bool,
    ) -> None:
        weight: Any = self.weight  # where and in which dtype all else is, too
        self.magnitude = own(magnitude_module.resolve(magnitude), channels, weight)
        self.angular = own(angular_module.resolve(angular), channels, weight)
        self.weighted = weighted if weighted is None else check_choice("weighted", weighted, WEIGHTED)
        self.affine = affine
        self.scale = nn.Parameter(weight.new_ones(channels)) if affine else None
        self.shift = nn.Parameter(weight.new_zeros(channels)) if affine else None

    def read(self, x: Tensor, weight: Tensor) -> tuple[Tensor, Geometry] | None:
        """x as (N, C, ...) and how patches are read, where a fused step can take it; None where it cannot."""
        return None

    def why_plain(self) -> str | None:
        """Why no fused step serves this layer, None if one does."""
        if self.weighted == "product":
            return "weighted='product'"
        for name in ("magnitude", "angular"):
            form = form_of(getattr(self, name))
            if form is None:
                return f"{name} is none of the built-in ones"
        if self.weighted == "linear" and form[0] == "cosine":
            return "weighted='linear' with the cosine, where filters of zeros learn"
        return None

    def reset_parameters(self) -> None:
        """Draw the weight as ``torch.nn`` does; h, g and the rescaling go back to their start.

        So does a k that the layers of a network share.
        """
        base: Any = super()
        base.reset_parameters()
        if "affine" in vars(self):  # not yet while torch.nn builds the layer
            self._reset_rules()

    def _reset_rules(self) -> None:
        reset(self.magnitude, self.angular)
        if self.scale is not None and self.shift is not None:
            nn.init.ones_(self.scale)
            nn.init.zeros_(self.shift)

    def _one_step(self, x: Tensor, *others: Any) -> Any:
        """The layer with all that it computes, by kernels or as a node of ``torch.fx``; None where neither serves."""
        node = as_node(self, x, *others)
        if node is not None or any(one is not None for one in others):
            return node
        if not kernels.usable(x):
            return self._exported(x)
        parts = Parts(self, *self._follows_here())
        q = None if torch.compiler.is_compiling() else _note_on(x)[1]
        found = fused_step(parts, x, q, parts.norm is not None or parts.act is not None)
        return self._exported(x) if found is None else _noted(*found, parts)

    def exported(self, x: Tensor, norm: Any = None) -> Tensor | None:
        """The layer and a BatchNorm as exporters see them in evaluation mode; None where the usual code must serve."""
        if not is_exporting() or self.training or self.weighted is not None:
            return None
        if norm is not None and (norm.training or norm.running_mean is None):
            return None
        weight: Any = self.weight
        read = self.read(x, weight)
        if read is None or (norm is not None and read[0].dim() != x.dim()):
            return None
        rows, geometry = read
        constants = _known(self, norm) if torch.onnx.is_in_onnx_export() else None
        if constants is None:
            constants = deployed_unit(weight, geometry), *affine_of(self, norm)
        out = deployed(rows, constants[0], geometry, self.magnitude, self.angular, *constants[1:])
        return out if geometry.kernel else out.reshape(*x.shape[:-1], out.shape[-1])

    def _exported(self, x: Tensor) -> Tensor | None:
        """The same with all that follows."""
        norm, act = self._follows_here()
        out = self.exported(x, norm)
        return out if out is None or act is None else act.plain.forward(act, out)

    def _followed(self, out: Tensor) -> Tensor:
        """What follows, by plain operations."""
        norm, act = self._follows_here()
        for module in (norm, act):
            if module is not None:
                out = module.plain.forward(module, out)
        return _noted(out, None, Parts(self, norm, act))

    def _follows_here(self) -> tuple[Any, Any]:
        """``follows``; in compiled graphs without an activation that others call: they do not see what is rectified."""
        norm, act = (None, None) if self.follows is None else self.follows.now(self) or (None, None)
        return norm, None if act is not None and act.shared and torch.compiler.is_compiling() else act

    def _rescale(self, out: Tensor, channel_dim: int, bias: Tensor | None) -> Tensor:
        """β·F + γ, then the bias."""
        shape = [-1] + [1] * (out.dim() - 1 - channel_dim % out.dim())
        if self.scale is not None and self.shift is not None:
            out = out * self.scale.to(out.dtype).view(shape) + self.shift.to(out.dtype).view(shape)
        return out if bias is None else out + bias.to(out.dtype).view(shape)

    def _rules_repr(self) -> str:
        parts = [
            f"{name}={rule!r}"
            for name, rule in (("magnitude", self.magnitude), ("angular", self.angular))
            if not isinstance(rule, nn.Module)
        ]
        parts += [f"weighted={self.weighted!r}"] if self.weighted else []
        parts += ["affine=True"] if self.affine else []
        return "".join(f", {part}" for part in parts)

    def extra_repr(self) -> str:
        return super().extra_repr() + self._rules_repr()


def _noted(out: Tensor, q: Tensor | None, parts: Parts) -> Tensor:
    """An output with a note for those that read it: whether it is rectified already, and Σ_c out² if known."""
    rectified = parts.act is not None and bool(parts.act.shared)
    if (rectified or q is not None) and not torch.compiler.is_compiling() and not out.is_inference():
        sums = None if q is None else q.detach()  # a number: out may be looked at, and has its whole gradient itself
        out._hypersphere = (id(out), out._version, rectified, sums)  # type: ignore[attr-defined]
    return out


def is_rectified(x: Any) -> bool:
    """Whether x came out of an operator with a ReLU that others call, too, and was not written to since."""
    return not torch.compiler.is_compiling() and isinstance(x, Tensor) and _note_on(x)[0]


def _note_on(x: Any) -> tuple[bool, Tensor | None]:
    """What an operator noted on its output, unless that was written to since, or is a copy, of which nobody knows."""
    number, version, rectified, q = getattr(x, "_hypersphere", (None, None, False, None))
    return (rectified, q) if number == id(x) and version == x._version else (False, None)


def _known(op: Any, norm: Any) -> tuple[Tensor, Tensor | None, Tensor | None] | None:
    """The constants of a layer and its BatchNorm while an ONNX file is traced, which keeps no parameters as such.

    None where they cannot be told: for a parametrized weight, or one on another device.
    """
    modules = []
    if any("parametrizations" in module._modules for module in (op, norm) if module is not None):
        return None
    for module in (op, norm):
        real = copy.copy(module)
        if real is not None:
            real.__class__ = class_of(module)  # the stand-in of a layer with parts that others share cannot be copied
            for kind in ("_parameters", "_buffers"):
                tensors = {name: t if t is None else behind(t) for name, t in getattr(module, kind).items()}
                if any(t is None and getattr(module, kind)[name] is not None for name, t in tensors.items()):
                    return None
                setattr(real, kind, tensors)
        modules.append(real)
    with outside_the_tracer():
        return constants_of(*modules)


def as_node(module: nn.Module, *inputs: Any) -> Any:
    """The call of a layer as one node of the graph that ``torch.fx`` makes; None where nothing is traced.

    Tracers take the layers of ``torch.nn`` for leaves by the name of their package. Ours say it themselves, so that
    features can be extracted by node.
    """
    tracer: Any = next((one.tracer for one in inputs if isinstance(one, torch.fx.Proxy)), None)
    if tracer is None:
        return None
    path = tracer.path_of_module(module)
    if not path:
        raise TypeError(f"a {type(module).__name__} by itself is not a graph: trace nn.Sequential(layer) with torch.fx")
    if not (module._forward_hooks or module._forward_pre_hooks):
        return tracer.create_proxy("call_module", path, inputs, {})
    layer = tracer.create_proxy("get_attr", path, (), {})  # its hooks are traced around it: a call would do them again
    return tracer.create_proxy("call_method", "forward", (layer, *inputs), {})


def own(rule: Any, channels: int, weight: Tensor) -> Any:
    """The h or g that a layer of ``channels`` outputs keeps: its own copy where the object asks for one.

    It is where the weight is, also one that layers share.
    """
    bind = getattr(rule, "for_layer", None)
    if bind is not None:
        mine = bind(channels)
    else:  # what learns or counts belongs to one layer, unless its ``for_layer`` says otherwise
        mine = copy.deepcopy(rule) if isinstance(rule, nn.Module) and rule.state_dict() else rule
    if not isinstance(mine, nn.Module):
        return mine
    if mine is not rule:
        return mine.to(weight)
    return mine if weight.is_meta else mine.to(weight.device)


def reset(*rules: Any) -> None:
    """Every h and g that has something to reset is reset."""
    for rule in rules:
        getattr(rule, "reset_parameters", lambda: None)()
