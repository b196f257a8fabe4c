"""Prepare a checkout for a package index: python tools/for_index.py https://github.com/OWNER/NAME

The index shows the README without the files beside it, so its relative links and pictures become addresses in the
repository. ``[project.urls]`` is added to pyproject.toml here and not kept there, so that a fork publishes its own.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def readme(text: str, home: str) -> str:
    """The README with every relative link and picture as an address below ``home``."""

    def absolute(found: re.Match[str]) -> str:
        kind = "raw" if found[1] else "blob"
        return f"{found[1]}[{found[2]}]({home}/{kind}/HEAD/{found[3]})"

    return re.sub(r"(!?)\[([^\]]*)\]\((?!https?://|#|mailto:)([^)\s]+)\)", absolute, text)


def project(text: str, home: str) -> str:
    """The text of pyproject.toml with the table of addresses."""
    if "[project.urls]" in text:
        raise SystemExit("pyproject.toml has [project.urls] already: run this on a fresh checkout")
    places = {
        "Homepage": home,
        "Documentation": f"{home}/tree/HEAD/docs",
        "Changelog": f"{home}/blob/HEAD/CHANGELOG.md",
        "Issues": f"{home}/issues",
    }
    lines = [f'{name} = "{place}"' for name, place in places.items()]
    return text.replace("[project.scripts]", "[project.urls]\n" + "\n".join(lines) + "\n\n[project.scripts]")


if __name__ == "__main__":
    if len(sys.argv) != 2 or not sys.argv[1].startswith("https://"):
        raise SystemExit(__doc__)
    address = sys.argv[1].rstrip("/")
    for file, change in ((ROOT / "README.md", readme), (ROOT / "pyproject.toml", project)):
        file.write_text(change(file.read_text(), address))
