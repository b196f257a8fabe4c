"""One learned matrix: block-diagonal, computed once per step, float32 even in half-precision models."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .._core.errors import check_model
from .._core.modes import without_autocast
from .._core.sphere import compute_dtype
from ..functional.orthogonalize import Solved, connect, is_reduced, rotate, rotate_all, solve, usable
from ._maps import Draw, Map, Orthogonal, Own, module_of
from ._peers import JOINT, Key, Peers, is_same


class BlockMatrix(nn.Module):
    """R = Diag(R⁽¹⁾, ..., R⁽ᵇ⁾) on R^dim (F.33, F.34), each block from its own parameter, or shared.

    ``dim`` need not divide: the first ``dim mod blocks`` blocks have one more row. Shared blocks
    are one matrix for each size that occurs. ``peers`` are computed together with it where that pays.
    """

    #: the name or address of its map, where it was chosen by one
    declared = ""

    def __init__(
        self, dim: int, method: Map, blocks: int, share: bool, init: str, draw: Draw, peers: Peers | None = None
    ) -> None:
        super().__init__()
        size, longer = divmod(dim, blocks)
        counts = {size + 1: longer, size: blocks - longer}
        self.dim, self.blocks, self.share = dim, blocks, share
        self.layout = [(k, count) for k, count in counts.items() if count]
        own = module_of(method)
        self.method = method if own is None else Own(copy.deepcopy(own))
        if own is not None:  # registered, so that it trains and moves with the model
            self.function = module_of(self.method)
        self.raw = nn.ParameterList(
            nn.Parameter(method.start(1 if share else count, k, init, draw)) for k, count in self.layout
        )
        self.peers = Peers() if peers is None else peers
        self._kept: Kept | None = None
        self._tag()
        self.register_load_state_dict_post_hook(_after_loading)

    def matrices(self) -> list[Tensor]:
        """The blocks, as one (count, k, k) tensor for each size; count is 1 where they are shared."""
        if not self._may_keep():
            return [self.method(raw) for raw in self.raw]
        kept = self.computed()
        if kept.matrices is None:
            kept.matrices = [connect(raw, kept.kind, solved) for raw, solved in zip(self.raw, kept.solved, strict=True)]
            for matrix in kept.matrices:
                matrix.register_hook(_forget(weakref.ref(self)))
        return kept.matrices

    def rotate(self, neurons: Tensor) -> Tensor:
        """Rv for each row v of ``neurons`` (n, dim), in at least float32 whatever autocast says."""
        with without_autocast(neurons.device):
            turn = self._turn_at_once if self.is_joint else self._turn
            return self.joined([turn(index, part) for index, part in enumerate(self.parts(neurons))])

    def parts(self, neurons: Tensor) -> list[Tensor]:
        """What each matrix turns of ``neurons`` (n, dim): (count, n, k) for each size of blocks."""
        parts, start = [], 0
        for raw, (k, count) in zip(self.raw, self.layout, strict=True):
            part = neurons[:, start : start + k * count].to(raw.dtype)
            start += k * count
            parts.append(part.reshape(1, -1, k) if len(raw) == 1 else part.reshape(-1, count, k).transpose(0, 1))
        return parts

    def joined(self, parts: list[Tensor]) -> Tensor:
        """The neurons (n, dim) again, from what became of :meth:`parts`."""
        whole = [
            part.reshape(-1, k * count) if len(part) == 1 else part.transpose(0, 1).reshape(-1, k * count)
            for part, (k, count) in zip(parts, self.layout, strict=True)
        ]
        return whole[0] if len(whole) == 1 else torch.cat(whole, -1)

    def turn_inputs(self, x: Tensor) -> Tensor:
        """Rᵀx for each row of ``x`` (n, dim): ⟨Rv, x⟩ = ⟨v, Rᵀx⟩, so that neurons need not be rotated."""
        with without_autocast(x.device):
            return self.joined([part @ r for part, r in zip(self.parts(x), self.matrices(), strict=True)])

    def _turn(self, index: int, v: Tensor) -> Tensor:
        if not self.method.linear:
            return self.method.move(self.raw[index], v)
        matrix = self.matrices()[index]
        if torch.compiler.is_compiling() or not is_reduced(matrix):
            return v @ matrix.mT
        return (v.double() @ matrix.double().mT).to(v.dtype)

    def _turn_at_once(self, index: int, v: Tensor) -> Tensor:
        """One node from the parameter to the weight, which never forms the gradient of Cayley's R."""
        kept = self.computed()
        raw, solved = self.raw[index], kept.solved[index]
        if kept.kind == self.name:
            turned = rotate(v, raw, self.name, solved)
        else:
            (turned,) = rotate_all([v], [raw], kept.kind, [solved])
        self.forget_after([turned])
        return turned

    def dense(self) -> Tensor:
        """R as one (dim, dim) matrix."""
        blocks = []
        for (_, count), matrix in zip(self.layout, self.matrices(), strict=True):
            blocks += [*matrix] * (count // len(matrix))
        return blocks[0] if len(blocks) == 1 else torch.block_diag(*blocks)

    def extra_repr(self) -> str:
        name = getattr(self.method, "method", type(self.method).__name__.lower())
        blocks = f", blocks={self.blocks}, share_blocks={self.share}" if self.blocks > 1 else ""
        return f"dim={self.dim}, method={name}{blocks}"

    def key(self) -> Key:
        """What tells whether the parameters are still the ones that R was computed from."""
        return [(raw, raw._version, raw.data_ptr()) for raw in self.raw]

    @property
    def is_joint(self) -> bool:
        """Whether its R may come from one computation with those of the others."""
        if not self._may_keep() or self.name not in JOINT:
            return False
        return self.name == "cayley" or all(usable(raw, JOINT[self.name]) for raw in self.raw)

    def join_peers(self) -> None:
        """Be computed with the others in this step, if it can be."""
        if self.is_joint:
            self.peers.join(self)

    def forget_after(self, turned: list[Tensor]) -> None:
        """Drop the kept R when a gradient reaches one of ``turned``."""
        for one in turned:
            one.register_hook(_forget(weakref.ref(self)))

    def forget(self) -> None:
        """Drop the kept R."""
        self._kept = None
        self.peers.forget()

    def computed(self) -> Kept:
        """R of this step."""
        key = self.key()
        if self._kept is None or not is_same(self._kept.key, key):
            solved = self.peers.solve(self) if self.is_joint else None
            if solved is None:
                self._kept = Kept(key, self.name, [solve(raw, self.name) for raw in self.raw])
            else:
                self._kept = Kept(key, self.peers.kind, solved)
        return self._kept

    @property
    def name(self) -> str:
        """Of the orthogonal map; empty for other maps."""
        return self.method.method if isinstance(self.method, Orthogonal) else ""

    def _may_keep(self) -> bool:
        """Only for eager training: a compiler finds repeated calls itself, and function transforms swap parameters.

        Without gradients nothing is kept either, since nothing would tell that a parameter was
        changed behind autograd's back (``p.data``, as weight averaging does).
        """
        return (
            isinstance(self.method, Orthogonal)
            and self.method.kept
            and torch.is_grad_enabled()
            and not torch.compiler.is_compiling()
            and not torch._C._are_functorch_transforms_active()
            and all(type(raw) is nn.Parameter and raw.requires_grad and not raw.is_meta for raw in self.raw)
        )

    def _tag(self) -> None:
        if self.method.on_manifold:
            for raw in self.raw:
                tag_orthogonal(raw)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> BlockMatrix:
        def keep_precision(tensor: Tensor) -> Tensor:
            applied = fn(tensor)
            return applied if compute_dtype(applied.dtype) == applied.dtype else tensor.to(applied.device)

        super()._apply(keep_precision, recurse)
        self.forget()
        self._tag()
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._tag()


def block_matrices(model: nn.Module) -> list[BlockMatrix]:
    """All of a model, those of tasks and adapters that are not active included."""
    check_model(model)
    return [module for module in model.modules() if isinstance(module, BlockMatrix)]


def _after_loading(blocks: BlockMatrix, _keys: object) -> None:
    """``load_state_dict(assign=True)`` puts other parameters in the place of ours."""
    blocks.forget()
    blocks._tag()


def tag_orthogonal(parameter: Tensor) -> None:
    """Mark ``parameter`` as a stack of orthogonal matrices, to be stepped on their manifold."""
    parameter._hypersphere_orthogonal = True  # type: ignore[attr-defined]


def is_orthogonal(parameter: Tensor) -> bool:
    """Say whether a parameter holds orthogonal matrices, which need :class:`hypersphere.optim.OrthogonalSGD`.

    Args:
        parameter: any parameter of a model; those that :func:`attach` marks as orthogonal matrices give True.

    Returns:
        True for the matrices of ``attach(model, "gradient")``.

    Example:
        >>> model = hs.orthogonal.attach(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)), "gradient")
        >>> sum(hs.orthogonal.is_orthogonal(parameter) for parameter in model.parameters())
        1
    """
    return getattr(parameter, "_hypersphere_orthogonal", False)


@dataclass
class Kept:
    """R of a step: as computed, and as a part of the autograd graph once someone asked for that."""

    key: Key
    kind: str
    solved: list[Solved]
    matrices: list[Tensor] | None = None


def _forget(owner: weakref.ref[BlockMatrix]) -> Callable[[Tensor], None]:
    """A hook that drops the kept R when a gradient reaches it: the optimizer's step is next."""

    def hook(_grad: Tensor) -> None:
        blocks = owner()
        if blocks is not None:
            blocks.forget()

    return hook
