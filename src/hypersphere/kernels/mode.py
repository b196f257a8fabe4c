"""A pass of a layer that ran once on tensors is repeated with addresses alone, which costs a third of the Python.

    first:  run.unit(stream, w, out, ...)      tensors: Triton compiles, and how to launch is noted
    later:  run.unit(stream, 0x7f…, ...)       nothing is examined

What else could differ between two calls is part of the key of a mode: dtypes, and which tensors there are.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from .ahead import compile_ahead
from .launch import interpreting
from .memory import Pieces
from .plan import Plan, plan_for
from .spec import Spec

LEARNED = {"k": 7, "scale": 5, "shift": 6, "leaks": 4}
"""The rows of sums that are gradients of what channels have learned."""


class Mode:
    """The launches of one pass by name, and what they have become after a first call.

    Attributes:
        plan: The layer's plan.
        launches: What is called with tensors.
        ready: The same for addresses, None before the first call has ended.
        backward: The modes of the backward pass, for a mode of the forward pass.
        scratch: What lies in the buffer that only this pass needs.
        sums: Whether gradients are read from the sums.
    """

    __slots__ = ("backward", "launches", "plan", "ready", "scratch", "sums")

    def __init__(self, plan: Plan, scratch: Pieces, **launches: Any) -> None:
        self.plan, self.scratch, self.launches = plan, scratch, launches
        self.ready: Any = None
        self.sums = False
        self.backward: dict[Any, Mode] = {}


class Noted:
    """Calls the launches of a mode with tensors, and notes how to call them with addresses."""

    def __init__(self, mode: Mode) -> None:
        self._mode, self._found = mode, dict[str, Any]()

    def __getattr__(self, name: str) -> Any:
        launch = self._mode.launches[name]

        def run(stream: int | None, *tensors: Any) -> None:
            self._found[name] = launch(stream, *tensors)

        return run

    def end(self) -> None:
        """The pass is complete: all its launches are known."""
        if None not in self._found.values():
            self._mode.ready = SimpleNamespace(**self._found)


def mode_for(spec: Spec, t: Any, track: bool, give_q: bool, learning: bool) -> Mode:
    """How a layer's forward pass runs on ``Inputs`` like these; everything is compiled ahead at the first call."""
    x, w = t.x, t.weight
    kinds = [None if v is None else v.dtype for v in t]
    places = [v.get_device() for v in (x, w, t.k, t.rho, t.gamma, t.leaks, t.mean, t.running_norm) if v is not None]
    key = (x.shape, x.stride(), w.shape, w.stride(), *places, interpreting(), track, give_q, learning, *kinds)
    mode: Mode | None = spec.modes.get(key)
    if mode is not None:
        return mode
    for name, tensor in t._asdict().items():
        if tensor is not None and tensor.device != x.device:
            raise ValueError(
                f"x is on {x.device} and {name} of the layer on {tensor.device}: move one of them with .to()"
            )
    plan = plan_for(spec, x, w)
    e = plan.epilogue
    moved = track and t.mean is not None
    mode = Mode(
        plan,
        plan.scratch[t.q is not None],
        unit=plan.unit,
        squares=plan.squares,
        box=plan.box,
        magnitude=plan.magnitude_tracking if track else plan.magnitude,
        stats=e.stats_tracking if moved else e.stats,
        apply=e.apply,
    )
    spec.modes[key] = mode
    if plan.index >= 0:
        compile_ahead(plan, spec.fields, t, t.x.dtype, track, give_q, learning)
    return mode


def backward_mode(forward: Mode, t: Any, need: tuple[bool, ...], has_dq: bool, together: bool) -> Mode:
    """How the backward pass runs that belongs to such a forward pass, for the gradients that are needed."""
    key = (need, has_dq, together, t.mean is None)
    mode = forward.backward.get(key)
    if mode is not None:
        return mode
    plan = forward.plan
    e, norm = plan.epilogue, plan.norm
    slope = norm == "eval" and t.gamma is not None and (need[7] or need[8])
    summing = any(need[3:6]) or (norm != "train" and (need[9] or slope))
    grad = e.grad if not summing else e.grad_together if together else e.grad_summing
    mode = forward.backward[key] = Mode(
        plan,
        plan.back,
        reduce=e.reduce,
        grad=grad,
        magnitude=plan.magnitude_backward,
        spread=plan.spread,
        unit=plan.unit_backward,
        add=plan.add,
        **{f"row{i}": e.row[i] for i in LEARNED.values()},
    )
    mode.sums = any(need[3:7]) or need[9] or slope
    return mode
