"""The classifier behind an inception score: bytes of images → logits."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .. import data
from ..config import Config
from ..runs import Facts, Run, beside, load

Scorer = Callable[[Tensor], Tensor]


def make_scorer(config: Config, facts: Facts, device: torch.device) -> Scorer:
    """What ``evaluation.inception`` names: an ONNX file, or a run of a classifier on such images.

    A file ``NAME.onnx`` is looked for as it is and under the data root. It takes float images ``(N, C, H, W)`` with
    pixels x/127.5 − 1 and gives logits: Inception-v3 with its resizing gives the published score. Scores by a run's
    classifier compare with each other only.
    """
    name = str(config.evaluation.inception)
    if Path(name).suffix in (".pt2", ".pt", ".pth"):
        raise ValueError(
            f"evaluation.inception={name!r}: such a file can carry code, which is not run. Save the network as ONNX "
            "(torch.onnx.export), and name that"
        )
    if is_file(config):
        root = data.default_root() if config.data.root is None else Path(config.data.root).expanduser()
        found = [path for path in (Path(name).expanduser(), root / name) if path.is_file()]
        if not found:
            raise FileNotFoundError(
                f"evaluation.inception={name!r} is neither here nor in {root}: it is an ONNX file that takes "
                "images (N, C, H, W) with pixels x/127.5 - 1 and gives the logits of Inception-v3"
            )
        return _onnx(str(found[0].resolve()), str(device))
    return _trained(str(beside(config, name).resolve()), config.data.root, facts, str(device))


def is_file(config: Config) -> bool:
    """Whether an ONNX file scores, not a run."""
    return str(config.evaluation.inception).endswith(".onnx")


def check_inherited(config: Config, root: str | None) -> None:
    """Refuse a file that the settings of a run folder name, unless it lies where this machine keeps its data.

    Whoever wrote that folder chose the path. The data root is that of the command line or of this machine, never that
    of the settings.

    Raises:
        ValueError: It says how to name the file oneself.
    """
    if config.evaluation.inception is None or not is_file(config):
        return
    name = str(config.evaluation.inception)
    home = (data.default_root() if root is None else Path(root).expanduser()).resolve()
    if not (home / name).resolve().is_relative_to(home):
        raise ValueError(
            f"the settings of the run name the file evaluation.inception={name!r} outside of {home}: if it is yours, "
            f"give --inception {name}"
        )


@lru_cache(maxsize=1)
def _onnx(path: str, device: str) -> Scorer:
    try:
        import onnxruntime
    except ImportError as error:
        raise ImportError(f"{path} is run by onnxruntime: pip install 'hypersphere[export]'") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        (taken,) = session.get_inputs()
        given = session.get_outputs()[0].name
    except Exception as error:  # a foreign file may be wrong in any way
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(f"{path} is not an ONNX file of a network with one input: {reason}") from error

    def score(pixels: Tensor) -> Tensor:
        numbers = (pixels.float() / 127.5 - 1).cpu().numpy()
        try:
            (out,) = session.run([given], {taken.name: numbers})
        except Exception as error:
            reason = str(error).strip().partition("\n")[0]
            raise ValueError(f"{path} cannot score images of shape {tuple(pixels.shape[1:])}: {reason}") from error
        return torch.from_numpy(out).float().to(device)

    return score


@lru_cache(maxsize=1)
def _trained(path: str, root: str | None, facts: Facts, device: str) -> Scorer:
    run = Run(path)
    settings, known = run.config.data, run.facts()
    if run.config.gan.generator is not None or known.num_classes < 2:
        raise ValueError(f"evaluation.inception: {path} is not a classifier")
    if (known.in_channels, known.image_size) != (facts.in_channels, facts.image_size):
        raise ValueError(
            f"evaluation.inception: {path} classifies images of {known.in_channels} channels and {known.image_size} "
            f"pixels, not {facts.in_channels} and {facts.image_size}"
        )
    network = load(path, device=device)
    moments: dict[str, Any] = {}
    if known.mean is not None:
        moments = {"mean": known.mean, "std": known.std}
    elif settings.normalize in data.MEASURED:
        learned = data.load(settings.name, settings.root or root).shrunk(settings.shrink)
        moments = {"mean": learned.mean, "std": learned.std}

    def score(pixels: Tensor) -> Tensor:
        out: Tensor = network(data.normalize(pixels, settings.normalize, **moments))
        return out.float()

    return score
