"""Hyperspherical energies of any number of neurons (thesis chapters 5 and 6), and their refinement."""

from .diversity import largest_cosine, polarization, uniformity
from .energies import class_energy, energy
from .kernel import Kernel, pair_energy
from .refinement import refine
from .sets import set_energies, weighted_energy

__all__ = [
    "Kernel",
    "class_energy",
    "energy",
    "largest_cosine",
    "pair_energy",
    "polarization",
    "refine",
    "set_energies",
    "uniformity",
    "weighted_energy",
]
