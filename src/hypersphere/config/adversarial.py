"""``--adversarial.*``: adversarial training, and the budget of attacks."""

from __future__ import annotations

from dataclasses import dataclass

from .._core.checks import check_choice, check_count, check_positive, check_share
from .options import option

ATTACKS = ("fgsm", "bim", "pgd")
LOSSES = ("log_odds", "cross_entropy")


@dataclass(frozen=True)
class AdversarialConfig:
    """Adversarial training, and the budget of the attacks that the final network is evaluated under.

    Raises:
        ValueError: If a setting is unknown, out of its range or contradicts another one; the message names it.

    Example:
        >>> from hypersphere.config import AdversarialConfig
        >>> AdversarialConfig(train="fgsm").eps
        8.0
    """

    train: str | None = option(None, f"attack the training batches: {', '.join(ATTACKS)}; none: natural training")
    mixture: str = option("both", "clean and attacked samples: both (the batch doubles), or replace")
    fraction: float = option(1.0, "share of the samples that are attacked in training")
    eps: float = option(8.0, "largest change of a pixel, whose values are 0 to 255")
    step: float = option(2.0, "change of a pixel in one iteration of bim and pgd")
    iterations: int = option(20, "iterations of bim and pgd")
    losses: tuple[str, ...] = option(
        ("log_odds",),
        f"losses that attacks increase: {', '.join(LOSSES)}; the final network is evaluated under attacks by each of "
        "them (fgsm_accuracy, fgsm_cross_entropy_accuracy), and training batches are attacked by the first",
    )
    source: str | None = option(
        None, "transferred attacks: the run that they are made on, its folder or its name if it lies beside this run"
    )

    def __post_init__(self) -> None:
        if self.train is not None:
            check_choice("adversarial.train", self.train, ATTACKS)
        check_choice("adversarial.mixture", self.mixture, ("both", "replace"))
        check_positive("adversarial.eps", self.eps)
        check_positive("adversarial.step", self.step)
        check_count("adversarial.iterations", self.iterations)
        for loss in self.losses:
            check_choice("adversarial.losses", loss, LOSSES)
        if not self.losses:
            raise ValueError(f"adversarial.losses is empty: name one or both of {', '.join(LOSSES)}")
        check_share("adversarial.fraction", self.fraction, zero=False)
