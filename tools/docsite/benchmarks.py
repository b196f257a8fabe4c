"""The page of the benchmarks: a table and a plot for every measurement in benchmarks/results/*.json."""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WIDTH, LEFT = 760, 300  # of a picture, and where its bars begin
SCRIPTS = {
    "operators": "Layers with BatchNorm and ReLU, forward and backward, against Conv2d.",
    "losses": "Margin losses at 100,000 classes: blocks of classes against dense logits and other libraries.",
    "energy": "Hyperspherical energy of many neurons, and its share of a training step.",
    "orthogonal": "Orthogonal maps with their gradients, against torch's.",
    "training": "The training program against a bare PyTorch loop.",
    "identification": "Identification among a million distractors.",
    "recurrent": "Recurrent layers against torch's.",
    "heads": "Margin losses over up to a million classes on a GPU.",
    "adapters": "Orthogonal adapters beside the adapters of PEFT, on a ViT and a small Llama.",
    "checkpoints": "The cost of the hashes when checkpoints are saved and loaded.",
    "deployment": "Nodes of exported graphs and times of inference.",
    "faults": "Trainings with injected faults, and how they ended (the table of the page on reliability).",
    "at_once": "Several trainings at once in one process on one GPU.",
}


def pages(root: Path) -> dict[str, str | bytes]:
    """The page ``benchmarks.md`` and its plots."""
    made: dict[str, str | bytes] = {}
    text = [
        "# Benchmarks",
        "",
        "Times are ratios to a named peer that was measured in the same process, in interleaved rounds. The tables"
        " show the median over the rounds and the quartiles. A/A is the peer measured against itself: a difference"
        " smaller than that spread means nothing. This page is made from `benchmarks/results/*.json`, which the scripts"
        " `benchmarks/*.py` write.",
        "",
    ]
    for path in sorted((root / "benchmarks" / "results").glob("*.json")):
        text += _file(path, made)
    return made | {"benchmarks.md": "\n".join(text) + "\n"}


def _file(path: Path, made: dict[str, str | bytes]) -> list[str]:
    content = json.loads(path.read_text())
    environment = content.get("environment", {})
    about = next((words for name, words in SCRIPTS.items() if name in path.stem), "")
    where = ", ".join(f"{environment[key]}" for key in ("device",) if key in environment)
    where += f", torch {environment.get('torch', '?')}, Python {environment.get('python', '?')}"
    if "cuda" not in path.stem and "threads" in environment:
        where += f", {environment['threads']} thread" + "s" * (environment["threads"] != 1)
    text = [f"## {path.stem.replace('_', ' ')}", "", f"{about} Measured on {where}.", ""]
    text += [f"[The numbers as JSON](../benchmarks/results/{path.name})", ""]
    for words, block in _timings(content):
        text += _timing(path.stem, words, block, made)
    for words, rows in _records(content):
        text += _record(words, rows)
    return text


