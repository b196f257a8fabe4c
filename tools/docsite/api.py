"""Reference pages of the Python rooms: what `__all__` of each names, in its order, from the docstrings."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import hypersphere

TOP = {
    "convert": "conversion",
    "embed": "embedding",
    "energy": "energies",
    "load": "runs",
    "load_pretrained": "pretrained",
    "register": "registration",
}
LIBRARY = (
    "nn", "angular", "magnitude", "losses", "regularizers", "orthogonal", "optim", "functional", "metrics", "attacks",
    "models", "data", "plots",
)  # fmt: skip
PROGRAM = ("runs", "train", "recipes", "evaluation", "report", "export", "config")


def pages(root: Path) -> dict[str, str]:
    """A page for each room, and an index with every public name."""
    made = {"reference/api/hypersphere.md": _top()}
    index = [
        "# Reference",
        "",
        "Every public name of the package, by subpackage. The search box finds them as well.",
        "",
    ]
    index += ["- [Command line](command_line.md): every command and every setting by group."]
    index += ["- [Names](names.md): every g, h, head, map, network, data set and measurement that has a name."]
    index += ["- [Recipes](recipes.md): every table of the documents, with published numbers and ours."]
    index += ["- [Run folders](run_folder.md): what a training run leaves behind.", ""]
    index += [
        "## hypersphere",
        "",
        ", ".join(f"[`{name}`](api/hypersphere.md#{_anchor('', name)})" for name in TOP),
        "",
    ]
    for room in (*LIBRARY, *PROGRAM):
        module = importlib.import_module(f"hypersphere.{room}")
        names = list(module.__all__)
        made[f"reference/api/{room}.md"] = _room(room, names)
        index += [f"## hypersphere.{room}", "", _summary(module), ""]
        index += [", ".join(f"[`{name}`](api/{room}.md#{_anchor(room, name)})" for name in names), ""]
    made["reference/index.md"] = "\n".join(index)
    return made


def _top() -> str:
    text = ["# hypersphere", "", inspect.getdoc(hypersphere) or "", ""]
    for name, module in TOP.items():
        text += [f"::: hypersphere.{module}.{name}", ""]
    return "\n".join(text)


def _room(room: str, names: list[str]) -> str:
    module = importlib.import_module(f"hypersphere.{room}")
    names = sorted(names, key=lambda name: not callable(getattr(module, name)))  # constants come last
    text = [f"# hypersphere.{room}", "", inspect.getdoc(module) or "", ""]
    for name in names:
        text += [f"::: {_anchor(room, name)}", ""]
    return "\n".join(text)


def _summary(module: object) -> str:
    return (inspect.getdoc(module) or "").split("\n\n")[0].replace("\n", " ")


def _anchor(room: str, name: str) -> str:
    """Where a name is documented. A function that is called like the module it is in goes by its own address."""
    if not room:
        return f"hypersphere.{TOP[name]}.{name}"
    module = importlib.import_module(f"hypersphere.{room}")
    thing = getattr(module, name)
    beside = [Path(folder) / name for folder in getattr(module, "__path__", ())]
    if any(place.is_dir() or place.with_suffix(".py").is_file() for place in beside):
        return f"{inspect.unwrap(thing).__module__}.{name}"
    return f"hypersphere.{room}.{name}"
