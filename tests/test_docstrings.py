"""Every public name is described: its parameters by name, what it returns, shapes, and an example that runs."""

from __future__ import annotations

import doctest
import enum
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

ROOMS = """angular attacks config data evaluation export functional losses magnitude metrics models nn optim orthogonal
    plots recipes regularizers report runs train""".split()
TOP = ("convert", "embed", "energy", "load", "register")
SHAPED = ("angular", "losses", "magnitude", "nn", "regularizers")  # rooms whose modules take and give tensors
HEADINGS = "Args Attributes Returns Yields Shape Raises Example Note Notes References".split()
ENTRY = re.compile(r"^    (\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: \([^)]*\))?:(?: (.*))?$")


def inventory() -> dict[str, object]:
    """Every public class and function by its address."""
    found: dict[str, object] = {}
    package = importlib.import_module("hypersphere")
    for name in TOP:
        found[f"hypersphere.{name}"] = getattr(package, name)
    for room in ROOMS:
        module = importlib.import_module(f"hypersphere.{room}")
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isclass(thing) or inspect.isroutine(thing):
                found[f"{room}.{name}"] = thing
    return found


PUBLIC = inventory()
METHODS: dict[str, tuple[type, str]] = {
    f"{address}.{name}": (thing, name)
    for address, thing in PUBLIC.items()
    if inspect.isclass(thing)
    for name, value in vars(thing).items()
    if not name.startswith("_") and not inspect.isclass(value)
    if inspect.isroutine(value) or isinstance(value, property | classmethod | staticmethod)
}


def sections(text: str) -> dict[str, str]:
    """The sections of a docstring in Google's style by heading; the text before the first is ``""``."""
    parts: dict[str, list[str]] = {"": []}
    current = ""
    for line in inspect.cleandoc(text).splitlines():
        if (word := line.removesuffix(":")) in HEADINGS and line.endswith(":"):
            assert word not in parts, f"two sections {word}"
            current = word
            parts[current] = []
        else:
            parts[current].append(line)
    return {name: "\n".join(lines).rstrip() for name, lines in parts.items()}


def entries(section: str) -> dict[str, str]:
    """Each name that a section lists, and its description."""
    found: dict[str, str] = {}
    names: list[str] = []
    for line in section.splitlines():
        if match := ENTRY.match(line):
            names = match[1].split(", ")
            found.update(dict.fromkeys(names, match[2] or ""))
        else:
            found.update({name: f"{found[name]} {line.strip()}".strip() for name in names})
    return found


def parameters(thing: object) -> list[str]:
    """The names of a signature, stars included; none where the constructor is not ours (``nn.Module``, ``Exception``)."""
    if inspect.isclass(thing) and not getattr(thing.__init__, "__module__", "hypersphere").startswith("hypersphere"):
        if not hasattr(thing, "__dataclass_fields__") and not hasattr(thing, "_fields"):
            return []
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    try:
        signature = inspect.signature(thing)  # type: ignore[arg-type]
    except ValueError:
        return []
    return [stars.get(p.kind, "") + p.name for p in signature.parameters.values() if not p.name.startswith("_")]


def returns_something(thing: object) -> bool:
    answer = inspect.signature(thing).return_annotation  # type: ignore[arg-type]
    return str(answer) not in ("None", "NoReturn", str(inspect.Signature.empty), str(type(None)))


def described(parts: dict[str, str], names: list[str]) -> list[str]:
    """What is wrong with the list of parameters."""
    listed = entries(parts.get("Args", "")) | entries(parts.get("Attributes", ""))
    wrong = [f"{name} is not described" for name in names if name not in listed]
    wrong += [f"{name} is described and does not exist" for name in entries(parts.get("Args", "")) if name not in names]
    return wrong + [f"{name} has no words" for name, words in listed.items() if len(words.split()) < 2]


