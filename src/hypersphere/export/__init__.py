"""Writes a trained network as files for others: safetensors, ``torch.export`` and ONNX, each checked, and a model card.

``export_run(RUN)`` writes them; ``hypersphere.load(EXPORT)`` reads the first back.
"""

from .checks import Check
from .formats import FORMATS
from .run import Export, export_run

__all__ = ["FORMATS", "Check", "Export", "export_run"]
