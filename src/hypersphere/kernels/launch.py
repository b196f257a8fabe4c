"""When kernels can run, and launching them with little Python.

A launch is prepared once for a layer and a shape: grid, numbers and constants are fixed, only tensors change.
It can be compiled ahead, in parallel with others. Calls after the first bypass Triton's own argument handling.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor

from .._core.checks import check_choice
from .fitting import fitting

LAUNCHES: Counter[str] = Counter()  # launches of each kernel since the start or the last clear()

FAMILIES = {
    "operators": True,
    "recurrent": True,
    "orthogonal": True,
    "qr": True,
    "lowdin": True,
    "pooling": True,
    "loader": True,
    "heads": True,
    "margins": True,
    "energy": True,
}
"""Families of kernels, and whether they are on by default.

All of them have given correct values on a GPU, though some not in their latest form. The environment variable
``HYPERSPHERE_KERNELS`` (``all``, ``none``, or names with commas) and :func:`enable` change the choice.
"""

_FIRST_CAPABILITY = (8, 0)
_interpreting = False
_rehearsing = False


def usable(x: Tensor, family: str = "operators") -> bool:
    """Whether the kernels of a family replace plain operations for tensors like x.

    They do on CUDA devices from compute capability 8.0 on with Triton installed, and on a CPU inside
    :func:`interpreted`. They do not under ``torch.use_deterministic_algorithms``, since sums over positions are added
    atomically. :data:`FAMILIES` lists the families that are on by default.
    """
    if getattr(x, "dtype", None) not in (torch.float32, torch.bfloat16, torch.float16):
        return False  # what is no tensor is named where it is computed with
    if x.is_cuda:
        wanted = family in _enabled and not torch.are_deterministic_algorithms_enabled()
        return wanted and device_runs(x.device.index)
    return _interpreting and x.device.type == "cpu"


def enabled(family: str) -> bool:
    """Whether the kernels of a family may run."""
    return family in _enabled


def enable(*families: str) -> None:
    """Allow only these families of kernels on GPUs: ``enable(*FAMILIES)`` allows all, ``enable()`` none.

    Raises:
        ValueError: If there is no such family.
    """
    for family in families:
        check_choice("family", family, FAMILIES)
    _enabled.clear()
    _enabled.update(families)


def _at_start() -> set[str]:
    asked = os.environ.get("HYPERSPHERE_KERNELS", "").strip()
    if asked in ("all", "none"):
        return set(FAMILIES) if asked == "all" else set()
    if asked:
        return {check_choice("HYPERSPHERE_KERNELS", name.strip(), FAMILIES) for name in asked.split(",")}
    return {name for name, on in FAMILIES.items() if on}


_enabled = _at_start()


@contextmanager
def interpreted() -> Iterator[None]:
    """Run kernels on CPU tensors through Triton's interpreter, for tests.

    Raises:
        RuntimeError: If ``TRITON_INTERPRET=1`` was not set before the kernels were first imported.
    """
    global _interpreting
    if os.environ.get("TRITON_INTERPRET") != "1":
        raise RuntimeError("set TRITON_INTERPRET=1 before the first kernel is used")
    before, _interpreting = _interpreting, True
    try:
        yield
    finally:
        _interpreting = before


def interpreting() -> bool:
    """Whether kernels run in the interpreter, which has exact functions only."""
    return _interpreting


def device_runs(index: int) -> bool:
    """Whether this GPU runs kernels: compute capability 8.0 or later, and Triton installed. Cached."""
    if index not in _RUNS:
        _RUNS[index] = _find_out(index)
    return _RUNS[index]


_RUNS: dict[int, bool] = {}
device_runs._dynamo_marked_constant = True  # type: ignore[attr-defined]  # compilers call it once and do not trace it


def _find_out(index: int) -> bool:
    capability = torch.cuda.get_device_capability(index)
    if torch.version.hip is not None or capability < _FIRST_CAPABILITY:
        return False
    try:
        import triton  # noqa: F401
    except ImportError:
        warnings.warn(
            "Triton is not installed: hypersphere's operators run as plain operations, at two to four times the "
            "time of the kernels. Install it with: pip install triton",
            stacklevel=2,
        )
        return False
    return True


@cache
def multiprocessors(index: int | None) -> int:
    """The number of multiprocessors of a GPU; 2 in the interpreter, so that loops over tiles are exercised."""
    return 2 if index is None else torch.cuda.get_device_properties(index).multi_processor_count


def aligned(*tensors: Tensor | None) -> bool:
    """Whether all addresses are multiples of 16, as prepared launches assume."""
    bits = 0
    for tensor in tensors:
        if tensor is not None:
            bits |= tensor.data_ptr()
    return bits & 15 == 0


def stream_of(x: Tensor, is_aligned: bool) -> int | None:
    """The current stream for a prepared launch, or None if Triton must examine the arguments again."""
    return torch._C._cuda_getCurrentRawStream(x.device.index) if x.is_cuda and is_aligned else None


def stream_for(index: int, addresses: list[int | None]) -> int | None:
    """The same for addresses on the GPU with this index; None on a CPU and in :func:`rehearsed`."""
    bits = 0
    for address in addresses:
        if address is not None:
            bits |= address
    if bits & 15 or index < 0 or _rehearsing:
        return None
    return torch._C._cuda_getCurrentRawStream(index)


def written(*tensors: Tensor | None) -> None:
    """Tell autograd what kernels wrote to: a graph that kept it cannot be used any more, as after any other write."""
    torch.autograd.graph.increment_version([t for t in tensors if t is not None and not t.is_inference()])


def is_elsewhere(index: int) -> bool:
    """Whether another GPU than this one is current."""
    return index >= 0 and index != torch._C._cuda_getDevice()


@contextmanager
def rehearsed() -> Iterator[None]:
    """Compile what is launched instead of launching it, all in the background: results are whatever memory held."""
    global _rehearsing
    before, _rehearsing = _rehearsing, True
    try:
        yield
    finally:
        _rehearsing = before


class _Nothing:
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


_NOTHING = _Nothing()


def on(device: torch.device) -> Any:
    """A context that makes the device current; it does nothing if it is already."""
    if device.type != "cuda" or torch._C._cuda_getDevice() == device.index:
        return _NOTHING
    return torch.cuda.device(device)


class Launch:
    """A kernel with its grid and all arguments except the tensors.

    Args:
        kernel: The ``@triton.jit`` function; its tensors come first, then numbers, then constants.
        grid: Programs in up to three dimensions.
        tail: Numbers and constants in the order of the kernel's arguments.
        warps: Warps of a program.
        stages: Loads that are under way at a time in a loop.
        tiles: How many tiles the programs share, if any number of programs can: all calls but the first then launch as
            many as the registers of the compiled kernel suggest.
    """

    __slots__ = ("grid", "kernel", "name", "options", "runners", "tail", "tiles")

    def __init__(
        self,
        kernel: Any,
        grid: tuple[int, ...],
        tail: tuple[Any, ...],
        warps: int = 4,
        stages: int = 3,
        tiles: int = 0,
    ) -> None:
        self.kernel, self.tail, self.options = kernel, tail, {"num_warps": warps, "num_stages": stages}
        self.tiles = tiles
        self.grid = (*grid, 1, 1)[:3]
        self.name = kernel.fn.__name__
        self.runners: dict[tuple[Any, ...], Any] = {}

    def __call__(self, stream: int | None, *tensors: Tensor | None) -> Any:
        """Launch; ``stream`` is None for tensors that may not be aligned, and in the interpreter.

        Returns:
            A function of a stream and addresses that launches it on other tensors like these; None without a stream.
        """
        if _rehearsing:
            self._rehearse(tensors)
            return None
        if stream is None:
            LAUNCHES[self.name] += 1
            self.kernel[self.grid](*tensors, *self.tail, **self.options)
            return None
        kinds = tuple([None if tensor is None else tensor.dtype for tensor in tensors])
        run = self.runners.get(kinds)
        if run is not None:
            run(stream, *[None if tensor is None else tensor.data_ptr() for tensor in tensors])
            return run
        begun = _BEGUN.get(self._variant(kinds))
        if begun is not None:
            wait([begun])
        LAUNCHES[self.name] += 1
        with _current(stream):
            compiled = self.kernel[self.grid](*tensors, *self.tail, **self.options)
        run = self.runners[kinds] = runner(self.name, compiled, self._fitted(compiled), self.tail)
        return run

    def _fitted(self, compiled: Any) -> tuple[int, ...]:
        registers = getattr(compiled, "n_regs", 0)
        device: Any = torch.cuda.get_device_properties(torch._C._cuda_getDevice()) if self.tiles else None
        if not registers or not hasattr(device, "regs_per_multiprocessor"):
            return self.grid
        return (fitting(self.tiles, registers, self.options["num_warps"], device), *self.grid[1:])

    def _rehearse(self, tensors: tuple[Tensor | None, ...]) -> None:
        device = next(tensor.device for tensor in tensors if tensor is not None)
        if device.type == "cuda":
            self.begin(device, *[None if tensor is None else tensor.dtype for tensor in tensors])

    def begin(self, device: torch.device, *kinds: torch.dtype | None) -> None:
        """Start compiling in the background for tensors of these dtypes (None: no tensor)."""
        variant = self._variant(kinds)
        if kinds not in self.runners and variant not in _BEGUN:
            _BEGUN[variant] = _compilers().submit(self._compile, device, kinds)

    def _compile(self, device: torch.device, kinds: tuple[torch.dtype | None, ...]) -> None:
        import triton

        torch.cuda.set_device(device)
        made = self.kernel.warmup(*kinds, *self.tail, **self.options, grid=self.grid)
        triton.runtime.driver.active.launcher_cls(made.src, made.metadata)  # compiles the launcher's C code, too

    def _variant(self, kinds: tuple[Any, ...]) -> tuple[Any, ...]:
        """What Triton compiles separately: constants, types, and whether an integer is 1, divisible by 16 or wide."""
        told = [
            v if p.is_constexpr or not isinstance(v, int) else (v == 1, v % 16 == 0, v >= 2**31)
            for p, v in zip(self.kernel.params[len(kinds) :], self.tail, strict=True)
        ]
        return self.kernel, *self.options.values(), kinds, *[type(v) if isinstance(v, float) else v for v in told]


_BEGUN: dict[tuple[Any, ...], Future[None]] = {}


@cache
def _compilers() -> ThreadPoolExecutor:
    """Threads are enough, because most of a compilation runs outside Python."""
    return ThreadPoolExecutor(min(16, os.cpu_count() or 1), "hypersphere-compiles")


def _current(stream: int) -> Any:
    """A context in which this stream is current, so that Triton's own launches, which compile, go there."""
    if stream == torch._C._cuda_getCurrentRawStream(torch._C._cuda_getDevice()):
        return _NOTHING
    return torch.cuda.stream(torch.cuda.ExternalStream(stream))  # a branch's stream is never 0; 0 would make a new one


def runner(name: str, compiled: Any, grid: tuple[int, ...], tail: tuple[Any, ...]) -> Any:
    """A function that launches a compiled kernel with addresses, bypassing Triton's argument handling and hooks."""
    launcher, function, metadata = compiled.run, compiled.function, compiled.packed_metadata
    x, y, z = grid
    launch, counts = getattr(launcher, "launch", None), LAUNCHES
    if (
        launch is None
        or hasattr(launcher, "arg_annotations")
        or getattr(launcher, "global_scratch_size", True)
        or getattr(launcher, "profile_scratch_size", True)
    ):

        def run(stream: int, *addresses: int | None) -> None:
            counts[name] += 1
            launcher(x, y, z, stream, function, metadata, None, None, None, *addresses, *tail)

        return run
    cooperative, dependent = launcher.launch_cooperative_grid, launcher.launch_pdl

    def run_directly(stream: int, *addresses: int | None) -> None:
        counts[name] += 1
        launch(
            x, y, z, stream, function, cooperative, dependent, None, None, metadata, None, None, None, *addresses, *tail
        )

    return run_directly
