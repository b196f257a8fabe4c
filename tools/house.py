"""The rooms of the package and the doors between them: python tools/house.py [--check] [--source SRC]

Prints which room imports which, imports that go up, imports of another package's underscore module, lines of each
room with and without docstrings, number of modules, median and longest file. With ``--check`` the exit status is 1
where a rule is broken; ``tests/test_layering.py`` asks the same functions.
"""

from __future__ import annotations

import argparse
import ast
import re
import statistics
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parent.parent / "src" / "hypersphere"
NAME = "hypersphere"
LONGEST = 400  # lines of a file besides docstrings

# From the ground up. A room may import those of the lines above its own, never one of its own line or below.
ROOMS = """
_core
kernels
functional
angular magnitude
nn losses regularizers orthogonal metrics attacks data
optim conversion embedding energies
models pretrained
config
runs
sources
plots evaluation
train
recipes
report export
cli
registration
__main__ __init__
"""
KINDS = (ast.Import, ast.ImportFrom, ast.Call, ast.Attribute)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
LISTS = re.compile(r"^__all__\b", re.MULTILINE)
LEAVES = (ast.expr_context, ast.Name, ast.Constant, ast.operator)
FLOOR = {room: floor for floor, line in enumerate(ROOMS.strip().splitlines()) for room in line.split()}


@dataclass(frozen=True)
class Import:
    """One import: of ``target`` (a module, or a name in one), by ``module``; ``inside`` a function or not."""

    module: tuple[str, ...]
    line: int
    target: tuple[str, ...]
    inside: bool

    def __str__(self) -> str:
        hidden = " (inside a function)" if self.inside else ""
        return f"{'.'.join(self.module)}:{self.line} imports {'.'.join(self.target)}{hidden}"


class House:
    """The files of the package, their sizes and imports."""

    def __init__(self, source: Path = SOURCE) -> None:
        self.source = source
        self.files = {path: path.read_text() for path in sorted(source.rglob("*.py"))}
        self.modules = {module_of(path.relative_to(source)): path for path in self.files}
        self.parts = {module[1] for module in self.modules if len(module) > 1}
        self.imports = [one for path, text in self.files.items() for one in self._imports(path, text)]

    def homeless(self) -> list[str]:
        """Modules in no room of the table."""
        return [".".join(module) for module in self.modules if self.room(module) not in FLOOR]

    def upward(self) -> list[Import]:
        """Imports of a room that does not lie below."""
        return [one for one in self.imports if not allowed(self.room(one.module), self.room(one.target))]

    def crossings(self) -> list[Import]:
        """Imports of an underscore module, or of an underscore name, of a package that the importer is not part of."""
        return [one for one in self.imports if any(not self._within(one.module, home) for home in self._homes(one))]

    def borrowed(self) -> list[Import]:
        """Imports of an underscore name (not of a module) from another file: such a name is private to its file."""
        return [
            one
            for one in self.imports
            if one.target[-1].startswith("_") and not one.target[-1].startswith("__") and one.target not in self.modules
        ]

    def long(self) -> list[str]:
        """Files with more lines than fit in a head."""
        return [
            f"{path.relative_to(self.source)} has {code_size(text)} lines besides docstrings, at most {LONGEST}"
            for path, text in self.files.items()
            if size(text) > LONGEST and code_size(text) > LONGEST
        ]

    def listed(self) -> list[str]:
        """Modules with a list of public names, ``__all__``, although they are inside a package."""
        return [
            ".".join(module)
            for module, path in self.modules.items()
            if len(module) > 2 and path.name != "__init__.py" and LISTS.search(self.files[path])
        ]

    def graph(self) -> dict[str, Counter[str]]:
        """For each room, from the ground up, the rooms it imports and how often."""
        rooms = sorted({self.room(module) for module in self.modules}, key=height)
        found: dict[str, Counter[str]] = {room: Counter() for room in rooms}
        for one in self.imports:
            here, there = self.room(one.module), self.room(one.target)
            if here != there:
                found[here][there] += 1
        return found

    def room(self, module: tuple[str, ...]) -> str:
        """``hypersphere.nn.conv`` is in ``nn``; a name of the package itself comes through ``__init__``."""
        return module[1] if len(module) > 1 and module[1] in self.parts else "__init__"

    def _homes(self, one: Import) -> Iterator[tuple[str, ...]]:
        """The packages to which each underscore part of what is imported belongs."""
        for index, part in enumerate(one.target):
            if part.startswith("_") and not part.startswith("__"):
                owner = one.target[:index]  # a package, or the module that defines the name: then its package
                is_package = (self.source.parent.joinpath(*owner) / "__init__.py").is_file()
                yield owner if is_package else owner[:-1]

    def _within(self, module: tuple[str, ...], package: tuple[str, ...]) -> bool:
        return module[: len(package)] == package

    def _imports(self, path: Path, text: str) -> Iterator[Import]:
        module = module_of(path.relative_to(self.source))
        package = (NAME, *path.relative_to(self.source).parent.parts)
        nodes = walk(ast.parse(text))
        bound: dict[str, tuple[str, ...]] = {}
        for node, inside in nodes:
            for name, target in targets(node, package):
                if target[0] == NAME:
                    bound[name] = target
                    yield Import(module, node.lineno, target, inside)
        for node, inside in nodes:  # nn._layer after `from .. import nn`
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr.startswith("_"):
                owner = bound.get(node.value.id)
                if owner in self.modules and not node.attr.startswith("__"):
                    yield Import(module, node.lineno, (*owner, node.attr), inside)


