"""CNN-9 as the authors' public code trains SphereNets, where that differs from the text, and with a margin.

SphereNet (https://github.com/wy1iu/SphereNet), against paper sec. 4.1:

    hypersphere reproduce paper.table1 --cells sigmoid0.3.softmax \\
        --optim.projection-every 0 --regularizer.orthonormality 1e-4 \\
        --optim.decay all --optim.undecayed '*.op.weight' --model.extra 'norm_momentum=0.001' \\
        --loss.name floored_softmax

There the filters of SphereConvs are held by ‖WᵀW − I‖² alone and do not decay, the scales and shifts of BatchNorm do,
which bounds ‖x‖. The plain CNN decays everything: ``--optim.decay all`` alone. The public code has no margin:
:class:`FlooredMargin` is its loss with the one of paper eq. 11, for which ``PYTHONPATH=tools`` must be set:

    PYTHONPATH=tools hypersphere reproduce paper.table1 --cells sigmoid0.3.ga-softmax --loss.name released:FlooredMargin

MHE and OPT as their public code trains them are recipes: ``hypersphere reproduce released.mhe`` and ``released.opt``.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

import hypersphere as hs
from hypersphere.losses.floored import floored


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
        return floored(lengths * torch.where(target, plain + share * (own - plain), plain), labels).mean()
