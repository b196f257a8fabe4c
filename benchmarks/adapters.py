"""Orthogonal adapters beside PEFT's OFT, BOFT and LoRA: file size, step time, memory, orthogonality error.

Two networks of random weights with the shapes of small published ones: a ViT (12 blocks of width 192, images of 64×64
in patches of 8) and a language model (6 blocks of width 256, 4,096 words). Every method adapts the same linear layers.
A step is forward, backward and an update by Adam of what the adapter trains; its ratio is to plain fine-tuning of the
same layers. The orthogonality error is max |RᵀR − I| over all blocks, in float64, after the steps of the measurement
with updates of 0.01, which is where the series that PEFT's OFT uses by default departs from a rotation.

PEFT and transformers are needed: ``pip install peft transformers accelerate``. Neither is a dependency of the package.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import peft
import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM, ViTConfig, ViTForImageClassification

import hypersphere as hs
from harness import arguments, interleave, peak_extra_memory, pin_allocator, show, write

BLOCK = 32
METHODS = ("plain", "ours", "peft OFT", "peft OFT, exact", "peft BOFT", "peft LoRA")


def vit() -> tuple[nn.Module, dict[str, Tensor], list[str]]:
    """A ViT-Ti of random weights, a batch of images, and the layers to adapt."""
    config = ViTConfig(
        hidden_size=192, num_hidden_layers=12, num_attention_heads=3, intermediate_size=768, image_size=64,
        patch_size=8, num_labels=100,
    )  # fmt: skip
    model = ViTForImageClassification(config)
    batch = {"pixel_values": torch.randn(8, 3, 64, 64), "labels": torch.randint(100, (8,))}
    return model, batch, _linears(model, skip="classifier")


def language() -> tuple[nn.Module, dict[str, Tensor], list[str]]:
    """A small Llama of random weights, a batch of text, and the layers to adapt."""
    config = LlamaConfig(
        vocab_size=4096, hidden_size=256, intermediate_size=768, num_hidden_layers=6, num_attention_heads=4,
        num_key_value_heads=4, max_position_embeddings=128, use_cache=False,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    words = torch.randint(4096, (4, 128))
    return model, {"input_ids": words, "labels": words}, _linears(model, skip="lm_head")


def adapted(method: str, model: nn.Module, names: list[str]) -> nn.Module:
    """The network with an adapter of this method on the named layers."""
    if method == "plain":
        model.requires_grad_(False)
        for name in names:
            model.get_submodule(name).weight.requires_grad_(True)  # type: ignore[union-attr]
        return model
    if method == "ours":
        by_blocks: dict[int, list[str]] = {}
        for name in names:
            width = model.get_submodule(name).weight.shape[1]  # type: ignore[union-attr, index, operator]
            by_blocks.setdefault(width // BLOCK, []).append(f"{name}.weight")
        learned: list[nn.Parameter] = []
        for blocks, target in by_blocks.items():
            hs.orthogonal.adapter(model, blocks=blocks, target=target)
            learned += [p for p in model.parameters() if p.requires_grad]
        for parameter in learned:
            parameter.requires_grad_(True)
        return model
    config: Any = {
        "peft OFT": lambda: peft.OFTConfig(oft_block_size=BLOCK, target_modules=names),
        "peft OFT, exact": lambda: peft.OFTConfig(oft_block_size=BLOCK, target_modules=names, use_cayley_neumann=False),
        "peft BOFT": lambda: peft.BOFTConfig(boft_block_size=BLOCK, boft_n_butterfly_factor=1, target_modules=names),
        "peft LoRA": lambda: peft.LoraConfig(r=8, target_modules=names),
    }[method]()
    return peft.get_peft_model(model, config)


def stepper(method: str, make: Callable[[], tuple[nn.Module, dict[str, Tensor], list[str]]]) -> Any:
    """(a step, the network) of a method."""
    torch.manual_seed(0)
    model, batch, names = make()
    model = adapted(method, model, names).train()
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.01)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(**batch).loss.backward()
        optimizer.step()

    return step, model


def bytes_of(method: str, model: nn.Module) -> int:
    """What the adapter takes on disk."""
    with tempfile.TemporaryDirectory() as folder:
        if method == "ours":
            hs.orthogonal.save_adapter(model, folder)
        elif method == "plain":
            from safetensors.torch import save_file

            learned = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}
            save_file(learned, Path(folder) / "weights.safetensors")
        else:
            model.save_pretrained(folder)  # type: ignore[operator]
        return sum(file.stat().st_size for file in Path(folder).iterdir() if file.suffix == ".safetensors")


def free_parameters(model: nn.Module) -> int:
    """Ours are matrices of which the Cayley transform reads the entries below the diagonal."""
    sizes = [p.shape for p in model.parameters() if p.requires_grad]
    return sum(count * size * (size - 1) // 2 for count, size, _ in sizes)


@torch.no_grad()
def defect(method: str, model: nn.Module) -> float | None:
    """max |RᵀR − I| over the blocks; None where there is no R."""
    found = [float((r.mT @ r - torch.eye(r.shape[-1], dtype=r.dtype)).abs().max()) for r in _blocks(method, model)]
    return max(found) if found else None


def _blocks(method: str, model: nn.Module) -> Iterable[Tensor]:
    for module in model.modules():
        if method == "ours" and type(module).__name__ == "BlockMatrix":
            yield from (part.double() for part in module.matrices())  # type: ignore[operator, union-attr]
        elif type(module).__name__ == "OFTRotationModule":
            yield module.get_weight().double()  # type: ignore[operator]
        elif method == "peft BOFT" and hasattr(module, "boft_R") and hasattr(module, "get_delta_weight"):
            yield module.get_delta_weight("default")[0].double()  # type: ignore[operator]


def _linears(model: nn.Module, skip: str) -> list[str]:
    return [name for name, part in model.named_modules() if isinstance(part, nn.Linear) and not name.endswith(skip)]


def measure(make: Callable[[], Any], options: argparse.Namespace) -> dict[str, Any]:
    # memory first: what a process has freed stays resident and would hide a peak
    peaks = {method: peak_extra_memory(lambda method=method: stepper(method, make)[0]) for method in METHODS}
    made = {method: stepper(method, make) for method in METHODS}
    learned = {m: sum(p.numel() for p in model.parameters() if p.requires_grad) for m, (_, model) in made.items()}
    summary = interleave({method: step for method, (step, _) in made.items()}, options.rounds, "plain", options.device)
    show(make.__name__, summary)
    for method in METHODS:
        row = summary["variants"][method]
        row["parameters"] = learned[method]
        row["free_parameters"] = learned[method] if method != "ours" else free_parameters(made[method][1])
        row["file_bytes"] = bytes_of(method, made[method][1])
        row["orthogonality_error"] = defect(method, made[method][1])
        row["peak_bytes_of_the_first_step"] = peaks[method]
        print(f"  {method:20s} {row}")
    return summary


def main() -> None:
    pin_allocator()
    options = arguments(__doc__.splitlines()[0], rounds=9)
    versions = {name: version(name) for name in ("peft", "transformers")}
    payload: dict[str, Any] = {"block_size": BLOCK, "versions": versions}
    path = write(
        options.name or "adapters", payload | {"vit": measure(vit, options), "language": measure(language, options)}
    )
    print(f"in {path}")


if __name__ == "__main__":
    main()
