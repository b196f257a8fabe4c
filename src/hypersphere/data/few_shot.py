"""Few-shot sets as image folders: training classes in ``train/``, unseen classes for evaluation in ``test/``."""

from __future__ import annotations

from ._store import PUT_THERE, Store
from .folder import ImageFolder, ImageTree

FEW_SHOT = {
    "cub": ("caltech.edu has the pictures of CUB-200-2011", 100),
    "miniimagenet": ("the pictures are ImageNet's, which asks for an account", 64),
}


def few_shot_tree(store: Store, test: str = "test") -> ImageTree:
    """``miniimagenet/train/<class>/*.jpg`` and ``miniimagenet/test/<class>/*.jpg``, each counting its own classes.

    Args:
        store: where the data lie.
        test: the folder to evaluate on; ``"val"`` has the classes that settings are chosen by.
    """
    folder = store.root if store.root.name == store.name else store.root / store.name
    if (folder / "train").is_dir() and (folder / test).is_dir():
        tree = ImageTree(store.name, ImageFolder.scan(folder / "train"), ImageFolder.scan(folder / test))
        if both := sorted(set(tree.train.classes) & set(tree.test.classes)):
            raise ValueError(f"{folder} has the class {both[0]} in train and in {test}: those of {test} must be new")
        return tree
    why, classes = FEW_SHOT[store.name]
    raise FileNotFoundError(
        f"data set {store.name!r} is not in {store.root}: {why}.\n"
        f"  folder:  {folder}\n"
        f"  holding: train/<class>/*.jpg ({classes} base classes), val and test the same (unseen classes)\n"
        f"{PUT_THERE}"
    )
