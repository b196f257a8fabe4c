"""Every public name is described: its parameters by name, what it returns, shapes, and an example that runs."""

from __future__ import annotations

import doctest
import enum
import functools
import importlib
import inspect
import re
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import nn

import hypersphere as hs
from hypersphere import config as config_room
from hypersphere import recipes
from hypersphere._core.registries import KINDS
from hypersphere.config.options import told

ROOMS = [
    "angular",
    "attacks",
    "config",
    "data",
    "evaluation",
    "export",
    "functional",
    "losses",
    "magnitude",
    "metrics",
    "models",
    "nn",
    "optim",
    "orthogonal",
    "plots",
    "recipes",
    "regularizers",
    "report",
    "runs",
    "train",
]
TOP = ("convert", "embed", "energy", "load", "load_pretrained", "register")
SHAPED = ("angular", "losses", "magnitude", "nn", "regularizers")  # rooms whose modules take and give tensors
HEADINGS = ["Args", "Attributes", "Returns", "Yields", "Shape", "Raises", "Example", "Note", "Notes", "References"]
FILLERS = {"the", "of", "a", "an", "its", "each", "to", "in", "for", "and", "this", "is", "that"}
PROPERTIES = property | functools.cached_property
ENTRY = re.compile(r"^    (\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: \([^)]*\))?:(?: (.*))?$")


def inventory() -> dict[str, object]:
    """Every public class and function by its address."""
    found: dict[str, object] = {}
    for name in TOP:
        found[f"hypersphere.{name}"] = getattr(hs, name)
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
    if not name.startswith("_") and name not in getattr(thing, "__dataclass_fields__", {})
    if inspect.isroutine(value) or isinstance(value, PROPERTIES | classmethod | staticmethod)
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
    """The names of a signature, stars included; none where the constructor is torch's or Python's own."""
    fields = hasattr(thing, "__dataclass_fields__") or hasattr(thing, "_fields")
    if (
        inspect.isclass(thing)
        and not fields
        and not getattr(thing.__init__, "__module__", "").startswith("hypersphere")
    ):
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


def raises_something(thing: object) -> bool:
    """Whether a function, or the constructor of a class, raises an error for wrong arguments in its own lines."""
    found = inspect.unwrap(thing)  # type: ignore[arg-type]
    if inspect.isclass(found) and not getattr(found, "_is_protocol", False):
        found = vars(found).get("__post_init__" if hasattr(found, "__dataclass_fields__") else "__init__")
    code = inspect.getsource(found) if inspect.isfunction(found) else ""
    return bool(re.search(r"^\s+raise \w+Error|\bcheck_\w+\(\"", code, flags=re.MULTILINE))


def helped(thing: object) -> set[str]:
    """The settings that explain themselves, for the command line and the reference alike."""
    fields = getattr(thing, "__dataclass_fields__", {}).values()
    return {field.name for field in fields if len(told(field.metadata.get("help", "")).split()) > 1}


def described(parts: dict[str, str], names: list[str]) -> list[str]:
    """What is wrong with the list of parameters."""
    listed = entries(parts.get("Args", "")) | entries(parts.get("Attributes", ""))
    wrong = [f"{name} is not described" for name in names if name not in listed]
    unnamed = [name for name, words in listed.items() if name.startswith("**") and words.count("``") < 4]
    wrong += [f"{name} does not name the options" for name in unnamed]
    wrong += [f"{name} is described and does not exist" for name in entries(parts.get("Args", "")) if name not in names]
    return wrong + [f"{name} says too little: {words!r}" for name, words in listed.items() if thin(name, words)]


def thin(name: str, words: str) -> bool:
    """Whether a description only repeats the name. A shape, ``(N, d)``, is worth a few words."""
    said = re.findall(r"\w+", words.lower())
    own = set(name.strip("*").lower().split("_"))
    news = [word for word in said if word not in FILLERS and word not in own and word.rstrip("s") not in own]
    return len(news) < 2 or (len(said) < 5 and "(" not in words)


def faults_of_name(address: str) -> list[str]:
    thing = PUBLIC[address]
    text = vars(thing).get("__doc__") if inspect.isclass(thing) else getattr(thing, "__doc__", None)
    if not text:
        return ["no docstring"]
    parts = sections(text)
    wrong = []
    if inspect.isclass(thing):
        bare = issubclass(thing, enum.Enum) or getattr(thing, "_is_protocol", False) or inspect.isabstract(thing)
        wrong += [] if bare else described(parts, [name for name in parameters(thing) if name not in helped(thing)])
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
    if raises_something(thing) and "Raises" not in parts:
        wrong.append("no Raises")
    if ">>> " not in parts.get("Example", ""):
        wrong.append("no Example")
    return wrong


def faults_of_method(address: str) -> list[str]:
    owner, name = METHODS[address]
    value = inspect.getattr_static(owner, name)
    if isinstance(value, PROPERTIES):
        return [] if value.__doc__ or inherited(owner, name) else ["no docstring"]
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


@pytest.mark.parametrize("room", ["hypersphere", *ROOMS])
def test_public_names_and_methods_are_described(room):
    """All of a room at once: a test for each of a thousand names takes longer to count than to run."""
    wrong = {address: faults_of_name(address) for address in PUBLIC if address.split(".")[0] == room}
    assert wrong
    wrong |= {address: faults_of_method(address) for address in METHODS if address.split(".")[0] == room}
    assert not {address: faults for address, faults in wrong.items() if faults}


# Examples --------------------------------------------------------------------------------------------------------

