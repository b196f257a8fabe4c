"""What a run trains, from its settings and the facts of its data: the one place where networks are built."""

from __future__ import annotations

import copy
from functools import partial

import torch
from torch import nn

from .. import functional, orthogonal
from .._core.neurons import iter_neurons
from .._core.output_layer import find_output_layer
from ..config import Config, OrthogonalConfig
from .facts import Facts
from .gan import Gan, make_gan
from .model import Classifier, feature_dim, make_head, make_model


class Networks(nn.Module):
    """The network of a run, its head where the class vectors are separate, and a GAN's generator.

    Its ``state_dict`` is that of a checkpoint: ``model.*``, ``head.*``, ``generator.*``.

    Args:
        model: The network, or the discriminator of a GAN.
        head: The head, if the class vectors are not in the network.
        generator: The generator, if the run is a GAN; None otherwise.

    Example:
        >>> networks = hs.runs.Networks(nn.Linear(4, 8), hs.losses.ArcFace(8, 3))
        >>> networks.classifier()(torch.randn(2, 4)).shape
        torch.Size([2, 3])
    """

    def __init__(self, model: nn.Module, head: nn.Module | None = None, generator: nn.Module | None = None) -> None:
        super().__init__()
        self.model, self.head, self.generator = model, head, generator

    def classifier(self) -> nn.Module:
        """Return the network that is evaluated and saved.

        Returns:
            A network from inputs to logits, or both networks of a GAN.
        """
        if self.generator is not None:
            return Gan(self.generator, self.model)
        return self.model if self.head is None else Classifier(self.model, self.head)


def make_networks(config: Config, facts: Facts, *, embedding: bool = False) -> Networks:
    """Build networks with fresh weights, drawn from torch's random numbers; :func:`attach` adds orthogonal matrices.

    Args:
        config: The settings of the run: model, loss, orthogonal training and GAN.
        facts: Classes and sizes of its data.
        embedding: Leave out the network's own classifier, if it has one: its output is then the embedding.

    Returns:
        The network, its head and a GAN's generator.

    Example:
        >>> from hypersphere import recipes
        >>> facts = hs.runs.Facts(num_classes=10, in_channels=1, image_size=(8, 8))
        >>> networks = hs.runs.make_networks(recipes.get("digits.cnn"), facts)
        >>> networks.classifier()(torch.randn(2, 1, 8, 8)).shape
        torch.Size([2, 10])
    """
    if config.gan.generator is not None:
        gan = make_gan(config, facts)
        return Networks(gan.discriminator, None, gan.generator)
    own = config.loss.own_classifier
    model = make_model(config.model, facts, classifier=own and not embedding)
    features = 0 if own else feature_dim(model, config.model.name)
    return Networks(model, make_head(config.loss, features, facts.num_classes))


def attach(config: OrthogonalConfig, model: nn.Module, head: nn.Module | None, seed: int, keep: bool = False) -> None:
    """Put orthogonal matrices into a network, if the settings ask for them.

    Layers with fewer channels than ``blocks`` (a first convolution of three) get a block for each channel.

    Args:
        config: the settings of orthogonal training, ``Config.orthogonal``.
        model: the network, whose hidden layers are parametrized in place.
        head: its head, if it has one.
        seed: seed of the matrices and neurons.
        keep: rotate the present neurons instead of new ones.

    Raises:
        ValueError: if there are more blocks than any layer has channels.

    Example:
        >>> from hypersphere.config import OrthogonalConfig
        >>> model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
        >>> hs.runs.attach(OrthogonalConfig(method="cayley"), model, None, seed=0)
        >>> list(hs.orthogonal.matrices(model))
        ['0.weight']
    """
    if config.method is None:
        return
    generator = torch.Generator().manual_seed(seed)
    last = find_output_layer(model, head)
    learned = (n for n in iter_neurons(model) if n.weight.requires_grad)  # frozen ones stay as they are
    found = [n for n in learned if last is None or n.module is not last[1]]
    drawn = bool(config.mean) or config.std is not None
    with torch.no_grad():
        for neurons in found if drawn else ():
            std = (2.0 / neurons.matrix().shape[-1]) ** 0.5 if config.std is None else config.std
            noise = torch.randn(neurons.weight.shape, generator=generator, device="cpu")
            neurons.weight.copy_(noise * std + config.mean)
    kept = keep or drawn or config.init == "identity" or config.neurons == "keep"
    small = {n.name: n.channels for n in found if n.channels < config.blocks}
    plans: list[tuple[int, list[str] | None]] = [(channels, [name]) for name, channels in small.items()]
    rest = [n.name for n in found if n.name not in small]
    if small and not rest:
        most = max(small.values())
        raise ValueError(f"orthogonal.blocks={config.blocks} is more than the {most} channels of the largest layer")
    plans.append((config.blocks, rest if small else None))
    refinement = partial(
        functional.refine, half_space=config.refine == "half", steps=config.refine_steps, lr=config.refine_lr
    )
    for blocks, include in plans:
        orthogonal.attach(
            model,
            config.method,
            blocks=blocks,
            share_blocks=config.share_blocks,
            normalize=config.normalize,
            refine=None if config.refine is None else refinement,
            init=config.init,
            neurons="keep" if kept else "gaussian",
            learn_v=config.learn_v,
            head=head,
            include=include,
            generator=generator,
        )
    if not config.learn_r:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(".parametrizations." not in name)


def merged(classifier: nn.Module) -> nn.Module:
    """Copy a network with its orthogonal matrices multiplied into the weights, if it has any.

    Args:
        classifier: the trained network, whose rotations are multiplied into the weights of a copy.

    Returns:
        A copy of the network with plain weights.

    Example:
        >>> model = hs.orthogonal.attach(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)))
        >>> list(hs.runs.merged(model).state_dict())
        ['0.weight', '0.bias', '1.weight', '1.bias']
    """
    plain = copy.deepcopy(classifier)
    try:
        return orthogonal.merge(plain)
    except ValueError:  # nothing was attached
        return plain
