"""Check a built site: python tools/check_site.py [site]

Every link, picture, script and style of every page must be a file of the site, and every anchor must exist on its
page. Nothing may be loaded from a network.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"img": "src", "script": "src", "link": "href", "source": "src", "iframe": "src"}


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.ids |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag in LOADED and LOADED[tag] in values and values.get("rel") not in ("canonical", "prev", "next"):
            self.loaded.append(values[LOADED[tag]])


def problems(site: Path) -> list[str]:
    """What is wrong, one line for each broken link or foreign address."""
    pages: dict[Path, _Page] = {}
    for path in sorted(site.rglob("*.html")):
        pages[path] = _Page()
        pages[path].feed(path.read_text())
    found = []
    for path, page in pages.items():
        where = path.relative_to(site)
        for address in dict.fromkeys([*page.links, *page.loaded]):  # a menu is the same at the top and at the side
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                if address in page.loaded and parts.scheme != "data":
                    found.append(f"{where}: loads {address} from a network")
                continue
            if path.name == "404.html":
                continue  # its addresses start at the root of a server
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                found.append(f"{where}: {address} is missing")
            elif parts.fragment and target.suffix == ".html":
                named = pages.get(site / target.relative_to(site.resolve()))
                if named is not None and unquote(parts.fragment) not in named.ids and parts.fragment != "__search":
                    found.append(f"{where}: {address} names an anchor that is not there")
    return found


def main() -> int:
    site = Path(sys.argv[1] if len(sys.argv) > 1 else "site")
    found = problems(site)
    print("\n".join(found) or f"{site}: {len(list(site.rglob('*.html')))} pages, every link leads somewhere")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
