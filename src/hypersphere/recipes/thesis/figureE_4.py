"""Thesis Figure E.4: energy and error over iterations by training strategy, CNN-9 without BatchNorm on CIFAR-100."""

from __future__ import annotations

from ._energies import energies

__all__ = ["TABLES"]

TABLES = (energies("E.4", "cifar100", norm="off"),)