# What cannot run here: the one needs eight GPUs, the other a library that takes seconds to import.
ROOT = Path(__file__).parents[1]
NOT_RUN = {"losses.shard", "losses.metric_learning"}


def examples() -> dict[str, str]:
    """Every docstring with an example, by address."""
    found = {address: getattr(thing, "__doc__", None) for address, thing in PUBLIC.items()}
    for address, (owner, name) in METHODS.items():
        found[address] = getattr(inspect.getattr_static(owner, name), "__doc__", None)
    return {address: text for address, text in found.items() if text and ">>> " in text}


EXAMPLES = examples()


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small run in ``runs/digits``, and photos in ``photos``, as the examples expect them."""
    folder = tmp_path_factory.mktemp("examples")
    config = config_room.with_values(recipes.get("digits.cnn"), {"run.seeds": (0,)})
    facts = hs.runs.Facts(10, 1, (8, 8))
    networks = hs.runs.make_networks(config, facts)
    described = {"num_classes": 10, "in_channels": 1, "image_size": (8, 8), "classes": tuple("0123456789")}
    with hs.runs.Logger(
        folder / "runs" / "digits", model=networks.model, head=networks.head, settings=config, steps=2, **described
    ) as log:
        log(1, loss=2.3)
        log.evaluate(2, accuracy=10.0, test_loss=2.3)
    for name, count in {"train/cat": 4, "train/dog": 4, "val/cat": 2, "val/dog": 2}.items():
        (folder / "photos" / name).mkdir(parents=True)
        for number in range(count):
            Image.new("RGB", (8, 8), (60 * number, 0, 0)).save(folder / "photos" / name / f"{number}.png")
    return folder


@pytest.mark.parametrize("address", EXAMPLES)
def test_an_example_runs_and_prints_what_it_says(address, workplace, unregistered, monkeypatch):
    monkeypatch.chdir(workplace)
    names = {"hs": hs, "torch": torch, "nn": nn}
    test = doctest.DocTestParser().get_doctest(inspect.cleandoc(EXAMPLES[address]), names, address, None, 0)
    skipped = sum(doctest.SKIP in example.options for example in test.examples)
    assert not skipped or address in NOT_RUN
    said: list[str] = []
    with torch.random.fork_rng():
        torch.manual_seed(0)
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        failed = runner.run(test, out=said.append).failed
    assert not failed, "".join(said)


OPTIONS = {
    "angular": "cosine",
    "annealing": "sphereface",
    "bias": True,
    "chunk": 4,
    "class_weight": torch.ones(5),
    "detach_margin": True,
    "device": "cpu",
    "dtype": torch.float64,
    "ignore_index": -1,
    "label_smoothing": 0.1,
    "reduction": "sum",
    "scale": 8.0,
    "sub_centers": 2,
}


def test_options_are_spelt_out():
    """``**options`` of a head names every setting that it passes on, and none that it refuses."""
    assert set(OPTIONS) == set(parameters(hs.losses.MarginSoftmax)) - {"in_features", "num_classes", "margin"}
    checked = 0
    for name in hs.losses.__all__:
        head = getattr(hs.losses, name)
        if not inspect.isclass(head) or "**options" not in parameters(head):
            continue
        words = entries(sections(head.__doc__)["Args"])["**options"]
        for option in set(OPTIONS) - set(parameters(head)):
            assert (f"``{option}``" in words) == _takes(head, option), (name, option)
            checked += 1
    assert checked > 100


def _takes(head: type, option: str) -> bool:
    try:
        loss = head(4, 5, **{option: OPTIONS[option]})
    except (TypeError, ValueError):
        return False
    return bool(loss(torch.ones(3, 4, dtype=loss.weight.dtype), torch.tensor([0, 1, 4])).isfinite())


PAGES = {"angular": "operators", "magnitude": "operators", "head": "losses", "regularizer": "energies"}
PAGES |= {
    "map": "orthogonal",
    "optimizer": "training",
    "model": "models",
    "dataset": "data",
    "plot": "gallery",
    "panel": "report",
}


def test_every_name_is_in_the_docs(monkeypatch):
    """The table of names is made from the registries; the guides, which explain more, name everything as well."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    (table,) = importlib.import_module("docsite.names").pages(ROOT).values()
    for kind, registry in KINDS.items():
        guide = (ROOT / "docs" / f"{PAGES.get(kind, 'evaluation')}.md").read_text()
        for entry in registry.entries():
            assert entry.about, (kind, entry.name)
            assert all(one.help for one in entry.options), (kind, entry.name)
            assert f"| `{entry.name}` | {entry.label} |" in table, (kind, entry.name)
            stem = entry.name.removesuffix("_transfer")
            words = (stem, entry.label, getattr(entry.value, "__name__", entry.label))
            assert any(word in guide for word in words), (kind, entry.name)


def test_the_checks_find_faults():
    """The checks themselves: a missing parameter, an unknown one, an empty description."""
    lines = "a: what it does to the result.\n    b, c: two more\n        of them.\n    d:\n"
    parts = sections(f"Do it.\n\nArgs:\n    {lines}")
    said = {"a": "what it does to the result.", "b": "two more of them.", "c": "two more of them.", "d": ""}
    assert entries(parts["Args"]) == said
    assert described(parts, ["a", "b", "e"]) == [
        "e is not described",
        "c is described and does not exist",
        "d is described and does not exist",
        "b says too little: 'two more of them.'",
        "c says too little: 'two more of them.'",
        "d says too little: ''",
    ]
    assert [thin("model", "the model."), thin("seed", "seed of the draw."), thin("x", "features (N, d).")] == [
        True,
        True,
        False,
    ]
