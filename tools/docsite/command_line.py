"""The page of the command line: commands from their parsers, settings from the dataclasses of hypersphere.config."""

from __future__ import annotations

import argparse
import dataclasses
import typing
from pathlib import Path
from typing import Any

from hypersphere.cli import COMMANDS, arguments
from hypersphere.config import Config
from hypersphere.config.options import told


def pages(root: Path) -> dict[str, str]:
    """The page ``reference/command_line.md``."""
    text = [
        "# Command line",
        "",
        "This page lists every command and setting, as `hypersphere COMMAND --help` prints them. The exit status"
        " is 0 on success, 2 if the request is wrong (with a message on stderr), 130 after Ctrl-C.",
        "",
        "| command | what it does |",
        "| --- | --- |",
        *(f"| [`{name}`](#{name}) | {_cell(summary)} |" for name, (_, summary) in COMMANDS.items()),
        "",
    ]
    for name, (module, summary) in COMMANDS.items():
        parser = argparse.ArgumentParser(prog=f"hypersphere {name}")
        getattr(arguments, module.rpartition(".")[2])(parser)
        text += [f"## {name}", "", summary[0].upper() + summary[1:] + ".", ""]
        text += _arguments(parser)
    text += [
        "## Settings",
        "",
        "Every command that trains takes these settings as `--group.field value`. Underscores and hyphens mean the"
        " same. A recipe sets what differs from the defaults below; `hypersphere train RECIPE --show` prints the"
        " result.",
        "",
    ]
    for field in dataclasses.fields(Config):
        part = getattr(Config(), field.name)
        if dataclasses.is_dataclass(part):
            text += _group(field.name, part)
    return {"reference/command_line.md": "\n".join(text) + "\n"}


def _arguments(parser: argparse.ArgumentParser) -> list[str]:
    rows = []
    for action in parser._actions:
        if any("." in option for option in action.option_strings) or isinstance(action, argparse._HelpAction):
            continue  # a setting: it stands in the table of its group
        name = ", ".join(f"`{option}`" for option in action.option_strings) or f"`{action.metavar or action.dest}`"
        help = (action.help or "") % {"default": action.default} if action.help else ""
        rows.append(f"| {name} | {_cell(help)} |")
    return ["| argument | meaning |", "| --- | --- |", *rows, ""] if rows else ["It has no arguments.", ""]


def _group(name: str, part: Any) -> list[str]:
    hints = typing.get_type_hints(type(part))
    summary = (type(part).__doc__ or "").strip().splitlines()[0]
    lines = [f"### {name}", "", summary, "", "| setting | type | default | meaning |", "| --- | --- | --- | --- |"]
    for field in dataclasses.fields(part):
        shown = _value(getattr(part, field.name))
        kind = _cell(_type(hints[field.name]))
        option, help = f"--{name}.{field.name.replace('_', '-')}", _cell(told(field.metadata["help"]))
        lines.append(f"| `{option}` | {kind} | `{shown}` | {help} |")
    return [*lines, ""]


def _type(hint: Any) -> str:
    if isinstance(hint, type) and not typing.get_args(hint):
        return {
            "bool": "yes or no",
            "str": "text",
            "int": "whole number",
            "float": "number",
            "dict": "name=value;...",
        }.get(hint.__name__, hint.__name__)
    inner = [one for one in typing.get_args(hint) if one is not type(None)]
    if type(None) in typing.get_args(hint):
        return " or ".join(_type(one) for one in inner) + " or none"
    origin = typing.get_origin(hint)
    if origin is tuple:
        return "list of " + _type(inner[0]) + "s"
    if origin is dict:
        return "name=value;..."
    return " or ".join(_type(one) for one in inner)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "none"
    return "none" if value is None or value == {} else str(value)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
