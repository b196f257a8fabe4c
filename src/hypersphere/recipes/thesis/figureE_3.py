"""Thesis Figure E.3: energy and error over iterations by training strategy, CNN-3 on CIFAR-100."""

from __future__ import annotations

from ._energies import energies

__all__ = ["TABLES"]

TABLES = (energies("E.3", "cifar100", "cnn3"),)
