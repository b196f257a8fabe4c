"""The equations as pure functions of tensors: no state, no modules."""

from ._angular import angular, angular_from_angle
from ._magnitude import magnitude, magnitude_ratio
from ._sphere import angle, arcsin, norm, unit

__all__ = ["angle", "angular", "angular_from_angle", "arcsin", "magnitude", "magnitude_ratio", "norm", "unit"]
