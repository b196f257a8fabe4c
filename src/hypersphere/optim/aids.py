"""Keeping the norm of the weights in hand (thesis sec. 4.4): it decides how far a gradient step turns a neuron."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.utils.hooks import RemovableHandle

from .._core.checks import check_count, check_positive
from .._core.errors import check_model
from .._core.neurons import Neurons, check_kept, iter_neurons
from .._core.sphere import norm, unit
from ..losses.head import ClassHead
from ..nn.layer import Decoupled
from ..nn.recurrent_layer import RecurrentLayer, Rules


class WeightProjection:
    """w ← s·w/‖w‖ for every neuron of the unweighted operators, every n steps (thesis sec. 4.4.1).

    Call :meth:`step` after each optimizer step. The forward pass does not change. Weighted operators, whose output
    depends on ‖w‖, raise a ValueError; frozen weights stay unchanged. ``state_dict`` holds the step count.

    Args:
        model: its hyperspherical and decoupled layers are projected; plain layers stay unchanged.
        every: number of calls of :meth:`step` from one projection to the next; 100 as in the released code.
        norm: s > 0; a larger norm means smaller turns for the same gradient.

    Raises:
        ValueError: If the model has no hyperspherical layer, or one whose output depends on ‖w‖ or whose weight is
            parametrized or pruned, or ``every`` or ``norm`` is out of range.

    Example:
        >>> layer = hs.nn.SphereLinear(4, 2)
        >>> projection = hs.optim.WeightProjection(layer, every=1)
        >>> projection.step(), torch.allclose(layer.weight.norm(dim=1), torch.ones(2))
        (True, True)
    """

    _model: nn.Module | None = None  # also of objects that an earlier version saved

    def __init__(self, model: nn.Module, every: int = 100, norm: float = 1.0) -> None:
        self.every = check_count("every", every)
        self.norm = check_positive("norm", norm)
        self.count = 0
        self._model, self._neurons = model, _directions(model, "WeightProjection")

    def step(self) -> bool:
        """Count a step, and project the weights if it is time to.

        Returns:
            Whether the weights were projected.
        """
        self.count += 1
        if self.count % self.every:
            return False
        self.project()
        return True

    @torch.no_grad()
    def project(self) -> None:
        """Project now. Frozen weights stay as they are, and so does a zero neuron, which has no direction.

        Raises:
            ValueError: If a layer was replaced in the model since this object was made.
        """
        if self._model is not None:
            check_kept(self._model, self._neurons, type(self).__name__)
        for neurons in self._neurons:
            weight = neurons.weight
            if not weight.requires_grad:
                continue
            projected = unit(neurons.flatten(weight)) * self.norm
            weight.copy_(neurons.unflatten(projected, weight.shape))

    def state_dict(self) -> dict[str, int]:
        """Return the step count, for a checkpoint.

        Returns:
            A dictionary that holds the step count.
        """
        return {"count": self.count}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Continue from a checkpoint.

        Args:
            state: the dictionary that :meth:`state_dict` returned.
        """
        self.count = check_count("count", state["count"], minimum=0)


def weighted_gradients(model: nn.Module) -> list[RemovableHandle]:
    """Multiply each neuron's gradient by ‖w‖ (thesis eq. 4.18), so that it no longer depends on ‖w‖.

    Weighted operators raise a ValueError; frozen weights stay unchanged. Weights that FSDP2 splits (DTensors) raise a
    ValueError too: hooks on them never run. Hooks that are made before FSDP2 splits the model are lost, and a copy of
    the model (``deepcopy``, ``pickle``) has none: call this on the copy.

    Args:
        model: the network, whose hyperspherical and decoupled layers get the hooks.

    Returns:
        The handles of the hooks; ``handle.remove()`` removes one.

    Raises:
        ValueError: If the model has no hyperspherical layer, or one whose output depends on ‖w‖ or whose weight is
            parametrized, pruned or a DTensor; or if the gradients are weighted already.

    Example:
        >>> handles = hs.optim.weighted_gradients(hs.nn.SphereLinear(4, 2))
        >>> len(handles)
        1
    """
    found = _directions(model, "weighted_gradients")
    for neurons in found:
        if hasattr(neurons.weight, "full_tensor"):  # a DTensor
            raise ValueError(
                f"{neurons.name} is a DTensor (FSDP2), whose hooks get no gradients: leave weighted_gradients out, or "
                "use DistributedDataParallel"
            )
        if any(isinstance(hook, _Weigh) for hook in (neurons.weight._backward_hooks or {}).values()):
            raise ValueError(
                f"the gradient of {neurons.name} is multiplied by ‖w‖ already: call weighted_gradients once, or remove "
                "the handles that it returned"
            )
    learned = [neurons for neurons in found if neurons.weight.requires_grad]
    return [neurons.weight.register_hook(_Weigh(neurons)) for neurons in learned]


