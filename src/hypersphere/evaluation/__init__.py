"""Looking at trained runs: what a network says of its test split, and the protocols of the field on it."""

from .examine import Examination, class_vectors, examine
from .judge import PARTS, judge, judge_pairs
from .own_pairs import read_pairs

__all__ = ["PARTS", "Examination", "class_vectors", "examine", "judge", "judge_pairs", "read_pairs"]
