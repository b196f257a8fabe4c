"""Compressive minimum hyperspherical energy (thesis ch. 6): the energy of projected neurons."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .._core.errors import check_choice, check_count, check_positive
from .._core.modes import without_autocast
from .._core.neurons import Neurons, Patterns
from .._core.sphere import compute_dtype, upcast
from ..functional import energy, unit
from ._mhe import EnergyRegularizer
from ._projections import MATRICES
from ._views import bilateral_views, channel_count, channel_views, low_rank_factors, preservation, project

__all__ = ["CoMHE"]

_PROJECTIONS = ("random", "angle_preserving", "adversarial", "group", "bilateral")


class CoMHE(EnergyRegularizer):
    """λ_h · Σ_hidden agg_c E_s(P_c ŵ_i / ‖P_c ŵ_i‖) + λ_o · E_s(output) (thesis 6.3).

    ``projection`` says where the P_c come from:

    - ``"random"``: drawn, and drawn anew every ``refresh`` calls (6.4, 6.5).
    - ``"angle_preserving"``: descends L_P, the squared changes of the cosines between neurons (6.6).
      ``unroll=0`` alternates: ``inner_steps`` steps on P at every ``inner_every``-th call, and the energy with P as
      a constant.
      ``unroll=n`` takes the energy after n steps and differentiates through them (second order).
    - ``"adversarial"``: ascends the energy itself (6.8), in the same two ways.
    - ``"group"``: the neurons' input channels in groups of ``group`` (6.9), in order or, if
      ``stochastic``, in an order drawn anew every ``refresh`` calls.
    - ``"bilateral"``: E(P_1 W) + E(W P_2) (E.21); for layers made by :func:`low_rank`, the energies of
      their two factors (E.23). Mixes at most as many neurons as there are.

    Args:
        dim, count: so many dimensions and projections. ``count=None`` is 5, and 1 for the learned and
            bilateral ones (thesis E.9, E.6).
        aggregate: ``"mean"`` over the projections (6.4), or ``"max"`` (6.5).
        refresh: redraw every so many calls in training mode, learned projections too; None never.
            Thesis Table E.4 finds 1 and 1000 alike and never worse.
        half_space, hidden, output, s, distance: as in :class:`MHE`; λ_h = 1 (thesis E.1).
        matrix: ``"gaussian"``, ``"hadamard"`` (subsampled, randomized) or ``"count_sketch"``.
        share: one basis for all layers of equal dimension (6.3.6), or one for each layer.
        small: layers whose neurons have no more than ``dim`` dimensions cannot be compressed:
            ``"plain"`` takes their plain energy, ``"skip"`` leaves them out, ``"error"`` refuses.
            A model with no other layer is refused.
        inner_lr: step size η of learned projections; of angle-preserving ones as if their entries were N(0, 1) like
            in 6.4 (here they are N(0, 1/dim), so a step is η/dim). The thesis prints no η.
        inner_every: alternating ones move at every so many calls in training mode, first at the first one (thesis
            6.6.1: every 10 steps of the network). Unrolled ones move at each call.
        preserve: ``"cosine"`` or ``"angle"`` in L_P.

    The projections, the call count and the seed are in ``state_dict``.
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
        self.projection = check_choice("projection", projection, _PROJECTIONS)
        self.dim = check_count("dim", dim)
        self.count = check_count("count", (5 if projection == "random" else 1) if count is None else count)
        self.aggregate = check_choice("aggregate", aggregate, ("mean", "max"))
        self.refresh = None if refresh is None else check_count("refresh", refresh)
        self.matrix = check_choice("matrix", matrix, MATRICES)
        self.unroll = check_count("unroll", unroll, minimum=0)
        self.inner_steps = check_count("inner_steps", inner_steps, minimum=0)
        self.inner_lr = check_positive("inner_lr", inner_lr)
        self.inner_every = check_count("inner_every", inner_every)
        if unroll and inner_every > 1:
            raise ValueError(f"inner_every={inner_every} is for unroll=0: what is unrolled moves at each call")
        self.preserve = check_choice("preserve", preserve, ("cosine", "angle"))
        self.group = check_count("group", group)
        self.stochastic, self.share = stochastic, share
        self._check_shapes()
        self._plain = self._settle_small(check_choice("small", small, ("plain", "skip", "error")))
        self._draw()

    def _settle_small(self, small: str) -> frozenset[str]:
        """Drop or mark the hidden layers that ``dim`` does not compress."""
        if self.projection == "group":
            return frozenset()
        sizes = {n.name: n.matrix().shape[-1] for n in self._hidden if low_rank_factors(n) is None}
        tiny = {name: size for name, size in sizes.items() if size <= self.dim}
        shown = ", ".join(f"{name} ({size})" for name, size in list(tiny.items())[:6])
        if tiny and (small == "error" or len(tiny) == len(self._hidden)):
            raise ValueError(f"dim={self.dim} does not compress the neurons of {shown}: use a smaller dim")
        if small == "skip":
            self._hidden = tuple(n for n in self._hidden if n.name not in tiny)
        return frozenset(tiny) if small == "plain" else frozenset()

    # Projections: buffers by key, one for each dimension (or layer) ----------------------------------

    def _key(self, neurons: Neurons, size: int, what: str) -> str:
        return f"{what}_{size}" if self.share else f"{what}_{neurons.name.replace('.', '__')}"

    @torch.no_grad()
    def _draw(self) -> None:
        """Draw every projection for the present call count."""
        index = 0 if self.refresh is None else self.steps // self.refresh
        for neurons in self._hidden:
            if neurons.name in self._plain or low_rank_factors(neurons) is not None:
                continue
            weight = neurons.matrix()
            if self.projection == "group":
                if self.stochastic:
                    channels = channel_count(neurons)
                    key = self._key(neurons, channels, "order")
                    self._keep(key, torch.randperm(channels, generator=self._generator(key, index)), weight)
                continue
            self._keep_matrices(
                self._key(neurons, weight.shape[-1], "basis"), self.dim, weight.shape[-1], index, weight
            )
            if self.projection == "bilateral":
                rows = min(self.dim, weight.shape[-2])
                key = self._key(neurons, weight.shape[-2], "mixing")
                self._keep_matrices(key, rows, weight.shape[-2], index, weight)

    def _keep_matrices(self, key: str, rows: int, columns: int, index: int, like: Tensor) -> None:
        generator = self._generator(key, index)
        drawn = torch.stack([MATRICES[self.matrix](rows, columns, generator) for _ in range(self.count)])
        self._keep(key, drawn.to(compute_dtype(like.dtype)), like)

    def _keep(self, key: str, value: Tensor, like: Tensor) -> None:
        self.register_buffer(key, value.to(like.device))  # a new tensor: graphs of earlier calls keep theirs

    def _basis(self, key: str, like: Tensor) -> Tensor:
        basis = self.get_buffer(key)
        if basis.device != like.device:
            basis = basis.to(like.device)
            self.register_buffer(key, basis)
        return basis

    # Energies ----------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        if self.refresh and self.steps and self.steps % self.refresh == 0:
            self._draw()

    def _refuse_to_compile(self) -> None:
        if self.projection in ("angle_preserving", "adversarial"):
            raise ValueError(f"projection={self.projection!r} learns while it computes: it cannot be compiled")

    def _hidden_energies(self) -> list[Tensor]:
        learned = self._learn() if self.projection in ("angle_preserving", "adversarial") else {}
        return [self._compressed(neurons, learned) for neurons in self._hidden]

    def _value(self, neurons: Neurons) -> Tensor:
        return self._output_energy(neurons, None) if neurons is self._output else self._compressed(neurons, {})

    def _compressed(self, neurons: Neurons, learned: dict[str, Tensor]) -> Tensor:
        if neurons.name in self._plain:
            return self._energy(neurons.matrix()).mean()
        if self.projection == "group":
            order = None
            if self.stochastic:
                order = self._basis(self._key(neurons, channel_count(neurons), "order"), neurons.weight)
            return self._combine(torch.cat([self._energy(v) for v in channel_views(neurons, self.group, order)]))
        if self.projection == "bilateral":
            return self._combine(self._bilateral(neurons))
        weight = upcast(neurons.matrix())
        key = self._key(neurons, weight.shape[-1], "basis")
        bases = learned[key] if key in learned else self._basis(key, weight)
        return self._combine(self._energy(self._project(weight, bases)))

    def _bilateral(self, neurons: Neurons) -> Tensor:
        weight = neurons.weight
        bases = mixing = weight.new_empty(0)
        if low_rank_factors(neurons) is None:
            matrix = neurons.matrix()
            bases = self._basis(self._key(neurons, matrix.shape[-1], "basis"), weight)
            mixing = self._basis(self._key(neurons, matrix.shape[-2], "mixing"), weight)
        with without_autocast(weight.device):
            first, second = bilateral_views(neurons, bases, mixing)
        return self._energy(first) + self._energy(second)

    def _project(self, weight: Tensor, bases: Tensor) -> Tensor:
        with without_autocast(weight.device):
            return project(weight, bases)

    def _energy(self, sets: Tensor) -> Tensor:
        return energy(sets, self.s, self.distance, self.half_space)

    def _combine(self, energies: Tensor) -> Tensor:
        """Over projections (first), after the mean over the layer's sets of neurons."""
        each = energies.mean(tuple(range(1, energies.ndim))) if energies.ndim > 1 else energies
        return each.amax() if self.aggregate == "max" else each.mean()

    # Learned projections (thesis 6.3.4, 6.3.5) -------------------------------------------------------

    def _learn(self) -> dict[str, Tensor]:
        """The projections after this call's steps, differentiable if unrolled; in training mode they are kept."""
        sets: dict[str, list[Tensor]] = {}
        for neurons in self._hidden:
            if neurons.name not in self._plain:
                weight = unit(upcast(neurons.matrix()))
                sets.setdefault(self._key(neurons, weight.shape[-1], "basis"), []).append(weight)
        learned = {}
        for key, weights in sets.items():
            bases = self._basis(key, weights[0])
            if self.unroll:
                moved = self._descend(bases, weights, self.unroll, torch.is_grad_enabled())
                learned[key] = moved
            else:
                steps = self.inner_steps if self.training and self.steps % self.inner_every == 0 else 0
                moved = self._descend(bases, [weight.detach() for weight in weights], steps, False)
                learned[key] = moved
            if self.training:
                self.register_buffer(key, moved.detach())
        return learned

    def _descend(self, bases: Tensor, weights: list[Tensor], steps: int, differentiable: bool) -> Tensor:
        with torch.enable_grad(), without_autocast(bases.device):
            moved = bases.detach().requires_grad_()
            rate = self.inner_lr / self.dim if self.projection == "angle_preserving" else self.inner_lr
            for _ in range(steps):
                (slope,) = torch.autograd.grad(self._inner(moved, weights), moved, create_graph=differentiable)
                moved = moved - rate * slope
                if not differentiable:
                    moved = moved.detach().requires_grad_()
        return moved if differentiable else moved.detach()

    def _inner(self, bases: Tensor, weights: list[Tensor]) -> Tensor:
        terms = []
        for weight in weights:
            if self.projection == "angle_preserving":
                terms.append(preservation(weight, bases, self.preserve))
            else:
                terms.append(-self._energy(project(weight, bases)).mean(1).sum())
        return torch.stack(terms).sum()
