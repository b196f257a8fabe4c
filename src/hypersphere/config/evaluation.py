"""``--evaluation.*``: how the network is evaluated."""

from __future__ import annotations

from dataclasses import dataclass

from .._core.checks import check_choice, check_count
from .._core.registries import MEASUREMENTS
from .._core.registry import is_address
from .options import option

FACES = ("lfw", "ytf", "megaface")


@dataclass(frozen=True)
class EvaluationConfig:
    """How the network is evaluated during training and at its end.

    Raises:
        ValueError: If a setting is unknown, out of its range or contradicts another one; the message names it.

    Example:
        >>> from hypersphere.config import EvaluationConfig
        >>> EvaluationConfig(protocol="verification").folds
        10
    """

    protocol: str = option(
        "classification",
        lambda: (
            f"evaluation during training: {_names('protocol')}, or an address module:function; verification, few_shot "
            "and identification are for unseen classes, generation is for a GAN"
        ),
    )
    also: tuple[str, ...] = option(
        (), lambda: f"further measurements of the final network: {_names('also')}, or an address module:function"
    )
    data: str | None = option(None, f"verification, identification: evaluate on another data set: {', '.join(FACES)}")
    root: str | None = option(None, "folder of the sets of faces; none: data.root", material=False)
    frames: int | None = option(None, "ytf: largest number of frames of a video, evenly spaced; none: all")
    distractors: int | None = option(None, "megaface: use only this many distractors, the first ones; none: all")
    flip: bool = option(False, "verification, identification: features of each image and its mirror, concatenated")
    center: bool = option(False, "verification: subtract the mean feature of the other folds")
    folds: int = option(10, "verification: number of folds; the threshold of a fold is chosen on the others")
    pairs: int = option(300, "verification: pairs of one class in a fold, and as many of two, where the set lists none")
    method: str = option("baseline++", "few_shot: classifier of an episode: baseline, baseline++, nearest")
    ways: int = option(5, "few_shot: classes of an episode")
    shots: tuple[int, ...] = option(
        (1, 5), "few_shot: samples of each class to learn from; the last number is the main result"
    )
    queries: int = option(16, "few_shot: samples of each class that are classified")
    episodes: int = option(600, "few_shot: number of episodes")
    inception: str | None = option(
        None, "generation: what scores the images: FILE.onnx (Inception-v3), or the run of a classifier"
    )
    samples: int = option(50_000, "generation: number of images that are scored")
    splits: int = option(10, "generation: number of splits of the score")

    def __post_init__(self) -> None:
        _check("evaluation.protocol", self.protocol, "protocol")
        for name in self.also:
            _check("evaluation.also", name, "also")
        if self.data is not None:
            check_choice("evaluation.data", self.data, FACES)
            if self.protocol not in ("verification", "identification"):
                raise ValueError(
                    f"evaluation.data={self.data!r} holds other people than the training data: evaluate by "
                    "--evaluation.protocol verification or identification"
                )
        for name in ("frames", "distractors"):
            if getattr(self, name) is not None:
                check_count(f"evaluation.{name}", getattr(self, name))
        check_count("evaluation.folds", self.folds, minimum=2)
        check_count("evaluation.pairs", self.pairs)
        check_choice("evaluation.method", self.method, ("baseline", "baseline++", "nearest"))
        check_count("evaluation.ways", self.ways, minimum=2)
        check_count("evaluation.queries", self.queries)
        check_count("evaluation.episodes", self.episodes, minimum=2)
        check_count("evaluation.splits", self.splits)
        check_count("evaluation.samples", self.samples, minimum=self.splits)
        if not self.shots:
            raise ValueError("evaluation.shots is empty: give one number of samples or more, e.g. 1,5")
        for shots in self.shots:
            check_count("evaluation.shots", shots)


def _check(argument: str, name: str, role: str) -> None:
    """A declared measurement that may have this role; an address is looked up where it is evaluated."""
    if not is_address(name):
        check_choice(argument, name, _measurements(role), own=MEASUREMENTS.kind)


def _names(role: str) -> str:
    return ", ".join(_measurements(role))


def _measurements(role: str) -> list[str]:
    """What may be the ``protocol``, or be in ``also``, where a measurement is unless it says otherwise."""
    return [entry.name for entry in MEASUREMENTS.entries() if entry.extra.get(role, role == "also")]
