"""Check a built site: python tools/check_site.py [site]

Every link, picture, script and style of every page must be a file of the site, and every anchor must exist on its
page. Nothing may be loaded from a network.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"img": "src", "script": "src", "link": "href", "source": "src", "iframe": "src"}
NO_TAGS = re.compile(r"<!--.*?-->|(<(script|style)\b[^>]*>).*?</\2\s*>", re.S | re.I)
TAG = re.compile(r"""<([a-z][\w-]*)\s((?:[^>"']++|"[^"]*+"|'[^']*+')*+)>""", re.I)
VALUE = re.compile(r"""(?<![^\s"'])(id|name|href|src|rel)\s*=\s*("[^"]*"|'[^']*'|[^\s"'>]+)""", re.I)


class _Page:
    """The anchors of a page, its links, and what it loads."""

    def __init__(self, text: str) -> None:
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        for tag, inner in TAG.findall(NO_TAGS.sub(r"\1", text)):
            self._take(tag.lower(), {name.lower(): unescape(_bare(value)) for name, value in VALUE.findall(inner)})

    def _take(self, tag: str, values: dict[str, str]) -> None:
        self.ids |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag in LOADED and LOADED[tag] in values and values.get("rel") not in ("canonical", "prev", "next"):
            self.loaded.append(values[LOADED[tag]])


def _bare(value: str) -> str:
    return value[1:-1] if value[0] in "\"'" else value


@functools.cache
def _file(folder: str, path: str) -> str | None:
    """The file that a link from a page of the folder leads to, if it is there."""
    target = os.path.normpath(os.path.join(folder, unquote(path)))
    target = os.path.join(target, "index.html") if os.path.isdir(target) else target
    return target if os.path.isfile(target) else None


def problems(site: Path) -> list[str]:
    """What is wrong, one line for each broken link or foreign address."""
    _file.cache_clear()
    split = functools.cache(urlsplit)  # a menu is the same on all pages
    pages = {str(path): _Page(path.read_text()) for path in sorted(site.resolve().rglob("*.html"))}
    found = []
    for path, page in pages.items():
        folder, name = os.path.split(path)
        where = os.path.relpath(path, site.resolve())
        loaded = set(page.loaded)
        for address in dict.fromkeys([*page.links, *page.loaded]):  # and the same at the top and at the side
            parts = split(address)
            if parts.scheme or parts.netloc:
                if address in loaded and parts.scheme != "data":
                    found.append(f"{where}: loads {address} from a network")
                continue
            if name == "404.html":
                continue  # its addresses start at the root of a server
            target = _file(folder, parts.path) if parts.path else path
            if target is None:
                found.append(f"{where}: {address} is missing")
            elif parts.fragment not in ("", "__search") and target in pages:
                if unquote(parts.fragment) in pages[target].ids:
                    continue
                found.append(f"{where}: {address} names an anchor that is not there")
    return found


def main() -> int:
    site = Path(sys.argv[1] if len(sys.argv) > 1 else "site")
    found = problems(site)
    print("\n".join(found) or f"{site}: {len(list(site.rglob('*.html')))} pages, every link leads somewhere")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
