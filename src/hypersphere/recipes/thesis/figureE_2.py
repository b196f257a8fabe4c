"""Thesis Figure E.2: energy and error over iterations by training strategy, CNN-9 on CIFAR-100 (Figure 6.1)."""

from __future__ import annotations

from ._energies import energies

__all__ = ["TABLES"]

TABLES = (energies("E.2", "cifar100"),)
