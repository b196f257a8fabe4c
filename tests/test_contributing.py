"""Every step of CONTRIBUTING.md is taken as a stranger would: outside the package, in an empty folder.

The blocks under one heading share a folder and run from top to bottom. A block of ``python`` whose first line is a
comment with a file's name (``# mypackage/rules.py``) becomes that file; the others are run. A block of ``sh`` is given
to the shell, which stops at the first line that fails. Blocks of ``text`` are for the eye. No other language is
allowed, so that no step goes untaken.
"""

import os
import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

import hypersphere
import programs
from snippets import Block, blocks

PAGE = Path(__file__).parent.parent / "CONTRIBUTING.md"
STEPS = [block for block in blocks(PAGE.read_text()) if block.language != "text"]
SECTIONS = list(dict.fromkeys(block.heading for block in STEPS))
FOLDERS = ("src", "tests", "tools", "benchmarks", "docs", ".github")
SOURCE = Path(hypersphere.__file__).parent.parent


def take(steps: list[Block], folder: Path) -> None:
    """Do what the blocks say; a failure names the line of the page."""
    paths = [str(folder), str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])]
    found = os.pathsep.join([str(programs.python().parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    place = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PATH": found}
    for block in steps:
        if block.file is not None:
            (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.file).write_text(block.text)
            continue
        command = [programs.python(), "-c"] if block.language == "python" else ["bash", "-euo", "pipefail", "-c"]
        done = subprocess.run(
            [*command, block.text], cwd=folder, env=place, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"the block in line {block.line} failed:\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("section", SECTIONS)
def test_the_steps_can_be_taken(section, tmp_path):
    take([block for block in STEPS if block.heading == section], tmp_path)


def test_every_block_is_a_step_or_a_picture():
    assert STEPS
    for block in blocks(PAGE.read_text()):
        assert block.language in ("python", "sh", "text"), f"line {block.line}: ```{block.language} would not be run"


def test_what_the_page_names_is_there():
    """Files, targets of the Makefile and names in the code that the page tells to look at."""
    root, prose = PAGE.parent, re.sub(r"```.*?```", "", PAGE.read_text(), flags=re.S)
    files = [path for folder in FOLDERS for path in (root / folder, *(root / folder).rglob("*"))]
    files += root.glob("*.md")
    code = "\n".join(file.read_text() for file in files if file.suffix == ".py") + (root / "Makefile").read_text()
    for word in dict.fromkeys(re.findall(r"`([^`\n]+)`", prose)):
        if re.fullmatch(r"[\w/.*-]+(\.(py|md|yml)|/)", word):
            pattern = word.rstrip("/").replace("_name.py", "_*.py")
            assert any(fnmatch(str(file), f"*{pattern}") for file in files), f"no file {word}"
        elif word != "innerHTML" and re.fullmatch(r"@?[\w.]+(\(.*\))?", word):
            assert all(part in code for part in re.findall(r"[A-Za-z]\w+", word)), f"no {word} in the code"
        elif word.startswith("make "):
            assert f"\n{word.split()[1]}:" in code, f"no target {word}"


EXAMPLE = """
# Adding a rule
```python
# mine/rules.py
FACTOR = 3
```
Then
```python
from mine.rules import FACTOR
open("out.txt", "w").write(str(FACTOR))
```
```sh
grep 3 out.txt
hypersphere --version
```
## Another
```sh
test ! -e out.txt
```
"""


def test_files_code_and_commands_share_a_folder(tmp_path):
    first, second = (tmp_path / name for name in ("first", "second"))
    first.mkdir(), second.mkdir()
    found = blocks(EXAMPLE)
    assert [(block.heading, block.file) for block in found] == [
        ("Adding a rule", "mine/rules.py"), ("Adding a rule", None), ("Adding a rule", None), ("Another", None),
    ]  # fmt: skip
    take(found[:3], first)
    take(found[3:], second)


@pytest.mark.parametrize("text", ["```python\nraise SystemExit(3)\n```", "```sh\nfalse\ntrue\n```"])
def test_a_step_that_fails_is_named(text, tmp_path):
    with pytest.raises(AssertionError, match="the block in line 1 failed"):
        take(blocks(text), tmp_path)
