"""``--data.*``: the data set, its batches and its augmentation."""

from __future__ import annotations

from dataclasses import dataclass

from .._core.checks import check_choice, check_count, check_positive
from .._core.cores import cores
from .._core.pixels import NORMALIZATIONS, PADDINGS
from .._core.registries import DATASETS
from .options import option


@dataclass(frozen=True)
class DataConfig:
    """The data set, its batches and its augmentation.

    Raises:
        ValueError: If a setting is unknown, out of its range or contradicts another one; the message names it.

    Example:
        >>> from hypersphere.config import DataConfig
        >>> DataConfig(name="cifar10", hflip=True, pad=4).batch_size
        128
    """

    name: str = option("digits", "data set, see `hypersphere list datasets`, or an address module:function")
    root: str | None = option(
        None, "folder of the data; none: $HYPERSPHERE_DATA, else the user's cache", material=False
    )
    batch_size: int = option(128, "samples of one step, over all processes together")
    eval_batch_size: int = option(500, "samples of one evaluation batch", material=False)
    per_class: int = option(
        1, "a batch has groups of this many samples of one class, for losses that compare samples; 1: no groups"
    )
    normalize: str = option(
        "symmetric",
        "how pixels are normalised: symmetric (x-127.5)/128, unit x/255, standard (mean and std of the training set; "
        "for folders those of ImageNet), mean (subtract the mean only)",
    )
    shrink: int = option(1, "average blocks of N by N pixels into one; N must divide height and width")
    hflip: bool = option(False, "mirror left-right at random")
    vflip: bool = option(False, "mirror images up-down at random; only images in memory, not streamed ones")
    pad: int = option(0, "pad images by this number of pixels and crop at random; only images in memory")
    pad_mode: str = option(
        "constant",
        "what images are padded by: constant (black), reflect (the image mirrored), symmetric (the same with its "
        "border repeated, as in the authors' public code)",
    )
    points: int = option(1024, "number of points of a cloud")
    rotate: bool = option(True, "rotate point clouds about the upright axis at random, and jitter them")
    validate: bool = option(
        False,
        "evaluate on validation data, by which settings can be chosen: the validation nodes of a graph, or every fifth "
        "training class of an open set (lfw, omniglot), which training then leaves out; no: evaluate on the test data",
    )
    imbalance: str | None = option(None, "class-imbalance variant: single, multiple, digit0 (thesis 5.5.1)")
    image_size: int = option(224, "folder: side of the square that is cut from an image, in pixels")
    resize: int = option(
        256, "folder: size of streamed images before this cut; images in memory are scaled to image_size instead"
    )
    split: str = option(
        "image",
        "folder: hold out images of every class (image), or whole classes, which are unseen in training (class)",
    )
    held_out: float = option(0.2, "folder: share of the images of a class, or of the classes, that is held out")
    split_seed: int = option(0, "folder: seed of the split")
    table: str | None = option(None, "folder: CSV file with the columns path,label and, optionally, split")
    unreadable: str = option("skip", "folder: what happens to files that cannot be read: skip them, or refuse to train")
    resident: float = option(
        2.0, "folder: largest size in GiB at which all images are kept on the device", material=False
    )
    workers: int | None = option(
        None, "processes that decode streamed images; none: one for each core, at most 8", material=False
    )

    @property
    def decoders(self) -> int:
        """``workers``, or one for each core that this process may use, at most 8."""
        return min(8, cores()) if self.workers is None else self.workers

    def __post_init__(self) -> None:
        DATASETS.check("data.name", self.name)
        for name in ("batch_size", "eval_batch_size", "per_class", "shrink", "points", "image_size", "resize"):
            check_count(f"data.{name}", getattr(self, name))
        check_count("data.pad", self.pad, minimum=0)
        check_count("data.workers", self.decoders, minimum=0)
        check_choice("data.normalize", self.normalize, NORMALIZATIONS)
        check_choice("data.pad_mode", self.pad_mode, PADDINGS)
        check_choice("data.split", self.split, ("image", "class"))
        check_choice("data.unreadable", self.unreadable, ("skip", "refuse"))
        if not 0 < self.held_out < 1:
            raise ValueError(f"data.held_out={self.held_out} must lie between 0 and 1: it is the share to test on")
        check_positive("data.resident", self.resident, zero=True)
