"""Faults of every kind, and what became of the trainings: ``faults.py [--cases N] [--seed S]`` prints a table.

Kinds that train nothing have three times as many cases.

A case ends well if the training that continues has the reference's weights to the last bit, its log, and leaves nothing
behind; or, where files were damaged, if it is refused in one line that names the file.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from lab import ERRORS, REFUSED, SAME, STEPS, Lab, Power, at_operation, fail, flip, kill, truncate

Kind = Callable[[Lab, str], str]


def killed_at_operation(lab: Lab, name: str) -> str:
    """kill -9 at the n-th file operation"""
    for _ in range(lab.chance.choice((1, 1, 2))):
        lab.train(name, at_operation(lab.chance.randint(1, lab.operations), kill))
    return lab.judge(name, lab.train(name))


def killed_at_any_moment(lab: Lab, name: str) -> str:
    """kill -9 at a random moment"""
    lab.finish(lab.start(name), kill_after=lab.chance.uniform(0.02, 0.9) * lab.seconds)
    return lab.judge(name, lab.train(name))


def power_cut(lab: Lab, name: str) -> str:
    """power cut: what was not synchronised is gone"""
    end = lab.train(name, Power(lab.root / name, lab.chance.randint(1, lab.operations)))
    if end.status not in (0, -signal.SIGKILL):
        return end.word
    return lab.judge(name, lab.train(name))


def interrupted(lab: Lab, name: str) -> str:
    """Ctrl-C at a random moment"""
    end = lab.finish(lab.start(name), kill_after=lab.chance.uniform(0.1, 0.9) * lab.seconds, number=signal.SIGINT)
    if end.status not in (0, 130):
        return end.word
    return lab.judge(name, lab.train(name))


def operation_fails(lab: Lab, name: str) -> str:
    """a file operation fails: disk full, input/output error, permission"""
    number = ERRORS[lab.chance.choice(list(ERRORS))]
    end = lab.train(name, at_operation(lab.chance.randint(1, lab.operations), fail(number)))
    if end.status not in (0, 2):
        return end.word
    return lab.judge(name, lab.train(name))


def two_at_once(lab: Lab, name: str) -> str:
    """two processes at once on one run"""
    ends = [lab.finish(one) for one in [lab.start(name), lab.start(name)]]
    for end in ends:
        if end.status != 0 and "is in use by process" not in end.said:
            return end.word
    return lab.judge(name, min(ends, key=lambda end: end.status))


def seeds_at_once(lab: Lab, name: str) -> str:
    """three seeds of one run at once, each in its process"""
    ends = [lab.finish(one) for one in [lab.start(name, seed=seed) for seed in range(3)]]
    for end in ends:
        if end.status != 0:
            return end.word
    result = json.loads((lab.root / name / "result.json").read_text())
    if [one["seed"] for one in result["seeds"]] != [0, 1, 2]:
        return "seeds are missing from the result"
    return lab.judge(name, ends[0])


def flipped_then_trained(lab: Lab, name: str) -> str:
    """a bit flips in a file, training continues"""
    _damage(lab, name, flip, "stopped")
    return lab.judge(name, lab.train(name), log_damaged=True)


def cut_then_trained(lab: Lab, name: str) -> str:
    """a file is cut short, training continues"""
    _damage(lab, name, truncate, "stopped")
    return lab.judge(name, lab.train(name), log_damaged=True)


def flipped_then_read(lab: Lab, name: str) -> str:
    """a bit flips in a file, the run is read"""
    _damage(lab, name, flip, "reference")
    return lab.read(name).word


def cut_then_read(lab: Lab, name: str) -> str:
    """a file is cut short, the run is read"""
    _damage(lab, name, truncate, "reference")
    return lab.read(name).word


def gone_then_read(lab: Lab, name: str) -> str:
    """a file is gone, the run is read"""
    _damage(lab, name, lambda path, chance: path.unlink(), "reference")
    return lab.read(name).word


def _damage(lab: Lab, name: str, damage: Callable[..., None], source: str) -> None:
    path = lab.copy(name, source)
    files = [file for file in sorted(path.rglob("*")) if file.is_file() and file.name != ".lock"]
    damage(lab.chance.choice(files), lab.chance)


KINDS: dict[str, Kind] = {
    kind.__name__: kind
    for kind in (
        killed_at_operation,
        killed_at_any_moment,
        power_cut,
        interrupted,
        operation_fails,
        two_at_once,
        seeds_at_once,
        flipped_then_trained,
        cut_then_trained,
        flipped_then_read,
        cut_then_read,
        gone_then_read,
    )
}


def run_cases(lab: Lab, cases: dict[Kind, int]) -> dict[str, Counter[str]]:
    """The words of so many cases of each kind, by the kind's description."""
    found: dict[str, Counter[str]] = {}
    for kind, count in cases.items():
        words = found.setdefault(str(kind.__doc__), Counter())
        for number in range(count):
            name = f"{kind.__name__}{number}"
            words[kind(lab, name)] += 1
            lab.remove(name)
    return found


def report(found: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """What is kept of it: numbers by description, without the words of what went wrong."""
    counted = {about: Counter(words) for about, words in found.items()}
    return {
        about: {"cases": words.total(), SAME: words[SAME], REFUSED: words[REFUSED]} for about, words in counted.items()
    }


def table(found: dict[str, Counter[str]]) -> str:
    """Markdown: a row for each kind, what went wrong below."""
    return "\n".join([rows(report(found)), *problems(found)])


def rows(numbers: dict[str, dict[str, int]]) -> str:
    """The table of docs/reliability.md."""
    lines = ["| fault | cases | same end | stopped with a message | wrong |", "| --- | ---: | ---: | ---: | ---: |"]
    for about, one in numbers.items():
        wrong = one["cases"] - one[SAME] - one[REFUSED]
        lines.append(f"| {about} | {one['cases']} | {one[SAME]} | {one[REFUSED]} | {wrong} |")
    return "\n".join(lines)


def problems(found: dict[str, Counter[str]]) -> list[str]:
    """A line for each way in which something went wrong."""
    return [
        f"WRONG, {about}, {count}×: {word}"
        for about, words in found.items()
        for word, count in words.items()
        if word not in (SAME, REFUSED)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=40, help="of each kind (default %(default)s)")
    parser.add_argument("--folder", type=Path, help="where to train (default: where temporary files are)")
    parser.add_argument("--out", type=Path, help="a JSON file for the numbers")
    parser.add_argument("--only", nargs="+", metavar="KIND[=N]", help="only these kinds, so many of each")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=STEPS, help="of a training, a multiple of 6 (default %(default)s)")
    options = parser.parse_args()
    pairs = [word.partition("=") for word in options.only or KINDS]
    usual = {name: options.cases * (3 if name.endswith("_read") else 1) for name in KINDS}
    cases = {KINDS[name]: int(count) if equals else usual[name] for name, equals, count in pairs}
    root = Path(tempfile.mkdtemp(prefix="faults-", dir=options.folder))
    try:
        lab = Lab(root, options.steps)
        lab.chance.seed(options.seed)
        found = run_cases(lab, cases)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print(table(found))
    if options.out is not None:
        about = {"python": platform.python_version(), "torch": torch.__version__, "seed": options.seed}
        options.out.write_text(json.dumps({**about, "faults": report(found)}, indent=2, ensure_ascii=False) + "\n")
    return bool(problems(found))


if __name__ == "__main__":
    sys.exit(main())
