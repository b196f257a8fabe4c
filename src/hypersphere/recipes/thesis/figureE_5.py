"""Thesis Figure E.5: energy and error over iterations by training strategy, CNN-9 on CIFAR-10."""

from __future__ import annotations

from ._energies import energies

__all__ = ["TABLES"]

TABLES = (energies("E.5", "cifar10"),)
