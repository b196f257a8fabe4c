"""Two processes stop, their newest checkpoint is damaged, they go on; one of them is killed, they go on.

``recover.py FOLDER`` prints one JSON object.

Processes are forked, so that torch is imported once.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from tiny import everything
from torch.distributed import TCPStore

from hypersphere.train import Stopped, run, with_values
from hypersphere.train.training import Training

STEPS, STOP = 11, 10


def stop_training(self: Training, now: int, line: dict[str, float], genuine=Training._log) -> None:
    """In the place of ``Training._log``: end at a step between two checkpoints."""
    genuine(self, now, line)
    if now == STOP:
        raise RuntimeError("stopped")


def main(root: Path) -> dict[str, object]:
    torch.set_num_threads(1)
    run(everything(root, "alone", 2))  # so that the children find everything imported
    pair(root, "straight")
    pair(root, "stopped", stop=stop_training)
    (root / "stopped" / "seed-0" / "checkpoints" / "step-00000008" / "state.json").write_bytes(b"")
    said = pair(root, "stopped")
    names = sorted(path.name for path in (root / "stopped" / "seed-0" / "checkpoints").iterdir())
    one, two = ((root / name / "seed-0" / "model.safetensors").read_bytes() for name in ("straight", "stopped"))
    lost = pair(root, "killed", stop=kill_second, store=(store := shared_store()))
    pair(root, "killed", store=store, attempt=1)
    three = (root / "killed" / "seed-0" / "model.safetensors").read_bytes()
    left = [path.name for path in (root / "killed").iterdir() if path.name.startswith(".")]
    return {"same": one == two == three, "said": said, "checkpoints": names, "lost": lost, "left": left}


def kill_second(self: Training, now: int, line: dict[str, float], genuine=Training._log) -> None:
    """In the place of ``Training._log``: the second process is killed."""
    genuine(self, now, line)
    if now == STOP and self.team.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def shared_store() -> TCPStore:
    """What ``torchrun --max-restarts`` keeps over its attempts, with the addresses of all of them."""
    return TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)


def pair(
    root: Path,
    name: str,
    stop: Callable[..., None] | None = None,
    store: TCPStore | None = None,
    attempt: int = 0,
) -> list[str]:
    """Train in two processes; what each said."""
    os.environ["TORCHELASTIC_RESTART_COUNT"] = str(attempt)
    os.environ["TORCHELASTIC_USE_AGENT_STORE"] = str(store is not None)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1] if store is None else store.port
    children = [os.fork() or child(root, name, rank, port, stop, attempt) for rank in (0, 1)]
    ends = [os.waitpid(process, 0)[1] for process in children]
    assert stop or ends == [0, 0], ends
    return [(root / f"said-{rank}.txt").read_text() for rank in (0, 1)]


def child(root: Path, name: str, rank: int, port: int, stop: Callable[..., None] | None, attempt: int) -> int:
    time.sleep(0.3 * rank * attempt)  # the first to come finds what the attempt before left in the store
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    sys.stdout = open(root / f"said-{rank}.txt", "w")  # noqa: SIM115
    if stop:
        Training._log = stop  # type: ignore[method-assign]
    code = 1
    try:
        run(with_values(everything(root, name, STEPS), {"run.progress": "plain"}))
        code = 0
    except Stopped as stopped:
        if stopped.speaker == rank:
            print(stopped)
    finally:
        sys.stdout.flush()
        os._exit(code)


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
