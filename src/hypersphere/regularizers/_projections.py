"""The projections of CoMHE by name, and which of its options each of them has."""

from __future__ import annotations

PROJECTIONS = ("random", "angle_preserving", "adversarial", "learned", "group", "bilateral")
LEARNED = ("angle_preserving", "adversarial", "learned")
"""Those that move during training."""
_DRAWN = tuple(kind for kind in PROJECTIONS if kind != "group")
_OPTIONS: dict[str, tuple[object, tuple[str, ...]]] = {
    "count": (1, _DRAWN),
    "matrix": ("gaussian", _DRAWN),
    "unroll": (0, LEARNED),
    "inner_steps": (1, LEARNED),
    "inner_lr": (1.0, LEARNED),
    "inner_every": (1, LEARNED),
    "preserve": ("cosine", ("angle_preserving",)),
    "group": (8, ("group",)),
    "stochastic": (False, ("group",)),
}
"""Options of some projections alone: what changes nothing elsewhere, and the projections."""


def check_suits(projection: str, **given: object) -> None:
    """Raise an error for an option that changes nothing: it was meant to."""
    for name, value in given.items():
        unused, projections = _OPTIONS[name]
        if value != unused and projection not in projections:
            raise ValueError(
                f"{name}={value!r} changes nothing with projection={projection!r}: it is for {', '.join(projections)}"
            )
