"""Print the version of the package, which is written down in one file."""

import re
from pathlib import Path

FILE = Path(__file__).parent.parent / "src/hypersphere/_core/version.py"


def version() -> str:
    """The version in :data:`FILE`."""
    found = re.search(r'^__version__ = "(.+)"$', FILE.read_text(), flags=re.M)
    if found is None:
        raise SystemExit(f"{FILE} has no line __version__ = ...")
    return found.group(1)


if __name__ == "__main__":
    print(version())
