"""A user's own pairs through a network: numbers, the hardest pairs, and a file with both for the report."""

from __future__ import annotations

import dataclasses
import json
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .. import data, metrics
from .._core.checks import check_count
from ..data import Pairs
from ..embedding import embed
from ..runs import Run, environment, load, usable_device
from ..runs.files import read_tensors, write_tensors
from ..sources import as_evaluated, evaluation_source, training_moments
from .own_pairs import OwnPairs, Size, find_images, read_pairs
from .trained_on import trained_on, warning_of
from .verification import in_percent

PAIRS_FILE = "evaluation-pairs.safetensors"
"""In the folder of a seed: what :meth:`OwnVerified.keep` writes and the report reads."""
_SHOWN = 24  # hardest pairs of either kind whose pictures are kept


@dataclass(frozen=True)
class HardPair:
    """Two images by name, the angle between their features in degrees, and whether they show one class."""

    left: str
    right: str
    same: bool
    degrees: float


@dataclass(frozen=True, eq=False)
class KeptPairs:
    """What the report shows of pairs.

    Args:
        name: Of the list.
        numbers: What the protocol gives, in percent, and how many pairs and folds there are.
        roc: False and true accept rates in [0, 1], over all thresholds: ``(2, T)``.
        hardest: Pairs of one class with the largest angle, then of two classes with the smallest.
        pictures: The two images of each of them, ``(len(hardest), 2, C, H, W)`` uint8.
        warning: What to know about the list: that it names images which were trained on.
    """

    name: str
    numbers: Mapping[str, float]
    roc: Tensor
    hardest: tuple[HardPair, ...]
    pictures: Tensor
    warning: str = ""


@dataclass(frozen=True, eq=False)
class OwnVerified:
    """Own pairs through the network of a seed. ``values`` are for JSON."""

    values: dict[str, Any]
    kept: KeptPairs

    def keep(self, path: Path) -> None:
        """Write what the report shows, as one safetensors file."""
        pairs = [dataclasses.asdict(pair) for pair in self.kept.hardest]
        about = {"name": self.kept.name, "numbers": dict(self.kept.numbers), "hardest": pairs}
        about["warning"] = self.kept.warning
        text = torch.frombuffer(bytearray(json.dumps(about).encode()), dtype=torch.uint8)
        write_tensors(path, {"roc": self.kept.roc, "pictures": self.kept.pictures, "about": text})


def evaluate_pairs(
    run: Run,
    listing: str | Path,
    folder: str | Path | None = None,
    seed: int | None = None,
    *,
    device: torch.device | str = "cpu",
    flip: bool | None = None,
    center: bool | None = None,
    folds: int | None = None,
) -> dict[str, Any]:
    r"""Verify a user's own pairs of images.

    Args:
        run: The opened run folder, whose network embeds the images.
        listing: The list of pairs, in our format or in that of LFW: see :mod:`hypersphere.evaluation.own_pairs`.
        folder: The folder of the images; None: that of the list or that of the run's data, whichever holds them.
        seed: Which seed of the run; None: the first.
        device: Device on which the network runs, ``"cpu"`` by default.
        flip: Features of image and mirror side by side; None: as the run says.
        center: Subtract the mean feature of the other folds; None: as the run says.
        folds: How many folds a list without folds gets; None: as the run says.

    Returns:
        What was evaluated and where, the numbers of the protocol, the hardest pairs and, under ``"trained_on"``, the
        images that the network was trained on by name. There is a warning where the list names such images.

    Raises:
        ValueError: If the list or an image cannot be read, or the run has no images.

    Example:
        >>> from pathlib import Path
        >>> from hypersphere.evaluation import evaluate_pairs
        >>> lines = ["cat/0.png cat/1.png 1", "cat/0.png dog/1.png 0"] * 2
        >>> _ = Path("pairs.txt").write_text("\n".join(lines))
        >>> found = evaluate_pairs(hs.runs.Run("runs/digits"), "pairs.txt", "photos/train", folds=2)
        >>> "verification" in found
        True
    """
    found = verify_own_pairs(run, listing, folder, seed, device=device, flip=flip, center=center, folds=folds)
    if found.kept.warning:
        warnings.warn(found.kept.warning, stacklevel=2)
    return found.values


