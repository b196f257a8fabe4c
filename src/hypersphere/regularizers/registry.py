"""The regularizers by name, declared once: the command line and the words of reports and cards derive from this."""

from .._core.registries import REGULARIZERS
from ._baselines import SRIP, Orthogonal, Orthonormal
from ._comhe import CoMHE
from ._diversity import Polarization, Separation, Uniformity
from ._mhe import MHE

for _name, _regularizer, _label in (
    ("mhe", MHE, "minimum hyperspherical energy (MHE)"),
    ("comhe", CoMHE, "compressive MHE"),
    ("orthonormal", Orthonormal, "orthonormal"),
    ("orthogonal", Orthogonal, "orthogonal"),
    ("srip", SRIP, "SRIP"),
    ("uniformity", Uniformity, "uniformity"),
    ("separation", Separation, "separation"),
    ("polarization", Polarization, "polarization"),
):
    REGULARIZERS.add(_name, _regularizer, label=_label)
