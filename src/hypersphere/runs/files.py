"""Files that are either whole or not there: temporary name, fsync, rename.

A nested state is written as named tensors and a JSON skeleton; nothing is ever unpickled.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from .._core.leftovers import owner
from .._core.tensor_files import unpack_tensors

TEMPORARY, PROBE = ".tmp", ".room"
"""What temporary files have in their names, before their owner."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def digest(content: bytes) -> str:
    """The hash by which a file is known again."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def digest_of(path: Path) -> str:
    """The same of a file, however large."""
    found = hashlib.blake2b(digest_size=16)
    with open(path, "rb") as file:
        while part := file.read(2**24):
            found.update(part)
    return found.hexdigest()


def write_bytes(path: Path, content: bytes) -> str:
    """Write atomically: after a crash at any moment the file has its old or its new content. Return its hash."""
    temporary = path.with_name(f"{path.name}{TEMPORARY}{owner()}")
    with open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_folder(path.parent)
    return digest(content)


def write_json(path: Path, content: Any) -> str:
    """Write a JSON file and return its hash."""
    return write_bytes(path, json_bytes(content))


def json_bytes(content: Any) -> bytes:
    """What :func:`write_json` writes."""
    return (json_text(content, indent=2) + "\n").encode()


def json_lines(lines: list[dict[str, Any]]) -> bytes:
    """One JSON object a line, as in ``log.jsonl``."""
    return "".join(f"{json_text(line)}\n" for line in lines).encode()


def json_text(content: Any, indent: int | None = None) -> str:
    """JSON that every program reads: it has no word for NaN and infinity, which become null."""
    return json.dumps(_finite(content), indent=indent, allow_nan=False)


def _finite(content: Any) -> Any:
    if isinstance(content, Mapping):
        return {name: _finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def read_json(path: Path, expected: str | None = None) -> Any:
    """The content of a JSON file, whose hash is ``expected`` if one is given."""
    content = _read(path, expected)
    try:
        return json.loads(content)
    except ValueError as error:  # no JSON, or no text at all
        raise ValueError(f"{path} is not a JSON file: {error}") from error
    except RecursionError as error:
        raise ValueError(f"{path} is nested too deeply to be a file of this package") from error


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> str:
    """A safetensors file; tied tensors are written once each. Return its hash."""
    from safetensors.torch import save

    return write_bytes(path, save({name: t.detach().cpu().clone().contiguous() for name, t in tensors.items()}))


def read_tensors(path: Path, expected: str | None = None) -> dict[str, Tensor]:
    """The tensors of a safetensors file, whose hash is ``expected`` if one is given."""
    content = _read(path, expected)
    try:
        return unpack_tensors(content)
    except ValueError as error:
        raise ValueError(f"{path} is not a complete safetensors file: {error}") from error


def _read(path: Path, expected: str | None) -> bytes:
    content = path.read_bytes()
    if expected is not None and digest(content) != expected:
        raise ValueError(f"{path} is not what was written: its hash is {digest(content)}, not {expected}")
    return content


def sync_folder(folder: Path) -> None:
    """Make renames in ``folder`` durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def check_room(folder: Path, needed: int, option: str = "--run.folder") -> None:
    """Fail now rather than hours later: the folder must be writable and have ``needed`` bytes left.

    ``option`` is what chooses another folder, for the message.
    """
    probe = folder / f"{PROBE}{owner()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
        if free < needed:
            raise OSError(
                f"{folder} has {_size(free)} left, and the checkpoints of this run need {_size(needed)}: "
                f"free some space, or choose another {option}"
            )
        with open(probe, "wb") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, max(needed, 1))  # quotas show here, not in disk_usage
            os.fsync(file.fileno())
    except OSError as error:
        if error.strerror is None:
            raise
        if error.errno in _FULL:
            raise OSError(
                f"{folder} cannot take the {_size(needed)} that this run needs ({error.strerror}): free some space, "
                f"or choose another {option}"
            ) from error
        raise OSError(f"{folder} cannot be written ({error.strerror}): choose another {option}") from error
    finally:
        with contextlib.suppress(OSError):
            probe.unlink()


def _size(count: int) -> str:
    return f"{count / 2**20:.1f} MiB" if count < 2**30 else f"{count / 2**30:.1f} GiB"


_TENSOR, _PAIRS, _FLOAT = "tensor", "pairs", "float"


def split(state: Any) -> tuple[dict[str, Tensor], Any]:
    """Tensors by path, and the rest with references to them."""
    tensors: dict[str, Tensor] = {}
    return tensors, _split(state, "state", tensors)


def join(tensors: dict[str, Tensor], skeleton: Any) -> Any:
    """The inverse of :func:`split`."""
    if isinstance(skeleton, list):
        return [join(tensors, item) for item in skeleton]
    if isinstance(skeleton, dict):
        if _TENSOR in skeleton:
            return tensors[skeleton[_TENSOR]]
        if _FLOAT in skeleton:
            return float(skeleton[_FLOAT])
        return {key: join(tensors, value) for key, value in skeleton[_PAIRS]}
    return skeleton


def _split(state: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    if isinstance(state, Tensor):
        tensors[path] = state
        return {_TENSOR: path}
    if isinstance(state, dict):
        for key in state:
            if not isinstance(key, str | int) or isinstance(key, bool):
                raise TypeError(f"{path} has the key {key!r}: only texts and whole numbers can be saved")
        return {_PAIRS: [[key, _split(value, f"{path}.{key}", tensors)] for key, value in state.items()]}
    if isinstance(state, list | tuple):
        return [_split(value, f"{path}.{index}", tensors) for index, value in enumerate(state)]
    if isinstance(state, float) and not math.isfinite(state):
        return {_FLOAT: str(state)}
    if state is None or isinstance(state, bool | int | float | str):
        return state
    raise TypeError(
        f"{path} is a {type(state).__name__}: only tensors, numbers, texts, lists and dictionaries are saved"
    )
