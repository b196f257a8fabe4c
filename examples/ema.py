"""An exponential moving average of a spherical network and its head: ``python examples/ema.py``.

Averaging leaves the sphere a little; SphereConv and the margin heads normalise what they are given, so nothing has to
be put back. BatchNorm has its own statistics, which ``use_buffers`` averages too.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import hypersphere as hs


class Recognizer(nn.Module):
    """A network and the head that holds its class vectors, in one module: both are averaged."""

    def __init__(self) -> None:
        super().__init__()
        self.network = hs.models.create("cnn3", 0, in_channels=1, image_size=8, widths=(8, 8, 8), conv="sphere")
        self.head = hs.losses.ArcFace(self.network.feature_dim, 10, margin=0.2, scale=16.0)

    def forward(self, images: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        features = self.network(images)
        out: torch.Tensor = self.head.logits(features) if labels is None else self.head(features, labels)
        return out


def main(steps: int = 100) -> dict[str, float]:
    """Train on the digits of scikit-learn; return the accuracy of the network and of its average."""
    torch.manual_seed(0)
    digits = hs.data.load("digits")
    images, labels = hs.data.normalize(digits.train.images), digits.train.labels
    model = Recognizer()
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.98), use_buffers=True)
    optimizer = torch.optim.SGD(hs.optim.parameter_groups(model, 5e-4), lr=0.1, momentum=0.9)
    for step in range(steps):
        rows = torch.randint(len(labels), (64,), generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        model(images[rows], labels[rows]).backward()
        optimizer.step()
        average.update_parameters(model)
    test, truth = hs.data.normalize(digits.test.images), digits.test.labels
    found = {}
    with torch.no_grad():
        for name, one in (("network", model.eval()), ("average", average.eval())):
            found[name] = float((one(test).argmax(1) == truth).float().mean())
    return found


if __name__ == "__main__":
    print(main())
