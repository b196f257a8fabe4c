"""Measurements as lines of text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def number_lines(part: Mapping[str, Any]) -> list[str]:
    """A line for each value, numbers with two digits."""
    return [
        f"  {key:18s} {value:.2f}" if isinstance(value, float) else f"  {key:18s} {value}"
        for key, value in part.items()
    ]
