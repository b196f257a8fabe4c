"""A LightningModule with a spherical network and a margin head: ``python examples/with_lightning.py``."""

from __future__ import annotations

import tempfile

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset

import hypersphere as hs


class Recognizer(lightning.LightningModule):
    """Features and head; the optimizer leaves directions out of the weight decay."""

    def __init__(self, lr: float = 0.1) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.network = hs.models.create("cnn3", 0, in_channels=1, image_size=8, widths=(8, 8, 8), conv="sphere")
        self.head = hs.losses.AMSoftmax(self.network.feature_dim, 10, margin=0.2, scale=16.0)

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], index: int) -> torch.Tensor:
        loss: torch.Tensor = self.head(self.network(batch[0]), batch[1])
        self.log("loss", loss)
        return loss

    def validation_step(self, batch: tuple[torch.Tensor, torch.Tensor], index: int) -> None:
        right = self.head.logits(self.network(batch[0])).argmax(1) == batch[1]
        self.log("accuracy", right.float().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(hs.optim.parameter_groups(self, 5e-4), lr=self.hparams["lr"], momentum=0.9)


def main(steps: int = 20) -> float:
    """Train on the digits of scikit-learn; return the accuracy on the test digits."""
    lightning.seed_everything(0, verbose=False)
    digits = hs.data.load("digits")
    sets = [TensorDataset(hs.data.normalize(part.images), part.labels) for part in (digits.train, digits.test)]
    trainer = lightning.Trainer(
        max_steps=steps,
        accelerator="auto",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tempfile.mkdtemp(),
    )
    model = Recognizer()
    trainer.fit(model, DataLoader(sets[0], 64, shuffle=True))
    (found,) = trainer.validate(model, DataLoader(sets[1], 500), verbose=False)
    return float(found["accuracy"])


if __name__ == "__main__":
    print(f"accuracy {main():.3f}")
