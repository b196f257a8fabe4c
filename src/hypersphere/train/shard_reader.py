"""A folder of torch.distributed.checkpoint, read without running anything that is in it.

Its ``.metadata`` is a pickle, which torch loads as it is; and an entry that it lists as bytes would be unpickled, too.
Here such a pickle may name what describes tensors, and nothing else. The tensors themselves torch reads with
``weights_only``.
"""

from __future__ import annotations

import pickle
from enum import Enum
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint import filesystem
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta

_NAMES = {
    "torch": ("Size",),
    "torch.serialization": ("_get_layout",),
    "torch.distributed.checkpoint.filesystem": ("_StorageInfo",),
    "torch.distributed.checkpoint.metadata": (
        *("ChunkStorageMetadata", "Metadata", "MetadataIndex", "StorageMeta", "TensorProperties"),
        *("TensorStorageMetadata", "_MEM_FORMAT_ENCODING"),
    ),
    "pathlib": ("PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath"),
    "pathlib._local": ("PosixPath", "WindowsPath"),
}


class Reader(filesystem.FileSystemReader):
    """Reads a folder that anybody may have written.

    Args:
        folder: Where ``.metadata`` lies.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._file = folder / ".metadata"

    def read_metadata(self, *args: Any, **options: Any) -> Metadata:
        """The description of the tensors.

        Raises:
            ValueError: If the file is damaged, names anything else, or a tensor lies outside of the folder.
        """
        try:
            with open(self._file, "rb") as file:
                found = _Unpickler(file).load()
        except OSError:
            raise
        except Exception as error:  # foreign bytes may be wrong in any way
            raise ValueError(f"{self._file} does not describe class vectors: {error}") from error
        if not isinstance(found, Metadata) or not isinstance(found.storage_data, dict):
            raise ValueError(f"{self._file} does not describe class vectors")
        for info in found.storage_data.values():
            if Path(info.relative_path).name != info.relative_path:
                raise ValueError(f"{self._file} names a file outside of its folder: {info.relative_path!r}")
        if found.storage_meta is None:
            found.storage_meta = StorageMeta()
        found.storage_meta.load_id = self.load_id
        return found


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if name in _NAMES.get(module, ()) or (module == "torch" and isinstance(vars(torch).get(name), torch.dtype)):
            return super().find_class(module, name)
        if (module, name) == ("builtins", "getattr"):  # as Python 3.11.0 to 3.11.3 write the members of an Enum
            return _member
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def _member(kind: Any, name: str) -> Any:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind[name]
    raise pickle.UnpicklingError(f"it asks {kind} for {name}")
