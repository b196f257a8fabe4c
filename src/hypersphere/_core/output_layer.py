"""Which layer of a model is its output layer: one answer for conversion, energies, orthogonal training and embeddings.

A model that says so itself is believed (``get_classifier`` of timm, ``get_output_embeddings`` of transformers,
``num_classes``). Else the last linear layer is taken, with those that give further outputs beside it, or a 1×1
convolution that ends a network without linear layers: a guess that callers announce.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch.fx
from torch import nn

from .neurons import named_layers, names_of, parametrizing

OutputLayer: TypeAlias = nn.Module | str | bool | Sequence[nn.Module | str] | None
"""What users pass: a module of the model or its name, several in a list; None to have it found; False: it has none."""

logger = logging.getLogger("hypersphere")
_CONV = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_HEAD_NAMES = ("aux", "classifier", "fc", "head", "logits")


@dataclass(frozen=True)
class OutputLayers:
    """Names and modules of the output layers (several for models with auxiliary heads), and how they were found."""

    layers: tuple[tuple[str, nn.Module], ...]
    how: str
    guessed: bool = False

    def __contains__(self, module: object) -> bool:
        """Whether it is one of them, or inside of one: a classifier may have several layers."""
        return any(module is part for _, found in self.layers for part in found.modules())

    @property
    def last(self) -> tuple[str, nn.Module] | None:
        return self.layers[-1] if self.layers else None


def find_output_layer(
    model: nn.Module, head: nn.Module | None = None, output_layer: OutputLayer = None
) -> tuple[str, nn.Module] | None:
    """Name and module of the (last) output layer: see :func:`find_output_layers`. None if the model has none."""
    return find_output_layers(model, head, output_layer).last


def find_output_layers(
    model: nn.Module, head: nn.Module | None = None, output_layer: OutputLayer = None
) -> OutputLayers:
    """The output layers: ``head``, else ``output_layer``, else what the model says, else a guess.

    A head outside the model has the name ``"head"``.

    Raises:
        ValueError: If ``output_layer`` is not a module of the model, or its name.
        TypeError: If it is something else than a module or a name, or a list of them.
    """
    names = names_of(model)
    if head is not None:
        return OutputLayers(((names.get(id(head), "head"), head),), "the head")
    if output_layer is False:
        return OutputLayers((), "output_layer=False")
    if output_layer is not None and output_layer is not True:
        several = isinstance(output_layer, Iterable) and not isinstance(output_layer, nn.Module | str)
        asked: Iterable[Any] = output_layer if several else [output_layer]  # type: ignore[assignment]
        return OutputLayers(tuple(_named(model, names, one) for one in asked), "output_layer")
    for ask in (_asked, _sized):
        found = ask(model, names)
        if found is not None:
            return found
    linears = [(name, module) for name, module in named_layers(model) if isinstance(module, nn.Linear)]
    if linears:
        beside = _beside(model, linears)
        if beside:
            return OutputLayers((*beside, linears[-1]), "which give the outputs", guessed=True)
        return OutputLayers((linears[-1],), "the last linear layer", guessed=True)
    trained = [(name, m) for name, m in named_layers(model) if any(True for _ in m.parameters(recurse=False))]
    convolutions = [(name, module) for name, module in trained if isinstance(module, _CONV)]
    small = [set(module.kernel_size) == {1} for _, module in convolutions]
    if small and small[-1]:
        last = convolutions[-1]
        if _is_head(last[0]) or (last[1] is trained[-1][1] and not all(small)):  # nothing that learns comes after it
            return OutputLayers((last,), "the last layer, a 1×1 convolution", guessed=True)
    return OutputLayers((), "no linear layer")


def announce(
    found: OutputLayers, model: nn.Module, what: str, choice: str = "output_layer= (a name, a module, or False)"
) -> None:
    """Log a guess of ``what``, once for each type of model and layer, with the argument that chooses."""
    key = (type(model), what, tuple(name for name, _ in found.layers))
    if found.guessed and key not in _announced:
        _announced.add(key)
        layers = ", ".join(repr(name) for name, _ in found.layers)
        logger.warning(
            "%s takes %s, %s of %s, for the output layer%s: pass %s to choose",
            what, layers, found.how, type(model).__name__, "s" if len(found.layers) > 1 else "", choice,
        )  # fmt: skip


_announced: set[tuple[Any, ...]] = set()


def _named(model: nn.Module, names: dict[int, str], output_layer: object) -> tuple[str, nn.Module]:
    if isinstance(output_layer, str):
        modules = dict(model.named_modules())
        if output_layer not in modules:
            raise ValueError(f"output_layer={output_layer!r} is not a module of the model: see model.named_modules()")
        return output_layer, _layer(model, output_layer, modules[output_layer])
    if not isinstance(output_layer, nn.Module):
        raise TypeError(
            f"output_layer={output_layer!r} is no layer: pass a module of the model, its name, a list of them, None or "
            "False"
        )
    name = names.get(id(output_layer))
    if name is None:
        raise ValueError("output_layer is not a module of the model: pass one of its modules, or its name")
    return name, _layer(model, name, output_layer)


def _layer(model: nn.Module, name: str, module: nn.Module) -> nn.Module:
    owner = parametrizing(model).get(module)
    if owner is not None:
        raise ValueError(
            f"output_layer={name!r} is no layer: it computes a weight of {repr(owner) if owner else 'the model'}; name "
            "that layer instead"
        )
    return module


def _beside(model: nn.Module, linears: Sequence[tuple[str, nn.Linear]]) -> list[tuple[str, nn.Linear]]:
    """Other linear layers that give an output of the model, as the last one does; none where that cannot be traced."""
    others = {name: module for name, module in linears[:-1] if module.in_features == linears[-1][1].in_features}
    if not others:
        return []
    try:
        (end,) = (node for node in torch.fx.Tracer().trace(model).nodes if node.op == "output")
    except Exception:  # control flow, other kinds of arguments: nothing can be said about it
        return []
    ends = {str(node.target) for node in end.all_input_nodes if node.op == "call_module"}
    return [(name, others[name]) for name in others if name in ends] if linears[-1][0] in ends else []


def _asked(model: nn.Module, names: dict[int, str]) -> OutputLayers | None:
    """What the model's own method answers; an identity is a model without a classifier."""
    for method in ("get_classifier", "get_output_embeddings"):
        ask = getattr(model, method, None)
        if not callable(ask):
            continue
        try:
            answer: Any = ask()
        except (AttributeError, NotImplementedError, TypeError):
            continue
        modules = [m for m in _as_modules(answer) if id(m) in names]
        if not modules:
            continue
        heads = tuple((names[id(m)], m) for m in modules if not isinstance(m, nn.Identity))
        return OutputLayers(heads, f"{method}()")
    return None


