"""Few-shot classification on fixed features: a new classifier for each episode, all episodes trained at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from .._core.arrays import takes_arrays
from .._core.checks import check_choice, check_count, check_positive
from .._core.modes import without_autocast
from .._core.sphere import upcast
from .._core.streams import Shown
from ..functional import unit
from ._inputs import check_features, check_labels

_EPISODES = 100  # trained at once


@dataclass(frozen=True, eq=False)
class FewShotResult(Shown):
    """What :func:`few_shot` gives; rates are fractions in [0, 1].

    Attributes:
        accuracy: Mean accuracy over the episodes, a fraction in [0, 1].
        interval: Half-width of its 95 % confidence interval, 1.96 sample standard deviations over √episodes.
        episode_accuracies: Accuracy of each episode, (episodes,), fractions in [0, 1].

    Example:
        >>> features, labels = torch.randn(60, 8), torch.arange(60) % 3
        >>> result = hs.metrics.few_shot(features, labels, ways=3, shots=2, queries=4, episodes=5, method="nearest")
        >>> result.episode_accuracies.shape
        torch.Size([5])
    """

    accuracy: float
    interval: float
    episode_accuracies: Tensor

    def __repr__(self) -> str:
        return (
            f"FewShotResult(accuracy={self.accuracy:.4f} ± {self.interval:.4f}, "
            f"{len(self.episode_accuracies)} episodes)"
        )


@takes_arrays("features", labels=("labels",))
def few_shot(
    features: Tensor,
    labels: Tensor,
    *,
    ways: int = 5,
    shots: int = 5,
    queries: int = 16,
    episodes: int = 600,
    method: str = "baseline++",
    seed: int = 0,
    epochs: int = 100,
    batch_size: int = 4,
    lr: float = 1e-2,
    weight_decay: float = 1e-3,
    scale: float = 2.0,
) -> FewShotResult:
    """Accuracy on new samples of classes that were seen a few times (thesis Table 7.10).

    - ``"baseline"``: a linear classifier w·x + b trained on the support samples;
    - ``"baseline++"``: a cosine classifier c·ŵ·x̂ with c = ``scale``;
    - ``"nearest"``: the class whose mean support direction has the largest cosine; nothing is trained.

    The training is that of thesis sec. F.3: SGD with momentum 0.9 and dampening 0.9 over shuffled support batches,
    cross-entropy, a new classifier for each episode. The features stay fixed, as in the two baselines.

    Args:
        features: embeddings (N, d), one sample per row; they stay fixed.
        labels: class index of each sample, (N,); episodes are drawn from these classes.
        ways: number of classes of an episode, ≥ 2; more ways are harder.
        shots: support samples of each class, ≥ 1.
        queries: samples of each class that are classified.
        episodes: number of episodes; the confidence interval shrinks with its square root.
        method: the classifier of an episode: ``"baseline"``, ``"baseline++"`` or ``"nearest"``, as described above.
        seed: seed of the episodes and classifiers; the same seed gives the same episodes for every method.
        epochs: passes over the support samples of an episode, ≥ 1 (thesis F.3: 100).
        batch_size: number of support samples of an SGD step, ≥ 1 (thesis F.3: 4).
        lr: learning rate of the classifier, > 0 (thesis F.3: 0.01).
        weight_decay: weight decay of the classifier, ≥ 0 (thesis F.3: 0.001).
        scale: c of the cosine classifier, > 0.

    Returns:
        Mean accuracy, its confidence interval and the accuracy of each episode.

    Raises:
        ValueError: If fewer than ``ways`` classes have ``shots`` + ``queries`` samples, or a number is out of range.

    Example:
        >>> features, labels = torch.eye(3).repeat(20, 1), torch.arange(60) % 3
        >>> hs.metrics.few_shot(features, labels, ways=3, shots=2, queries=4, episodes=5, method="nearest").accuracy
        1.0
    """
    x = check_features("features", features)
    y = check_labels("labels", labels, len(x)).cpu()
    check_choice("method", method, ("baseline", "baseline++", "nearest"))
    for name, value in (("shots", shots), ("queries", queries), ("epochs", epochs), ("batch_size", batch_size)):
        check_count(name, value)
    check_count("ways", ways, minimum=2)
    check_count("episodes", episodes, minimum=2)
    check_positive("lr", lr)
    check_positive("weight_decay", weight_decay, zero=True)
    check_positive("scale", scale)
    generator = torch.Generator().manual_seed(seed)
    draws = _draw(y, ways, shots + queries, episodes, generator)
    targets = torch.arange(ways, device=x.device)
    accuracies = []
    with torch.inference_mode(False), without_autocast(x.device):
        for rows in draws.split(_EPISODES):
            support = upcast(x[rows[:, :, :shots].to(x.device)])
            asked = upcast(x[rows[:, :, shots:].to(x.device)]).flatten(1, 2)
            if method == "nearest":
                with torch.no_grad():
                    scores = asked @ unit(unit(support).sum(2)).mT
            else:
                classifier = _cosine(scale) if method == "baseline++" else _linear
                settings = _Training(epochs, batch_size, lr, weight_decay)
                scores = _train(
                    support.flatten(1, 2), targets.repeat_interleave(shots), classifier, settings, generator
                )(asked)
            hits = scores.argmax(2) == targets.repeat_interleave(queries)
            accuracies.append(hits.cpu().double().mean(1))
    shares = torch.cat(accuracies)
    return FewShotResult(float(shares.mean()), 1.96 * float(shares.std()) / math.sqrt(episodes), shares)


@dataclass(frozen=True)
class _Training:
    epochs: int
    batch_size: int
    lr: float
    weight_decay: float


_Classifier = Callable[[Tensor, Tensor, Tensor], Tensor]


def _linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return x @ weight.mT + bias[:, None]


def _cosine(scale: float) -> _Classifier:
    return lambda x, weight, _: scale * unit(x) @ unit(weight).mT


def _train(
    support: Tensor, labels: Tensor, classifier: _Classifier, settings: _Training, generator: torch.Generator
) -> Callable[[Tensor], Tensor]:
    """The classifiers of all episodes, support (E, n, d): updates are elementwise, so one optimizer serves all."""
    episodes, count, dim = support.shape
    ways, bound = int(labels.max()) + 1, dim**-0.5  # uniform within ±1/√d, as nn.Linear starts
    draws = torch.rand(episodes, ways, dim + 1, generator=generator, device="cpu").to(support)
    draws = draws.mul_(2 * bound).sub_(bound)
    weight, bias = draws[:, :, :dim].contiguous().requires_grad_(), draws[:, :, dim].contiguous().requires_grad_()
    learned = [weight, bias] if classifier is _linear else [weight]
    optimizer = torch.optim.SGD(learned, settings.lr, 0.9, dampening=0.9, weight_decay=settings.weight_decay)
    for _ in range(settings.epochs):
        order = torch.rand(episodes, count, generator=generator, device="cpu").argsort(1).to(support.device)
        shuffled = support.gather(1, order[:, :, None].expand(-1, -1, dim))
        batches = zip(*(part.split(settings.batch_size, 1) for part in (shuffled, labels[order])), strict=True)
        for chosen, target in batches:
            with torch.enable_grad():
                scores = classifier(chosen, weight, bias)
                loss = F.cross_entropy(scores.flatten(0, 1), target.flatten(), reduction="sum") / target.shape[1]
                optimizer.zero_grad()
                torch.autograd.backward(loss)
            optimizer.step()
    return lambda x: classifier(x, weight, bias).detach()


def _draw(labels: Tensor, ways: int, samples: int, episodes: int, generator: torch.Generator) -> Tensor:
    """Rows of each episode, (episodes, ways, samples): classes and samples without replacement."""
    members = [(labels == label).nonzero().squeeze(1) for label in labels.unique()]
    usable = [rows for rows in members if len(rows) >= samples]
    if len(usable) < ways:
        raise ValueError(
            f"{len(usable)} of {len(members)} classes have the {samples} samples that shots + queries need, but "
            f"ways={ways}: take fewer ways, shots or queries"
        )
    drawn = []
    for _ in range(episodes):
        chosen = torch.randperm(len(usable), generator=generator, device="cpu")[:ways].tolist()
        orders = [torch.randperm(len(usable[i]), generator=generator, device="cpu") for i in chosen]
        drawn.append(torch.stack([usable[i][order[:samples]] for i, order in zip(chosen, orders, strict=True)]))
    return torch.stack(drawn)
