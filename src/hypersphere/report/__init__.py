"""The report: one HTML file about one run or several, to open in any browser without a network.

``write(["runs/digits.spherenet", "runs/digits.cnn"])`` gives its path;
`hypersphere report RUN [RUN ...]` does the same.
"""

from .page import build
from .write import write

__all__ = ["build", "write"]
