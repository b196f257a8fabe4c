"""What fills the slots of a network: operator, normalisation, activation, initialisation."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrizations

from .. import angular as angular_module
from .. import magnitude as magnitude_module
from .. import nn as twins
from .._core.checks import check_choice, check_count, check_positive, check_share
from .._core.neurons import iter_neurons
from .._core.sphere import unit
from ..functional.operators.decoupled import WEIGHTED, AngularRule, MagnitudeRule

_PREFIX = {"plain": "", "sphere": "Sphere", "decoupled": "Decoupled"}
_NORMS = ("batch", "sphere", "both", "none")
_SLOPES = {"relu": 0.0, "leaky_relu": 0.1, "prelu": 0.25, "none": 1.0}  # of the negative half, at the start
_INITS = ("he", "xavier", "normal", "standard_normal", "unit")


@dataclass(frozen=True, kw_only=True)
class Slots:
    """The choices that every network takes; each block is operator → normalisation → activation.

    Args:
        conv: operator of the convolutions and fully connected layers: ``"plain"`` w·x, ``"sphere"`` g(θ) (paper eq. 1),
            ``"decoupled"`` h(‖x‖)·g(θ) (thesis 4.1). The classifier is always plain.
        angular: g, a name or an object of :mod:`hypersphere.angular`; None is the cosine.
        magnitude: h of ``"decoupled"``, a name or an object of :mod:`hypersphere.magnitude`; None is tanh.
        weighted: how ‖w‖ enters a ``"decoupled"`` operator (thesis sec. 4.3.5); None ignores it.
        affine: rescale the output of the operator to β·F + γ (rescaled SphereNorm, paper sec. 2.5).
        norm: ``"batch"`` BatchNorm; ``"sphere"`` SphereNorm, that is the operator normalises and nothing follows it
            (paper sec. 2.5: a plain slot becomes SphereConv, spherical and decoupled ones stay what they are);
            ``"both"`` SphereNorm, then BatchNorm; ``"none"``.
        norm_eps: ε of BatchNorm (the authors' released code has 1e-3).
        norm_momentum: weight of the newest batch in BatchNorm's averages.
        activation: ``"relu"``, ``"prelu"`` (a slope per channel, from 0.25), ``"leaky_relu"`` (slope 0.1, thesis Table
            D.5) or ``"none"``.
        bias: a bias in the operators; None adds it only to plain ones that no BatchNorm follows.
        init: weights ``"he"`` normal, std √(2/((1+a²)·fan_in)) with a the slope of the activation's negative half;
            ``"xavier"`` uniform; ``"normal"`` N(0, 0.01²); ``"standard_normal"`` N(0, 1); ``"unit"`` random
            directions, every neuron of length 1. Biases start at 0.
        spectral_norm: divide every weight by its largest singular value (the GAN of thesis D.7).
        classifier_bias: whether the plain classifier at the end has a bias.

    Raises:
        ValueError: If a choice is unknown, or an option needs another ``conv``.

    Example:
        >>> slots = hs.models.Slots(conv="sphere", angular="sigmoid")
        >>> type(slots.operator("Linear", 8, 4)).__name__
        'SphereLinear'
    """

    conv: str = "plain"
    angular: str | AngularRule | None = None
    magnitude: str | MagnitudeRule | None = None
    weighted: str | None = None
    affine: bool = False
    norm: str = "batch"
    norm_eps: float = 1e-5
    norm_momentum: float = 0.1
    activation: str = "relu"
    bias: bool | None = None
    init: str = "he"
    spectral_norm: bool = False
    classifier_bias: bool = True

    def __post_init__(self) -> None:
        check_choice("conv", self.conv, _PREFIX)
        check_choice("norm", self.norm, _NORMS)
        check_choice("activation", self.activation, _SLOPES)
        check_choice("init", self.init, _INITS)
        check_positive("norm_eps", self.norm_eps)
        check_share("norm_momentum", self.norm_momentum, zero=False)
        for name in ("affine", "spectral_norm", "classifier_bias", *(["bias"] * (self.bias is not None))):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name}={getattr(self, name)!r} must be True or False")
        if self.angular is not None:
            angular_module.resolve(self.angular)
        if self.magnitude is not None:
            magnitude_module.resolve(self.magnitude)
        if self.weighted is not None:
            check_choice("weighted", self.weighted, WEIGHTED)
        if self._operator == "plain" and (self.angular is not None or self.affine):
            raise ValueError("angular and affine need conv='sphere' or 'decoupled' (or norm='sphere' or 'both')")
        if self._operator != "decoupled" and (self.magnitude is not None or self.weighted is not None):
            raise ValueError(f"magnitude and weighted need conv='decoupled', not conv={self.conv!r}")

    @property
    def _operator(self) -> str:
        return "sphere" if self.conv == "plain" and self.norm in ("sphere", "both") else self.conv

    @property
    def _batch_norm(self) -> bool:
        return self.norm in ("batch", "both")

    def operator(self, kind: str, *shape: int, plain: bool = False, normed: bool = True, **geometry: int) -> nn.Module:
        """Build a bare operator with initial weights.

        Args:
            kind: torch's name: ``"Conv2d"``, ``"ConvTranspose2d"``, ``"Linear"``, ...
            *shape: input channels, output channels and, for convolutions, the size of the window.
            plain: make a plain operator whatever ``conv`` is.
            normed: whether a normalisation follows, on which the bias depends.
            **geometry: arguments of torch's layer by name: ``stride``, ``padding``, ``dilation``, ``groups``,
                ``output_padding`` and ``bias``, as far as that layer has them.

        Returns:
            The operator layer, with initial weights.
        """
        choice = "plain" if plain else self._operator
        rules: dict[str, Any] = {}
        if choice != "plain":
            rules = {"angular": "cosine" if self.angular is None else self.angular, "affine": self.affine}
        if choice == "decoupled":
            rules["magnitude"] = "tanh" if self.magnitude is None else self.magnitude
            rules["weighted"] = self.weighted
        bias = self.bias if self.bias is not None else choice == "plain" and not (normed and self._batch_norm)
        make = getattr(nn if choice == "plain" else twins, _PREFIX[choice] + kind)
        return self._prepare(make(*shape, **geometry, bias=bias, **rules))

    def normalization(self, channels: int, dim: int = 2) -> nn.Module:
        """Build the normalisation.

        Args:
            channels: number of channels of its input.
            dim: number of spatial dimensions; 0 for vectors.

        Returns:
            BatchNorm, or the identity.
        """
        if not self._batch_norm:
            return nn.Identity()
        make = nn.BatchNorm2d if dim == 2 else nn.BatchNorm1d
        return make(channels, self.norm_eps, self.norm_momentum)

    def nonlinearity(self, channels: int) -> nn.Module:
        """Build the activation.

        Args:
            channels: channels of its input, for a slope per channel.

        Returns:
            The activation, or the identity.
        """
        match self.activation:
            case "relu":
                return nn.ReLU()
            case "leaky_relu":
                return nn.LeakyReLU(_SLOPES["leaky_relu"])
            case "prelu":
                return nn.PReLU(channels, _SLOPES["prelu"])
            case _:
                return nn.Identity()

    def block(
        self,
        kind: str,
        cin: int,
        cout: int,
        kernel: int = 1,
        *,
        stride: int = 1,
        padding: int | None = None,
        activate: bool = True,
        normalize: bool = True,
        plain: bool = False,
    ) -> nn.Sequential:
        """Build operator → normalisation → activation.

        Args:
            kind: torch's name of the operator.
            cin: number of channels of the input.
            cout: number of channels of the output.
            kernel: size of the square window in pixels.
            stride: step of the window, one number or one per dimension; larger steps give smaller outputs.
            padding: pixels added on each side; None keeps the size of odd kernels.
            activate: whether the activation follows the normalisation.
            normalize: whether the normalisation follows the operator.
            plain: make a plain operator whatever ``conv`` is.

        Returns:
            A module that applies operator, normalisation and activation.
        """
        geometry = {"stride": stride, "padding": (kernel - 1) // 2 if padding is None else padding}
        if kind == "Linear":
            layer = self.operator(kind, cin, cout, plain=plain, normed=normalize)
        else:
            layer = self.operator(kind, cin, cout, kernel, plain=plain, normed=normalize, **geometry)
        parts: OrderedDict[str, nn.Module] = OrderedDict(op=layer)
        if normalize and self._batch_norm:
            parts["norm"] = self.normalization(cout, dim=2 if kind.endswith("2d") else 1)
        if activate and self.activation != "none":
            parts["act"] = self.nonlinearity(cout)
        return nn.Sequential(parts)

    def chain(self, kind: str, sizes: Sequence[int]) -> nn.Sequential:
        """Build blocks with kernels of 1 from each size to the next: the same perceptron at every position.

        Args:
            kind: torch's name of the operator.
            sizes: channels, first those of the input.

        Returns:
            A module that applies the blocks one after the other.
        """
        return nn.Sequential(*(self.block(kind, cin, cout) for cin, cout in pairwise(sizes)))

    def classifier(self, features: int, num_classes: int) -> nn.Module:
        """Build the plain output layer.

        Args:
            features: length of the embedding that the classifier receives.
            num_classes: number of outputs; 0 gives the identity, for a margin head.

        Returns:
            A linear layer or the identity.
        """
        if check_count("num_classes", num_classes, minimum=0) == 0:
            return nn.Identity()
        return self._prepare(nn.Linear(features, num_classes, bias=self.classifier_bias))

    def _prepare(self, layer: Any) -> nn.Module:
        if self.init == "he":
            slope = _SLOPES[self.activation]
            if isinstance(layer, nn.ConvTranspose2d):  # torch counts a transposed weight the other way round
                nn.init.kaiming_normal_(layer.weight, slope, "fan_out", "leaky_relu")
            else:
                nn.init.kaiming_normal_(layer.weight, slope, "fan_in", "leaky_relu")
        elif self.init == "xavier":
            nn.init.xavier_uniform_(layer.weight)
        else:
            nn.init.normal_(layer.weight, std=0.01 if self.init == "normal" else 1.0)
        if self.init == "unit":
            (neurons,) = iter_neurons(layer)
            with torch.no_grad():
                layer.weight.copy_(neurons.unflatten(unit(neurons.matrix()), layer.weight.shape))
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
        return parametrizations.spectral_norm(layer) if self.spectral_norm else layer
