"""One process at a time: the second is told who holds the folder, and locks end with their owners."""

import errno
import json
import os
import socket
import subprocess
import time
from pathlib import Path

import pytest
from tiny import tiny

import programs
from hypersphere.runs import lock
from hypersphere.runs.lock import Locked, locked
from hypersphere.train import run

HOLD = """
import sys, time
from pathlib import Path
from hypersphere.runs.lock import locked
with locked(Path(sys.argv[1]), "the folder"):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    process = programs.start(["-c", HOLD, tmp_path], stdout=subprocess.PIPE)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_the_second_is_told_who_holds_it_and_a_killed_owner_holds_nothing(tmp_path, holder):
    with pytest.raises(Locked, match=rf"the folder is in use by process {holder.pid} on "):  # noqa: SIM117
        with locked(tmp_path, "the folder"):
            pass
    holder.kill()
    holder.wait()
    with locked(tmp_path, "the folder", wait=5):
        assert json.loads((tmp_path / ".lock").read_text())["pid"] == os.getpid()
    assert not (tmp_path / ".lock").exists()


def test_a_waiting_process_gets_it_when_it_is_free(tmp_path):
    with locked(tmp_path, "x"):
        code = HOLD.replace('"the folder"', '"x", wait=60')
        waiting = programs.start(["-c", code, tmp_path], stdout=subprocess.PIPE)
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(0.2)
    try:
        assert waiting.stdout.readline() == "held\n"
    finally:
        waiting.kill()
        waiting.wait()
        waiting.stdout.close()


def test_another_machine_holds_it_while_it_renews_the_time_stamp(tmp_path):
    (tmp_path / ".lock").write_text(json.dumps({"host": "elsewhere", "pid": 1, "since": "now"}))
    with pytest.raises(Locked, match="process 1 on elsewhere"):  # noqa: SIM117
        with locked(tmp_path, "x"):
            pass
    old = time.time() - 2 * lock.STALE
    os.utime(tmp_path / ".lock", (old, old))
    with locked(tmp_path, "x"):
        pass


def test_without_locks_of_the_file_system_the_owner_on_this_machine_still_holds_it(tmp_path, monkeypatch):
    def no_locks(handle, kind):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(lock.fcntl, "flock", no_locks)
    with locked(tmp_path, "x"), pytest.raises(Locked, match=rf"process {os.getpid()} on "):  # noqa: SIM117
        with locked(tmp_path, "x"):
            pass
    (tmp_path / ".lock").write_text(json.dumps({"host": socket.gethostname(), "pid": 2**22 + 1}))
    with locked(tmp_path, "x"):
        pass


def test_who_lost_the_lock_leaves_it_to_its_new_owner(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "RENEWED", 0.01)
    other = json.dumps({"host": "elsewhere", "pid": 1, "since": "now"})
    with locked(tmp_path, "x"):
        (tmp_path / ".lock").write_text(other)  # this machine slept for longer than STALE
        os.utime(tmp_path / ".lock", (1, 1))
        time.sleep(0.05)
        assert (tmp_path / ".lock").stat().st_mtime == 1
    assert (tmp_path / ".lock").read_text() == other


def test_a_seed_that_is_being_trained_is_refused_by_name(tmp_path):
    config = tiny(tmp_path, "busy", 4)
    (tmp_path / "busy" / "seed-0").mkdir(parents=True)
    with locked(tmp_path / "busy" / "seed-0", "it"), pytest.raises(Locked, match=r"seed-0 is in use by process"):
        run(config)
    assert run(config)["seeds"][0]["seed"] == 0


SEED = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
import torch
torch.set_num_threads(1)
from dataclasses import replace
from tiny import tiny
from hypersphere.train import run
config = tiny(Path(sys.argv[1]), "shared", 6)
run(replace(config, run=replace(config.run, seeds=(int(sys.argv[2]),))))
"""


@pytest.mark.slow
def test_seeds_in_parallel_share_a_folder(tmp_path):
    tests = str(Path(__file__).parent.parent / "train")
    processes = [programs.start(["-c", SEED, tmp_path, seed, tests]) for seed in range(2)]
    assert [process.wait() for process in processes] == [0, 0]
    result = json.loads((tmp_path / "shared" / "result.json").read_text())
    assert [one["seed"] for one in result["seeds"]] == [0, 1]
    left = [p.name for p in tmp_path.rglob("*") if ".tmp" in p.name or p.name.startswith((".lock", ".room"))]
    assert left == []
