"""How much of the margin counts at a training step: annealing λ (thesis 2.2.7, A.7) and warm-up."""

from __future__ import annotations

import copy
import logging
import math
from weakref import WeakKeyDictionary, ref

import torch
from torch import Tensor, nn

from .._core.checks import check_choice, check_count, check_positive
from ._kept import kept

logger = logging.getLogger("hypersphere")


class MarginSchedule(nn.Module):
    """Base of schedules: the share of the margin, in [0, 1], as a function of a counter in the state_dict.

    The target logit is plain + share·(with margin − plain). Calling the schedule gives the share and, in training mode,
    advances the counter by one (if ``per_step``). The counter is a tensor: there is no host synchronisation and no
    graph break, and resuming from a checkpoint continues exactly. A head keeps the object that it is given. If this
    schedule counts steps and another head has it already, the head takes a copy, so that each counts its own steps.

    Shape:
        - Output: scalar, the share of the margin.

    Example:
        >>> class Half(hs.losses.MarginSchedule):
        ...     def share(self):
        ...         return torch.tensor(0.5)
        >>> loss = hs.losses.ArcFace(8, 4, annealing=Half())(torch.randn(2, 8), torch.tensor([0, 3]))
    """

    per_step = True
    step: Tensor
    _dtype = torch.float32  # also in objects pickled without it

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))

    def compute_in(self, dtype: torch.dtype) -> None:
        """Set the dtype of the share; a head sets the dtype in which it computes its loss.

        Args:
            dtype: ``torch.float32``, the initial one, or ``torch.float64``.
        """
        if dtype != self._dtype:  # compilers need not see a schedule change
            self._dtype = dtype

    def reset_parameters(self) -> None:
        """Set the counter back to 0."""
        self.step.zero_()

    def share(self) -> Tensor:
        """Compute the share at the present step.

        Returns:
            The share of the margin, a scalar in [0, 1]: float32, or float64 in a head that computes in it.
        """
        return torch.ones((), dtype=self._dtype, device=self.step.device)

    def forward(self) -> Tensor:
        """Return the share and, in training mode, advance the counter.

        Returns:
            The share of the margin, a scalar in [0, 1]: float32, or float64 in a head that computes in it.
        """
        share = self.share()
        if not (self.training and self.per_step):
            return share
        if torch.compiler.is_compiling():
            share = kept(share)
        self.step.add_(1)
        return share


class Annealing(MarginSchedule):
    """λ = max(minimum, base·(1 + γ·t)^(−power)); target logit (λ·plain + margin)/(1 + λ) (thesis A.7).

    t counts the training-mode forwards. The defaults are SphereFace's; :meth:`preset` gives other published schedules.

    Args:
        base: λ at the first step, ≥ 0. ``math.inf`` keeps the plain logit for ever.
        gamma: γ ≥ 0, how fast λ falls.
        power: exponent p of the decay, ≥ 0; λ falls like t^−p in the long run.
        minimum: smallest λ, ≥ 0; the share of the margin ends at 1/(1 + minimum): 1 for 0, a sixth for 5.

    Shape:
        - Output: scalar, the share of the margin in [0, 1].

    Raises:
        ValueError: If ``base``, ``gamma``, ``power`` or ``minimum`` is negative.

    Example:
        >>> schedule = hs.losses.Annealing(base=9.0, gamma=0.0, minimum=0.0)
        >>> schedule.share()  # 1/(1 + λ)
        tensor(0.1000)
    """

    PRESETS = {
        "sphereface": (1000.0, 0.12, 1.0, 5.0),
        "l_softmax_mnist": (1000.0, 2.5e-5, 35.0, 0.0),
        "l_softmax_cifar10": (1000.0, 2e-5, 45.0, 0.0),
        "l_softmax_cifar10+": (1000.0, 1e-5, 45.0, 0.0),
    }

    def __init__(self, base: float = 1000.0, gamma: float = 0.12, power: float = 1.0, minimum: float = 5.0) -> None:
        super().__init__()
        self.base = base if base == math.inf else check_positive("base", base, zero=True)
        self.gamma = check_positive("gamma", gamma, zero=True)
        self.power = check_positive("power", power, zero=True)
        self.minimum = minimum if minimum == math.inf else check_positive("minimum", minimum, zero=True)

    @classmethod
    def preset(cls, name: str) -> Annealing:
        """Return a published schedule.

        Args:
            name: ``"sphereface"``, ``"l_softmax_mnist"`` (m = 4), ``"l_softmax_cifar10"`` or ``"l_softmax_cifar10+"``.

        Returns:
            A new schedule at its first step.
        """
        return cls(*cls.PRESETS[check_choice("preset", name, cls.PRESETS)])

    @classmethod
    def parse(cls, text: str) -> Annealing:
        """Return the schedule that a text describes, for command lines and files of settings.

        Args:
            text: a preset's name, or values of the arguments: ``"minimum=1"``, ``"gamma=2e-5;power=45;minimum=0"``.
                Arguments that are not named keep their defaults.

        Returns:
            A new schedule at its first step.

        Raises:
            ValueError: If the text names neither a preset nor arguments with numbers.

        Example:
            >>> hs.losses.Annealing.parse("base=9;gamma=0;minimum=0").share()
            tensor(0.1000)
        """
        if "=" not in text:
            return cls.preset(text)
        values = {}
        for part in filter(str.strip, text.split(";")):
            name, _, number = part.partition("=")
            check_choice("annealing", name.strip(), ("base", "gamma", "power", "minimum"))
            if name.strip() in values:
                raise ValueError(f"annealing={text!r} gives {name.strip()} twice")
            try:
                values[name.strip()] = float(number)
            except ValueError:
                raise ValueError(f"annealing={text!r}: {number!r} is no number, write e.g. minimum=1") from None
        return cls(**values)

    @property
    def lam(self) -> Tensor:
        """λ at the present step, a scalar tensor: float32, or float64 in a head that computes in it."""
        if self.base == math.inf:  # math.isinf cannot be traced
            return torch.full((), math.inf, dtype=self._dtype, device=self.step.device)
        decay = torch.exp(-self.power * torch.log1p(self.gamma * self.step.to(self._dtype)))
        return (self.base * decay).clamp_min(self.minimum)

    def share(self) -> Tensor:
        return 1 / (1 + self.lam)

    def extra_repr(self) -> str:
        return f"base={self.base:g}, gamma={self.gamma:g}, power={self.power:g}, minimum={self.minimum:g}"


