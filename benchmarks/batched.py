"""K networks of one shape as one network: their filters are the groups of its convolutions.

A fully connected operator becomes a convolution whose window is the whole map, and the classifiers one batch of
matrices. BatchNorm and what has no weights work channel by channel, so each network keeps its own statistics. A step of
:class:`Batched` computes a step of every network; :func:`agreement` measures how closely.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

import hypersphere as hs

Batch = tuple[Tensor, Tensor]  # (K, N, C, H, W) and (K, N): images and labels of every network


class Batched(nn.Module):
    """(N, K·C, H, W) → (K, N, classes), from K networks of spherical convolutions made by :mod:`hypersphere.models`."""

    def __init__(self, networks: Sequence[Any]) -> None:
        super().__init__()
        self.count = len(networks)
        shape: tuple[int, ...] = ()
        body: list[nn.Module] = []
        for row in zip(*(_leaves(network.body) for network in networks), strict=True):
            if isinstance(row[0], hs.models.network.Flatten):
                shape = row[0].shape
            else:
                body.append(_joined(row, shape))
        self.body = hs.nn.fuse(nn.Sequential(*body))
        self.classifiers = Classifiers([network.classifier for network in networks])

    def forward(self, x: Tensor) -> Tensor:
        return self.classifiers(self.body(x).reshape(len(x), self.count, -1).transpose(0, 1))


class Classifiers(nn.Module):
    """(K, N, features) → (K, N, classes), by K linear classifiers."""

    def __init__(self, each: Sequence[Any]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.stack([one.weight.detach() for one in each]))
        self.bias = nn.Parameter(torch.stack([one.bias.detach() for one in each]))

    def forward(self, features: Tensor) -> Tensor:
        return torch.baddbmm(self.bias[:, None], features, self.weight.mT)


def _leaves(body: nn.Module) -> Iterator[nn.Module]:
    for module in body.children():
        if isinstance(module, nn.Sequential):
            yield from _leaves(module)
        else:
            yield module


def _joined(row: Sequence[Any], shape: tuple[int, ...]) -> nn.Module:
    """The layers at one place of all networks as one; ``shape`` is that of the maps that the last ones read."""
    first, count = row[0], len(row)
    joined: Any
    if isinstance(first, hs.nn.SphereConv2d):
        inputs, window = first.in_channels, first.kernel_size
        how = {name: getattr(first, name) for name in ("stride", "padding", "dilation", "padding_mode")}
        if first.groups > 1:
            raise TypeError("a convolution with groups is not joined here: use a network without")
    elif isinstance(first, hs.nn.SphereLinear):
        inputs, window, how = shape[0], shape[1:], {}
    elif isinstance(first, nn.BatchNorm1d | nn.BatchNorm2d):
        joined = nn.BatchNorm2d(count * first.num_features, first.eps, first.momentum)
        for name in ("weight", "bias", "running_mean", "running_var"):
            getattr(joined, name).data = torch.cat([getattr(one, name).detach() for one in row])
        return joined
    elif any(True for _ in first.parameters()):
        raise TypeError(f"{type(first).__name__} has no batched form here: use a network of SphereConvs")
    else:
        return copy.deepcopy(first)
    weight = torch.cat([one.weight.detach().reshape(-1, inputs, *window) for one in row])
    if any(True for _ in first.angular.parameters()):
        raise TypeError(f"{first.angular} has weights of its own, which are not joined here: use a fixed k")
    if first.bias is not None or first.scale is not None:
        raise TypeError("a bias or a rescaled output is not joined here: use layers without")
    joined = hs.nn.SphereConv2d(count * inputs, len(weight), window, groups=count, angular=first.angular, **how)
    joined.weight.data = weight
    return joined


def side_by_side(images: Tensor) -> Tensor:
    """(K, N, C, H, W) → (N, K·C, H, W), as :class:`Batched` reads them."""
    return images.transpose(0, 1).flatten(1, 2)


def rows(tensors: Iterable[Tensor], count: int = 1) -> Tensor:
    """All numbers in a row for each network: (K, P)."""
    return torch.cat([tensor.detach().reshape(count, -1) for tensor in tensors], 1)


def losses(logits: Tensor, labels: Tensor) -> Tensor:
    """The mean cross-entropy of each network."""
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    each = nn.functional.cross_entropy(logits.flatten(0, -2), labels.flatten(), reduction="none")
    return each.view(labels.shape).mean(-1)


class Steps:
    """Steps of Adam on batches of one shape; ``captured`` compiles them and, after three, replays a CUDA graph."""

    def __init__(self, model: nn.Module, x: Tensor, labels: Tensor, bfloat16: bool, captured: bool = False) -> None:
        gpu = x.is_cuda
        rate: Any = torch.tensor(1e-3, device=x.device) if gpu else 1e-3
        self.optimizer = torch.optim.Adam(model.parameters(), lr=rate, fused=gpu, capturable=captured)
        self.x, self.labels = x.clone(memory_format=torch.preserve_format), labels.clone()
        self.losses = torch.empty(())
        self._made, self._side = 0, torch.cuda.Stream() if captured else None
        self._replay: Callable[[], None] | None = None

        def forward() -> Tensor:
            with torch.autocast(x.device.type, torch.bfloat16, enabled=bfloat16, cache_enabled=False):
                logits = model(self.x)
            return losses(logits, self.labels)

        self._forward: Callable[[], Tensor] = torch.compile(forward) if captured else forward

    def __call__(self, x: Tensor, labels: Tensor) -> Tensor:
        self.x.copy_(x)
        self.labels.copy_(labels)
        return self.again()

    def again(self) -> Tensor:
        """A step on the batch of the last one; the loss of each network before it."""
        if self._replay is not None:
            self._replay()
        elif self._side is None:
            self._step()
        else:
            self._side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._side):
                self._step()
            torch.cuda.synchronize()
            self._made += 1
            if self._made == 3:
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    self._step()
                self._replay = graph.replay
        return self.losses.clone()

    def _step(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        each = self._forward()
        each.sum().backward()
        self.optimizer.step()
        self.losses = each.detach()


def patterns(count: int, size: int, steps: int, shape: tuple[int, int, int], classes: int = 10) -> Iterator[Batch]:
    """``steps`` batches of noisy patterns, one pattern for each class; every network has draws of its own."""
    draw = torch.Generator().manual_seed(0)
    clean = torch.randn(classes, *shape, generator=draw)
    for _ in range(steps):
        labels = torch.randint(0, classes, (count, size), generator=draw)
        yield clean[labels] + 2 * torch.randn(count, size, *shape, generator=draw), labels


def agreement(
    networks: Sequence[nn.Module], batches: Iterable[Batch], bfloat16: bool = False, captured: bool = False
) -> dict[str, Any]:
    """How far the batched network is from the networks alone after the same steps, on the device of ``networks``.

    The networks stay as they are. Copies of them are trained batched, alone, and alone with every weight changed by its
    last bit, which shows what rounding becomes in as many steps.

    Returns:
        ``loss`` and ``weights``: the largest differences between batched and alone, of the losses in the first step,
        the second, the fourth and so on, and of the weights after the last. ``last_bit_loss`` and ``last_bit_weights``:
        the same between the two trainings alone. ``seeds_loss`` and ``seeds_weights``: between two networks alone.
    """
    count, sample = len(networks), next(networks[0].parameters())
    batched, alone, nudged = Batched(networks), copy.deepcopy(list(networks)), copy.deepcopy(list(networks))
    batched.to(sample.device)
    if sample.is_cuda:
        batched.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    draw = torch.Generator().manual_seed(1)
    for p in (p for network in nudged for p in network.parameters()):
        signs = torch.randint(0, 2, p.shape, generator=draw).to(p) * 2 - 1
        p.data = torch.nextafter(p.detach(), p.detach() + signs)
    turns: list[Steps] = []
    curves: list[Tensor] = []
    for images, labels in batches:
        images, labels = images.to(sample), labels.to(sample.device)
        runs: list[tuple[nn.Module, Tensor, Tensor]] = [(batched, _laid_out(side_by_side(images)), labels)]
        runs += [
            (one, _laid_out(x), y) for group in (alone, nudged) for one, x, y in zip(group, images, labels, strict=True)
        ]
        if not turns:
            turns = [Steps(model, x, y, bfloat16, captured and model is batched) for model, x, y in runs]
        done = [step(x, y).cpu().reshape(-1) for step, (_, x, y) in zip(turns, runs, strict=True)]
        curves.append(torch.cat(done).view(3, count))
    ours = rows(batched.parameters(), count)
    theirs, again = (torch.cat([rows(one.parameters()) for one in group]) for group in (alone, nudged))
    apart: dict[str, dict[int, float]] = {"loss": {}, "last_bit_loss": {}, "seeds_loss": {}}
    for step in (2**power for power in range(len(curves).bit_length())):
        together, single, changed = curves[step - 1]
        apart["loss"][step] = _farthest(together, single)
        apart["last_bit_loss"][step] = _farthest(changed, single)
        apart["seeds_loss"][step] = _farthest(single, single.roll(1))
    return {
        "steps": len(curves),
        **apart,
        "weights": _farthest(ours, theirs),
        "last_bit_weights": _farthest(again, theirs),
        "seeds_weights": _farthest(theirs, theirs.roll(1, 0)),
    }


def _farthest(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max())


def _laid_out(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last) if x.is_cuda else x.contiguous()
