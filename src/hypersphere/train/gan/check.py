"""What of a GAN's settings must fit together, said before training."""

from __future__ import annotations

from ...config import Config
from ...evaluation.inception import make_scorer
from ...runs import Team
from ...sources import Source


def check_gan(config: Config, source: Source, team: Team) -> None:
    """Raise if generator, data, evaluation and scoring network do not belong together."""
    generates = config.evaluation.protocol == "generation"
    if config.gan.generator is None:
        if generates:
            raise ValueError("evaluation.protocol='generation' evaluates a GAN: name --gan.generator sngan_generator")
        return
    if not generates:
        raise ValueError(
            f"evaluation.protocol={config.evaluation.protocol!r} is for classifiers: a GAN is evaluated by generation"
        )
    if config.data.normalize != "symmetric":
        raise ValueError(f"data.normalize={config.data.normalize!r}: a generator ends in tanh, so it must be symmetric")
    if config.data.batch_size % (config.gan.updates * team.world):
        raise ValueError(
            f"data.batch_size={config.data.batch_size} is shared by gan.updates={config.gan.updates} updates of the "
            f"discriminator in {team.world} processes: take a multiple"
        )
    if config.adversarial.train is not None:
        raise ValueError("adversarial.train attacks classifiers: leave it out of a GAN")
    if config.evaluation.inception is not None:
        make_scorer(config, source.facts, team.device)
