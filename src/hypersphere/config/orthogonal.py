"""``--orthogonal.*``: orthogonal over-parameterized training."""

from __future__ import annotations

from dataclasses import dataclass

from .._core.checks import check_choice, check_count, check_positive
from .._core.registries import MAPS
from .options import option


@dataclass(frozen=True)
class OrthogonalConfig:
    """Orthogonal over-parameterized training (thesis ch. 7).

    Raises:
        ValueError: If a setting is unknown, out of its range or contradicts another one; the message names it.

    Example:
        >>> from hypersphere.config import OrthogonalConfig
        >>> OrthogonalConfig(method="cayley").blocks
        1
    """

    method: str | None = option(
        None, lambda: f"how R is made: {', '.join(MAPS)}, or an address module:function; none: train without R"
    )
    blocks: int = option(1, "number of diagonal blocks of R")
    share_blocks: bool = option(False, "use one matrix for all blocks")
    normalize: bool = option(False, "scale every fixed neuron to length 1")
    refine: str | None = option(None, "minimise this energy of the fixed neurons before training: full, half")
    refine_steps: int = option(1000, "largest number of steps of this minimisation")
    refine_lr: float | None = option(
        None, "minimise by plain gradient descent with this learning rate; none: by quasi-Newton steps to a minimum"
    )
    init: str = option(
        "random", "how R starts: random, unit (for SGD without decay), identity (fine-tuning), literal (N(0, 1))"
    )
    neurons: str = option(
        "draw", "fixed neurons: draw them (He's Gaussian, or one of mean and std), or keep those that model.init drew"
    )
    learn_v: bool = option(False, "train the neurons v as well as R")
    beta: float = option(1.0, "weight of the orthogonality penalty under orthogonal.method relaxed")
    mean: float = option(
        0.0, "mean of the Gaussian of the drawn neurons; other than 0 it raises the energy (thesis Table 7.2)"
    )
    std: float | None = option(None, "standard deviation of that Gaussian; none: He's √(2/d)")
    learn_r: bool = option(True, "train R; no: the neurons stay as drawn and only the rest of the network learns")

    def __post_init__(self) -> None:
        if self.method is not None:
            MAPS.check("orthogonal.method", self.method)
        check_choice("orthogonal.neurons", self.neurons, ("draw", "keep"))
        if self.refine is not None:
            check_choice("orthogonal.refine", self.refine, ("full", "half"))
        check_count("orthogonal.refine_steps", self.refine_steps, minimum=0)
        if self.refine_lr is not None:
            check_positive("orthogonal.refine_lr", self.refine_lr)
        if self.std is not None:
            check_positive("orthogonal.std", self.std)
        if self.neurons == "keep" and (self.mean or self.std is not None):
            raise ValueError("orthogonal.mean and orthogonal.std draw the neurons: they need orthogonal.neurons='draw'")
