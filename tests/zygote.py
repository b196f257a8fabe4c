"""A process that has imported what programs need: each program that a test starts is a fork of it.

``zygote.py BARE FULL`` listens at two Unix sockets. Behind the first torch is imported and nothing else, behind the
second everything that ``hypersphere train`` imports, torch's compiler included. A program is described by one JSON
object and three open files; it is answered with its number and, when it has ended, its exit status. Nothing is
computed here, so there are no threads that a fork would lose. The client is ``programs.py``.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import posix
import runpy
import select
import signal
import socket
import sys
import threading
import traceback
import types
from importlib import import_module
from typing import Any

FULL = [
    "torch._dynamo",
    "torch.distributed.checkpoint",
    "torch.utils.tensorboard",
    "PIL.Image",
    "rich.progress",
    "safetensors.torch",
    "hypersphere.cli.train",
    "hypersphere.cli.sweep",
]


def main(bare: str, full: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the tests, and their end ends this process
    asked = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    known = [path for path in sys.path[1:] if path not in asked]
    listeners = []
    for path in (bare, full):
        listeners.append(socket.socket(socket.AF_UNIX))
        listeners[-1].bind(path)
        listeners[-1].listen()
    import_module("torch")
    if os.fork():
        listeners.pop().close()
        serve(listeners[0], known)
    listeners.pop(0).close()
    for name in FULL:
        import_module(name)
    serve(listeners[0], known)


def serve(listener: socket.socket, known: list[str]) -> None:
    """Fork for whoever calls, until standard input ends."""
    gc.collect()
    gc.freeze()
    while 0 not in select.select([0, listener], [], [])[0]:
        reap()
        call, _ = listener.accept()
        if os.fork():
            call.close()
            continue
        listener.close()
        answer(call, known)
    reap()
    posix._exit(0)


def reap() -> None:
    """Forget the forks that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def answer(call: socket.socket, known: list[str]) -> None:
    """Start the program that is asked for and tell how it ends."""
    _, files, _, _ = socket.recv_fds(call, 1, 3)
    request = json.loads(call.makefile().read())
    process = os.fork()
    if not process:
        call.close()
        become(files, request, known)
    for file in files:
        os.close(file)
    call.sendall(f"{process}\n".encode())
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    call.sendall(f"{status}\n".encode())
    posix._exit(0)  # not os._exit, at which a measurement of coverage writes its data: that is for programs


def become(files: list[int], request: dict[str, Any], known: list[str]) -> None:
    """Be ``python *arguments``: its folder, environment and files, and its end."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    sys.path[:] = [*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)), *known]
    end(status_of(request["arguments"]))


def status_of(arguments: list[str]) -> int:
    try:
        execute(*arguments)
        threading._shutdown()  # type: ignore[attr-defined]
    except SystemExit as asked:
        if asked.code is None or isinstance(asked.code, int):
            return asked.code or 0
        print(asked.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        traceback.print_exc()
        return -signal.SIGINT
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def execute(first: str, *rest: str) -> None:
    """``-c CODE``, ``-m MODULE`` or a file, each with its own arguments; before them ``-u``, as torchrun says."""
    if first == "-u":
        sys.stdout.reconfigure(write_through=True)
        first, *rest = rest
    if first == "-c":
        sys.path.insert(0, "")
        sys.argv[:] = ["-c", *rest[1:]]
        sys.modules["__main__"] = module = types.ModuleType("__main__")
        exec(compile(rest[0], "<string>", "exec"), module.__dict__)
    elif first == "-m":
        sys.path.insert(0, os.getcwd())
        sys.argv[:] = [rest[0], *rest[1:]]
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, os.path.dirname(os.path.abspath(first)))
        sys.argv[:] = [first, *rest]
        runpy.run_path(first, run_name="__main__")


def end(status: int) -> None:
    atexit._run_exitfuncs()  # type: ignore[attr-defined]
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            status = status or 120  # as Python itself ends when its output cannot be written
    if status == -signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(status & 0xFF)


if __name__ == "__main__":
    main(*sys.argv[1:])
