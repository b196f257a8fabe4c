"""Tensors from the bytes of a safetensors file, which several rooms read."""

from __future__ import annotations

from torch import Tensor


def unpack_tensors(content: bytes) -> dict[str, Tensor]:
    """The tensors in the bytes of a safetensors file.

    Raises:
        ValueError: what is wrong with the bytes; the caller knows the file and what to do.
        ImportError: if safetensors is missing.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        return dict(load(content))
    except SafetensorError as error:
        raise ValueError(str(error)) from error
