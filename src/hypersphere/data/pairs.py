"""Pairs of images that show the same class or two: what verification is judged on."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .._core.errors import check_count

__all__ = ["Pairs", "make_pairs"]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Verification pairs: ``same[i]`` if images ``left[i]`` and ``right[i]`` show one class; folds count from 0."""

    left: Tensor
    right: Tensor
    same: Tensor
    fold: Tensor

    def __len__(self) -> int:
        return len(self.same)

    def folded(self, folds: int) -> Pairs:
        """Itself if it has folds; else ``folds`` consecutive ones, each with its share of either kind of pairs."""
        if len(self.fold.unique()) > 1:
            return self
        fold = torch.empty_like(self.fold)
        for kind in (True, False):
            chosen = (self.same == kind).nonzero().squeeze(1)
            fold[chosen] = torch.arange(len(chosen), device=fold.device) * folds // max(len(chosen), 1)
        return replace(self, fold=fold)

    def within(self, index: Tensor) -> Pairs:
        """The same pairs as positions in ``index``, a sorted selection of the images that holds them all."""
        places = []
        for side in (self.left, self.right):
            place = torch.searchsorted(index, side).clamp_max(len(index) - 1)
            if not torch.equal(index[place], side):
                missing = int(side[index[place] != side][0])
                raise ValueError(f"the pairs name image {missing}, which is not among the {len(index)} selected")
            places.append(place)
        return replace(self, left=places[0], right=places[1])


def make_pairs(labels: Tensor, folds: int = 10, each: int = 300, seed: int = 0) -> Pairs:
    """As LFW's View 2: ``folds`` folds, ``each`` pairs of one class and ``each`` of two in every fold.

    The folds share no class. Pairs of one class draw a class, then two of its images, both evenly; no pair comes
    twice in a fold. The same labels and seed give the same pairs everywhere.
    """
    check_count("folds", folds)
    check_count("each", each)
    members = [(labels == label).nonzero().squeeze(1) for label in labels.unique()]
    members = [images for images in members if len(images) > 1]
    if len(members) < 2 * folds:
        raise ValueError(
            f"{len(members)} classes with two images or more are too few for {folds} folds of two classes each: "
            "lower folds"
        )
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(members), generator=generator).tolist()
    rows: list[tuple[int, int, bool, int]] = []
    for fold in range(folds):
        classes = [members[number] for number in order[fold::folds]]
        for same in (True, False):
            rows += [(*pair, same, fold) for pair in _draw(classes, each, same, generator)]
    return Pairs(*(torch.tensor(column) for column in zip(*rows, strict=True)))


def _draw(classes: list[Tensor], count: int, same: bool, generator: torch.Generator) -> list[tuple[int, int]]:
    sizes = torch.tensor([len(images) for images in classes])
    possible = int((sizes * (sizes - 1) // 2).sum()) if same else int((sizes.sum() ** 2 - (sizes**2).sum()) // 2)
    if possible < count:
        kind = "of one class" if same else "of two classes"
        raise ValueError(f"a fold has only {possible} different pairs {kind}, not {count}: lower each or folds")
    found: dict[tuple[int, int], None] = {}
    while len(found) < count:
        one, other = torch.randperm(len(classes), generator=generator)[:2].tolist()
        first = classes[one]
        second = first if same else classes[other]
        a = int(first[torch.randint(len(first), (), generator=generator)])
        b = int(second[torch.randint(len(second), (), generator=generator)])
        if a != b:
            found[min(a, b), max(a, b)] = None
    return list(found)