def faults_of_name(address: str) -> list[str]:
    thing = PUBLIC[address]
    text = vars(thing).get("__doc__") if inspect.isclass(thing) else getattr(thing, "__doc__", None)
    if not text:
        return ["no docstring"]
    parts = sections(text)
    wrong = []
    if inspect.isclass(thing):
        bare = issubclass(thing, enum.Enum) or getattr(thing, "_is_protocol", False) or inspect.isabstract(thing)
        wrong += [] if bare else described(parts, parameters(thing))
        if issubclass(thing, nn.Module) and address.split(".")[0] in SHAPED and "Shape" not in parts:
            wrong.append("no Shape")
    else:
        wrong += described(parts, parameters(thing))
        if returns_something(thing) and not {"Returns", "Yields"} & set(parts):
            wrong.append("no Returns")
        hints = {name: str(hint) for name, hint in getattr(thing, "__annotations__", {}).items()}
        tensors = "Tensor" in hints.pop("return", "") and any("Tensor" in hint for hint in hints.values())
        if address.startswith("functional.") and tensors and "Shape" not in parts:
            wrong.append("no Shape")
    if ">>> " not in parts.get("Example", ""):
        wrong.append("no Example")
    return wrong


def faults_of_method(address: str) -> list[str]:
    owner, name = METHODS[address]
    value = inspect.getattr_static(owner, name)
    if (
        isinstance(value, property)
        or not isinstance(value, classmethod | staticmethod)
        and not inspect.isroutine(value)
    ):
        return [] if inspect.getdoc(value) or inherited(owner, name) else ["no docstring"]
    bound = getattr(owner, name)
    text = bound.__doc__ or inherited(owner, name)
    if not text:
        return ["no docstring"]
    names = parameters(bound)
    names = names[1:] if not isinstance(value, classmethod | staticmethod) else names
    if text is not bound.__doc__:
        return []  # the method keeps the contract of the one it overrides
    parts = sections(text)
    wrong = described(parts, names)
    if returns_something(bound) and not {"Returns", "Yields"} & set(parts):
        wrong.append("no Returns")
    return wrong


def inherited(owner: type, name: str) -> str | None:
    """The docstring of the method that this one overrides; ``nn.Module.forward``'s says nothing."""
    for base in owner.__mro__[1:]:
        value = vars(base).get(name)
        if base is nn.Module and name == "forward":
            return None
        if value is not None and getattr(value, "__doc__", None):
            return str(value.__doc__)
    return None


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_name_is_described(address):
    assert not faults_of_name(address)


@pytest.mark.parametrize("address", METHODS)
def test_a_public_method_is_described(address):
    assert not faults_of_method(address)


# Examples --------------------------------------------------------------------------------------------------------


def examples() -> Iterator[tuple[str, str, object]]:
    """Every docstring with an example: address, text, the object."""
    for address, thing in PUBLIC.items():
        if text := getattr(thing, "__doc__", None):
            yield address, text, thing
    for address, (owner, name) in METHODS.items():
        if text := getattr(inspect.getattr_static(owner, name), "__doc__", None):
            yield address, text, owner


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run in ``runs/digits``, as the examples expect it."""
    folder = tmp_path_factory.mktemp("examples")
    config = importlib.import_module("hypersphere.recipes").get("digits.cnn")
    with_values = importlib.import_module("hypersphere.config").with_values
    values = {"run.folder": str(folder / "runs"), "run.name": "digits", "run.progress": "off", "run.device": "cpu"}
    values |= {"schedule.steps": 2, "schedule.milestones": ()}
    importlib.import_module("hypersphere.train").run(with_values(config, values))
    return folder


@pytest.mark.parametrize("address", [address for address, text, _ in examples() if ">>> " in text])
def test_an_example_runs_and_prints_what_it_says(address, workplace, monkeypatch):
    monkeypatch.chdir(workplace)
    text, thing = next((text, thing) for found, text, thing in examples() if found == address)
    names = {"hs": importlib.import_module("hypersphere"), "torch": torch, "nn": nn}
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    test = doctest.DocTestParser().get_doctest(inspect.cleandoc(text), names, address, None, 0)
    said: list[str] = []
    state = torch.get_rng_state()
    torch.manual_seed(0)
    try:
        failed = doctest.DocTestRunner(optionflags=flags).run(test, out=said.append).failed
    finally:
        torch.set_rng_state(state)
    assert not failed, "".join(said)
