"""Programs that tests start: forks of one process that has imported torch, so that a start costs no second.

``programs.run(arguments)`` is ``subprocess.run([sys.executable, *arguments])`` with its output captured and
``programs.start`` its ``Popen``. A test whose subject is the start itself, what importing torch does or what is read
meanwhile, asks ``subprocess``.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

HERE = Path(__file__).parent
FOLDER = "HYPERSPHERE_ZYGOTE"  # the sockets, for programs that start programs


class Program:
    """A started program, with what tests use of ``subprocess.Popen``."""

    def __init__(self, arguments: Sequence[object], cwd: Any, env: Mapping[str, str] | None, files: list[int], at: str):
        self.args = [sys.executable, *map(str, arguments)]
        self.returncode: int | None = None
        self.stdout: IO[str] | None = None
        self.stderr: IO[str] | None = None
        self._call = socket.socket(socket.AF_UNIX)
        self._call.connect(str(zygote() / at))
        request = {"arguments": self.args[1:], "cwd": str(cwd or os.getcwd()), "env": dict(env or os.environ)}
        socket.send_fds(self._call, [b"."], files)
        self._call.sendall(json.dumps(request).encode())
        self._call.shutdown(socket.SHUT_WR)
        self.pid = self._number()

    def _number(self) -> int:
        text = b""
        while not text.endswith(b"\n"):  # no further: what follows is for the next call
            text += self._call.recv(1) or b"no answer from zygote.py\n"
        return int(text)

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._call], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self.returncode = self._number()
            self._call.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):  # it has ended, as Popen finds out before it sends one
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start(arguments: Sequence[object], *, cwd: Any = None, env: Mapping[str, str] | None = None, bare: bool = False,
          stdout: int | None = None, stderr: int | None = None) -> Program:  # fmt: skip
    """``python *arguments``; ``bare``: of torch alone, nothing else imported. Files as with ``Popen``."""
    ours: dict[str, int] = {}
    with open(os.devnull) as nothing:
        files, opened = [nothing.fileno()], []
        for name, number, asked in (("stdout", 1, stdout), ("stderr", 2, stderr)):
            if asked == subprocess.PIPE:
                ours[name], asked = os.pipe()
                opened.append(asked)
            files.append(number if asked is None else files[1] if asked == subprocess.STDOUT else asked)
        try:
            program = Program(arguments, cwd, env, files, "bare" if bare else "full")
        finally:
            for file in opened:
                os.close(file)
    for name, file in ours.items():
        setattr(program, name, open(file))  # noqa: SIM115
    return program


def run(arguments: Sequence[object], *, cwd: Any = None, env: Mapping[str, str] | None = None, bare: bool = False,
        timeout: float = 240) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """``python *arguments`` to its end, with what it printed."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        program = start(arguments, cwd=cwd, env=env, bare=bare, stdout=out.fileno(), stderr=err.fileno())
        try:
            program.wait(timeout)
        except subprocess.TimeoutExpired:
            program.kill()
            raise
        out.seek(0), err.seek(0)
        return subprocess.CompletedProcess(program.args, program.returncode or 0, out.read(), err.read())


@functools.cache
def zygote() -> Path:
    """The folder of the two sockets at which forks are asked for."""
    if FOLDER in os.environ:
        return Path(os.environ[FOLDER])
    folder = tempfile.TemporaryDirectory(prefix="zygote")
    sockets = [Path(folder.name) / name for name in ("bare", "full")]
    process = subprocess.Popen(
        [sys.executable, str(HERE / "zygote.py"), *map(str, sockets)],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    owner = os.getpid()

    @atexit.register
    def end() -> None:
        if os.getpid() == owner:
            process.stdin.close()  # type: ignore[union-attr]
            process.wait()
            folder.cleanup()

    while not (sockets[0].exists() and sockets[1].exists()):
        assert process.poll() is None, "zygote.py ended"
        time.sleep(0.01)
    return Path(folder.name)


@functools.cache
def python() -> Path:
    """A file that does what ``sys.executable`` does, by a fork; beside it ``hypersphere``, for a ``PATH``."""
    folder = zygote() / "bin"
    folder.mkdir()
    for name, first in (("python", []), ("hypersphere", ["-m", "hypersphere"])):
        code = (
            f"import os, sys; sys.path.insert(0, {str(HERE)!r}); os.environ.setdefault({FOLDER!r}, {str(zygote())!r})"
        )
        code += f"; import programs; programs.stand_in({first})"
        (folder / name).write_text(f"#!{sys.executable} -SE\n{code}\n")
        (folder / name).chmod(0o755)
    return folder / "python"


def stand_in(first: list[str]) -> None:
    """Be the client of a fork: signals go to it, and its end is this process's."""
    program = Program([*first, *sys.argv[1:]], None, None, [0, 1, 2], "full")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: program.send_signal(number))
    status = program.wait()
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)
