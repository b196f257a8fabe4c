"""The harness finds what is wrong: each check fails for a subject with just that fault."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from harness import CHECKS, Case, Suite, draw


class Scaled(nn.Module):
    """a·sin x, in the dtype of x."""

    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.tensor(1.5))

    def forward(self, x):
        return self.a * x.sin()


class WrongGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        return 1.01 * grad * ctx.saved_tensors[0].cos()


class NoSecond(torch.autograd.Function):
    """The gradient is right, but constant to autograd."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0].detach().cos()


class Breaks(Scaled):
    def forward(self, x):
        torch._dynamo.graph_break()
        return super().forward(x)


class Remembers(Scaled):
    """Its state moves in eager mode alone."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        if not torch.compiler.is_compiling():
            self.calls += 1
        return super().forward(x)


class Leaks(Scaled):
    def forward(self, x):
        return super().forward(x).double()


class Coarse(Scaled):
    """As if computed in two digits, where the rest is single."""

    def forward(self, x):
        return super().forward(x) * (1.05 if x.dtype != torch.float64 else 1.0)


class Asks(Scaled):
    def forward(self, x):
        return super().forward(x) if float(x.sum()) > -1e9 else x


def reference(x, a):
    return a * np.sin(x)


GOOD = Case(Scaled, lambda: (draw(5),), reference)


class TestGood(Suite):
    cases = {"scaled sine": GOOD}


BAD = {
    "value": Case(Scaled, lambda: (draw(5),), lambda x, a: a * np.sin(x) + 1e-9),
    "gradient": Case(lambda: WrongGradient.apply, lambda: (draw(5),)),
    "second": Case(lambda: NoSecond.apply, lambda: (draw(5),)),
    "dtype": Case(Leaks, lambda: (draw(5),)),
    "autocast": Case(Leaks, lambda: (draw(5),)),
    "compile": Case(Breaks, lambda: (draw(5),)),
    "export": Case(Asks, lambda: (draw(5),)),
}


@pytest.mark.parametrize("check", CHECKS.split())
def test_each_check_sees_its_fault(check):
    with pytest.raises(Exception):  # noqa: B017 - of whichever kind the check raises
        getattr(Suite, f"test_{check}")(Suite(), copy.copy(BAD[check]))


@pytest.mark.parametrize(("check", "make"), [("dtype", Coarse), ("compile", Remembers)])
def test_numbers_and_state_count_too(check, make):
    with pytest.raises(AssertionError):
        getattr(Suite, f"test_{check}")(Suite(), Case(make, lambda: (draw(5),)))


def test_only_the_checks_that_are_wanted_are_there():
    class Few(Suite):
        cases = {"one": Case(Scaled, lambda: (draw(5),), reference, "value")}

    assert Few.test_value is not None
    assert Few.test_gradient is None
    with pytest.raises(AssertionError, match="no such checks"):
        type("Wrong", (Suite,), {"cases": {"one": Case(Scaled, lambda: (), checks="valeu")}})
