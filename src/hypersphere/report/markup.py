"""HTML from untrusted text: everything is escaped that is not :class:`Html` already."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def escape(text: object) -> Html:
    """Text as HTML; what is HTML stays."""
    return text if isinstance(text, Html) else Html(html.escape(str(text), quote=True))


def element(tag: str, *content: object, **attributes: object) -> Html:
    """``element("p", "a<b", class_="note")``; None and False leave an attribute out, True writes its name alone."""
    shown = "".join(
        f" {name.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(value)}"')
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    inner = "".join(map(escape, content))
    return Html(f"<{tag}{shown}>" if tag in ("img", "br", "input") else f"<{tag}{shown}>{inner}</{tag}>")


def join(parts: Iterable[object], between: str = "\n") -> Html:
    """Join parts into one text, each escaped."""
    return Html(between.join(map(escape, parts)))


def table(head: Sequence[object], rows: Iterable[Sequence[object]], caption: str, class_: str | None = None) -> Html:
    """A table that scrolls by itself where it is wider than the page; the first column names the row."""
    top = element("tr", *(element("th", cell, scope="col") for cell in head))
    body = [
        element("tr", element("th", row[0], scope="row"), *(element("td", cell) for cell in row[1:])) for row in rows
    ]
    inner = element(
        "table",
        element("caption", element("span", caption)),
        element("thead", top),
        element("tbody", *body),
        class_=class_,
    )
    return element("div", inner, class_="scroll", tabindex=0, role="region", aria_label=caption)


def definitions(rows: Iterable[tuple[object, object]]) -> Html:
    """A list of terms and their definitions."""
    return element("dl", *(join([element("dt", name), element("dd", text)], "") for name, text in rows))


def details(summary: str, *content: object) -> Html:
    """A section that opens when its summary is clicked."""
    return element("details", element("summary", summary), *content)


def number(value: float | None, digits: int = 2, sign: bool = False) -> str:
    """A number for people; a dash for none. Very large and small ones get an exponent."""
    if value is None:
        return "–"
    if value and not 1e-3 <= abs(value) < 1e6:
        return f"{value:{'+' if sign else ''}.3g}".replace("-", "−")
    return f"{value:{'+' if sign else ''}.{digits}f}".replace("-", "−")
