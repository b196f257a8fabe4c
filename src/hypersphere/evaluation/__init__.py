"""Looking at trained runs: what a network says of its test split, and the protocols of the field on it."""

from .examine import Examination, class_vectors, examine

__all__ = ["Examination", "class_vectors", "examine"]
