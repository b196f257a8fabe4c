"""Pickled arrays, read without executing what is in them.

A pickle is a program that names functions and calls them. Here every name it may use is answered with a stand-in of
ours that only records bytes, shape and dtype; any other name is an error. Neither NumPy nor SciPy is imported.
"""

from __future__ import annotations

import io
import pickle
import sys
from typing import Any, NoReturn

import torch
from torch import Tensor


def unpickle(data: bytes, where: str) -> Any:
    """The object pickled in ``data``; byte strings stay bytes. ``where`` names the file in errors."""
    try:
        return _Reader(io.BytesIO(data), encoding="bytes").load()
    except _Refused as error:
        raise ValueError(
            f"{where}: refused to unpickle {error}: only plain values and numeric arrays are read"
        ) from None
    except Exception as error:  # a damaged pickle can fail in any way, and a user needs the file's name
        raise ValueError(f"{where} is not a readable pickle of arrays: {type(error).__name__}: {error}") from error


class Array:
    """Stand-in for ``numpy.ndarray``: shape, dtype and raw bytes."""

    def __init__(self, *_: object) -> None:
        self.shape: tuple[int, ...] = ()
        self.dtype = _Dtype("u1")
        self.fortran = False
        self.raw = b""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, self.shape, self.dtype, self.fortran, raw = state
        self.raw = raw.encode("latin1") if isinstance(raw, str) else raw
        if not isinstance(self.raw, bytes) or not isinstance(self.dtype, _Dtype):
            raise _Refused("an array of Python objects")

    def tensor(self) -> Tensor:
        """A fresh tensor with the array's values."""
        flat = (
            torch.frombuffer(bytearray(self.raw), dtype=torch.uint8) if self.raw else torch.empty(0, dtype=torch.uint8)
        )
        if self.dtype.swapped:
            flat = flat.view(-1, self.dtype.size).flip(1).reshape(-1)
        values = flat.view(self.dtype.torch)
        if self.fortran:
            return values.view(self.shape[::-1]).permute(*reversed(range(len(self.shape)))).contiguous()
        return values.view(self.shape)


class SparseRows:
    """Stand-in for ``scipy.sparse.csr_matrix``."""

    def __init__(self, *_: object) -> None:
        self.fields: dict[str, Any] = {}

    def __setstate__(self, state: dict[Any, Any]) -> None:
        self.fields = {key.decode() if isinstance(key, bytes) else key: value for key, value in state.items()}

    def tensor(self) -> Tensor:
        """The matrix as a dense float32 tensor; repeated entries add up, as they do in SciPy."""
        rows, columns = self.fields.get("_shape", self.fields.get("shape"))  # type: ignore[misc]
        values, indices, starts = (self.fields[name].tensor() for name in ("data", "indices", "indptr"))
        row = torch.repeat_interleave(torch.arange(rows), starts.long().diff())
        dense = torch.zeros(rows, columns, dtype=torch.float32)
        return dense.index_put_((row, indices.long()), values.float(), accumulate=True)


class _Refused(Exception):
    """A name or value that this reader does not take."""


class _Dtype:
    """Stand-in for ``numpy.dtype``: a numeric kind, a size in bytes and an order."""

    kinds = {
        "b1": torch.bool, "u1": torch.uint8, "i1": torch.int8, "i2": torch.int16, "i4": torch.int32, "i8": torch.int64,
        "u2": torch.uint16, "u4": torch.uint32, "u8": torch.uint64, "f2": torch.float16, "f4": torch.float32,
        "f8": torch.float64,
    }  # fmt: skip

    def __init__(self, kind: bytes | str, *_: object) -> None:
        name = kind.decode() if isinstance(kind, bytes) else str(kind)
        name = name.lstrip("<>=|")
        if name not in self.kinds:
            raise _Refused(f"an array of dtype {name!r}")
        self.torch = self.kinds[name]
        self.size = int(name[1:])
        self.order = "="

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order = state[1]
        self.order = order.decode() if isinstance(order, bytes) else order

    @property
    def swapped(self) -> bool:
        return self.size > 1 and self.order == (">" if sys.byteorder == "little" else "<")


def _reconstruct(*_: object) -> Array:
    return Array()


def _empty_dict(*_: object) -> dict[Any, Any]:
    return {}


def _encode(text: str, encoding: str = "latin1") -> bytes:
    """Protocol 2 spells bytes as ``_codecs.encode(text, "latin1")``."""
    return text.encode("latin1")


def _empty_bytes() -> bytes:
    """Protocol 2 spells empty bytes as ``bytes()``."""
    return b""


class _Name:
    """Stand-in for a class that is only ever passed along, such as ``list`` in ``defaultdict(list)``."""

    def __init__(self, *_: object) -> None:
        raise _Refused("a call of a name that is only data")


_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _Name,
    ("numpy", "dtype"): _Dtype,
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("scipy.sparse.csr", "csr_matrix"): SparseRows,
    ("scipy.sparse._csr", "csr_matrix"): SparseRows,
    ("collections", "defaultdict"): _empty_dict,
    ("__builtin__", "list"): _Name,
    ("builtins", "list"): _Name,
    ("_codecs", "encode"): _encode,
    ("__builtin__", "bytes"): _empty_bytes,
}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _ALLOWED:
            return _ALLOWED[module, name]
        raise _Refused(f"{module}.{name}")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise _Refused(f"the outside reference {pid!r}")
