"""A few faults of every kind; ``make faults`` has hundreds. And what goes wrong beside training: Ctrl-C, bad JSON."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from lab import REFUSED, SAME
from tiny import tiny

import hypersphere as hs
import programs
from faults import KINDS, rows
from hypersphere._core import leftovers
from hypersphere.cli import main
from hypersphere.runs import Run, SeedFolder, files
from hypersphere.train import run

HERE = Path(__file__).parent
# kind → cases here, by the names of their functions in faults.py
CASES = """killed_at_operation=1 killed_at_any_moment=1 power_cut=1 interrupted=1 operation_fails=1 two_at_once=1
seeds_at_once=1 flipped_then_trained=1 cut_then_trained=1 flipped_then_read=4 cut_then_read=2 gone_then_read=2"""
MEMORY = Path("/dev/shm")  # no disk is waited for


@pytest.mark.slow
def test_every_kind_of_fault_ends_well():
    memory = ["--folder", str(MEMORY)] if os.access(MEMORY, os.W_OK) else []
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
    done = programs.run([HERE / "faults.py", *memory, "--only", *CASES.split()], env=env, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_table_of_the_docs_is_that_of_make_faults():
    root = HERE.parent.parent
    numbers = json.loads((root / "benchmarks" / "results" / "faults.json").read_text())["faults"]
    assert rows(numbers) in (root / "docs" / "reliability.md").read_text()
    assert set(numbers) == {str(kind.__doc__) for kind in KINDS.values()}
    assert all(one["cases"] == one[SAME] + one[REFUSED] for one in numbers.values())


def test_ctrl_c_while_torch_is_imported_is_one_line():
    code = """
import os, signal, sys
from hypersphere.cli import main
sent = []
def hook(event, values):
    if event == "import" and values[0] == "torch" and not sent:
        sent.append(os.kill(os.getpid(), signal.SIGINT))
sys.addaudithook(hook)
sys.exit(main(["list"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=False)
    assert (done.returncode, done.stderr) == (130, "hypersphere list: interrupted\n")


NASTY = {
    "object": "{}",
    "list": "[]",
    "null": "null",
    "deep": "[" * 100_000,
    "deep object": '{"a":' * 100_000,
    "huge number": '{"seed": 0, "final_accuracy": 1e999, "best_accuracy": "x"}',
    "not text": "\udcff\udcfe",
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    root = tmp_path_factory.mktemp("trained")
    run(tiny(root, "mine", 2))
    return root


@pytest.mark.parametrize("content", NASTY)
@pytest.mark.parametrize("name", ["config.json", "seed-0/result.json", "seed-0/facts.json", "seed-0/manifest.json"])
def test_json_of_any_kind_is_refused_by_the_name_of_its_file(trained, name, content, capsys):
    file = trained / "mine" / name
    whole = file.read_bytes()
    file.write_bytes(NASTY[content].encode("utf-8", "surrogateescape"))
    try:
        for command in ("report",) if "result" in name else ("report", "evaluate"):
            assert main([command, str(trained / "mine")]) == 2
            said = capsys.readouterr().err
            assert str(file.parent) in said
            assert said.count("\n") == 1
            assert len(said) < 1500
        if name != "seed-0/facts.json":  # training reads no facts, it writes them
            with pytest.raises(ValueError, match="mine"):
                run(tiny(trained, "mine", 2))
    finally:
        file.write_bytes(whole)


def test_only_the_owner_and_the_dead_are_swept(tmp_path):
    gone, used = f"{2**22 + 1}@{leftovers.this_host()}", f"{os.getppid()}@{leftovers.this_host()}"
    folder = SeedFolder(tmp_path, 0)
    folder.prepare()
    for owner in (gone, used):
        (folder.path / f"evaluation.json{files.TEMPORARY}{owner}").touch()
        (folder.path / f"{files.PROBE}{owner}").touch()
    (folder.path / "notes.tmp").touch()
    (folder.checkpoints / "tmp-step-00000004").mkdir()
    folder.prepare()
    assert sorted(path.name for path in folder.path.iterdir()) == sorted(
        ["checkpoints", f"evaluation.json{files.TEMPORARY}{used}", f"{files.PROBE}{used}", "notes.tmp"]
    )
    assert list(folder.checkpoints.iterdir()) == []


def test_a_third_checkpoint_and_a_stale_pointer_are_mended(trained, tmp_path):
    folder = SeedFolder(tmp_path, 0)
    folder.prepare()
    weights = hs.load(trained / "mine").state_dict()
    for step in (2, 4, 6):
        folder.save(step, weights, {}, keep=3)
    (folder.path / "latest").write_text("step-00000002")
    folder.prepare(keep=2)
    assert sorted(path.name for path in folder.checkpoints.iterdir()) == ["step-00000004", "step-00000006"]
    assert (folder.path / "latest").read_text() == "step-00000006"


def test_a_checkpoint_that_could_not_be_removed_is_gone_with_the_result(tmp_path):
    folder = SeedFolder(tmp_path, 0)
    folder.prepare()
    folder.save(2, {}, {}, keep=1)
    (folder.checkpoints / "tmp-step-00000001").mkdir()  # a disk that failed once while it was removed
    folder.write_result({"final_accuracy": 1.0, "best_accuracy": 1.0})
    assert [path.name for path in folder.checkpoints.iterdir()] == ["step-00000002"]


def test_a_changed_number_in_the_log_is_said(tmp_path):
    folder = SeedFolder(tmp_path, 0)
    folder.prepare()
    folder.log({"step": 1, "loss": 0.5})
    folder.save(1, {}, {}, keep=2)
    assert folder.rewind_log(1) is None
    folder.log_path.write_text(json.dumps({"step": 1, "loss": 0.7}) + "\n")
    assert "log.jsonl is not what was written up to step 1" in folder.rewind_log(1)


def test_a_changed_result_is_noticed(trained):
    file = trained / "mine" / "seed-0" / "result.json"
    whole = file.read_text()
    file.write_text(whole.replace('"best_step": 2', '"best_step": 1'))
    assert file.read_text() != whole
    with pytest.raises(ValueError, match=r"result\.json is not what was written.*Remove the file and give the"):
        Run(trained / "mine").result()
    file.write_text(whole)