def allowed(here: str, there: str) -> bool:
    """Whether a room may import another; one that is in no table, or the front door itself, lies above all."""
    return here == there or height(there)[0] < height(here)[0]


def height(room: str) -> tuple[int, str]:
    return FLOOR.get(room, len(FLOOR)), room


def module_of(path: Path) -> tuple[str, ...]:
    parts = (NAME, *path.with_suffix("").parts)
    return parts[:-1] if parts[-1] == "__init__" else parts


def size(text: str) -> int:
    return len(text.splitlines())


def code_size(text: str) -> int:
    """The lines of a file besides its docstrings, which describe every parameter and so have no useful limit."""
    found = size(text)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            found -= (node.body[0].end_lineno or 0) - node.body[0].lineno + 1
    return found


def walk(tree: ast.AST) -> list[tuple[Any, bool]]:
    """Every import, call and attribute from top to bottom, and whether it stands in a function."""
    found: list[tuple[Any, bool]] = []
    waiting: list[tuple[Any, bool]] = [(tree, False)]
    while waiting:
        node, inside = waiting.pop()
        if isinstance(node, KINDS):
            found.append((node, inside))
        inside = inside or isinstance(node, FUNCTIONS)
        for value in reversed(vars(node).values()):
            if isinstance(value, list):
                waiting += [(one, inside) for one in reversed(value) if isinstance(one, ast.AST)]
            elif isinstance(value, ast.AST) and not isinstance(value, LEAVES):
                waiting.append((value, inside))
    return found


def targets(node: ast.AST, package: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(name it is bound to, what is imported) of an import statement, or of an ``import_module`` of a known name."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            full = tuple(alias.name.split("."))
            yield (alias.asname, full) if alias.asname else (full[0], full)
    elif isinstance(node, ast.ImportFrom):
        base = package[: len(package) - node.level + 1] if node.level else ()
        base += tuple(node.module.split(".")) if node.module else ()
        yield from ((alias.asname or alias.name, (*base, alias.name)) for alias in node.names)
    elif isinstance(node, ast.Call) and node.args and called(node.func) in ("import_module", "__import__"):
        name = literal(node.args[0])
        level = len(name) - len(name.lstrip("."))
        base = package[: len(package) - level + 1] if level else ()
        if parts := tuple(part for part in name.lstrip(".").split(".") if part):
            yield "", (*base, *parts)


def called(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def literal(node: ast.expr) -> str:
    """A string as written, or the beginning of an f-string."""
    if isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0]
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def show(house: House) -> None:
    """The house in words and numbers."""
    sizes = {path.relative_to(house.source): size(text) for path, text in house.files.items()}
    codes = {path: code_size(text) for path, text in house.files.items()}
    print(f"{'room':13}{'modules':>8}{'lines':>7}{'code':>7}  imports        code: lines besides docstrings")
    for room, doors in house.graph().items():
        own = [path for module, path in house.modules.items() if house.room(module) == room]
        lines, code = sum(sizes[path.relative_to(house.source)] for path in own), sum(codes[path] for path in own)
        there = " ".join(f"{name}:{doors[name]}" for name in sorted(doors, key=height))
        print(f"{room:13}{len(own):8}{lines:7}{code:7}  {there}")
    longest = max(sizes, key=lambda path: sizes[path])
    inside = sum(one.inside for one in house.imports)
    print(f"\nlines of src: {sum(sizes.values()):,}, {sum(codes.values()):,} of them besides docstrings")
    print(f"modules: {len(sizes)}")
    print(f"median file: {statistics.median(sizes.values()):g} lines; longest: {longest}, {sizes[longest]} lines")
    print(f"imports inside functions: {inside}")
    print(f"imports that go up: {len(house.upward())}")
    print(f"private crossings: {len(house.crossings())}")


def main() -> int:
    """Print; with ``--check`` 1 if a rule is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit with 1 where a rule is broken")
    parser.add_argument("--source", type=Path, default=SOURCE, help="folder of the package (default: src/hypersphere)")
    options = parser.parse_args()
    house = House(options.source)
    show(house)
    broken: dict[str, list[Any]] = {
        "in no room of the table": house.homeless(),
        "imports that go up": house.upward(),
        "private crossings": house.crossings(),
        "private names of another file": house.borrowed(),
        "too long": house.long(),
        "__all__ inside a package": house.listed(),
    }
    for rule, cases in broken.items():
        print("".join([f"\n{rule}:\n", *(f"  {case}\n" for case in cases)]) if cases else "", end="")
    return int(options.check and any(broken.values()))


if __name__ == "__main__":
    sys.exit(main())
