"""Any nested state as named tensors and a JSON skeleton, and back; nothing is ever unpickled."""

from __future__ import annotations

from typing import Any

from torch import Tensor

_TENSOR, _PAIRS = "tensor", "pairs"


def split(state: Any) -> tuple[dict[str, Tensor], Any]:
    """Tensors by path, and the rest with references to them."""
    tensors: dict[str, Tensor] = {}
    return tensors, _split(state, "state", tensors)


def join(tensors: dict[str, Tensor], skeleton: Any) -> Any:
    """The inverse of :func:`split`."""
    if isinstance(skeleton, list):
        return [join(tensors, item) for item in skeleton]
    if isinstance(skeleton, dict):
        if _TENSOR in skeleton:
            return tensors[skeleton[_TENSOR]]
        return {key: join(tensors, value) for key, value in skeleton[_PAIRS]}
    return skeleton


def _split(state: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    if isinstance(state, Tensor):
        tensors[path] = state
        return {_TENSOR: path}
    if isinstance(state, dict):
        for key in state:
            if not isinstance(key, str | int) or isinstance(key, bool):
                raise TypeError(f"{path} has the key {key!r}: only texts and whole numbers can be saved")
        return {_PAIRS: [[key, _split(value, f"{path}.{key}", tensors)] for key, value in state.items()]}
    if isinstance(state, list | tuple):
        return [_split(value, f"{path}.{index}", tensors) for index, value in enumerate(state)]
    if state is None or isinstance(state, bool | int | float | str):
        return state
    raise TypeError(
        f"{path} is a {type(state).__name__}: only tensors, numbers, texts, lists and dictionaries are saved"
    )
