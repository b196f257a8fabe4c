"""Orthogonal adapters: a trained network, frozen, and a small learned rotation of the neurons of each layer.

    w ↦ R w,   R = Diag(R⁽¹⁾, ..., R⁽ᵇ⁾) orthogonal, R = I at the start

Norms of neurons and angles between them stay as they were trained. Several adapters, each with a name, lie on one
network; one of them is active, or none.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrize

from .._core.checks import check_choice, check_count
from .._core.errors import check_model
from .._core.modes import is_exporting
from .._core.neurons import KeepsShape, Neurons, Patterns
from .._core.output_layer import OutputLayers, announce, find_output_layers
from .._core.sphere import compute_dtype
from ._attach import check_free, choose, dim_of
from ._blocks import BlockMatrix
from ._from_identity import check_from_identity
from ._maps import Map, Orthogonal, resolve, started
from ._peers import Peers
from ._recurrent import read_through, restore
from ._rotation import check_alone, detached_layout, iter_parametrizations, reorder, unshare_class

_MERGED = "_hypersphere_merged_adapters"  # an attribute of a module whose adapters are folded into its weights


class Adapters(KeepsShape):
    """The parametrization on a weight: its rotations by name, and which one is active."""

    def __init__(self, neurons: Neurons) -> None:
        super().__init__()
        self.layout = detached_layout(neurons)
        self.by_name = nn.ModuleDict()
        self.active: str | None = None
        self.order = list(neurons.module._parameters)

    def forward(self, weight: Tensor) -> Tensor:
        if self.active is None or self.active not in self.by_name:
            return weight
        matrix = self.layout.flatten(weight)
        rotated = self.blocks(self.active).rotate(matrix.reshape(-1, matrix.shape[-1]))
        return self.layout.unflatten(rotated.reshape(matrix.shape), weight.shape).to(weight.dtype)

    def blocks(self, name: str) -> BlockMatrix:
        found = self.by_name[name]
        if not isinstance(found, BlockMatrix):
            raise TypeError(f"adapter {name!r} of {self.layout.name} is a {type(found).__name__}, not a BlockMatrix")
        return found

    def extra_repr(self) -> str:
        return f"active={self.active!r}"


def _linear(module: Any, x: Tensor) -> Tensor:
    """The forward pass of an adapted ``nn.Linear``: R on the inputs, ⟨Rw, x⟩ = ⟨w, Rᵀx⟩, where that is cheaper.

    Rotating the neurons takes products of the size of the weight, and training it the gradient of the whole weight, of
    size inputs × weight. Rotating T inputs takes products of T rows, and no gradient of the weight.
    """
    chain = module.parametrizations["weight"]
    found = chain[0]
    alone = len(chain) == 1 and isinstance(found, Adapters) and not getattr(parametrize, "_cache_enabled", 0)
    if not alone or x.dim() < 1 or x.shape[-1] != module.in_features or is_exporting():
        return nn.Linear.forward(module, x)  # an exported graph is for any number of inputs
    if found.active is None or found.active not in found.by_name:
        return F.linear(x, chain.original, module.bias)
    matrix = found.blocks(found.active)
    rows, size, neurons = x.numel() // max(x.shape[-1], 1), matrix.layout[0][0], module.out_features
    trained = torch.is_grad_enabled()
    on_weights = neurons * (rows + 3 * size) if trained else neurons * size
    on_inputs = 3 * rows * size if trained else rows * size
    if on_inputs >= on_weights:
        return nn.Linear.forward(module, x)
    turned = matrix.turn_inputs(x.reshape(-1, x.shape[-1])).to(x.dtype)
    return F.linear(turned.reshape(x.shape), chain.original, module.bias)


def adapter(
    model: nn.Module, method: str = "cayley", *, blocks: int = 1, target: Patterns = None, name: str = "default"
) -> nn.Module:
    """Fine-tune a trained network by w = R·v: one orthogonal R per layer, starting at the identity (thesis ch. 7).

    Changes ``model`` in place and returns it: every other parameter is frozen, and the adapter becomes the active one.
    The outputs do not change until the first training step. Build the optimizer afterwards, from the parameters that
    require a gradient. Call the function again with another ``name`` to add another adapter to the same network.

    Args:
        model: The trained network; it is changed in place and its own parameters are frozen.
        method: An orthogonal map: ``"cayley"``, ``"exponential"``, ``"lowdin"``, ``"gram_schmidt"``,
            ``"householder"``, one declared with ``hs.register("map", ...)``, or the address
            ``"package.module:name"`` of one. Yours must give orthogonal matrices, and R = I for U = I.
        blocks: Number of diagonal blocks of R; with more blocks there are fewer parameters to learn and to store.
        target: Glob patterns on module or weight names, e.g. ``["*.attn.qkv", "*.fc1"]``. None takes every layer except
            the output layer.
        name: Name of this adapter, by which it is enabled, saved and merged.

    Returns:
        ``model`` itself, with the adapter as the active one.

    Raises:
        ValueError: If a target matches nothing, the map cannot start at R = I, a weight is tied or parametrized
            otherwise, has fewer dimensions than ``blocks``, or has an adapter of that name. Nothing is changed then.

    Example:
        >>> model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))
        >>> _ = hs.orthogonal.adapter(model, blocks=2)
        >>> [tuple(p.shape) for p in model.parameters() if p.requires_grad]
        [(2, 4, 4)]
    """
    check_model(model)
    if not isinstance(method, str):
        raise ValueError(f"method={method!r} must be a name, by which the adapter is saved: see hs.register('map')")
    chosen_map = started(resolve(method), "identity")
    declared = chosen_map.method if isinstance(chosen_map, Orthogonal) else method
    check_count("blocks", blocks)
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"name={name!r} of the adapter must be a word of letters, digits and underscores")
    output = find_output_layers(model) if target is None else OutputLayers((), "target")
    announce(output, model, "adapter", "target= (patterns on the names of layers)")
    _refuse_merged(model, "adapter")
    chosen = choose(model, target, None, output, "target")
    present = {weight: found for weight, _, _, found in iter_adapters(model)}
    check_free(model, [layer for layer in chosen if layer.name not in present])
    peers = Peers()
    made = [(layer, _matrix(layer, chosen_map, blocks, name, present.get(layer.name), peers)) for layer in chosen]
    for _, matrix in made:
        matrix.declared = declared
        check_from_identity(matrix.method, matrix.raw, method)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for layer, matrix in made:
        found = present.get(layer.name) or _install(layer)
        found.by_name[name] = matrix
        matrix.requires_grad_(True)
    return enable(model, name)


def enable(model: nn.Module, name: str | None = None) -> nn.Module:
    """Activate an adapter: the network computes with it and trains it; the other adapters are frozen.

    Args:
        model: A network to which :func:`adapter` or :func:`load_adapter` has added adapters.
        name: Name of the adapter; may be left out if there is only one.

    Returns:
        ``model`` itself, which computes with that adapter.

    Raises:
        ValueError: If the model has no adapter of that name, or its adapters are merged.

    Example:
        >>> model = hs.orthogonal.adapter(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)), name="first")
        >>> _ = hs.orthogonal.enable(hs.orthogonal.disable(model), "first")
    """
    known = adapters(model)
    _refuse_merged(model, "enable")
    if name is None:
        if len(known) > 1:
            raise ValueError(f"name=None is ambiguous: the model has the adapters {', '.join(known)}; pass one")
        name = known[0]
    check_choice("name", name, known)
    for *_, found in iter_adapters(model):
        found.active = name
        for each in found.by_name:
            found.blocks(each).requires_grad_(each == name)
    return model


def disable(model: nn.Module) -> nn.Module:
    """Deactivate all adapters, so that the network computes as before them; :func:`enable` activates one again.

    Args:
        model: a network to which :func:`adapter` or :func:`load_adapter` has added adapters.

    Returns:
        ``model`` itself, which computes as before the adapters.

    Example:
        >>> model = hs.orthogonal.adapter(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)))
        >>> _ = hs.orthogonal.disable(model)
    """
    adapters(model)
    _refuse_merged(model, "disable")
    for *_, found in iter_adapters(model):
        found.active = None
    return model


def adapters(model: nn.Module) -> list[str]:
    """Return the names of the model's adapters, in the order in which they were added.

    Args:
        model: a network to which :func:`adapter` or :func:`load_adapter` has added adapters.

    Returns:
        The names of the adapters, oldest first.

    Raises:
        ValueError: If the model has no adapter.

    Example:
        >>> model = hs.orthogonal.adapter(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)))
        >>> hs.orthogonal.adapters(model)
        ['default']
    """
    lists = [found.by_name for *_, found in iter_adapters(model)]
    lists += [kept.by_name for _, _, stash in _merged(model) for kept, _ in stash.values()]
    names = list(dict.fromkeys(name for by_name in lists for name in by_name))
    if not names:
        raise ValueError("the model has no adapter: call hs.orthogonal.adapter(model) or load_adapter first")
    return names


def merge_adapters(model: nn.Module) -> bool:
    """Fold the active adapter into the weights; whether there was any adapter. :func:`unmerge` undoes it."""
    found = list(iter_adapters(model))
    check_alone(found, "adapter")
    for _, module, tensor_name, adapters_of in found:
        with torch.no_grad():
            folded = getattr(module, tensor_name).detach().clone()
        uninstall(module, tensor_name, adapters_of)
        weight = getattr(module, tensor_name)
        kept = weight.detach().clone()
        with torch.no_grad():
            weight.copy_(folded)
        stash: dict[str, Any] = module.__dict__.setdefault(_MERGED, {})
        stash[tensor_name] = (adapters_of, kept)
    return bool(found)


def uninstall(module: nn.Module, tensor_name: str, adapters_of: Adapters) -> None:
    """Make the weight under the adapters a plain parameter again."""
    unshare_class(module)
    parametrize.remove_parametrizations(module, tensor_name, leave_parametrized=False)
    reorder(module, adapters_of.order)
    restore(module)


def unmerge(model: nn.Module) -> nn.Module:
    """Undo :func:`merge` of adapters: the weights become bit by bit what they were before it.

    Args:
        model: A network whose adapters were folded in by :func:`merge`.

    Returns:
        ``model``, with its adapters beside the weights and the same one active.

    Raises:
        ValueError: If the model has no merged adapter.

    Example:
        >>> model = hs.orthogonal.adapter(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)))
        >>> _ = hs.orthogonal.unmerge(hs.orthogonal.merge(model))
        >>> hs.orthogonal.adapters(model)
        ['default']
    """
    found = list(_merged(model))
    if not found:
        raise ValueError("the model has no merged adapter: merge(model) first")
    for name, module, stash in found:
        for tensor_name in stash:
            if parametrize.is_parametrized(module, tensor_name):
                raise ValueError(
                    f"unmerge: {name}.{tensor_name} has been parametrized since its adapter was merged: remove that "
                    "first, orthogonal.merge(model) if it was attached"
                )
    for _, module, stash in found:
        for tensor_name, (adapters_of, original) in stash.items():
            with torch.no_grad():
                weight = getattr(module, tensor_name)
                weight.copy_(original)
                adapters_of.to(weight.device)
            _register(module, tensor_name, adapters_of)
        del module.__dict__[_MERGED]
    return model


def iter_adapters(model: nn.Module) -> Iterator[tuple[str, nn.Module, str, Adapters]]:
    """(qualified weight name, module, tensor name, adapters) of every weight that has some, shared modules once."""
    return iter_parametrizations(model, Adapters)


def _merged(model: nn.Module) -> Iterator[tuple[str, nn.Module, dict[str, tuple[Adapters, Tensor]]]]:
    check_model(model)
    for name, module in model.named_modules():
        if _MERGED in module.__dict__:
            yield name, module, module.__dict__[_MERGED]


def _refuse_merged(model: nn.Module, verb: str) -> None:
    if any(True for _ in _merged(model)):
        raise ValueError(f"{verb}: the adapters are merged into the weights: unmerge(model) first")


def _matrix(layer: Neurons, chosen: Map, blocks: int, name: str, present: Adapters | None, peers: Peers) -> BlockMatrix:
    """The rotation of a weight, at the identity; refused if it does not fit."""
    if present is not None and name in present.by_name:
        raise ValueError(f"{layer.name} has an adapter {name!r} already: choose another name")
    weight, dim = layer.weight.detach(), dim_of(layer, blocks)
    dtype = compute_dtype(weight.dtype)
    matrix = BlockMatrix(dim, chosen, blocks, False, "identity", partial(torch.randn, dtype=dtype), peers)
    return matrix.to(device=weight.device, dtype=dtype)


def _install(layer: Neurons) -> Adapters:
    found = Adapters(layer)
    _register(layer.module, layer.tensor_name, found)
    return found


def _register(module: nn.Module, tensor_name: str, adapters_of: Adapters) -> None:
    unshare_class(module)
    parametrize.register_parametrization(module, tensor_name, adapters_of, unsafe=True)
    if tensor_name == "weight" and isinstance(module, nn.Linear) and type(module).forward is nn.Linear.forward:
        # the class is this module's own, and goes with the parametrization
        setattr(type(module), "forward", _linear)  # noqa: B010
    adapters_of.train(module.training)
    read_through(module)
