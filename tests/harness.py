"""From a table of cases, each with a slow float64 reference, the tests of value, gradient, dtype, compile and export.

    class TestRules(Suite):
        cases = {"cosine": Case(lambda: rule, inputs, reference)}

gives every test that the checks of a case name, one for each case. ``reference`` is written from the equation and
shares no code with the package: it gets the inputs as NumPy arrays and the parameters by name.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

HALF = (torch.bfloat16, torch.float16)
CHECKS = "value gradient second dtype autocast compile export"


@dataclass(frozen=True)
class Case:
    """What is tested, on what, and what it must give.

    Args:
        make: the subject: a module, or a function of tensors. Called under the seed of the test.
        inputs: its arguments, in float64; what is no floating-point tensor is passed as it is.
        reference: ``reference(*inputs, **parameters)`` in NumPy, float64.
        checks: which of :data:`CHECKS` are wanted.
        atol, rtol: of the value against the reference.
        fast: finite differences along random directions instead of every entry.
        gradient: (atol, rtol) of the derivatives against finite differences.
        training: the value is that of a module in training mode.
        compiled: (rtol, atol) of the compiled against the eager subject, in float32; None: those of ``assert_close``.
        half: relative error, in norm, that bfloat16 and float16 may have against float64 on the same rounded numbers.
        widened: half precision comes out as float32.
        casts: under autocast the output has its dtype; else float32.
    """

    make: Callable[[], Any]
    inputs: Callable[[], tuple[Any, ...]]
    reference: Callable[..., Any] | None = None
    checks: str = CHECKS
    atol: float = 1e-12
    rtol: float = 0.0
    fast: bool = False
    gradient: tuple[float, float] = (1e-5, 1e-3)
    training: bool = False
    compiled: tuple[float, float] | None = None
    backend: str = "aot_eager"
    half: float = 0.03
    widened: bool = False
    casts: bool = False

    def subject(self, dtype: torch.dtype = torch.float64, training: bool = False) -> Any:
        """A new one, the same at every call."""
        torch.manual_seed(0)
        made = self.make()
        return made.to(dtype).train(training) if isinstance(made, nn.Module) else made

    def arguments(self, dtype: torch.dtype = torch.float64, grad: bool = False) -> tuple[Any, ...]:
        """The inputs, rounded to ``dtype``; the same at every call."""
        torch.manual_seed(1)
        return tuple(
            one.detach().to(dtype).clone().requires_grad_(grad) if is_floating(one) else one for one in self.inputs()
        )


class Suite:
    """Subclass it with a table ``cases``; tests that no case wants are not there."""

    cases: ClassVar[Mapping[str, Case]] = {}

    def __init_subclass__(cls) -> None:
        unknown = {check for case in cls.cases.values() for check in case.checks.split()} - set(CHECKS.split())
        assert not unknown, f"no such checks: {unknown}"
        for check in CHECKS.split():
            if not cls._of(check):
                setattr(cls, f"test_{check}", None)

    @classmethod
    def _of(cls, check: str) -> dict[str, Case]:
        return {name: case for name, case in cls.cases.items() if check in case.checks.split()}

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "case" in metafunc.fixturenames:
            table = self._of(metafunc.function.__name__.removeprefix("test_"))
            metafunc.parametrize("case", table.values(), ids=table.keys())

    def test_value(self, case: Case) -> None:
        """In float64, what the reference says."""
        assert case.reference is not None, "a value needs a reference"
        subject, inputs = case.subject(training=case.training), case.arguments()
        parameters = {name: numpy_of(p) for name, p in parameters_of(subject).items()}
        expected = case.reference(*(numpy_of(one) for one in inputs), **parameters)
        np.testing.assert_allclose(numpy_of(subject(*inputs)), expected, rtol=case.rtol, atol=case.atol)

    def test_gradient(self, case: Case) -> None:
        """By finite differences, in every input and parameter."""
        function, leaves = differentiable(case)
        atol, rtol = case.gradient
        assert torch.autograd.gradcheck(function, leaves, atol=atol, rtol=rtol, fast_mode=case.fast)

    def test_second_derivative(self, case: Case) -> None:
        """The derivative of the derivative, likewise."""
        function, leaves = differentiable(case)
        atol, rtol = case.gradient
        assert torch.autograd.gradgradcheck(function, leaves, atol=atol, rtol=rtol, fast_mode=case.fast)

    def test_dtype(self, case: Case) -> None:
        """Single and half precision: the dtype of the output; value and gradients near those in float64."""
        for dtype in (torch.float32, *HALF):
            subject = case.subject(dtype)
            found = outcome(subject, subject, case.arguments(dtype, grad=True))
            exact = copy.deepcopy(subject).double() if isinstance(subject, nn.Module) else subject
            rounded = tuple(one.double() if is_floating(one) else one for one in case.arguments(dtype))
            wanted = outcome(exact, exact, tuple(leaf(one) for one in rounded))
            assert found[0].dtype == (torch.float32 if case.widened and dtype in HALF else dtype)
            assert all(one.dtype == dtype for one in found[1:])
            near(found, wanted, 1e-4 if dtype == torch.float32 else case.half, dtype)

    def test_autocast(self, case: Case) -> None:
        """Value and gradients under autocast near those in float32."""
        subject = case.subject(torch.float32)
        wanted = outcome(subject, subject, case.arguments(torch.float32, grad=True))
        for dtype in HALF:
            with torch.autocast("cpu", dtype=dtype):
                found = outcome(subject, subject, case.arguments(torch.float32, grad=True))
            assert found[0].dtype == (dtype if case.casts else torch.float32)
            near(found, wanted, case.half, dtype)

    @pytest.mark.slow
    def test_compile(self, case: Case) -> None:
        """One graph, the same value, gradients and state, in training mode."""
        torch.compiler.reset()
        subject = case.subject(torch.float32, training=True)
        twin = copy.deepcopy(subject)
        compiled = torch.compile(twin, fullgraph=True, backend=case.backend)
        wanted = outcome(subject, subject, case.arguments(torch.float32, grad=True))
        found = outcome(compiled, twin, case.arguments(torch.float32, grad=True))
        tolerance = {} if case.compiled is None else dict(zip(("rtol", "atol"), case.compiled, strict=True))
        torch.testing.assert_close(found, wanted, **tolerance)
        if isinstance(subject, nn.Module):
            torch.testing.assert_close(twin.state_dict(), subject.state_dict())

    def test_export(self, case: Case) -> None:
        """``torch.export`` gives the same program."""
        subject, inputs = case.subject(torch.float32), case.arguments(torch.float32)
        module = subject if isinstance(subject, nn.Module) else Called(subject)
        program = torch.export.export(module, inputs)
        torch.testing.assert_close(program.module()(*inputs), module(*inputs))


class Called(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Tensor:
        return self.function(*inputs)


def draw(*shape: int, seed: int = 0) -> Tensor:
    """Gaussian numbers in float64, the same for the same seed."""
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def differentiable(case: Case) -> tuple[Callable[..., Tensor], tuple[Any, ...]]:
    """The subject as a function of its inputs and parameters, and these."""
    subject, inputs = case.subject(), case.arguments(grad=True)
    if not isinstance(subject, nn.Module):
        return subject, inputs
    parameters = parameters_of(subject)
    names, count = list(parameters), len(inputs)

    def function(*values: Any) -> Tensor:
        return torch.func.functional_call(subject, dict(zip(names, values[count:], strict=True)), values[:count])

    return function, (*inputs, *(leaf(p) for p in parameters.values()))


def outcome(call: Any, owner: Any, inputs: tuple[Any, ...]) -> list[Tensor]:
    """The output and its gradients in every floating input and parameter, along one fixed direction."""
    out = call(*inputs)
    leaves = [one for one in inputs if is_floating(one)] + list(parameters_of(owner).values())
    direction = draw(*out.shape, seed=7).to(out.dtype) if out.dim() else torch.ones_like(out)
    grads = torch.autograd.grad(out, leaves, direction, allow_unused=True)
    return [out.detach(), *(torch.zeros_like(x) if g is None else g for x, g in zip(leaves, grads, strict=True))]


def near(found: list[Tensor], wanted: list[Tensor], relative: float, dtype: torch.dtype) -> None:
    for a, b in zip(found, wanted, strict=True):
        a, b = a.double(), b.double()
        assert a.isfinite().all(), dtype
        assert (a - b).norm() <= relative * b.norm() + relative / 30, (dtype, float((a - b).norm()), float(b.norm()))


def parameters_of(subject: Any) -> dict[str, Tensor]:
    return dict(subject.named_parameters()) if isinstance(subject, nn.Module) else {}


def is_floating(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def leaf(value: Any) -> Any:
    return value.detach().clone().requires_grad_() if is_floating(value) else value


def numpy_of(value: Any) -> Any:
    return value.detach().numpy() if isinstance(value, Tensor) else value


def looped(function: Callable[..., float]) -> Callable[..., np.ndarray]:
    """A reference for one number as one for arrays, entry by entry."""
    return functools.wraps(function)(np.vectorize(function, otypes=[np.float64]))
