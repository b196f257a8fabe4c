"""A converted transformer with Hugging Face's Trainer: ``python examples/with_trainer.py [FOLDER]``.

What the Trainer saves is a spherical network: ``from_pretrained`` refuses it, ``hs.load_pretrained`` restores it. With
``resumable`` the Trainer finds its own checkpoints again, to resume or to take the best of them.
"""

from __future__ import annotations

import sys
import tempfile
from typing import Any

import torch
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments, ViTConfig, ViTForImageClassification

import hypersphere as hs
from hypersphere.pretrained import resumable


class Digits(Dataset[dict[str, torch.Tensor]]):
    """The digits of scikit-learn as the Trainer wants them."""

    def __init__(self) -> None:
        digits = hs.data.load("digits").train
        self.images, self.labels = hs.data.normalize(digits.images), digits.labels

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"pixel_values": self.images[index], "labels": self.labels[index]}


def main(folder: str | None = None, steps: int = 5) -> tuple[Any, Any]:
    """Train a small ViT whose linear layers are spherical; return it and the one that was saved."""
    torch.manual_seed(0)
    config = ViTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, image_size=8, patch_size=4,
        num_channels=1, num_labels=10,
    )  # fmt: skip
    model = hs.convert(ViTForImageClassification(config), angular="sigmoid")
    out = folder or tempfile.mkdtemp()
    arguments = TrainingArguments(
        output_dir=out, max_steps=steps, per_device_train_batch_size=16, report_to=[], save_strategy="no",
        disable_tqdm=True, logging_strategy="no",
    )  # fmt: skip
    optimizer = torch.optim.AdamW(hs.optim.parameter_groups(model, 1e-2), lr=1e-3)
    trainer = resumable(Trainer)(model, arguments, train_dataset=Digits(), optimizers=(optimizer, None))
    trainer.train()
    trainer.save_model(out)
    return model, hs.load_pretrained(out, ViTForImageClassification)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
