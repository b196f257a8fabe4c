"""What must be there for the judging that comes last, said before the training."""

from __future__ import annotations

import torch

from .. import data
from ..data.loader import IGNORE
from .config import Config
from .data import Source
from .distributed import Team
from .judge_source import FACES, on_faces
from .measures.robustness import ROBUSTNESS
from .runs import Run
from .start import beside

__all__ = ["check_judging"]


def check_judging(config: Config, source: Source, team: Team) -> None:
    """Raise now rather than after the training, if the network cannot be judged as the settings say."""
    rules = config.evaluation
    for name in rules.also:
        if name in FACES:
            on_faces(name, source, config, team)
        if name in ROBUSTNESS:
            _check_attack(name, config, source)
        if name == "real_inception" and config.gan.generator is None:
            raise ValueError("evaluation.also: real_inception scores images beside those of a GAN, and this is none")
    if rules.protocol == "verification" and source.pairs is None and source.resident:
        labels = torch.cat([rows for _, own in source.test() for rows in team.gather(own)])
        data.make_pairs(labels[labels != IGNORE], rules.folds, rules.pairs)


def _check_attack(name: str, config: Config, source: Source) -> None:
    if source.pixels is None:
        raise ValueError(f"evaluation.also: {name} changes the pixels of images, and these data are no images")
    if not name.endswith("_transfer"):
        return
    other = config.adversarial.source
    if other is None:
        raise ValueError(f"evaluation.also: {name} needs --adversarial.source, the run that the attacks are made on")
    if not (Run(beside(config, other)).folder().path / "model.safetensors").exists():
        raise ValueError(f"adversarial.source={other!r} is not trained to its end: do that first")
