"""Accuracy under attack: white-box, or transferred from another run's network."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .. import attacks
from .._core.registry import is_address
from ..config import AdversarialConfig, Config, material
from ..config.adversarial import ATTACKS
from ..runs import Run, Team, beside, load
from ..runs.quantities import Quantity
from ..sources import Source
from .candidate import Candidate
from .classification import check_classes
from .measurement import measurement


def make_attack(name: str, config: AdversarialConfig, source: Source, **settings: object) -> Callable[..., Tensor]:
    """Make an attack with the budget of the settings, in the units of the data.

    Args:
        name: which attack: ``"fgsm"``, ``"bim"``, ``"pgd"`` or ``"deepfool"``.
        config: the budget: ε and step in pixels of 0..255, and the number of iterations.
        source: the data, whose normalisation sets the units.
        **settings: further arguments of the attack. All but DeepFool take ``loss`` (what is increased), ``targeted``
            (move towards the labels), ``update_statistics`` (let BatchNorm see the batches) and ``check`` (raise an
            error for wrong inputs and NaN); BIM and PGD also take ``generator`` (source of the random start). DeepFool
            takes ``norm`` (``"l2"`` or ``"linf"``), ``iterations``, ``overshoot`` and ``classes`` (how many of the
            likeliest classes are considered).

    Returns:
        A function ``attack(model, x, labels)`` that returns the attacked inputs.

    Raises:
        ValueError: If the data are not images.

    Example:
        >>> from hypersphere.evaluation import candidate_of, make_attack
        >>> candidate = candidate_of(hs.runs.Run("runs/digits"))
        >>> attack = make_attack("fgsm", candidate.config.adversarial, candidate.source)
    """
    pixels = source.pixels
    if pixels is None:
        raise ValueError("attacks change the pixels of images: these data are not images")
    if name == "deepfool":
        return partial(attacks.deepfool, clip=pixels.clip, **settings)  # type: ignore[arg-type]
    eps = pixels.eps(config.eps)
    if name == "fgsm":
        return partial(attacks.fgsm, eps=eps, clip=pixels.clip, **settings)  # type: ignore[arg-type]
    rule = {"step": pixels.eps(config.step), "iterations": config.iterations, "random_start": name == "pgd"}
    return partial(attacks.bim, eps=eps, clip=pixels.clip, **rule, **settings)  # type: ignore[arg-type]


def under_attack(name: str, transfer: bool, candidate: Candidate) -> dict[str, float]:
    """``fgsm_accuracy`` in percent, or ``fgsm_transfer_accuracy``.

    Of DeepFool also ``deepfool_size``, the mean of ‖r‖₂/‖x‖₂ in percent, and ``deepfool_l2`` and ``deepfool_linf``, the
    means of the norms of r in units of the inputs (thesis C.3). Attacks that increase the cross-entropy say so:
    ``fgsm_cross_entropy_accuracy``.
    """
    check_classes(candidate.config, candidate.source, candidate.team)
    source = _other(candidate) if transfer else None
    key = f"{name}_transfer" if transfer else name
    if name == "deepfool":
        accuracy, size, l2, linf = _held(name, candidate, source)
        return {f"{key}_accuracy": accuracy, f"{key}_size": size, f"{key}_l2": l2, f"{key}_linf": linf}
    return {
        f"{key}{'' if loss == 'log_odds' else f'_{loss}'}_accuracy": _held(name, candidate, source, loss=loss)[0]
        for loss in candidate.config.adversarial.losses
    }


def _held(name: str, candidate: Candidate, source: nn.Module | None, **settings: str) -> tuple[float, ...]:
    """Accuracy under the attack and mean relative size of its changes, both in percent; their mean ℓ₂ and ℓ∞ norm.

    Means are over the samples that are changed at all.
    """
    attack = make_attack(name, candidate.config.adversarial, candidate.source, **settings)
    batches = ((inputs[0], labels) for inputs, labels in candidate.source.test())
    found = attacks.robust_accuracy(candidate.of_images, batches, attack, source=source)
    changed = found.l2 > 0
    norms = [float(norm[changed].mean()) if bool(changed.any()) else 0.0 for norm in (found.l2, found.linf)]
    counts = torch.tensor([float(found.held.sum()), found.samples, 100 * found.relative, *norms], dtype=torch.float64)
    held, samples, *sizes = candidate.team.sum(counts.to(candidate.team.device)).tolist()
    return 100 * held / samples, *(size / candidate.team.world for size in sizes)


def _other(candidate: Candidate) -> nn.Module:
    """The network that transferred attacks are made on."""
    name = candidate.config.adversarial.source
    if name is None:
        raise ValueError(
            "transferred attacks are made on the network of another run, which this run does not name: train with "
            "--adversarial.source RUN, or call hs.attacks.robust_accuracy(..., source=model)"
        )
    other = load(beside(candidate.config, name), device=candidate.team.device)
    if _alike(other, candidate.network):
        raise ValueError(
            f"adversarial.source={name!r} has the weights of this network, so the attacks would be made on the network "
            "itself: name a run of another seed"
        )
    return other


def _alike(one: nn.Module, other: nn.Module) -> bool:
    """Whether two networks have the same weights, to the bit."""
    mine, theirs = one.state_dict(), other.state_dict()
    same = mine.keys() == theirs.keys() and all(mine[name].shape == theirs[name].shape for name in mine)
    return same and all(torch.equal(value, theirs[name].to(value)) for name, value in mine.items())


def check_other(config: Config, seed: int) -> None:
    """Raise before the training if attacks that are to transfer would be made on the network itself.

    Args:
        config: the settings of the run that is about to start.
        seed: the seed that it starts from.

    Raises:
        ValueError: If the run that ``adversarial.source`` names is the same training from the same seed.

    Example:
        >>> from hypersphere.config import Config
        >>> from hypersphere.evaluation.robustness import check_other
        >>> check_other(Config(), seed=0)
    """
    name = config.adversarial.source
    if name is None or not any(one.endswith("_transfer") for one in config.evaluation.also):
        return
    other = Run(beside(config, name))
    if other.seeds[0] == seed and _training(other.config) == _training(config):
        raise ValueError(
            f"adversarial.source={name!r} is the same training from the same seed {seed}, so the attacks would be made "
            "on the network itself: train the source from a seed that no other run has, e.g. 100, and name that one "
            f"of its seeds: --adversarial.source {name.removesuffix(f'/seed-{seed}')}/seed-100"
        )


def _training(config: Config) -> dict[str, Any]:
    """The settings that the weights depend on."""
    settings = material(config)
    for name in ("recipe", "run", "evaluation"):
        del settings[name]
    if config.adversarial.train is None:
        del settings["adversarial"]
    else:
        del settings["adversarial"]["source"]
    if config.data.name == "folder" or is_address(config.data.name):
        settings["data"]["root"] = Path(config.data.root or "").expanduser().resolve()  # the images themselves
    return settings


def _check(key: str, transfer: bool, config: Config, source: Source, team: Team) -> None:
    if source.pixels is None:
        raise ValueError(f"evaluation.also: {key} changes the pixels of images, and these data are not images")
    check_classes(config, source, team)
    if not transfer:
        return
    other = config.adversarial.source
    if other is None:
        raise ValueError(f"evaluation.also: {key} needs --adversarial.source, the run that the attacks are made on")
    if not (Run(beside(config, other)).folder().path / "model.safetensors").exists():
        raise ValueError(f"adversarial.source={other!r} has not finished training: train it first")


_NAMES = {"fgsm": "FGSM", "bim": "BIM", "pgd": "PGD", "deepfool": "DeepFool"}
for _name in (*ATTACKS, "deepfool"):
    for _transfer in (False, True):
        _key = f"{_name}_transfer" if _transfer else _name
        _way = "transferred " if _transfer else ""
        measurement(
            _key,
            label=f"Accuracy under {_way}{_NAMES[_name]}",
            about=f"accuracy under {_way}{_NAMES[_name]}",
            quantities=(
                Quantity(f"{_key}_accuracy", f"Accuracy under {_way}{_NAMES[_name]}", "%", True),
                *(
                    Quantity(f"{_key}_{loss}_accuracy", f"Accuracy under {_way}{_NAMES[_name]} by {words}", "%", True)
                    for loss, words in (("cross_entropy", "cross-entropy"),)
                    if _name != "deepfool"
                ),
                *(
                    Quantity(f"{_key}_{size}", f"{words} of {_way}{_NAMES[_name]}", unit, True)
                    for size, words, unit in (("size", "Size", "%"), ("l2", "ℓ₂ norm", ""), ("linf", "ℓ∞ norm", ""))
                    if _name == "deepfool"
                ),
            ),
            check=partial(_check, _key, _transfer),
        )(partial(under_attack, _name, _transfer))
