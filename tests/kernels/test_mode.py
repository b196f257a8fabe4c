"""All calls of a layer on a GPU but the first take addresses instead of tensors: here the interpreter does."""

import ctypes

import pytest
import torch
from block_reference import Case, distance
from fused import plain_operations
from torch import nn

import hypersphere as hs
from hypersphere import kernels
from hypersphere.kernels import block
from hypersphere.kernels.launch import Launch

CASES = [
    {"chained": True, "last": True},
    {"g": "sigmoid", "h": "tanh", "norm": "eval", "act": "leaky_relu", "learnable": True, "running": True},
    {"kernel": 5, "padding": 2, "groups": 4, "channels": 4, "filters": 4, "last": True},
    {"g": "sigmoid", "h": "ball", "groups": 2, "channels": 4},
    {"transposed": True, "stride": 2},
]


def _from_address(address, dtype):
    """A tensor that begins there, of unknown length: kernels read its address alone."""
    return None if address is None else torch.frombuffer((ctypes.c_char * 16).from_address(address), dtype=dtype)


def _with_addresses(monkeypatch):
    """Let the interpreter do what a GPU does; returns the names of kernels that were launched with addresses."""
    with_tensors, by_address = Launch.__call__, []

    def noting(self, stream, *tensors):
        with_tensors(self, None, *tensors)
        kinds = [None if tensor is None else tensor.dtype for tensor in tensors]

        def run(stream, *addresses):
            by_address.append(self.name)
            pairs = zip(addresses, kinds, strict=True)
            with_tensors(self, None, *[_from_address(address, kind) for address, kind in pairs])

        return run

    monkeypatch.setattr(Launch, "__call__", noting)
    monkeypatch.setattr(block, "stream_for", lambda index, addresses: 0)
    monkeypatch.setattr(block, "branch", lambda device, stream: None)
    return by_address


@pytest.mark.parametrize("options", CASES, ids=str)
def test_addresses_do_what_tensors_did(options, monkeypatch):
    interpreted = kernels.launch.interpreting()
    by_address = _with_addresses(monkeypatch) if interpreted else []
    case = Case(**options)
    case.make()
    expected = case.expected()
    case.actual()
    assert not by_address
    kernels.LAUNCHES.clear()
    actual = case.actual()
    assert not interpreted or sorted(by_address) == sorted(kernels.LAUNCHES.elements())
    for name, value in expected.items():
        assert distance(actual[name], value) < (1e-3 if name == "drho" else 1e-5), name  # a sum of both signs


@pytest.mark.parametrize("norm", [nn.BatchNorm1d, None])
def test_rows_by_addresses_and_twice_through_a_graph(norm, monkeypatch):
    """Norms of rows and gradients of what channels have learned; the second time, their sums are not 0 any more."""
    curve = hs.angular.Sigmoid(learnable=True)
    parts = hs.nn.SphereLinear(6, 5, True, angular=curve), norm and norm(5), nn.PReLU(5), hs.nn.SphereLinear(5, 3, True)
    model, x = hs.nn.fuse(nn.Sequential(*filter(None, parts))), torch.randn(9, 6, requires_grad=True)
    given = x, *model.parameters()
    with plain_operations():
        expected = torch.autograd.grad(model(x).pow(3).sum(), given)
    by_address = _with_addresses(monkeypatch) if kernels.launch.interpreting() else []
    for _ in range(2):
        loss = model(x).pow(3).sum()
        for again in (True, False):
            for mine, theirs in zip(torch.autograd.grad(loss, given, retain_graph=again), expected, strict=True):
                torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4)
    assert not kernels.launch.interpreting() or {"unit_kernel", "grad_kernel", "row_kernel"} < set(by_address)
