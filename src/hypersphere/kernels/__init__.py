"""Fused Triton kernels behind the operators on a GPU: patch norms, epilogues, whole blocks with BatchNorm."""

from .launch import FAMILIES, LAUNCHES, enable, interpreted, rehearsed, usable

__all__ = ["FAMILIES", "LAUNCHES", "enable", "interpreted", "rehearsed", "usable"]