class MarginWarmup(MarginSchedule):
    """share(t) = min(1, t/T): the share of the margin grows linearly from 0 to 1 over the first epochs.

    The target logit is (1 − share)·plain + share·margin, so training starts with the plain softmax.

    Args:
        epochs: number of epochs over which the margin grows to its full value, ≥ 1.
        steps_per_epoch: steps of an epoch; then the share grows at every training-mode forward. None keeps it constant
            within an epoch: call ``set_epoch(epoch)`` as each epoch begins, as with PyTorch's distributed samplers.

    Shape:
        - Output: scalar, the share of the margin in [0, 1].

    Raises:
        ValueError: If ``epochs`` or ``steps_per_epoch`` is below 1.

    Example:
        >>> warmup = hs.losses.MarginWarmup(epochs=4)
        >>> warmup.set_epoch(1)
        >>> warmup.share()
        tensor(0.2500)
    """

    _known = False  # whether set_epoch was called, or the user told; also in objects pickled without it

    def __init__(self, epochs: int, steps_per_epoch: int | None = None) -> None:
        super().__init__()
        self.epochs = check_count("epochs", epochs)
        self.steps_per_epoch = None if steps_per_epoch is None else check_count("steps_per_epoch", steps_per_epoch)
        self.per_step = steps_per_epoch is not None

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch that begins.

        Args:
            epoch: number of the epoch that begins, counted from 0.
        """
        self.step.fill_(check_count("epoch", epoch, minimum=0) * (self.steps_per_epoch or 1))
        self._known = True

    def forward(self) -> Tensor:
        """Return the share and, in training mode, advance the counter; a warm-up that nothing moves is announced.

        Returns:
            The share of the margin, a scalar in [0, 1]: float32, or float64 in a head that computes in it.
        """
        if self.training and not (self.per_step or self._known) and not torch.compiler.is_compiling():
            self._known = True
            logger.warning(
                "MarginWarmup(epochs=%d) has no margin until set_epoch(epoch) is called as each epoch begins; with "
                "steps_per_epoch= it counts the steps itself", self.epochs,
            )  # fmt: skip
        return super().forward()

    def share(self) -> Tensor:
        return (self.step.to(self._dtype) / (self.epochs * (self.steps_per_epoch or 1))).clamp_max(1.0)

    def extra_repr(self) -> str:
        return f"epochs={self.epochs}, steps_per_epoch={self.steps_per_epoch}"


# beside the schedules, since a weak reference in one could not be pickled
_heads: WeakKeyDictionary[MarginSchedule, ref[nn.Module]] = WeakKeyDictionary()


def resolve(value: MarginSchedule | str | None, head: nn.Module) -> MarginSchedule | None:
    """What ``annealing=`` means for a head: a schedule, its name or values as text, or the pure margin.

    A schedule that counts steps is copied if another head has it: it would count those of both. One that is told the
    epoch counts nothing by itself and is shared, so that ``set_epoch`` reaches both heads.
    """
    if value is None:
        return None
    if isinstance(value, str):
        value = Annealing.parse(value)
    if not isinstance(value, MarginSchedule):
        raise TypeError(
            f"annealing={value!r} must be an Annealing, a MarginWarmup, a preset's name, values as 'minimum=1' or None"
        )
    other = _heads.get(value)
    if value.per_step and other is not None and other() is not None:
        value = copy.deepcopy(value)
        value.reset_parameters()  # it counts the steps of its own head, from the first
    _heads[value] = ref(head)
    return value
