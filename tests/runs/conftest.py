import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "train"))  # folders.py makes run folders for both
