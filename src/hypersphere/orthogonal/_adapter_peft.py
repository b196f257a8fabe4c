"""Orthogonal adapters that PEFT has saved (``OFTConfig``), as blocks for ours.

FOLDER/adapter_config.json        ``peft_type`` OFT, and how R is made of the numbers
FOLDER/adapter_model.safetensors  ``base_model.model.<module>.oft_R.weight``, (blocks, k(k−1)/2): of a skew Q of each
                                  block the entries above the diagonal, row by row

A neuron w becomes R w, as here. PEFT makes R by the Cayley transform (I − Q)(I + Q)⁻¹, or with ``use_cayley_neumann``
by a series, I + 2Q + 2Q² + ... + Qⁿ, which is orthogonal only nearly. The nearest orthogonal matrix is taken then.
"""

from __future__ import annotations

import json
import logging
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..functional import orthogonalize

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
logger = logging.getLogger("hypersphere")
_NEARLY = 1e-3  # a departure from orthogonality that is worth a warning


@dataclass(frozen=True, eq=False)
class PeftAdapter:
    """Orthogonal blocks (count, k, k) in float64 for each weight, and how far PEFT's were from orthogonal."""

    blocks: dict[str, Tensor]
    defect: float

    def skew(self, weight: str) -> Tensor:
        """A with R = (I + A)(I − A)⁻¹, for each block.

        Raises:
            ValueError: If R turns something by π, where there is no such A.
        """
        r = self.blocks[weight]
        eye = torch.eye(r.shape[-1], dtype=r.dtype)
        a, failed = torch.linalg.solve_ex(r + eye, r - eye, left=False)
        if bool(failed.any()) or not bool(a.isfinite().all()):
            raise ValueError(
                f"{weight} is rotated by 180° in some direction, which a Cayley transform cannot represent"
            )
        return (a - a.mT) / 2


def read_peft(folder: Path, tensors: dict[str, Tensor]) -> PeftAdapter:
    """Read the folder of an OFT adapter of PEFT.

    Args:
        folder: The folder, for its config and for messages.
        tensors: What its safetensors file holds.

    Raises:
        ValueError: If it is another kind of adapter, of an old version, or trains further weights.
    """
    config = _config(folder / CONFIG)
    blocks, worst = {}, 0.0
    for key, values in tensors.items():
        name = key.removeprefix("base_model.model.")
        if not name.endswith(".oft_R.weight") and name != "oft_R.weight":
            raise ValueError(
                f"{folder / WEIGHTS} holds {key!r}, which is not the rotation of a layer (oft_R.weight, PEFT 0.18 or "
                "later): save an adapter without biases, embeddings and modules_to_save"
            )
        if values.dim() != 2:
            raise ValueError(f"{folder / WEIGHTS}: {key} has shape {tuple(values.shape)}, not (blocks, entries)")
        made = _series(values.double(), config, folder, key)
        nearest = orthogonalize(made, "lowdin")
        worst = max(worst, float((made - nearest).abs().max()))
        blocks[name.removesuffix("oft_R.weight") + "weight"] = nearest
    if not blocks:
        raise ValueError(f"{folder / WEIGHTS} holds no rotations: save the adapter again with PEFT")
    if worst > _NEARLY:
        logger.warning(
            "%s: PEFT's matrices differ from orthogonal ones by %.1e; the nearest orthogonal ones are used",
            folder,
            worst,
        )
    return PeftAdapter(blocks, worst)


def read_json(path: Path) -> Any:
    """What a file of settings holds; a ValueError if it is damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from None


def _config(path: Path) -> dict[str, Any]:
    config = read_json(path)
    kind = config.get("peft_type") if isinstance(config, dict) else None
    if kind != "OFT":
        raise ValueError(f"{path} has peft_type {kind!r}: only PEFT's OFT adapters can be read")
    if not isinstance(config.get("use_cayley_neumann", False), bool) or "oft_block_size" not in config:
        raise ValueError(
            f"{path} was written by PEFT before 0.18, which uses other formulas: save it again with a newer PEFT"
        )
    return dict(config)


def _series(values: Tensor, config: dict[str, Any], folder: Path, key: str) -> Tensor:
    """R as PEFT computes it, (count, k, k)."""
    count, entries = values.shape
    size = round((1 + math.sqrt(1 + 8 * entries)) / 2)
    if size * (size - 1) // 2 != entries:
        raise ValueError(f"{folder / WEIGHTS}: {key} has {entries} entries per block, which is not k(k−1)/2 for any k")
    row, column = torch.triu_indices(size, size, 1)
    q = values.new_zeros(count, size, size)
    q[:, row, column], q[:, column, row] = values, -values
    if config.get("coft"):  # ‖Q‖ of a block is held below eps/√blocks
        most = float(config.get("eps", 6e-5)) / math.sqrt(count)
        q = q * (most / torch.linalg.matrix_norm(q, keepdim=True).clamp_min(most))
    eye = torch.eye(size, dtype=q.dtype)
    if not config.get("use_cayley_neumann", False):
        return torch.linalg.solve(eye + q, eye - q, left=False)
    terms = int(config.get("num_cayley_neumann_terms", 5))
    last = max(terms, 4) - 1 if terms > 2 else terms  # the power that counts once; of one or two terms there is none
    made, power = eye.expand(count, size, size), q
    for exponent in range(1, last + 1 if terms > 2 else last):
        made = made + (1 if exponent == last else 2) * power
        power = power @ q
    return made
