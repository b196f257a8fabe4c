"""The optimizers of the training program by name, declared once: settings, lists, reports and cards derive from this.

``matrices`` marks those that train weights of two or more dimensions only: AdamW trains the output layer and the rest.
``keeps_length`` marks those that do not change lengths: no decay, and no weights that an orthogonal matrix is made of.
"""

from functools import partial
from typing import Any

from torch.optim import SGD, Adam, AdamW

from .._core.registries import OPTIMIZERS
from .._core.registry import Parameter, parameters_of
from .hyperball import AdamH, MuonH
from .muon import Muon
from .orthogonal_sgd import OrthogonalSGD

_SETTINGS = ("lr", "momentum", "nesterov", "betas", "eps", "weight_decay")


def _settable(optimizer: Any) -> tuple[Parameter, ...]:
    """The arguments that the training program has a setting for."""
    return tuple(one for one in parameters_of(optimizer) if one.name in _SETTINGS)


for _name, _optimizer, _label, _about, _extra in (
    ("sgd", SGD, "SGD", "gradient descent with momentum", {}),
    ("adam", Adam, "Adam", "steps divided by the root of the mean squared gradient", {}),
    ("adamw", AdamW, "AdamW", "Adam whose weight decay is apart from the gradient", {}),
    ("muon", Muon, "Muon", "orthogonalised momentum for matrices, AdamW for the rest", {"matrices": True}),
    (
        "adamh",
        AdamH,
        "AdamH",
        "Adam for matrices of constant length, AdamW for the rest",
        {"matrices": True, "keeps_length": True},
    ),
    (
        "muonh",
        MuonH,
        "MuonH",
        "Muon for matrices of constant length, AdamW for the rest",
        {"matrices": True, "keeps_length": True},
    ),
    ("orthogonal_sgd", OrthogonalSGD, "orthogonal SGD", "rotations for orthogonal matrices, SGD for the rest", {}),
):
    OPTIMIZERS.add(_name, _optimizer, label=_label, about=_about, parameters=partial(_settable, _optimizer), **_extra)