def _timings(content: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Every measurement ``{"reference", "rounds", "variants"}`` with the keys that lead to it."""
    if isinstance(content, dict):
        if {"reference", "variants"} <= set(content):
            yield words, content
        else:
            for key, value in content.items():
                yield from _timings(value, (*words, str(key)))


def _timing(file: str, words: tuple[str, ...], block: dict[str, Any], made: dict[str, str | bytes]) -> list[str]:
    title = _title(words)
    rows = list(block["variants"].items())
    text = [f"### {file.replace('_', ' ')}: {title}", ""]
    text += [f"Against {block['reference']}, {block['rounds']} rounds.", ""]
    if len(rows) > 3:
        name = f"images/benchmark_{file}_{re.sub('[^a-z0-9]+', '_', title.lower())}.svg"
        made[name] = _bars(rows, block["reference"])
        text += [f"![Bars: time of each variant as a ratio to {block['reference']}]({name})", ""]
    text += ["| variant | median in ms | ratio | quartiles |", "| --- | ---: | ---: | --- |"]
    for variant, numbers in rows:
        low, high = numbers["ratio_quartiles"]
        text.append(f"| {variant} | {numbers['median_ms']:,.2f} | {numbers['ratio']:.2f}× | {low:.2f} to {high:.2f} |")
    return [*text, ""]


def _bars(rows: list[tuple[str, dict[str, Any]]], reference: str) -> str:
    """Ratios with their quartiles as an SVG picture, a dashed line at 1; by logarithms where they differ much."""
    ratios = [numbers["ratio"] for _, numbers in rows]
    far = max(ratios) / min(ratios) > 30
    least = min(0.5, *ratios) / 2 if far else 0.0
    most = 1.05 * max(1.0, *ratios, *(numbers["ratio_quartiles"][1] for _, numbers in rows))

    def place(ratio: float) -> float:
        share = math.log(max(ratio, least) / least) / math.log(most / least) if far else ratio / most
        return LEFT + (WIDTH - LEFT - 10) * share

    height, lines = 24 * len(rows) + 40, []
    for index, (name, numbers) in enumerate(rows):
        top, end = 24 * index + 4, place(numbers["ratio"])
        low, high = (place(ratio) for ratio in numbers["ratio_quartiles"])
        colour = "#999999" if name in (reference, "A/A") else "#0072B2"
        lines += [
            f'<text x="{LEFT - 8}" y="{top + 13}" text-anchor="end">{html.escape(name)}</text>',
            f'<rect x="{LEFT}" y="{top}" width="{end - LEFT:.1f}" height="18" fill="{colour}"/>',
            f'<path d="M{low:.1f} {top + 9}H{high:.1f}" stroke="#333333" stroke-width="1.5"/>',
        ]
    ticks = [10.0**power for power in range(-3, 6)] if far else [index * _step(most) for index in range(1, 9)]
    for tick in (tick for tick in ticks if least < tick <= most):
        text = f'<text x="{place(tick):.1f}" y="{height - 20}" text-anchor="middle">{tick:g}</text>'
        lines.append(f'<path d="M{place(tick):.1f} {height - 34}v-4" stroke="#333333"/>{text}')
    lines.append(f'<path d="M{place(1):.1f} 0V{height - 36}" stroke="#333333" stroke-dasharray="4 3"/>')
    words = f"time as a ratio to {html.escape(reference)} (lower is faster)"
    lines.append(f'<text x="{(LEFT + WIDTH) / 2}" y="{height - 4}" text-anchor="middle">{words}</text>')
    style = f'font-family="sans-serif" font-size="12" width="{WIDTH}" height="{height}"'
    ground = '<rect width="100%" height="100%" fill="white"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {style}>{ground}{"".join(lines)}</svg>\n'


def _step(most: float) -> float:
    """The round number that divides an axis into at most six parts."""
    unit = 10.0 ** math.floor(math.log10(most))
    return next(unit * part for part in (0.2, 0.5, 1.0, 2.0) if most <= 6 * unit * part)


def _records(content: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Everything else that is a table: numbers by name, or rows of numbers."""
    for key, value in content.items():
        if key == "environment" or not isinstance(value, dict) or list(_timings(value)):
            for inner, block in _timings(value):
                beside = {k: v for k, v in block.items() if isinstance(v, dict) and k != "variants"}
                for name, numbers in beside.items():
                    yield _title((key, *inner, name)), numbers
            continue
        yield _title((key,)), value


def _record(title: str, rows: dict[str, Any]) -> list[str]:
    if not rows:
        return []
    if all(isinstance(row, dict) for row in rows.values()):
        columns = list(dict.fromkeys(key for row in rows.values() for key in row))
        lines = [f"| | {' | '.join(column.replace('_', ' ') for column in columns)} |"]
        lines += ["| --- |" + " ---: |" * len(columns)]
        lines += [
            f"| {name} | {' | '.join(_number(row.get(column)) for column in columns)} |" for name, row in rows.items()
        ]
    else:
        lines = ["| | value |", "| --- | ---: |", *(f"| {name} | {_number(value)} |" for name, value in rows.items())]
    return [f"**{title}**", "", *lines, ""]


def _title(words: tuple[str, ...]) -> str:
    return ", ".join(word.replace("_", " ") for word in words)


def _number(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, list):
        return " to ".join(_number(one) for one in value) if len(value) == 2 else ", ".join(map(_number, value))
    return str(value).replace("|", "\\|")
