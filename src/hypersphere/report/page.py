"""The page: texts and tables from Python, curves and spheres by a script that carries its data with it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import resources
from pathlib import Path
from typing import Any

import torch

from .._core.version import __version__
from ..runs import usable_device
from .confusion import confusion_view
from .curves import curves, logged
from .findings import Findings, evaluate_subject
from .markup import Html, element, escape, join
from .overview import overview
from .panel import View, panels
from .sphere import sphere_view
from .subject import Subject, subjects
from .verification import roc_view

GENERATOR = '<meta name="generator" content="hypersphere report">'
LIMIT = 6_000_000  # bytes of a report
_SCRIPTS = ("dom.js", "axis.js", "chart.js", "curves.js", "sphere.js", "matrix.js", "main.js")


@dataclass(frozen=True)
class Detail:
    """How much is shown of each run."""

    points: int
    pictures: int
    steps: int
    classes: int
    thumbnails: int  # pixels


# Many runs in one page must stay under the limit: the first that fits is taken.
_DETAILS = (
    Detail(points=2000, pictures=24, steps=500, classes=100, thumbnails=600_000),
    Detail(points=1000, pictures=16, steps=300, classes=60, thumbnails=300_000),
    Detail(points=500, pictures=8, steps=150, classes=40, thumbnails=130_000),
    Detail(points=200, pictures=4, steps=60, classes=20, thumbnails=20_000),
    Detail(points=50, pictures=2, steps=25, classes=10, thumbnails=0),
)


def build(
    runs: Sequence[str | Path] | Sequence[Subject],
    *,
    root: str | None = None,
    device: torch.device | str = "cpu",
    data: bool = True,
) -> str:
    """Build the report as one HTML text under 6 MB.

    Args:
        runs: run folders, folders of single seeds in them, or subjects that were read already.
        root: folder of the data, if it is not where it was at training.
        device: where the networks compute features of their test splits.
        data: False builds it from the logs alone, without the network and its test split.

    Returns:
        The page as HTML text.

    Raises:
        ValueError: If no run is named, one is named twice or damaged, or the page would be too large.

    Example:
        >>> from hypersphere import report
        >>> page = report.build(["runs/digits"], data=False)
        >>> page.startswith("<!doctype html>")
        True
    """
    given = [one for one in runs if isinstance(one, Subject)]
    found = given or subjects([one for one in runs if not isinstance(one, Subject)])
    device = usable_device(device)
    seen = [evaluate_subject(subject, root=root, device=device, look=data) for subject in found]
    for detail in _DETAILS:
        page = _page(found, seen, detail).encode(errors="backslashreplace")  # a path need not be text
        if len(page) < LIMIT:
            return page.decode()
    raise ValueError(f"a report on {len(found)} runs would be larger than {LIMIT:,} bytes: report on fewer at once")


def _page(found: list[Subject], seen: list[Findings], detail: Detail) -> str:
    script = '(() => {\n"use strict";\n' + "\n".join(map(_asset, _SCRIPTS)) + "})();\n"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    one = len(found) == 1
    title = found[0].label if one else f"{len(found)} runs compared"
    shown = [
        panels(View(i, subject, look, detail.pictures), one)
        for i, (subject, look) in enumerate(zip(found, seen, strict=True))
    ]
    parts = {
        "generator": Html(GENERATOR),
        "policy": f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'",
        "title": title,
        "subtitle": _subtitle(found),
        "css": Html(_asset("page.css")),
        "overview": overview(found),
        "roc": _roc(seen),
        "compare": _compare(seen),
        "picker": Html("") if one else _picker(found),
        "panels": join(shown),
        "made": f"Written by hypersphere {__version__} on {datetime.now().astimezone():%Y-%m-%d %H:%M %Z}.",
        "data": Html(_json(_data(found, seen, detail))),
        "script": Html(script),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: escape(parts[match[1]]), _asset("page.html"))


def _subtitle(found: list[Subject]) -> str:
    if len(found) > 1:
        return ", ".join(subject.label for subject in found)
    config, seeds = found[0].run.config, len(found[0].seeds)
    return (
        f"{config.model.name} on {config.data.name}, {seeds} seed{'s' * (seeds > 1)} of {config.schedule.steps:,} steps"
    )


def _data(found: list[Subject], seen: list[Findings], detail: Detail) -> dict[str, Any]:
    wanted = logged(found)
    return {
        "measures": [{"key": one.key, "label": one.label, "unit": one.unit} for one in wanted],
        "runs": [
            {
                "label": subject.label,
                "seeds": [seed.number for seed in subject.seeds],
                "shown": look.seed,
                "curves": curves(subject, wanted, detail.steps),
                "sphere": None if look.found is None else sphere_view(look.found, detail.points, detail.thumbnails),
                "confusion": None
                if look.found is None or look.found.logits is None
                else confusion_view(look.found, detail.classes),
                "rocs": _rocs(look, detail),
            }
            for subject, look in zip(found, seen, strict=True)
        ],
    }


def _rocs(look: Findings, detail: Detail) -> list[dict[str, Any]]:
    """The curves of a run, by name: of its own evaluation, and of pairs that the user has listed."""
    found = []
    if look.verified is not None:
        roc = look.verified.result.roc
        found.append({"name": "", **roc_view(roc.fpr, roc.tpr, detail.steps)})
    if look.pairs is not None:
        found.append({"name": look.pairs.name, **roc_view(look.pairs.roc[0], look.pairs.roc[1], detail.steps)})
    return found


def _roc(seen: list[Findings]) -> Html:
    if all(look.verified is None and look.pairs is None for look in seen):
        return Html("")
    return element(
        "section",
        element("h2", "Verification of unseen classes", id="roc"),
        element("p", "True accepts against false accepts of pairs, over all thresholds on the angle.", class_="note"),
        element("div", class_="roc-view"),
        aria_labelledby="roc",
    )


def _compare(seen: list[Findings]) -> Html:
    """Where two runs have features to show: both beside each other."""
    if sum(look.found is not None and look.found.features.shape[1] > 1 for look in seen) < 2:
        return Html("")
    return element(
        "section",
        element("h2", "Two spheres side by side", id="compare"),
        element("div", class_="compare-view"),
        aria_labelledby="compare",
    )


def _picker(found: list[Subject]) -> Html:
    buttons = [
        element(
            "button",
            element("span", class_=f"swatch c{index % 8}", aria_hidden="true"),
            " ",
            subject.label,
            type="button",
            data_run=index,
            aria_pressed="true" if index == 0 else "false",
        )
        for index, subject in enumerate(found)
    ]
    return element(
        "nav",
        element("h2", "Run by run"),
        element("div", *buttons, class_="buttons"),
        class_="picker",
        aria_label="Run shown below",
    )


def _json(data: dict[str, Any]) -> str:
    """JSON that cannot end the element it stands in."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath("assets", name).read_text(encoding="utf-8")
