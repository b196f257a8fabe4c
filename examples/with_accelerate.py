"""The loop of Hugging Face's accelerate: ``accelerate launch examples/with_accelerate.py``, or ``python``."""

from __future__ import annotations

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

import hypersphere as hs


def main(steps: int = 20) -> float:
    """Train a SphereNet with an ArcFace head on the digits of scikit-learn; return the last loss."""
    accelerator = Accelerator()
    torch.manual_seed(0)
    digits = hs.data.load("digits").train
    data = DataLoader(TensorDataset(hs.data.normalize(digits.images), digits.labels), 64, shuffle=True, drop_last=True)
    network = hs.models.create("cnn3", 0, in_channels=1, image_size=8, widths=(8, 8, 8), conv="sphere")
    head = hs.losses.ArcFace(network.feature_dim, 10, margin=0.2, scale=16.0)
    groups = [group for module in (network, head) for group in hs.optim.parameter_groups(module, 5e-4)]
    optimizer = torch.optim.SGD([group for group in groups if group["params"]], lr=0.1, momentum=0.9)
    network, head, optimizer, data = accelerator.prepare(network, head, optimizer, data)
    loss, step = torch.zeros(()), 0
    while step < steps:
        for images, labels in data:
            optimizer.zero_grad()
            loss = head(network(images), labels)
            accelerator.backward(loss)
            optimizer.step()
            step += 1
            if step == steps:
                break
    return float(loss.detach())


if __name__ == "__main__":
    print(f"loss {main():.4f}")
