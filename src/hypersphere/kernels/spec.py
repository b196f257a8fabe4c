"""What a fused layer computes: the settings that are the same in every call."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

ANGULAR = {"cosine": 0, "linear": 1, "sigmoid": 2, "square_cosine": 3}
MAGNITUDES = {"sphere": 0, "ball": 1, "tanh": 2, "linear": 3, "segment": 4, "log": 5, "mix": 6}
NORMS = {"none": 0, "train": 1, "eval": 2}
ACTIVATIONS = {"none": 0, "relu": 1, "leaky_relu": 2, "gelu": 3, "gelu_tanh": 4, "silu": 5}


class Window(NamedTuple):
    """How a layer reads its input; ``size=()`` is a linear layer."""

    size: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    padding: tuple[int, ...] = ()
    dilation: tuple[int, ...] = ()
    groups: int = 1
    transposed: bool = False
    output_padding: tuple[int, ...] = ()


class Fields(NamedTuple):
    """The settings of a fused layer.

    Attributes:
        window: How patches are read.
        angular, k: The name of g, and its k; None if k is a tensor.
        magnitude, alpha, beta, rho: The name of h and its parameters; ``rho`` is None if it is a tensor.
        running, running_momentum: Whether the mean patch norm multiplies ρ, and the momentum of its running average.
        training: Whether that mean is the batch's, not the running one.
        norm, eps, momentum: ``"none"``, or BatchNorm's mode, ``"train"`` or ``"eval"``; its parameters.
        activation, leak: The activation's name; the negative slope of a leaky ReLU (a PReLU has a tensor).
    """

    window: Window = Window()
    angular: str = "cosine"
    k: float | None = 0.3
    magnitude: str = "sphere"
    alpha: float = 1.0
    beta: float = 0.0
    rho: float | None = 1.0
    running: bool = False
    running_momentum: float = 0.1
    training: bool = False
    norm: str = "none"
    eps: float = 1e-5
    momentum: float = 0.1
    activation: str = "none"
    leak: float = 0.0

    @property
    def is_sphere(self) -> bool:
        """Whether r = 1/n is the only map."""
        return self.magnitude == "sphere" and self.alpha == 1.0


class Spec:
    """:class:`Fields` and what was prepared for them; equal fields share one object."""

    __slots__ = ("fields", "modes", "plans")

    def __init__(self, fields: Fields) -> None:
        self.fields = fields
        self.plans: dict[Any, Any] = {}
        self.modes: dict[Any, Any] = {}


@lru_cache(maxsize=4096)
def spec_of(fields: Fields) -> Spec:
    """The shared :class:`Spec` of these settings."""
    return Spec(fields)


def encode(fields: Fields) -> str:
    """Encode the settings as text, for the operators of compiled graphs."""
    return "|".join(
        [
            *(",".join([str(n) for n in v]) if isinstance(v, tuple) else str(v) for v in fields.window),
            *(str(v) for v in fields[1:]),
        ]
    )


@lru_cache(maxsize=4096)
def decode(text: str) -> Spec:
    """Decode what :func:`encode` wrote."""
    parts = text.split("|")
    size, stride, padding, dilation, outer = (tuple(int(n) for n in parts[i].split(",") if n) for i in (0, 1, 2, 3, 6))
    window = Window(size, stride, padding, dilation, int(parts[4]), parts[5] == "True", outer)
    return spec_of(Fields(window, *(_value(part) for part in parts[len(Window._fields) :])))


def _value(text: str) -> Any:
    if text in ("True", "False", "None"):
        return {"True": True, "False": False, "None": None}[text]
    try:
        return float(text)
    except ValueError:
        return text
