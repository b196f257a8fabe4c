"""Fused Triton kernels behind the operators on a GPU: patch norms, epilogues, whole blocks with BatchNorm."""

from .launch import LAUNCHES, interpreted, usable

__all__ = ["LAUNCHES", "interpreted", "usable"]
