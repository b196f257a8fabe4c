"""Nothing imports upward: the layers of the package, and what each may know."""

import ast
from pathlib import Path

import pytest

import hypersphere

ROOT = Path(hypersphere.__file__).parent
# Each part with the parts of the package it may import (itself always).
FOUNDATION = {"_core"}
MAY_IMPORT = {
    "_core": set(),
    "functional": {*FOUNDATION},
    "angular": {*FOUNDATION, "functional"},
    "magnitude": {*FOUNDATION, "functional"},
    "metrics": {*FOUNDATION, "functional"},
    "data": {"_core"},
    "attacks": {"_core", "functional"},
}
MAY_IMPORT["nn"] = {*FOUNDATION, "functional", "angular", "magnitude"}
MAY_IMPORT["losses"] = {*FOUNDATION, "functional", "angular", "magnitude"}
MAY_IMPORT["conversion"] = MAY_IMPORT["nn"] | {"nn"}
MAY_IMPORT["regularizers"] = {*FOUNDATION, "functional"}
MAY_IMPORT["orthogonal"] = {*FOUNDATION, "functional"}
MAY_IMPORT["optim"] = MAY_IMPORT["nn"] | {"nn", "orthogonal", "losses"}
PARTS = MAY_IMPORT["conversion"] | {"attacks", "conversion", "losses", "metrics", "regularizers", "orthogonal", "optim"}
MAY_IMPORT["models"] = PARTS
MAY_IMPORT["embedding"] = {*FOUNDATION, "functional", "metrics", "data"}
MAY_IMPORT["plots"] = PARTS | {"models", "train"}
MAY_IMPORT["recipes"] = PARTS | {"models", "data", "train"}
MAY_IMPORT["train"] = PARTS | {"models", "data", "recipes"}
MAY_IMPORT["evaluation"] = PARTS | {"embedding", "models", "data", "train"}
MAY_IMPORT["report"] = PARTS | {"models", "data", "train", "recipes", "evaluation"}
MAY_IMPORT["export"] = PARTS | {"models", "data", "train", "recipes"}
MAY_IMPORT["cli"] = PARTS | {"models", "data", "train", "recipes", "plots", "evaluation", "report", "export"}
MAY_IMPORT["__main__"] = {"cli"}
MAY_IMPORT["__init__"] = set(MAY_IMPORT)


def imported_parts(path: Path) -> set[str]:
    """The first names under ``hypersphere`` that a file imports, wherever in the file."""
    package = ["hypersphere", *path.relative_to(ROOT).parent.parts]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = base + (node.module.split(".") if node.module else [])
            names = [[*module, alias.name] for alias in node.names]
        else:
            continue
        found |= {name[1] for name in names if name[0] == "hypersphere" and len(name) > 1}
    return {name for name in found if (ROOT / name).is_dir() or (ROOT / f"{name}.py").is_file()}


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_nothing_imports_upward(path):
    part = path.relative_to(ROOT).parts[0].removesuffix(".py")
    assert imported_parts(path) - {part} <= MAY_IMPORT[part]


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_files_are_short_enough_to_hold_in_the_head(path):
    assert len(path.read_text().splitlines()) <= 400
