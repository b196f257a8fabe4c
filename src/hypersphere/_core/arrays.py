"""What users pass in, as tensors: tensors stay as they are, NumPy arrays and lists are read, names become numbers."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch
from torch import Tensor

from .checks import is_number

R = TypeVar("R")


def as_tensor(argument: str, value: Any) -> Tensor:
    """``value`` as a tensor: it may be a tensor, anything that NumPy reads as an array, or nested lists.

    Python's floats become float64, as in NumPy: float32 would round differences away that decide a rank.

    Args:
        argument: Its name, for the error.
        value: What the user passed.

    Raises:
        TypeError: If it is none of them.
        ValueError: If it is a masked array with masked entries.
    """
    if isinstance(value, Tensor):
        return value
    for part in (value, *(value if isinstance(value, list | tuple) else ())):
        _refuse_masked(argument, part)
    try:
        if isinstance(value, list | tuple) and any(isinstance(part, Tensor) for part in value):
            return torch.stack([p if isinstance(p, Tensor) else torch.as_tensor(p, device="cpu") for p in value])
        if _is_array(value):
            import numpy

            array = numpy.asarray(value)
            shared = array.flags.writeable and min(array.strides, default=0) >= 0  # what torch can share
            return torch.as_tensor(array if shared else array.copy(), device="cpu")
        tensor = torch.as_tensor(value, device="cpu")
        if not tensor.is_floating_point() or (isinstance(value, list | tuple) and any(map(_is_array, value))):
            return tensor
        return torch.as_tensor(value, dtype=torch.float64, device="cpu")
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{argument} is not a tensor or array of numbers: {type(value).__name__} ({error})") from error


def as_numbers(argument: str, value: Any) -> Tensor:
    """As :func:`as_tensor`, lists and arrays of whole numbers as float64; a tensor stays as it is."""
    tensor = as_tensor(argument, value)
    whole = not tensor.is_floating_point() and not tensor.is_complex() and tensor.dtype != torch.bool
    return tensor.to(torch.float64) if whole and not isinstance(value, Tensor) else tensor


def label_numbers(*columns: Any, classes: Iterable[str] | None = None) -> tuple[list[Any], list[str]]:
    """Columns of labels with each name replaced by its number, and the names in the order of their numbers.

    Columns of numbers stay as they are. Names are numbered over all columns together, so that one name has one
    number everywhere.

    Args:
        columns: Tensors, arrays or lists; None stays None.
        classes: The names in order; None: those that occur, sorted.

    Raises:
        ValueError: If a label is none of ``classes``.

    Example:
        >>> label_numbers(["cat", "ant", "cat"], ["bee"])
        ([tensor([2, 0, 2]), tensor([1])], ['ant', 'bee', 'cat'])
    """
    lists = [_names(column) for column in columns]
    found_names = {name for column in lists if column is not None for name in column}
    names = sorted(found_names) if classes is None else [str(name) for name in classes]
    numbers = {name: i for i, name in enumerate(names)}
    unknown = sorted(found_names - set(names))
    if unknown:
        raise ValueError(f"the label {unknown[0]!r} is not one of classes={names}: name every class")
    if not found_names:
        return list(columns), []
    found = [
        column if read is None else torch.tensor([numbers[name] for name in read], dtype=torch.long, device="cpu")
        for column, read in zip(columns, lists, strict=True)
    ]
    return found, names


def takes_arrays(*arguments: str, labels: Iterable[str] = ()) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Let a function of tensors take arrays and lists as well.

    Args:
        arguments: Names of its arguments that are tensors of numbers.
        labels: Names of those that are labels, which may be strings; an argument ``classes`` gives their order, and
            without one is given the names in order. Beside class vectors ``weight`` each must occur.
    """
    label_names = tuple(labels)

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> R:
            given = signature.bind(*args, **kwargs)
            values = given.arguments
            found, names = label_numbers(*(values.get(name) for name in label_names), classes=values.get("classes"))
            if names and "classes" in signature.parameters:
                values["classes"] = names
            vectors = values.get("weight")
            if names and vectors is not None and len(names) != len(vectors):
                raise ValueError(
                    f"{label_names[0]} name {len(names)} classes, weight has {len(vectors)}: pass class indices"
                )
            for name, value in zip(label_names, found, strict=True):
                if value is not None and not is_number(value):
                    values[name] = as_tensor(name, value)
            for name in arguments:
                if values.get(name) is not None:
                    values[name] = as_numbers(name, values[name])
            return function(*given.args, **given.kwargs)

        return wrapper

    return decorate


def _is_array(part: Any) -> bool:
    return hasattr(part, "__array__")


def _refuse_masked(argument: str, value: Any) -> None:
    mask: Any = getattr(value, "mask", None)  # of numpy.ma, whose hidden numbers would be read as valid ones
    hidden = int(mask.sum()) if _is_array(value) and hasattr(mask, "sum") else 0
    if hidden:
        raise ValueError(f"{argument} has {hidden} masked entries: leave them out first, e.g. by array.compressed()")


def _names(column: Any) -> list[str] | None:
    """The labels of a column if they are strings."""
    if column is None or isinstance(column, Tensor | str):
        return None
    values = column.tolist() if hasattr(column, "tolist") else column
    if not isinstance(values, list | tuple) or not values or not all(isinstance(value, str) for value in values):
        return None
    return list(values)
