"""Pairs of images that show the same class or two classes, for verification."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .._core.arrays import as_tensor, label_numbers
from .._core.checks import check_count


@dataclass(frozen=True, eq=False)
class Pairs:
    """Verification pairs.

    Attributes:
        left: Index of the first image of each pair, ``(n,)``.
        right: Index of the second image of each pair, ``(n,)``.
        same: Whether both show one class, ``(n,)``.
        fold: Fold of each pair, from 0.

    Example:
        >>> pairs = hs.data.make_pairs(torch.arange(8) % 4, folds=2, each=1)
        >>> pairs.same.tolist(), pairs.fold.tolist()
        ([True, False, True, False], [0, 0, 1, 1])
    """

    left: Tensor
    right: Tensor
    same: Tensor
    fold: Tensor

    def __len__(self) -> int:
        return len(self.same)

    def folded(self, folds: int) -> Pairs:
        """Return pairs with folds.

        Args:
            folds: number of consecutive folds, each with its share of both kinds of pairs.

        Returns:
            These pairs if they have folds, else a copy with folds.
        """
        if len(self.fold.unique()) > 1:
            return self
        fold = torch.empty_like(self.fold)
        for kind in (True, False):
            chosen = (self.same == kind).nonzero().squeeze(1)
            fold[chosen] = torch.arange(len(chosen), device=fold.device) * folds // max(len(chosen), 1)
        return replace(self, fold=fold)

    def within(self, index: Tensor) -> Pairs:
        """Renumber the pairs for a selection of the images.

        Args:
            index: a sorted selection of the images that holds all images of the pairs.

        Returns:
            The same pairs as positions in ``index``.
        """
        places = []
        for side in (self.left, self.right):
            place = torch.searchsorted(index, side).clamp_max(len(index) - 1)
            if not torch.equal(index[place], side):
                missing = int(side[index[place] != side][0])
                raise ValueError(f"the pairs name image {missing}, which is not among the {len(index)} selected")
            places.append(place)
        return replace(self, left=places[0], right=places[1])


def make_pairs(labels: Tensor | Sequence[int | str], folds: int = 10, each: int = 300, seed: int = 0) -> Pairs:
    """Draw verification pairs as in LFW's View 2.

    The folds share no class. For a pair of one class, first a class and then two of its images are drawn uniformly; no
    pair occurs twice in a fold. The same labels and seed give the same pairs everywhere.

    Args:
        labels: class index or name of each image, ``(N,)``, in a tensor, array or list; two images of one class are a
            positive pair.
        folds: number of folds, whose classes are disjoint; each fold gets its threshold from the others.
        each: number of pairs of one class, and also of pairs of two classes, in every fold.
        seed: seed of the draw; the same seed gives the same pairs.

    Returns:
        The pairs, in the order of their folds.

    Raises:
        ValueError: If there are too few classes or images for so many pairs.

    Example:
        >>> len(hs.data.make_pairs(torch.arange(40) % 8, folds=2, each=3).same)
        12
    """
    check_count("folds", folds)
    check_count("each", each)
    (numbers,), _ = label_numbers(labels)
    classes_of = as_tensor("labels", numbers)
    if classes_of.ndim != 1:
        raise ValueError(f"labels has shape {tuple(classes_of.shape)}: pass one label for each image, (N,)")
    members = [(classes_of == label).nonzero().squeeze(1) for label in classes_of.unique()]
    members = [images for images in members if len(images) > 1]
    if len(members) < 2 * folds:
        raise ValueError(
            f"{len(members)} classes with two images or more are too few for {folds} folds of two classes each: "
            + (f"lower folds to {len(members) // 2} at most" if len(members) > 3 else "more classes are needed")
        )
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(members), generator=generator, device="cpu").tolist()
    rows: list[tuple[int, int, bool, int]] = []
    for fold in range(folds):
        classes = [members[number] for number in order[fold::folds]]
        for same in (True, False):
            rows += [(*pair, same, fold) for pair in _draw(classes, each, same, generator)]
    return Pairs(*(torch.tensor(column, device="cpu") for column in zip(*rows, strict=True)))


def _draw(classes: list[Tensor], count: int, same: bool, generator: torch.Generator) -> list[tuple[int, int]]:
    sizes = torch.tensor([len(images) for images in classes], device="cpu")
    possible = int((sizes * (sizes - 1) // 2).sum()) if same else int((sizes.sum() ** 2 - (sizes**2).sum()) // 2)
    if possible < count:
        kind = "of one class" if same else "of two classes"
        raise ValueError(
            f"a fold has only {possible} different pairs {kind}, not {count}: lower folds, or the number of pairs"
        )
    found: dict[tuple[int, int], None] = {}
    while len(found) < count:
        one, other = torch.randperm(len(classes), generator=generator, device="cpu")[:2].tolist()
        first = classes[one]
        second = first if same else classes[other]
        a = int(first[torch.randint(len(first), (), generator=generator, device="cpu")])
        b = int(second[torch.randint(len(second), (), generator=generator, device="cpu")])
        if a != b:
            found[min(a, b), max(a, b)] = None
    return list(found)
