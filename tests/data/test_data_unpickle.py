"""Pickles are read without executing what is in them."""

from __future__ import annotations

import os
import pickle
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy.sparse import csr_matrix

from hypersphere.data._unpickle import Array, unpickle


class Call:
    """Pickles as a call of ``function(*arguments)``."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.reduced = (function, arguments)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self.reduced


@settings(deadline=None, max_examples=30)
@given(
    npst.arrays(
        st.sampled_from(["u1", "i1", "<i2", ">i2", "<i4", ">i4", "<i8", "<f4", ">f4", "<f8", ">f8", "?"]).map(np.dtype),
        npst.array_shapes(min_dims=1, max_dims=3, max_side=4),
    ),
    st.booleans(),
    st.sampled_from([2, 3, 4]),
)
def test_arrays_of_every_numeric_kind_order_and_layout(array: np.ndarray, fortran: bool, protocol: int) -> None:
    array = np.asfortranarray(array) if fortran else array
    read = unpickle(pickle.dumps(array, protocol=protocol), "file")
    expected = torch.from_numpy(np.ascontiguousarray(array).astype(array.dtype.newbyteorder("=")))
    assert isinstance(read, Array)
    torch.testing.assert_close(read.tensor(), expected, rtol=0, atol=0, equal_nan=True)


def test_empty_array() -> None:
    assert unpickle(pickle.dumps(np.zeros((0, 3), np.float32), 2), "file").tensor().shape == (0, 3)


def test_sparse_rows_and_neighbour_lists() -> None:
    dense = np.array([[0, 2.5, 0], [0, 0, 0], [1, 0, -3]], np.float32)
    read = unpickle(pickle.dumps(csr_matrix(dense), protocol=2), "file")
    assert torch.equal(read.tensor(), torch.from_numpy(dense))
    lists = defaultdict(list, {3: [1, 2], 1: [3]})
    assert unpickle(pickle.dumps(lists, protocol=2), "file") == {3: [1, 2], 1: [3]}


def test_a_python_2_pickle_of_a_defaultdict() -> None:
    assert unpickle(b"\x80\x02ccollections\ndefaultdict\nc__builtin__\nlist\n\x85R(K\x01]K\x02au.", "file") == {1: [2]}


@pytest.mark.parametrize(
    "payload",
    [
        Call(os.system, "touch {path}"),
        Call(os.mkdir, "{path}"),
        Call(eval, "open('{path}', 'w')"),
        Call(exec, "open('{path}', 'w')"),
        Call(getattr, [], "append"),
        Call(list, [1, 2]),
        Call(np.load, "{path}"),
        Call(np.fromfile, "{path}"),
    ],
    ids=lambda call: call.reduced[0].__name__,
)
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_calls_are_refused(payload: Call, protocol: int, tmp_path: Path) -> None:
    target = tmp_path / "made"
    function, arguments = payload.reduced
    arguments = tuple(a.format(path=target) if isinstance(a, str) else a for a in arguments)
    data = pickle.dumps({"labels": [1], "data": Call(function, *arguments)}, protocol=protocol)
    with pytest.raises(ValueError, match=r"some/file: refused to unpickle"):
        unpickle(data, "some/file")
    assert not target.exists()


@pytest.mark.parametrize("name", ["list.__class__", "list.append", "__import__"])
def test_dotted_and_hidden_names_are_refused(name: str) -> None:
    data = b"\x80\x04\x8c\x08builtins\x8c" + bytes([len(name)]) + name.encode() + b"\x93."
    with pytest.raises(ValueError, match=r"refused to unpickle builtins\."):
        unpickle(data, "file")


def test_object_arrays_and_outside_references_are_refused() -> None:
    with pytest.raises(ValueError, match="dtype 'O8'"):
        unpickle(pickle.dumps(np.array([{}, None], dtype=object), protocol=2), "file")
    with pytest.raises(ValueError, match="outside reference"):
        unpickle(b"\x80\x02U\x03abcQ.", "file")


@pytest.mark.parametrize("data", [b"", b"\x80\x02", b"not a pickle", pickle.dumps(np.arange(9), 2)[:-20]])
def test_damage_is_a_clear_error(data: bytes) -> None:
    with pytest.raises(ValueError, match="some/file is not a readable pickle"):
        unpickle(data, "some/file")
