"""CNN-9 as the public code of MHE trains it, which differs from the text of thesis D.1.

    PYTHONPATH=tools hypersphere reproduce thesis.table5.2 --cells 'half-mhe.16-32-64' \\
        --optim.weight-decay 5e-4 --optim.decay all --model.norm-eps 1e-3 --data.normalize symmetric \\
        --model.extra 'fc_norm=False;bias=False;norm_momentum=0.001' \\
        --loss.name released:Floored --regularizer.output 10

The same without ``--regularizer.output`` is the baseline. What the code at https://github.com/wy1iu/MHE does
and D.1 does not say: decay of 5e-4 on all parameters, no BatchNorm and no bias behind the fully connected layer,
BatchNorm with ε = 1e-3 and slow statistics, the loss below, weight 10 on the energy of the output layer. (Its crops
are of images that were continued by their mirror image; here they are continued by zeros.)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Floored(nn.Module):
    """−Σ_j t_j log(p_j + 1e-4), p the softmax of w·x without biases, t the label smoothed by 0.01.

    Its gradient nearly vanishes where one p_j is 1 and the label another: a network that is sure and wrong learns
    nothing, and its loss is 9.21.

    Args:
        in_features: Number of entries of a feature.
        num_classes: Number of classes.

    Shape:
        - features: (N, in_features); labels: (N,), class indices.
        - Output: scalar; :meth:`logits` gives (N, num_classes).
    """

    def __init__(self, in_features: int, num_classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(num_classes, in_features) * (2.0 / in_features) ** 0.5)

    def logits(self, features: Tensor) -> Tensor:
        return nn.functional.linear(features, self.weight)

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        shares = (self.logits(features).float().softmax(1) + 1e-4).log()
        own = shares.gather(1, labels.clamp_min(0)[:, None])[:, 0]
        return -(0.99 * own + 0.01 * shares.mean(1)).mean()
