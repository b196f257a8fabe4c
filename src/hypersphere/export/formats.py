"""The formats: how each file is written, and how it is run again."""

from __future__ import annotations

import importlib.util
import json
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .._core.features import features_of, has_features
from ..functional import unit
from ..nn import fold
from ..runs import load
from .inputs import Inputs
from .program import Program, embedding_weights


class Unable(ValueError):
    """A network cannot have this format, or this machine cannot write it; the message says why."""


@dataclass(eq=False)
class Job:
    """What is to be written: the network, samples, and what the weights file says of itself."""

    model: nn.Module
    inputs: Inputs
    embedding: bool
    metadata: Mapping[str, str]
    rebuilds: bool = True
    """Whether the settings make the network, not only the loop that trained it and still runs."""

    @property
    def outputs(self) -> tuple[str, ...]:
        return ("embedding",) if self.embedding else ("logits", "embedding")

    @cached_property
    def module(self) -> Program:
        """What is traced: unit filters and BatchNorm are constants in it."""
        normalization = self.inputs.normalization if self.inputs.raw else None
        return Program(fold(self.model), embedding=self.embedding, normalization=normalization).eval()

    @cached_property
    def program(self) -> torch.export.ExportedProgram:
        """The module traced by ``torch.export``."""
        with torch.no_grad(), _quiet():
            return torch.export.export(self.module, self.example, dynamic_shapes=self.inputs.dynamic_shapes)

    @cached_property
    def example(self) -> tuple[Tensor, ...]:
        """Zeros, because a file keeps its example and must not hold a real picture; 3, because 0 and 1 are special."""
        return tuple(
            part.new_zeros((3, 3) if name == "adjacency" else (3, *part.shape[1:]))
            for name, part in zip(self.inputs.names, self.inputs.tensors, strict=True)
        )


@dataclass(frozen=True)
class Format:
    """A file name, how to write it and how to run what was written: None where that needs a missing package."""

    file: str
    write: Callable[[Job, Path], None]
    reader: Callable[[Job, Path], Callable[..., tuple[Tensor, ...]] | None]
    exact: bool = False
    """Whether not a bit may differ."""


def parse_formats(text: str) -> tuple[str, ...]:
    """``"safetensors,onnx"`` → names, in the order of :data:`FORMATS`."""
    names = [part.strip() for part in text.split(",") if part.strip()]
    unknown = [name for name in names if name not in FORMATS]
    if unknown or not names:
        raise ValueError(f"--formats {text!r} must be one or more of {', '.join(FORMATS)}, with commas between")
    return tuple(name for name in FORMATS if name in names)


# safetensors -----------------------------------------------------------------------------------------


def _write_safetensors(job: Job, path: Path) -> None:
    try:
        from safetensors.torch import save
    except ImportError as error:
        raise Unable("needs the safetensors package: pip install 'hypersphere[train]'") from error
    if not job.rebuilds:
        raise Unable("holds weights alone, and the settings do not make this network: give Logger settings that do")
    if job.embedding and not has_features(job.model):
        raise Unable("holds weights alone, and this network has no method `features` that leaves its classifier out")
    weights = embedding_weights(job.model) if job.embedding else job.model.state_dict()
    tensors = {name: value.detach().cpu().clone().contiguous() for name, value in weights.items()}
    # written as bytes: the package's own writer makes files that only their owner may read
    path.write_bytes(save(tensors, {"format": "pt", **job.metadata, "outputs": ",".join(job.outputs)}))


def _run_safetensors(job: Job, path: Path) -> Callable[..., tuple[Tensor, ...]]:
    """Into a fresh network, which is made from the settings in the file."""
    fresh: Any = load(path)

    def run(*batch: Tensor) -> tuple[Tensor, ...]:
        ready = job.inputs.normalized(batch)
        return (unit(fresh(*ready)),) if job.embedding else (fresh(*ready), unit(features_of(fresh, *ready)))

    return run


# torch.export ----------------------------------------------------------------------------------------


def _write_torch(job: Job, path: Path) -> None:
    try:
        with _quiet():
            torch.export.save(job.program, path, extra_files={"metadata.json": json.dumps(dict(job.metadata))})
    except (Unable, OSError):
        raise
    except Exception as error:  # the tracer has many kinds of errors
        raise Unable(f"torch.export cannot trace this network: {_short(error)}") from error


def _run_torch(job: Job, path: Path) -> Callable[..., tuple[Tensor, ...]]:
    with _quiet():
        program = torch.export.load(path).module()
    return lambda *batch: _tuple(program(*batch))


# ONNX ------------------------------------------------------------------------------------------------


def _write_onnx(job: Job, path: Path) -> None:
    missing = [name for name in ("onnx", "onnxscript") if importlib.util.find_spec(name) is None]
    if missing:
        raise Unable(f"needs {' and '.join(missing)}: pip install 'hypersphere[export]'")
    from .onnx_operators import translations

    try:
        with torch.no_grad(), _quiet():
            made = torch.onnx.export(
                job.module,
                job.example,
                dynamic_shapes=job.inputs.dynamic_shapes,
                dynamo=True,
                verbose=False,
                input_names=list(job.inputs.names),
                output_names=list(job.outputs),
                custom_translation_table=translations(),
            )
            if made is None:
                raise Unable("torch.onnx.export gave nothing")
            content = made.model_proto
            _name_axis(content, job.inputs.axis)
            for key, value in job.metadata.items():
                content.metadata_props.add(key=key, value=value)
            path.write_bytes(content.SerializeToString())
    except (Unable, OSError):
        raise
    except Exception as error:  # converters and protobuf (above 2 GB) have many kinds of errors
        raise Unable(f"torch.onnx cannot convert this network: {_short(error)}") from error


def _run_onnx(job: Job, path: Path) -> Callable[..., tuple[Tensor, ...]] | None:
    if importlib.util.find_spec("onnxruntime") is None:
        return None
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def run(*batch: Tensor) -> tuple[Tensor, ...]:
        feed = {name: part.numpy() for name, part in zip(job.inputs.names, batch, strict=True)}
        return tuple(torch.from_numpy(part) for part in session.run(list(job.outputs), feed))

    return run


def _name_axis(content: Any, axis: str) -> None:
    """The tracer's name of the free dimension (s77) everywhere by ours."""
    graph = content.graph
    free = {d.dim_param for value in graph.input for d in value.type.tensor_type.shape.dim if d.dim_param}
    for value in (*graph.input, *graph.output, *graph.value_info):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in free:
                dim.dim_param = axis


FORMATS: Mapping[str, Format] = {
    "safetensors": Format("model.safetensors", _write_safetensors, _run_safetensors, exact=True),
    "torch": Format("model.pt2", _write_torch, _run_torch),
    "onnx": Format("model.onnx", _write_onnx, _run_onnx),
}


def _tuple(outputs: Any) -> tuple[Tensor, ...]:
    return (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)


def _short(error: Exception) -> str:
    """The last line that says something; exporters print pages."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and not line.startswith("(Refer")]
    return f"{type(error).__name__}: {lines[-1][:200] if lines else ''}"


@contextmanager
def _quiet() -> Iterator[None]:
    """Exporters warn about their own insides."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir", "torch.export")]
    before = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, before, strict=True):
                logger.setLevel(level)
