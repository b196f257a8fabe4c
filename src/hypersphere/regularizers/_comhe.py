"""Compressive minimum hyperspherical energy (thesis ch. 6): the energy of projected neurons."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .._core.checks import check_choice, check_count, check_positive
from .._core.extremes import largest
from .._core.modes import without_autocast
from .._core.neurons import Neurons, Patterns
from .._core.sphere import compute_dtype, upcast
from ..functional import unit
from ._base import beside
from ._descent import Descent, looked_at
from ._draws import MATRICES, DeviceDraws, Draws, HostDraws, gaussians, host_generator, key_of
from ._mhe import EnergyRegularizer
from ._projections import LEARNED, PROJECTIONS, check_suits
from ._views import bilateral_views, channel_count, channel_views, low_rank_factors, project


class CoMHE(EnergyRegularizer):
    """λ_h · Σ_hidden agg_c E_s(P_c ŵ_i / ‖P_c ŵ_i‖) + λ_o · E_s(output) (thesis 6.3).

    agg is the ``aggregate`` over the projections. ``projection`` says where the P_c come from:

    - ``"random"``: drawn at random, and drawn again every ``refresh`` calls (6.4, 6.5).
    - ``"angle_preserving"``: descends L_P, the squared changes of the cosines between neurons (6.6).
      ``unroll=0`` alternates: ``inner_steps`` steps on P at every ``inner_every``-th call, and the energy with P as
      a constant.
      ``unroll=n`` takes the energy after n steps and differentiates through them (second order), in evaluation mode as
      well; ``layers()`` gives the energy with the projections of the last training step.
    - ``"adversarial"``: ascends the energy itself (6.8); ``unroll`` works as above.
    - ``"learned"``: descends the energy itself along with the weights; ``unroll`` works as above. Learning P from the
      training data by back-propagation amounts to this, because only the penalty depends on P (E.8). P may find
      directions in which the neurons are spread already; then the penalty has no effect on them. With
      ``aggregate="max"`` only the projection of the largest energy moves.
    - ``"group"``: groups of ``group`` input channels of the neurons (6.9), in order or, if ``stochastic``, in an order
      drawn again every ``refresh`` calls.
    - ``"bilateral"``: E(P_1 W) + E(W P_2) (E.21); for layers made by :func:`low_rank`, the energies of
      their two factors (E.23). P_1 has at most as many rows as there are neurons.

    Layers whose neurons have one dimension have no directions: they are left out, as in :class:`MHE`.

    Args:
        model: The network whose neurons are regularized; it is not registered as a submodule.
        head: A module with a ``weight`` (num_classes, dim) that is the output layer; None: see ``output_layer``.
        projection: Where the projections come from, see above.
        dim: Dimensions of a projection, ≥ 2; 30 is the thesis' choice.
        count: Number of projections; None is 5 for random ones and 1 for all others (thesis E.9, E.6).
        aggregate: ``"mean"`` over the projections (6.4), or ``"max"`` (6.5).
        refresh: Number of training-mode calls after which projections are drawn again, learned ones too; None never.
            In thesis Table E.4, 1 and 1000 are equally good, and None is worse.
        half_space: Energy of {ŵ, −ŵ} in hidden layers; the output layer is always in full space.
        hidden: weight λ_h of the hidden layers' energies, ≥ 0; 1 as in thesis E.1.
        output: weight λ_o of the output layer's energy, ≥ 0; 0 leaves the layer out.
        s: Power of the energy, ≥ 0; 0 is the logarithm.
        distance: ``"euclidean"`` takes ‖ŵ_i − ŵ_j‖ as the distance of two neurons, ``"angular"`` the angle between them
            (thesis 5.5).
        output_layer: The output layer of the model, by name or module; None takes the one the model declares
            (``get_classifier``, ``num_classes``, ...), else the last linear layer.
        matrix: ``"gaussian"``, ``"hadamard"`` (subsampled, randomized) or ``"count_sketch"``.
        share: One basis for all layers of equal dimension (6.3.6), or one for each layer.
        small: What happens to layers whose neurons have at most ``dim`` dimensions and cannot be compressed (with
            ``"group"``: whose groups have one dimension): ``"plain"`` takes their plain energy, ``"skip"`` leaves them
            out, ``"error"`` raises an error. A model without any other layer always raises an error.
        unroll: Number of steps on a learned projection that are differentiated through; 0 alternates.
        inner_steps: Number of steps each time an alternating projection moves. With ``unroll`` > 0 leave it out.
        inner_lr: Step size η of learned projections; the thesis prints none. For angle-preserving projections η refers
            to entries N(0, 1) as in 6.4; here they are N(0, 1/dim), so a step is η/dim. Such a step ends where the
            tangent of L_P reaches 0: a full step on a fresh projection of neurons with similar directions would raise
            the energy by orders of magnitude. L_P may still rise in a step if no projection to ``dim`` dimensions
            brings it near 0.
        inner_every: Number of calls in training mode between moves of an alternating projection, which first moves at
            the first call (thesis 6.6.1: every 10 steps of the network). Unrolled projections move at each call.
        preserve: What L_P compares before and after the projection (thesis 6.6): the ``"cosine"`` or the ``"angle"``
            of each pair.
        group: Number of channels in a group.
        stochastic: Whether groups are drawn at random.
        include: Glob patterns on layer or weight names; None takes all.
        skip: Patterns of layers that are left out.
        seed: Seed of all random draws; together with the number of calls it determines them.

    Shape:
        - Input: none, or labels (...).
        - Output: scalar.

    Raises:
        ValueError: If no layer has more than ``dim`` dimensions, or an option is unknown or has no effect with this
            ``projection``.

    Example:
        >>> model = nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 3))
        >>> reg = hs.regularizers.CoMHE(model, dim=30, count=5)
        >>> reg().shape
        torch.Size([])
    """

    def __init__(
        self,
        model: nn.Module,
        head: nn.Module | None = None,
        projection: str = "random",
        dim: int = 30,
        count: int | None = None,
        aggregate: str = "mean",
        refresh: int | None = 1000,
        half_space: bool = True,
        *,
        hidden: float = 1.0,
        output: float = 1.0,
        s: float = 2.0,
        distance: str = "euclidean",
        output_layer: nn.Module | str | None = None,
        matrix: str = "gaussian",
        share: bool = True,
        small: str = "plain",
        unroll: int = 0,
        inner_steps: int = 1,
        inner_lr: float = 1.0,
        inner_every: int = 1,
        preserve: str = "cosine",
        group: int = 8,
        stochastic: bool = False,
        include: Patterns = None,
        skip: Patterns = None,
        seed: int = 0,
    ) -> None:
        super().__init__(model, head, hidden, output, s, distance, half_space, output_layer, include, skip, seed)
        self.projection = check_choice("projection", projection, PROJECTIONS)
        check_suits(
            projection, count=1 if count is None else count, matrix=matrix, unroll=unroll, inner_steps=inner_steps,
            inner_lr=inner_lr, inner_every=inner_every, preserve=preserve, group=group, stochastic=stochastic,
        )  # fmt: skip
        self.dim = check_count("dim", dim, minimum=2)
        self.count = check_count("count", (5 if projection == "random" else 1) if count is None else count)
        self.aggregate = check_choice("aggregate", aggregate, ("mean", "max"))
        self.refresh = None if refresh is None else check_count("refresh", refresh)
        self.matrix = check_choice("matrix", matrix, MATRICES)
        self.unroll = check_count("unroll", unroll, minimum=0)
        self.inner_steps = check_count("inner_steps", inner_steps, minimum=0)
        self.inner_lr = check_positive("inner_lr", inner_lr)
        self.inner_every = check_count("inner_every", inner_every)
        if unroll and inner_every > 1:
            raise ValueError(f"inner_every={inner_every} is for unroll=0: unrolled projections move at each call")
        if unroll and inner_steps != 1:
            raise ValueError(f"inner_steps={inner_steps} is for unroll=0: unroll={unroll} is the number of steps")
        self.preserve = check_choice("preserve", preserve, ("cosine", "angle"))
        self.group = check_count("group", group)
        self.stochastic, self.share = stochastic, share
        self._check_shapes()
        self._plain = self._settle_small(check_choice("small", small, ("plain", "skip", "error")))
        self._wanted = self._list_projections()
        self._channels = {n.name: channel_count(n) for n in self._hidden} if projection == "group" else {}
        self._redraw(0, self._matrices(self._hidden))

    def _settle_small(self, small: str) -> frozenset[str]:
        """Drop or mark the hidden layers that ``dim`` does not compress, or whose groups are of one dimension."""
        if self.projection == "group":
            sizes = {n.name: n.weight.shape[2:].numel() * min(self.group, channel_count(n)) for n in self._hidden}
            tiny = {name: size for name, size in sizes.items() if size == 1}
            why, fix = f"group={self.group} leaves one dimension, in which there are no directions,", "larger group"
        else:
            sizes = {n.name: n.matrix().shape[-1] for n in self._hidden if self._factors(n) is None}
            tiny = {name: size for name, size in sizes.items() if size <= self.dim}
            why, fix = f"dim={self.dim} does not compress the neurons", "smaller dim"
        shown = ", ".join(f"{name} ({size})" for name, size in list(tiny.items())[:6])
        if tiny and (small == "error" or len(tiny) == len(self._hidden)):
            raise ValueError(f"{why} of {shown}: use a {fix}")
        if small == "skip":
            self._hidden = tuple(n for n in self._hidden if n.name not in tiny)
        return frozenset(tiny) if small == "plain" else frozenset()

    # Projections: buffers by key, one for each dimension (or layer) ----------------------------------

    def _key(self, neurons: Neurons, size: int, what: str) -> str:
        return f"{what}_{size}" if self.share else f"{what}_{neurons.name.replace('.', '__')}"

    def _list_projections(self) -> dict[str, tuple[int, int, Neurons]]:
        """Of each projection by key its size, and a layer that it belongs to; an order of channels has no columns."""
        wanted: dict[str, tuple[int, int, Neurons]] = {}
        for neurons in self._hidden:
            if neurons.name in self._plain or self._factors(neurons) is not None:
                continue
            if self.projection == "group":
                if self.stochastic:
                    channels = channel_count(neurons)
                    wanted[self._key(neurons, channels, "order")] = channels, 0, neurons
                continue
            _, count, size = neurons.matrix().shape
            wanted[self._key(neurons, size, "basis")] = self.dim, size, neurons
            if self.projection == "bilateral":
                wanted[self._key(neurons, count, "mixing")] = min(self.dim, count), count, neurons
        return wanted

    @torch.inference_mode(False)  # they outlive the mode of this call
    @torch.no_grad()
    def _redraw(self, index: int, matrices: dict[str, Tensor]) -> None:
        """Draw every projection again on the host, as number ``index``."""
        for key, (rows, columns, neurons) in self._wanted.items():
            drawn, weight = (
                self._drawn(rows, columns, HostDraws(host_generator(self.seed, key, index))),
                matrices[neurons.name],
            )
            self._keep(key, drawn if columns == 0 else drawn.to(compute_dtype(weight.dtype)), weight)

    def _drawn(self, rows: int, columns: int, draws: Draws) -> Tensor:
        if columns == 0:
            return draws.permutation(rows)
        return torch.stack([MATRICES[self.matrix](rows, columns, draws) for _ in range(self.count)])

    def _matrices(self, layers: Sequence[Neurons]) -> dict[str, Tensor]:
        """The neurons of each layer by name, but of those whose factors are taken instead."""
        return {neurons.name: neurons.matrix() for neurons in layers if self._factors(neurons) is None}

    def _factors(self, neurons: Neurons) -> tuple[Tensor, Tensor] | None:
        """The factors of a low-rank bilateral layer, where their energies are taken."""
        return low_rank_factors(neurons) if self.projection == "bilateral" else None

    def _bases(self, matrices: dict[str, Tensor]) -> dict[str, Tensor]:
        """The projections that are kept, beside the layers."""
        return {key: self._buffer_on(key, matrices[one.name].device) for key, (_, _, one) in self._wanted.items()}

    def _current(self, matrices: dict[str, Tensor]) -> dict[str, Tensor]:
        """The projections of this call, drawn again where that is due."""
        if self._on_host():
            if self.training and self.refresh and self.steps and self.steps % self.refresh == 0:
                self._redraw(self.steps // self.refresh, matrices)
            return self._bases(matrices)
        kept = {key: self.get_buffer(key) for key in self._wanted}
        if not self.training or self.refresh is None:
            return self._bases(matrices)
        seed, steps = self._counter
        due, index = (steps > 0) & (steps % self.refresh == 0), steps // self.refresh
        with torch.no_grad():
            fresh = self._drawn_on_device(seed, index)
            current = {key: torch.where(due, fresh[key].to(kept[key]), kept[key]) for key in kept}
            for key in kept:
                kept[key].copy_(current[key])
        return current

    def _drawn_on_device(self, seed: Tensor, index: Tensor) -> dict[str, Tensor]:
        if self.matrix != "gaussian" or self.projection == "group":
            keyed = ((key, DeviceDraws(key_of(seed, key, index))) for key in self._wanted)
            return {key: self._drawn(*self._wanted[key][:2], draws) for key, draws in keyed}
        shapes = [(self.count, rows, columns) for rows, columns, _ in self._wanted.values()]
        drawn = gaussians(shapes, DeviceDraws(key_of(seed, "bases", index)))
        return dict(zip(self._wanted, drawn, strict=True))

    def _keep(self, key: str, value: Tensor, like: Tensor) -> None:
        """As a new tensor, since graphs of earlier calls keep theirs; but where graphs are replayed, in its place."""
        if self._on_host() or key not in self._buffers:
            self.register_buffer(key, value.to(beside(like)))
        else:
            self.get_buffer(key).copy_(value)

    # Energies ----------------------------------------------------------------------------------------

    def _sets(self) -> tuple[list[list[Tensor]], list[Tensor | None]]:
        matrices = self._matrices(self._hidden)
        current = self._current(matrices)
        if self.projection in LEARNED:
            current = self._learn(current, matrices)
        if self.projection in ("group", "bilateral") or self._counter.device.type == "cpu":
            return [self._views(neurons, matrices, current) for neurons in self._hidden], []
        return self._projected_together(current, matrices), []

    def _layer_sets(self, neurons: Neurons) -> list[Tensor]:
        return self._views(neurons, self._matrices([neurons]), {key: self.get_buffer(key) for key in self._wanted})

    def _views(self, neurons: Neurons, matrices: dict[str, Tensor], current: dict[str, Tensor]) -> list[Tensor]:
        """The sets of vectors that a layer has energies of."""
        matrix = matrices.get(neurons.name)
        if matrix is None:
            return [factor[None, None] for factor in self._factors(neurons) or ()]
        if neurons.name in self._plain:
            return [matrix]
        if self.projection == "group":
            channels = self._channels[neurons.name]
            order = current[self._key(neurons, channels, "order")] if self.stochastic else None
            return channel_views(matrix, channels, self.group, order)
        bases, matrix = current[self._key(neurons, matrix.shape[-1], "basis")], upcast(matrix)
        with without_autocast(matrix.device):
            if self.projection == "bilateral":
                return list(bilateral_views(matrix, bases, current[self._key(neurons, matrix.shape[-2], "mixing")]))
            return [project(matrix, bases)]

    def _projected_together(self, current: dict[str, Tensor], matrices: dict[str, Tensor]) -> list[list[Tensor]]:
        """As :meth:`_views` of each layer, with one product for all layers that share a basis."""
        shared: dict[str, list[str]] = {}
        for neurons in self._hidden:
            if neurons.name not in self._plain:
                key = self._key(neurons, matrices[neurons.name].shape[-1], "basis")
                shared.setdefault(key, []).append(neurons.name)
        images: dict[str, Tensor] = {}
        for key, names in shared.items():
            rows = [upcast(matrices[name]).flatten(0, 1) for name in names]
            with without_autocast(rows[0].device):
                parts = project(torch.cat(rows)[None], current[key])[:, 0].split([len(part) for part in rows], 1)
            images |= {
                name: part.unflatten(1, matrices[name].shape[:2]) for name, part in zip(names, parts, strict=True)
            }
        return [[images.get(neurons.name, matrices[neurons.name])] for neurons in self._hidden]

    def _combine(self, energies: list[Tensor]) -> Tensor:
        """Over projections (first), after the mean over the layer's sets of neurons."""
        if self.projection == "bilateral" and len(energies) == 2:
            each = energies[0] + energies[1]
        else:
            each = torch.cat(energies) if self.projection == "group" else energies[0]
        if each.ndim == 1:  # a layer that is not compressed
            return each.mean()
        each = each.mean(tuple(range(1, each.ndim)))
        return largest(each, 0) if self.aggregate == "max" else each.mean()

    def _shares(self, sets: list[Tensor]) -> list[float] | None:
        views, groups = sum(one.shape[0] for one in sets), sets[0].shape[1:-2].numel()
        if self.aggregate == "max" and sets[0].ndim > 3:
            return None
        if self.projection == "bilateral":
            return [1 / one.shape[:-2].numel() for one in sets]
        return [1 / (views * groups)] * len(sets)

    # Learned projections (thesis 6.3.4, 6.3.5) -------------------------------------------------------

    def _learn(self, current: dict[str, Tensor], matrices: dict[str, Tensor]) -> dict[str, Tensor]:
        """The projections after this call's steps, differentiable if unrolled; in training mode they are kept."""
        sets: dict[str, list[Tensor]] = {}
        for neurons in self._hidden:
            if neurons.name not in self._plain:
                weight = unit(upcast(matrices[neurons.name]))
                sets.setdefault(self._key(neurons, weight.shape[-1], "basis"), []).append(weight)
        step = self._unrolled if self.unroll else self._alternate
        learned = {key: step(current[key], weights) for key, weights in sets.items()}
        if self.training and not looked_at():
            for key, bases in learned.items():
                if not bases.is_meta:
                    self._keep(key, bases.detach(), bases)
        return learned

    def _unrolled(self, bases: Tensor, weights: list[Tensor]) -> Tensor:
        """After this call's steps, differentiable."""
        differentiable = torch.is_grad_enabled()
        if differentiable and not self._on_host():  # the buffer is written in place, and the backward pass needs this
            bases = bases.clone()
        return self._descent(bases, weights, self.unroll, differentiable)

    def _alternate(self, bases: Tensor, weights: list[Tensor]) -> Tensor:
        """After this call's own steps, at calls where there are any."""
        weights = [weight.detach() for weight in weights]
        if looked_at() or not self.training:
            return bases.detach()
        if self._on_host():
            return self._descent(bases, weights, self.inner_steps if self.steps % self.inner_every == 0 else 0)
        moved = self._descent(bases, weights, self.inner_steps)
        return torch.where(self._counter[1] % self.inner_every == 0, moved, bases)

    @property
    def _descent(self) -> Descent:
        return Descent(
            self.projection, self.preserve, self.aggregate, self.dim, self.inner_lr,
            self.s, self.distance, self.half_space,
        )  # fmt: skip
