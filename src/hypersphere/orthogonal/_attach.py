"""``attach``: put a learned matrix between a model and its weights."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from .._core.checks import check_choice, check_count
from .._core.errors import check_model
from .._core.neurons import Neurons, Patterns, is_named, iter_neurons, pick_neurons
from .._core.output_layer import OutputLayer, OutputLayers, announce, find_output_layers
from .._core.sphere import compute_dtype
from ..functional import norm, unit
from ..functional import refine as minimise_energy
from ._blocks import BlockMatrix
from ._maps import Map, resolve, started
from ._peers import Peers
from ._recurrent import read_through
from ._rotation import Rotation, iter_rotations, unshare_class

_log = logging.getLogger("hypersphere")


def attach(
    model: nn.Module,
    method: str | Map | Callable[[Tensor], Tensor] = "cayley",
    *,
    blocks: int = 1,
    share_blocks: bool = False,
    normalize: bool = False,
    refine: str | Callable[[Tensor], Tensor] | None = None,
    init: str = "random",
    include: Patterns = None,
    skip: Patterns = None,
    neurons: str | None = None,
    learn_v: bool = False,
    tasks: int = 1,
    head: nn.Module | None = None,
    output_layer: OutputLayer = None,
    generator: torch.Generator | None = None,
) -> nn.Module:
    """Train w = Rv with one learned matrix R per layer and fixed neurons v (OPT, thesis 7.1).

    R acts on the flattened neurons of every convolution (1d-3d, transposed, grouped), linear, recurrent and attention
    weight except the output layer, and is shared by all neurons of a weight. An orthogonal R leaves norms, angles and
    the hyperspherical energy of v unchanged. Frozen weights (``requires_grad=False``) keep their values. Build the
    optimizer afterwards, because v becomes a buffer and the parameters of R are new. After training, :func:`merge`
    multiplies R into the weights.

    Args:
        model: The network; its hidden layers are parametrized in place.
        method: ``"gram_schmidt"``, ``"householder"``, ``"lowdin"``, ``"cayley"``, ``"exponential"`` (see
            :func:`hypersphere.functional.orthogonalize`); ``"gradient"`` (R is the parameter, train it with
            :class:`hypersphere.optim.OrthogonalSGD`; the mean of R in a weight average (EMA) is not orthogonal, so
            orthogonalize it with ``"lowdin"``); ``"relaxed"`` (add :func:`penalty` to the loss);
            ``"canonical"`` (F.11); ``"free"`` (no constraint: the ablation UPT); ``"cholesky"``, ``"triangular"``,
            ``"banded"``, ``"symmetric"``, ``"skew_symmetric"``, ``"hessenberg"``, ``"low_rank"``, ``"nonlinear"``
            (thesis F.6, also as objects: ``Banded(width=2)``); or your own function or module from a (blocks, d, d)
            parameter to equally many matrices (a module is copied for each layer).
        blocks: number of blocks on R's diagonal (thesis F.5), ≥ 1; more blocks have fewer parameters. If ``blocks``
            does not divide d, the first blocks have one more row. For convolutions a block is a group of consecutive
            input channels if ``blocks`` divides their number.
        share_blocks: all blocks (of one size) are the same matrix.
        normalize: scale every v to length 1 (7.3.7).
        refine: ``"full"`` or ``"half"``: minimise the (half-space) energy of v first (7.3.7), keeping lengths; or a
            function from the neurons, (groups, N, d), to their new directions.
        init: how R starts. ``"random"`` takes the orthogonalised N(0, 1) matrix (F.3); for Cayley and exponential the
            skew matrix has smaller entries, so that R is like a uniformly random rotation. Structured maps (F.6) start
            near I. ``"literal"`` draws N(0, 1) without this correction, which puts the Cayley R near −I; it is for
            Cayley, exponential, ``"relaxed"``, ``"free"`` and maps of your own. ``"unit"`` gives the same R as
            ``"random"``, but Gram-Schmidt, Householder, Löwdin and canonical compute it from columns of length 1
            instead of √d. Use it for SGD without weight decay, whose steps turn R only 1/d as far from N(0, 1).
            ``"identity"`` starts at R = I; it replaces Householder by Gram-Schmidt, which differs from it only by the
            sign of the last column.
        include: glob patterns on module or weight names; None takes every layer. Frozen weights are left out, and the
            log names them, unless ``include`` has the exact name of the weight or of its module.
        skip: patterns of layers that keep their weights.
        neurons: ``"gaussian"`` draws v from N(0, 2/d) (He), ``"keep"`` takes the present weights. None keeps them for
            ``init="identity"`` (fine-tuning a trained network). Otherwise (training from scratch) it draws new ones and
            logs a warning.
        learn_v: train v as well, as the same parameter object that the module had.
        tasks: number of matrices R for the same v, see :func:`set_task` (thesis F.8).
        head: a module with the class vectors, if they are not in the model.
        output_layer: the output layer, by name or module, several in a list; False if there is none. None takes the one
            the model declares (``get_classifier``, ``num_classes``, ...), else the last linear layer.
        generator: source of the random numbers (on the CPU).

    Returns:
        ``model`` itself, whose weights are now computed as R·v.

    Raises:
        ValueError: Before anything is changed, if a weight is attached already, is shared with another module or
            parametrized otherwise, if the output layer is asked for by name, if every weight is frozen, or if
            ``refine`` gives another shape.

    Example:
        >>> model = nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 3))
        >>> _ = hs.orthogonal.attach(model, "cayley")
        >>> r = hs.orthogonal.matrices(model)["0.weight"]
        >>> torch.allclose(r.mT @ r, torch.eye(8), atol=1e-5)
        True
    """
    check_model(model, head)
    chosen_map = resolve(method)
    check_count("blocks", blocks)
    check_count("tasks", tasks)
    check_choice("init", init, ("random", "unit", "identity", "literal"))
    chosen_map = started(chosen_map, init)
    refinement = _refinement(refine)
    asked = neurons
    if neurons is None:
        neurons = "keep" if init == "identity" else "gaussian"
    check_choice("neurons", neurons, ("gaussian", "keep"))

    output = find_output_layers(model, head, output_layer)
    announce(output, model, "attach")
    chosen = _without_frozen(choose(model, include, skip, output), include)
    check_free(model, chosen)
    peers = next((rotation.active.peers for *_, rotation in iter_rotations(model)), None) or Peers()
    plan = []
    with torch.no_grad():
        for layer in chosen:
            weight = layer.weight.detach()
            dtype = compute_dtype(weight.dtype)
            draw = partial(torch.randn, generator=generator, device=generator and generator.device, dtype=dtype)
            dim = dim_of(layer, blocks)
            v = _prepare(layer, weight, neurons, normalize, refinement, draw)
            matrix = partial(BlockMatrix, dim, chosen_map, blocks, share_blocks, init, draw, peers)
            rotation = Rotation(layer, [matrix() for _ in range(tasks)], learn_v)
            rotation.to(device=weight.device, dtype=dtype)
            rotation(v)  # a user's map that fails does so before the model is touched
            plan.append((layer, v, rotation))
    for layer, v, rotation in plan:
        _install(layer, v, rotation, learn_v)
    if asked is None and neurons == "gaussian":
        _log.warning(
            "attach drew new neurons N(0, 2/d) for %d weights, in place of the present ones. Pass neurons='keep' to "
            "rotate the present weights, or neurons='gaussian' to say that this is meant",
            len(plan),
        )
    return model


def choose(
    model: nn.Module, include: Patterns, skip: Patterns, output: OutputLayers, argument: str = "include"
) -> list[Neurons]:
    """The weights that the patterns mean, without those of the output layers."""
    layers = list(iter_neurons(model))
    meant = pick_neurons(layers, include, skip, argument=argument)
    for layer in layers:
        if layer.module in output and _is_named(layer, include):
            raise ValueError(
                f"{layer.name} is the output layer, which orthogonal training leaves alone (fixed random classifiers "
                "make little sense, thesis 7.3.1): leave it out of include, or name another module as output_layer"
            )
    kept = [layer for layer in meant if layer.module not in output]
    if not kept:
        raise ValueError("nothing to attach: no layer with neurons is left besides the output layer")
    return kept


def _without_frozen(chosen: list[Neurons], include: Patterns) -> list[Neurons]:
    """Those that are trained, or that ``include`` names: R would change a frozen weight, and ``neurons`` redraw it."""
    frozen = [layer for layer in chosen if _is_frozen(layer) and not _is_named(layer, include)]
    if not frozen:
        return chosen
    left = [layer for layer in chosen if layer not in frozen]
    names = ", ".join(layer.name for layer in frozen)
    if not left:
        raise ValueError(
            f"nothing to attach: frozen weights (requires_grad=False) are left alone, here {names}. Call "
            "requires_grad_(True) on what R may change, or use hs.orthogonal.adapter(model) on a frozen network"
        )
    _log.warning("attach leaves frozen weights alone: %s. Name one in include= to rotate it", names)
    return left


def _is_frozen(layer: Neurons) -> bool:
    weight = layer.module._parameters.get(layer.tensor_name)
    return weight is not None and weight.is_floating_point() and not weight.requires_grad


def _is_named(layer: Neurons, patterns: Patterns) -> bool:
    return any(is_named(name, patterns) for name in (layer.module_name, layer.name))


def check_free(model: nn.Module, chosen: list[Neurons]) -> None:
    """Refuse weights that cannot be rotated: attached already, parametrized, tied, pruned, without a shape."""
    attached = {name for name, *_ in iter_rotations(model)}
    owners: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        owners.setdefault(id(parameter), []).append(name)
    modules: dict[int, set[str]] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        modules.setdefault(id(module), set()).add(name)
    for layer in chosen:
        if layer.name in attached:
            raise ValueError(f"{layer.name} is attached already: merge(model) first, or leave this layer out")
        if parametrize.is_parametrized(layer.module, layer.tensor_name):
            raise ValueError(f"{layer.name} has another parametrization: remove it first, or skip this layer")
        weight = layer.module._parameters.get(layer.tensor_name)
        if weight is None:
            raise ValueError(f"{layer.name} is not a parameter (pruned or frozen by other means): skip this layer")
        if isinstance(weight, nn.parameter.UninitializedParameter):
            raise ValueError(f"{layer.name} has no shape yet: run one batch through the model first")
        if not weight.is_floating_point():
            raise ValueError(f"{layer.name} has dtype {weight.dtype}: only floating-point weights can be rotated")
        homes = {f"{name}.{layer.tensor_name}".lstrip(".") for name in modules[id(layer.module)]}
        others = [name for name in owners[id(weight)] if name not in homes]
        if others:
            raise ValueError(f"{layer.name} is tied to {', '.join(others)}: untie the weights, or skip this layer")


def dim_of(layer: Neurons, blocks: int) -> int:
    """The dimension of the neurons, which are to be cut into so many blocks."""
    dim = layer.dim
    if blocks > dim:
        raise ValueError(f"blocks={blocks} is more than the {dim} dimensions of {layer.name}: use fewer or skip it")
    return dim


def _refinement(refine: str | Callable[[Tensor], Tensor] | None) -> Callable[[Tensor], Tensor] | None:
    """What moves the neurons first."""
    if refine is None or callable(refine):
        return refine
    return partial(minimise_energy, half_space=check_choice("refine", refine, ("full", "half")) == "half")


def _prepare(
    layer: Neurons,
    weight: Tensor,
    neurons: str,
    normalize: bool,
    refine: Callable[[Tensor], Tensor] | None,
    draw: Callable[..., Tensor],
) -> Tensor:
    """v: fresh or kept, then refined and normalised as asked, in the weight's shape and dtype."""
    v = layer.flatten(weight).to(compute_dtype(weight.dtype))
    if neurons == "gaussian":
        v = draw(v.shape).to(v) * (2.0 / v.shape[-1]) ** 0.5
    if refine is not None:
        moved = refine(v)
        if not isinstance(moved, Tensor) or moved.shape != v.shape:
            raise ValueError(f"refine must give directions of shape {tuple(v.shape)} for {layer.name}, one in each row")
        v = norm(v, keepdim=True) * unit(moved.to(v))
    if normalize:
        v = unit(v)
    return layer.unflatten(v, weight.shape).to(weight.dtype)


def _install(layer: Neurons, v: Tensor, rotation: Rotation, learn_v: bool) -> None:
    module, name = layer.module, layer.tensor_name
    if learn_v:
        with torch.no_grad():
            layer.weight.copy_(v.clone())  # v may be the weight itself with other strides, which copy_ refuses
    else:
        del module._parameters[name]
        module.register_buffer(name, v.clone())
    unshare_class(module)
    parametrize.register_parametrization(module, name, rotation, unsafe=True)
    rotation.train(module.training)
    read_through(module)
