"""How to load each file, as code that runs in the export folder."""

from __future__ import annotations

from .._core.features import has_features
from .formats import Job
from .inputs import Inputs, Normalization


def snippet(name: str, job: Job) -> str:
    """Python for one format, on made-up inputs of the right kind."""
    return {"safetensors": _safetensors, "torch": _torch, "onnx": _onnx}[name](job)


def _safetensors(job: Job) -> str:
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
            *_torch_inputs(job.inputs, normalize=True),
            'model = hs.load("model.safetensors")  # the network is made from the settings in the file',
            "with torch.no_grad():",
            *(f"    {call}" for call in calls),
        ]
    )


def _torch(job: Job) -> str:
    own = any(str(node.target).startswith("hypersphere") for node in job.program.graph.nodes)
    imports = ["import torch", *(["", "import hypersphere  # registers an operator that this network has"] * own)]
    return "\n".join(
        [
            *imports,
            "",
            *_torch_inputs(job.inputs, normalize=not job.inputs.raw),
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
            *_numpy_inputs(job.inputs, normalize=not job.inputs.raw),
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


def _torch_inputs(inputs: Inputs, normalize: bool) -> list[str]:
    shape = ", ".join(map(str, inputs.tensors[0].shape[1:]))
    if inputs.kind == "points":
        return [f"x = torch.rand(5, {shape}) - 0.5  # your clouds"]
    if inputs.kind == "graph":
        return [
            f"features = torch.rand(5, {shape})  # your nodes",
            "adjacency = torch.eye(5)  # your graph, normalised",
        ]
    if inputs.kind == "own":
        return [f"x = torch.randn(5, {shape})  # your inputs, as your loop makes them"]
    images = f"torch.randint(256, (5, {shape}), dtype=torch.uint8)  # your images"
    return _images(inputs, images, "images.float()", "torch.tensor({}).view(-1, 1, 1)", normalize)


def _numpy_inputs(inputs: Inputs, normalize: bool) -> list[str]:
    shape = ", ".join(map(str, inputs.tensors[0].shape[1:]))
    if inputs.kind == "points":
        return [f"x = numpy.random.rand(5, {shape}).astype(numpy.float32) - 0.5  # your clouds"]
    if inputs.kind == "graph":
        return [
            f"features = numpy.random.rand(5, {shape}).astype(numpy.float32)  # your nodes",
            "adjacency = numpy.eye(5, dtype=numpy.float32)  # your graph, normalised",
        ]
    if inputs.kind == "own":
        return [f"x = numpy.random.randn(5, {shape}).astype(numpy.float32)  # your inputs, as your loop makes them"]
    images = f"numpy.random.randint(256, size=(5, {shape}), dtype=numpy.uint8)  # your images"
    array = "numpy.array({}, dtype=numpy.float32).reshape(-1, 1, 1)"
    return _images(inputs, images, "images.astype(numpy.float32)", array, normalize)


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
