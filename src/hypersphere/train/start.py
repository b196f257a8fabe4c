"""Fine-tuning: the weights of another run where they fit, e.g. those of a CNN in its decoupled twin (thesis 4.4.3)."""

from __future__ import annotations

import torch

from ..config import Config
from ..runs import Networks, Run, beside


def start(networks: Networks, config: Config, seed: int = 0) -> None:
    """Copy them in place, if ``model.start`` names a run; at least the convolutions must fit.

    They are those of the same seed where that run has it, else of its first.
    """
    name = config.model.start
    if name is None:
        return
    run = Run(beside(config, name))
    folder = run.folder(seed if seed in run.seeds else None)
    if not folder.weights_path.exists():
        raise ValueError(f"model.start={name!r}: {folder.weights_path} does not exist: finish training that run first")
    trained = folder.weights()
    own = networks.classifier().state_dict()
    for key in own:  # SphereFace+ holds the head that it adds an energy to
        plain = key.replace("head.head.", "head.", 1)
        if key not in trained and plain in trained:
            trained[key] = trained[plain]
    fitting = [key for key, value in own.items() if key in trained and trained[key].shape == value.shape]
    weights = [key for key in own if key.endswith("weight") and own[key].dim() > 2]
    missing = [key for key in weights if key not in fitting]
    if missing:
        raise ValueError(f"model.start={name!r} does not fit: it has no {missing[0]} of {tuple(own[missing[0]].shape)}")
    with torch.no_grad():
        for key in fitting:
            own[key].copy_(trained[key])
