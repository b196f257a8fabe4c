"""Imports go down only, and an underscore means something; the table of rooms is that of tools/house.py."""

import runpy
import sys
from pathlib import Path

import pytest

from snippets import blocks

TOOLS = Path(__file__).parent.parent / "tools"
sys.path.insert(0, str(TOOLS))
from house import FLOOR, House  # noqa: E402


@pytest.fixture(scope="module")
def house():
    return House()


def lines(cases):
    return "\n".join(map(str, cases))


def test_imports_go_down_only(house):
    """Wherever in a file they stand: at its top, in a function, in an ``import_module``."""
    assert not house.homeless(), f"add to ROOMS of tools/house.py:\n{lines(house.homeless())}"
    assert not house.upward(), lines(house.upward())


def test_contributing_lists_the_rooms_in_their_order(house):
    (block,) = [block for block in blocks((TOOLS.parent / "CONTRIBUTING.md").read_text()) if block.language == "text"]
    listed = [room for line in block.text.splitlines() for room in line[:31].split()]
    assert sorted(listed) == sorted(room for room in FLOOR if not room.startswith("__"))
    assert listed == sorted(listed, key=FLOOR.__getitem__)


def test_no_package_imports_what_another_keeps_to_itself(house):
    assert not house.crossings(), lines(house.crossings())


def test_no_file_imports_what_another_keeps_to_itself(house):
    assert not house.borrowed(), lines(house.borrowed())


def test_files_are_short_enough_to_hold_in_the_head(house):
    assert not house.long(), lines(house.long())


def test_public_names_are_listed_by_packages_and_by_modules_that_users_import(house):
    assert not house.listed(), lines(house.listed())


# What the two must see, each in a file nn/conv.py of a small house.
UP = [
    "from ..train import Config",
    "from .. import losses",  # of the same floor
    "def f():\n    from hypersphere.cli import main",
    "import importlib\nimportlib.import_module('hypersphere.train.step')",
    "from importlib import import_module\nimport_module('..train', __package__)",
    "import importlib\ndef f(x):\n    importlib.import_module(f'hypersphere.train.{x}')",
    "from .. import __version__",  # the front door
    "from ..cellar import wine",  # in no room
]
ACROSS = [
    "from ..functional import _fused",
    "from ..functional._fused import fused",
    "from ..functional.angular import _table",
    "import hypersphere.functional._fused",
    "def f():\n    from ..functional._fused import fused",
    "from .. import functional\nfunctional._fused.fused()",
]
BORROWED = [
    "from ..functional.angular import _table",
    "from ._layer import _helper",
    "from . import _layer\n_layer._helper()",
]
FINE = [
    "from ..functional import angular\nfrom .._core import errors\nfrom .._core.errors import check",
    "from ._layer import Layer\nfrom . import _layer\n_layer.helper()",
    "import importlib\nimportlib.import_module('hypersphere.functional')",
    "def f():\n    from ..functional import angular",
    "import torch._dynamo\nfrom os import _exit",
]


def small_house(folder, text):
    """A package whose nn/conv.py is this text."""
    source = folder / "hypersphere"
    names = "nn/conv nn/_layer losses/face train/step cli/main functional/_fused functional/angular _core/errors cellar"
    for path in (source / f"{name}.py" for name in names.split()):
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.touch()
    (source / "nn" / "conv.py").write_text(text)
    return source


def test_the_rules_find_upward_imports_and_private_crossings(tmp_path):
    for text in (*UP, *ACROSS, *BORROWED[1:], *FINE):
        house = House(small_house(tmp_path, text))
        assert len(house.upward()) == (text in UP), text
        assert bool(house.crossings()) == (text in ACROSS), text
        assert bool(house.borrowed()) == (text in BORROWED), text
        assert house.homeless() == ["hypersphere.cellar"]


def test_the_rule_finds_a_list_of_public_names_inside_a_package(tmp_path):
    source = small_house(tmp_path, "__all__ = ['conv']")
    for allowed in (source / "nn" / "__init__.py", source / "cellar.py"):
        allowed.write_text("__all__ = []")
    assert House(source).listed() == ["hypersphere.nn.conv"]


def test_the_tool_fails_where_a_rule_is_broken(tmp_path, monkeypatch, capsys):
    for text, status in ((FINE[0], 0), (UP[0], 1), (ACROSS[0], 1)):
        source = small_house(tmp_path, text)
        (source / "cellar.py").unlink()
        monkeypatch.setattr(sys, "argv", ["house.py", "--check", "--source", str(source)])
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(TOOLS / "house.py"), run_name="__main__")
        assert end.value.code == status, text
        assert ("hypersphere.nn.conv:1 imports hypersphere." in capsys.readouterr().out) == bool(status), text
