"""``--data.*``: the data set, its batches and its augmentation."""

from __future__ import annotations

from dataclasses import dataclass

from .._core.checks import check_count
from .._core.registries import DATASETS
from .options import option

__all__ = ["DataConfig"]


@dataclass(frozen=True)
class DataConfig:
    """The data set, its batches and its augmentation."""

    name: str = option("digits", "data set, see `hypersphere list datasets`, or an address module:function")
    root: str | None = option(
        None, "folder of the data; none: $HYPERSPHERE_DATA, else the user's cache", material=False
    )
    batch_size: int = option(128, "samples of one step, over all processes together")
    eval_batch_size: int = option(500, "samples of one evaluation batch", material=False)
    per_class: int = option(
        1, "samples of a class that stand together in a batch, for losses that compare samples; 1: shuffled freely"
    )
    normalize: str = option(
        "symmetric",
        "pixels: symmetric (x-127.5)/128, unit x/255, standard (by mean and std; folders: ImageNet's), mean (minus it)",
    )
    shrink: int = option(1, "average so many by so many pixels into one; the side must be a multiple of it")
    hflip: bool = option(False, "mirror left-right at random")
    vflip: bool = option(False, "mirror up-down at random")
    pad: int = option(0, "pad by so many pixels and crop at random")
    points: int = option(1024, "points of a cloud")
    rotate: bool = option(True, "turn point clouds about the upright axis, and jitter them")
    validate: bool = option(False, "graphs: measure on the validation nodes, to choose by; no: on the test nodes")
    imbalance: str | None = option(None, "class-imbalance variant: single, multiple, digit0 (thesis 5.5.1)")
    image_size: int = option(224, "window cut from the images of a folder")
    resize: int = option(256, "size to which the images of a folder are resized first")
    workers: int = option(8, "processes that decode the images of a folder", material=False)

    def __post_init__(self) -> None:
        DATASETS.check("data.name", self.name)
        check_count("data.batch_size", self.batch_size)
        check_count("data.eval_batch_size", self.eval_batch_size)
        check_count("data.shrink", self.shrink)
        check_count("data.per_class", self.per_class)