class _Weigh:
    """The hook of a weight."""

    def __init__(self, neurons: Neurons) -> None:
        self.neurons = neurons

    def __call__(self, grad: Tensor) -> Tensor:
        neurons, weight = self.neurons, self.neurons.weight
        lengths = norm(neurons.flatten(weight.detach()), keepdim=True)
        return neurons.unflatten(neurons.flatten(grad) * lengths.to(grad.dtype), weight.shape)


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    """Return two optimizer groups: weights that decay, and parameters that should not.

    The second group holds weights whose length does not matter: those of unweighted operators and normalised class
    vectors, also if weight norm or another parametrization computes them. Decay would only change their step size. It
    also holds the learned parameters of h and g (k, ρ), biases, the parameters of normalisation layers, and everything
    with fewer than two dimensions. A weight that such an operator or head shares with a plain layer is in the first
    group, because its length matters in the plain layer.

    Args:
        model: the network, with its head if that is trained too.
        weight_decay: decay of the first group, ≥ 0.

    Returns:
        The groups, for any torch optimizer.

    Raises:
        ValueError: If ``weight_decay`` is negative.

    Example:
        >>> model = nn.Sequential(nn.Linear(4, 3), hs.nn.SphereLinear(3, 2))
        >>> groups = hs.optim.parameter_groups(model, weight_decay=5e-4)
        >>> [(group["weight_decay"], len(group["params"])) for group in groups]
        [(0.0005, 1), (0.0, 2)]
    """
    check_model(model)
    check_positive("weight_decay", weight_decay, zero=True)
    free = {id(p) for module in model.modules() for p in _directions_of(module)}
    free -= {id(p) for module in model.modules() for p in _lengths_of(module)}
    free |= {id(p) for module in model.modules() for p in _undecayed(module)}
    decayed: list[Tensor] = []
    kept: list[Tensor] = []
    for parameter in model.parameters():
        if parameter.requires_grad:
            (kept if id(parameter) in free or parameter.dim() < 2 else decayed).append(parameter)
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": kept, "weight_decay": 0.0}]


_NORMS = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)


def _undecayed(module: nn.Module) -> Iterator[Tensor]:
    if isinstance(module, _NORMS):
        yield from module.parameters(recurse=False)
    if isinstance(module, Decoupled | Rules):
        yield from (p for rule in (module.magnitude, module.angular) for p in _parameters(rule))
    if isinstance(module, ClassHead):
        yield from _parameters(getattr(module, "angular", None))
    yield from (p for name, p in module.named_parameters(recurse=False) if name.startswith("bias"))


def _directions_of(module: nn.Module) -> Iterator[Tensor]:
    """The weights whose lengths the module does not read."""
    unweighted = isinstance(module, Decoupled | RecurrentLayer) and module.weighted is None
    if unweighted or (isinstance(module, ClassHead) and module.normalize):
        yield from _weights(module)


def _lengths_of(module: nn.Module) -> Iterator[Tensor]:
    """The parameters whose lengths the module reads: all but directions."""
    if isinstance(module, parametrize.ParametrizationList):
        return  # what it holds is read by the module that it is on
    own = {id(p) for p in _directions_of(module)}
    yield from (p for p in module.parameters(recurse=False) if id(p) not in own)
    for entry in getattr(module, "parametrizations", {}).values():
        yield from (p for p in entry.parameters(recurse=False) if id(p) not in own)


def _weights(module: nn.Module) -> Iterator[Tensor]:
    """The parameters ``weight...``, and of parametrized ones what they are computed from (not what computes them)."""
    yield from (p for name, p in module.named_parameters(recurse=False) if name.startswith("weight"))
    for name, entry in getattr(module, "parametrizations", {}).items():
        if name.startswith("weight"):
            yield from entry.parameters(recurse=False)


def _parameters(rule: object) -> Iterator[Tensor]:
    """Of an h or g, which need not be a module."""
    return rule.parameters() if isinstance(rule, nn.Module) else iter(())


def _directions(model: nn.Module, what: str) -> list[Neurons]:
    """The weights of the hyperspherical layers, of which only the direction matters."""
    found: dict[int, Neurons] = {}  # a tied weight counts once
    for neurons in iter_neurons(model):
        module = neurons.module
        if not isinstance(module, Decoupled | RecurrentLayer):
            continue
        if module.weighted is not None:
            raise ValueError(
                f"{what} changes ‖w‖, on which {neurons.module_name or 'the layer'} (weighted={module.weighted!r}) "
                f"depends: use unweighted operators, or leave {what} out"
            )
        if parametrize.is_parametrized(module, neurons.tensor_name):
            raise ValueError(f"{neurons.name} is parametrized: merge the parametrization before {what}")
        if neurons.tensor_name not in module._parameters:  # each forward pass computes it anew from other parameters
            raise ValueError(
                f"{neurons.name} is not a parameter (pruned, or under the old weight_norm or spectral_norm): make it "
                f"one again before {what}, e.g. by torch.nn.utils.prune.remove or remove_weight_norm"
            )
        found.setdefault(id(neurons.weight), neurons)
    if not found:
        raise ValueError(f"{what} found no hyperspherical layer in the model: see hypersphere.convert")
    for name, module in model.named_modules():
        if not isinstance(module, Decoupled | RecurrentLayer):
            for parameter in module.parameters(recurse=False):
                if id(parameter) in found:
                    tied = f"{found[id(parameter)].name} is tied to the plain layer {name or 'itself'}"
                    raise ValueError(f"{tied}, whose output depends on ‖w‖: untie them, or leave {what} out")
    return list(found.values())