def _as_modules(answer: Any) -> list[nn.Module]:
    if isinstance(answer, nn.Module):
        return [answer]
    return [m for m in answer if isinstance(m, nn.Module)] if isinstance(answer, Iterable) else []


def _sized(model: nn.Module, names: dict[int, str]) -> OutputLayers | None:
    """The ends of the size that ``num_classes`` (or ``config.num_labels``) says: the last one, and heads by name."""
    size = getattr(model, "num_classes", None)
    source = "num_classes"
    if not isinstance(size, int) or isinstance(size, bool):
        size, source = getattr(getattr(model, "config", None), "num_labels", None), "config.num_labels"
    if not isinstance(size, int) or isinstance(size, bool):
        return None
    if size == 0:
        return OutputLayers((), f"{source} = 0")
    ends = [(name, m) for name, m in named_layers(model) if _outputs(m) == size and m is not model]
    heads = [end for end in ends[:-1] if _is_head(end[0])]
    return OutputLayers((*heads, ends[-1]), f"{source} = {size}") if ends else None


def _is_head(name: str) -> bool:
    return any(word in name.lower() for word in _HEAD_NAMES)


def _outputs(module: nn.Module) -> int | None:
    if isinstance(module, nn.Linear):
        return module.out_features
    if isinstance(module, _CONV) and set(module.kernel_size) == {1}:
        return module.out_channels
    return None
