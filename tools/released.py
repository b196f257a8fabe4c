"""CNN-6 and CNN-9 as the authors' public code trains them, where that differs from the text.

MHE (https://github.com/wy1iu/MHE), against thesis D.1:

    PYTHONPATH=tools hypersphere reproduce thesis.table5.2 --cells 'half-mhe.16-32-64' \\
        --optim.weight-decay 5e-4 --optim.decay all --model.norm-eps 1e-3 --data.normalize symmetric \\
        --model.extra 'fc_norm=False;bias=False;norm_momentum=0.001' \\
        --loss.name released:Floored --regularizer.output 10

The same without ``--regularizer.output`` is the baseline. The code decays all parameters by 5e-4, has no BatchNorm and
no bias behind the fully connected layer, BatchNorm with ε = 1e-3 and slow statistics, the loss below, weight 10 on the
energy of the output layer. Its crops are of images that were continued by their mirror image: with ``--data.pad-mode
symmetric`` so are ours, which the measured runs had not.

OPT (https://github.com/wy1iu/OPT), against thesis F.3, which leaves the schedule open:

    PYTHONPATH=tools hypersphere reproduce thesis.table7.4 --cells gs.cnn6 \\
        --schedule.steps 75000 --schedule.milestones 30000,50000,65000 --data.normalize symmetric \\
        --data.pad-mode symmetric --loss.name released:Floored --optim.decay all --model.norm-eps 1e-3 \\
        --model.extra 'fc_norm=False;bias=False;norm_momentum=0.001'

Cayley's map is drawn from N(0, 1) there: ``--cells cp.cnn6 --orthogonal.init literal``. Its folder has a network of 32,
64 and 128 filters; ours is that of the other folders and of Table F.1. The code has no baseline.

SphereNet (https://github.com/wy1iu/SphereNet), against paper sec. 4.1:

    PYTHONPATH=tools hypersphere reproduce paper.table1 --cells sigmoid0.3.softmax \\
        --optim.projection-every 0 --regularizer.orthonormality 1e-4 \\
        --optim.decay all --optim.undecayed '*.op.weight' --model.extra 'norm_momentum=0.001' \\
        --loss.name released:Floored

There the filters of SphereConvs are held by ‖WᵀW − I‖² alone and do not decay, the scales and shifts of BatchNorm do,
which bounds ‖x‖, and the loss is the one below. The plain CNN decays everything: ``--optim.decay all`` alone. The
public code has no margin: :class:`FlooredMargin` is its loss with the one of paper eq. 11.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

import hypersphere as hs


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
        return floored(self.logits(features), labels)


class FlooredMargin(hs.losses.GASoftmax):
    """The same loss of ‖x‖·g(θ_j), the target's being ‖x‖·g(mθ_y) (paper eq. 11); the cosine g is A-Softmax.

    Args:
        in_features: Number of entries of a feature.
        num_classes: Number of classes.
        margin: m ≥ 1.
        **options: ``angular`` and ``annealing`` of :class:`hypersphere.losses.GASoftmax`.

    Shape:
        - features: (N, in_features); labels: (N,), class indices.
        - Output: scalar; :meth:`logits` gives (N, num_classes).
    """

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        x, w = features.float(), self.weight.float()
        lengths = x.norm(dim=1, keepdim=True)
        # a sum, not a product of matrices: an angle of 16 bits would be a coarse one
        cos = (nn.functional.normalize(x)[:, None] * nn.functional.normalize(w)).sum(2)
        plain, own = self.angular.from_cos(cos), self.target(cos, self.angular)
        share = 1.0 if self.annealing is None else self.annealing()
        target = torch.arange(self.num_classes, device=x.device) == labels[:, None]
        return floored(lengths * torch.where(target, plain + share * (own - plain), plain), labels)


def floored(logits: Tensor, labels: Tensor) -> Tensor:
    """−Σ_j t_j log(p_j + 1e-4), t the label smoothed by 0.01; the mean over the samples."""
    shares = (logits.float().softmax(1) + 1e-4).log()
    own = shares.gather(1, labels.clamp_min(0)[:, None])[:, 0]
    return -(0.99 * own + 0.01 * shares.mean(1)).mean()
