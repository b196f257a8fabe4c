"""How to load each file, as code that runs in the export folder."""

from __future__ import annotations

import json

from .._core.features import has_features
from .._core.trust import addresses
from .formats import Job
from .inputs import Inputs, Normalization


def snippet(name: str, job: Job) -> str:
    """Python for one format, on made-up inputs of the right kind."""
    return {"safetensors": _safetensors, "torch": _torch, "onnx": _onnx}[name](job)


def _safetensors(job: Job) -> str:
    modules = sorted({address.partition(":")[0] for _, address in addresses(json.loads(job.metadata["config"]))})
    trusted = f', trust="{",".join(modules)}"' if modules else ""  # code of one's own, which must be importable
    arguments = ", ".join(_arguments(job.inputs))
    calls = (
        [f"embedding = hs.functional.unit(model({arguments}))"]
        if job.embedding
        else [f"logits = model({arguments})", f"embedding = hs.functional.unit({_embedding(job)}({arguments}))"]
    )
    return "\n".join(
        [
            "import torch",
            "",
            "import hypersphere as hs",
            "",
            *_made_up(job.inputs, _TORCH, normalize=True),
            f'model = hs.load("model.safetensors"{trusted})  # the network is made from the settings in the file',
            "with torch.no_grad():",
            *(f"    {call}" for call in calls),
        ]
    )


def _torch(job: Job) -> str:
    own = any(str(node.target).startswith("hypersphere") for node in job.program.graph.nodes)
    imports = [
        "import torch",
        *(["", "import hypersphere.models  # registers an operator that this network has"] * own),
    ]
    return "\n".join(
        [
            *imports,
            "",
            *_made_up(job.inputs, _TORCH, normalize=not job.inputs.raw),
            'program = torch.export.load("model.pt2").module()',
            f"{', '.join(job.outputs)} = program({', '.join(_arguments(job.inputs))})",
        ]
    )


def _onnx(job: Job) -> str:
    feed = ", ".join(f'"{name}": {value}' for name, value in zip(job.inputs.names, _arguments(job.inputs), strict=True))
    target = f"{job.outputs[0]}," if job.embedding else ", ".join(job.outputs)
    return "\n".join(
        [
            "import numpy",
            "import onnxruntime",
            "",
            *_made_up(job.inputs, _NUMPY, normalize=not job.inputs.raw),
            'session = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])',
            f"{target} = session.run(None, {{{feed}}})",
        ]
    )


def comparison() -> str:
    """How two images are compared, after any of the snippets: ``embedding`` has unit rows."""
    return "\n".join(
        [
            "cosine = float(embedding[0] @ embedding[1])  # of the first two images: 1 is the same direction",
            "same = cosine > threshold",
        ]
    )


def _embedding(job: Job) -> str:
    """What gives the embedding of a batch."""
    return "model.features" if has_features(job.model) else "(lambda batch: hs.embed(model, batch))"


def _arguments(inputs: Inputs) -> tuple[str, ...]:
    return ("features", "adjacency") if inputs.kind == "graph" else ("x",)


_TORCH = {
    "uniform": "torch.rand(5, {})",
    "normal": "torch.randn(5, {})",
    "eye": "torch.eye(5)",
    "bytes": "torch.randint(256, (5, {}), dtype=torch.uint8)",
    "numbers": "images.float()",
    "array": "torch.tensor({}).view(-1, 1, 1)",
}
_NUMPY = {
    "uniform": "numpy.random.rand(5, {}).astype(numpy.float32)",
    "normal": "numpy.random.randn(5, {}).astype(numpy.float32)",
    "eye": "numpy.eye(5, dtype=numpy.float32)",
    "bytes": "numpy.random.randint(256, size=(5, {}), dtype=numpy.uint8)",
    "numbers": "images.astype(numpy.float32)",
    "array": "numpy.array({}, dtype=numpy.float32).reshape(-1, 1, 1)",
}


def _made_up(inputs: Inputs, words: dict[str, str], normalize: bool) -> list[str]:
    """Inputs of the right kind in the words of a library."""
    shape = ", ".join(map(str, inputs.tensors[0].shape[1:]))
    uniform, normal, images = (words[name].format(shape) for name in ("uniform", "normal", "bytes"))
    if inputs.kind == "points":
        return [f"x = {uniform} - 0.5  # your clouds"]
    if inputs.kind == "graph":
        return [f"features = {uniform}  # your nodes", f"adjacency = {words['eye']}  # your graph, normalised"]
    if inputs.kind == "own":
        return [f"x = {normal}  # your inputs, as your loop makes them"]
    return _images(inputs, f"{images}  # your images", words["numbers"], words["array"], normalize)


def _images(inputs: Inputs, images: str, numbers: str, array: str, normalize: bool) -> list[str]:
    if not normalize:
        return [f"x = {images}"]
    norm = inputs.normalization or Normalization("symmetric")
    if norm.kind == "symmetric":
        return [f"images = {images}", f"x = ({numbers} - 127.5) / 128"]
    if norm.kind == "unit":
        return [f"images = {images}", f"x = {numbers} / 255"]
    if not norm.known:
        return [f"images = {images}", f"x = {numbers} / 255  # then (x - mean) / std of the training images"]
    mean, std = (array.format([round(value, 8) for value in part or ()]) for part in (norm.mean, norm.std))
    return [f"images = {images}", f"mean = {mean}", f"std = {std}", f"x = ({numbers} / 255 - mean) / std"]