def verify_own_pairs(
    run: Run,
    listing: str | Path,
    folder: str | Path | None = None,
    seed: int | None = None,
    *,
    device: torch.device | str = "cpu",
    flip: bool | None = None,
    center: bool | None = None,
    folds: int | None = None,
    root: str | None = None,
    batch_size: int | None = None,
) -> OwnVerified:
    """As :func:`evaluate_pairs`, with the pictures of the hardest pairs; ``root``: the run's data, if they moved."""
    place, number = usable_device(device), run.seeds[0] if seed is None else seed
    facts, settings, rule = run.facts(number), run.config.data, run.config.evaluation
    if facts.image_size is None and run.own_loop(number) is not None:  # a loop that did not say: its data do
        facts = evaluation_source(run.config, facts, number, place).facts
    if facts.in_channels is None or facts.image_size is None:
        raise ValueError(f"{run.path} was not trained on images: there are no pairs of images to verify")
    mirrored, centered = (
        bool(own if given is None else given) for own, given in ((rule.flip, flip), (rule.center, center))
    )
    size = Size(facts.in_channels, facts.image_size, facts.resized, settings.resize, settings.shrink)
    images = find_images(listing, _places(run, listing, root)) if folder is None else Path(folder)
    own = read_pairs(listing, images, size)
    model = load(run.path, seed=number, device=place)
    how: dict[str, Any] = {"normalize": settings.normalize, **_moments(run, number, root)}
    size_of_batch = settings.eval_batch_size if batch_size is None else check_count("batch_size", batch_size)
    features = embed(model, own.images, flip=mirrored, batch_size=size_of_batch, **how)
    pairs = own.pairs.folded(_folds(own.pairs, folds, rule.folds, listing))
    result = metrics.verify_pairs(features, pairs, center=centered)
    scores = metrics.pair_scores(features, pairs.left, pairs.right)
    chosen = torch.cat([_hardest(pairs, scores, same) for same in (True, False)])
    learned = [own.files[position] for position in trained_on(run, number, own.paths)]
    numbers = {"pairs": len(pairs), "folds": len(pairs.fold.unique()), "flip": mirrored, "center": centered}
    kept = KeptPairs(
        Path(listing).name,
        {**in_percent(result), **numbers},
        torch.stack([result.roc.fpr, result.roc.tpr]),
        tuple(_named(own, pairs, int(pair), float(scores[pair])) for pair in chosen),
        torch.stack([own.images[pairs.left[chosen]], own.images[pairs.right[chosen]]], 1),
        warning_of(learned, len(own.files)) if learned else "",
    )
    values = {
        "run": run.name,
        "recipe": run.recipe,
        "seed": number,
        "data": str(images),
        "listing": str(listing),
        "samples": len(own.files),
        "environment": environment(place),
        "verification": kept.numbers,
        "hardest": [dataclasses.asdict(pair) for pair in kept.hardest],
        "trained_on": learned,
    } | ({"warning": kept.warning} if learned else {})
    return OwnVerified(values, kept)


def read_kept(path: Path) -> KeptPairs:
    """Read what :meth:`OwnVerified.keep` wrote.

    Raises:
        ValueError: If the file is damaged or of something else.
    """
    tensors = read_tensors(path)
    try:
        about = json.loads(bytes(tensors["about"].tolist()))
        pairs = tuple(
            HardPair(str(one["left"]), str(one["right"]), bool(one["same"]), float(one["degrees"]))
            for one in about["hardest"]
        )
        numbers = {str(name): float(value) for name, value in about["numbers"].items()}
        roc, shown = tensors["roc"].double(), tensors["pictures"]
        whole = shown.dim() == 5 and shown.shape[:2] == (len(pairs), 2) and shown.dtype == torch.uint8
        if not (whole and roc.dim() == 2 and len(roc) == 2 and bool(((roc >= 0) & (roc <= 1)).all())):
            raise ValueError("its tensors do not fit one another")
        return KeptPairs(str(about["name"]), numbers, roc, pairs, shown, str(about.get("warning", "")))
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} holds no evaluated pairs: {error}") from error


def _hardest(pairs: Pairs, scores: Tensor, same: bool) -> Tensor:
    chosen = (pairs.same.bool() == same).nonzero().squeeze(1)
    return chosen[scores[chosen].sort(descending=not same, stable=True).indices[:_SHOWN]]


def _named(own: OwnPairs, pairs: Pairs, pair: int, cosine: float) -> HardPair:
    left, right = own.files[int(pairs.left[pair])], own.files[int(pairs.right[pair])]
    degrees = math.degrees(math.acos(max(-1.0, min(1.0, cosine))))
    return HardPair(left, right, bool(pairs.same[pair]), round(degrees, 3))


def _folds(pairs: Pairs, asked: int | None, usual: int, listing: str | Path) -> int:
    """As many as asked, else as usual, but no more than there are pairs of the rarer kind: each fold has both."""
    check_count("folds", usual if asked is None else asked, minimum=2)
    same = int(pairs.same.sum())
    has_folds = len(pairs.fold.unique()) > 1
    if (rarer := min(same, len(pairs) - same)) < 2 and not has_folds:
        raise ValueError(
            f"{listing} has {same} pairs of one class and {len(pairs) - same} of two: there must be two or more of "
            "each, since the threshold of a fold is chosen on the other folds"
        )
    if asked is not None and has_folds:
        raise ValueError(f"folds={asked}, but {listing} has folds of its own: leave one of them out")
    if asked is not None and asked > rarer:
        raise ValueError(f"folds={asked}, but {listing} has {rarer} pairs of the rarer kind: give {rarer} or fewer")
    return min(usual, rarer) if asked is None else asked


def _places(run: Run, listing: str | Path, moved: str | None) -> list[Path]:
    """Where the images of a list may lie: beside it, in the run's folder of data, or in a folder of LFW's there."""
    named = [moved, run.config.evaluation.root, run.config.data.root]
    roots = [Path(listing).parent, *(Path(root).expanduser() for root in named if root)]
    return [root / below for root in roots for below in ("", "lfw", "lfw_funneled", "lfw-deepfunneled")]


def _moments(run: Run, seed: int, moved: str | None) -> dict[str, Any]:
    """Mean and standard deviation of the training images, where inputs are normalised by them."""
    settings, known = run.config.data, run.facts(seed)
    if settings.normalize not in data.MEASURED:
        return {}
    if known.mean is not None:
        return {"mean": known.mean, "std": known.std}
    config = replace(run.config, data=replace(settings, root=moved or settings.root))
    mean, std = training_moments(as_evaluated(config, run.folder(seed)).data, seed)
    return {"mean": mean, "std": std}
