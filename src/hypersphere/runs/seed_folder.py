"""The part of a run folder that belongs to one seed; :mod:`.run_folder` lists its files."""

from __future__ import annotations

import os
import re
import shutil
import statistics
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from torch import Tensor

from .._core.leftovers import sweep
from .._core.png import png
from ..config import Config
from .files import (
    PROBE,
    TEMPORARY,
    digest,
    digest_of,
    join,
    json_bytes,
    json_lines,
    json_text,
    read_json,
    read_tensors,
    split,
    sync_folder,
    write_bytes,
    write_json,
    write_tensors,
)
from .lock import locked
from .log_lines import doubted, synced, whole_lines
from .manifest import NAME as MANIFEST
from .manifest import Foreign, add_file, read_manifest, read_result, write_manifest

CLASSES = "classes"
"""The folder of a checkpoint that holds class vectors which several processes share (``loss.shard``)."""
LOOP = "logger.json"
"""The file in which a loop of the user's own notes itself."""
_STEP = re.compile(r"step-[0-9]{8,}")


class SeedFolder:
    """The part of a run folder that belongs to one seed.

    Args:
        run: Path of the run folder that holds the seed.
        seed: Number of the seed, which names the folder ``seed-N``.
        config: The settings of the run; checkpoints with other settings raise an error. None accepts any.

    Example:
        >>> from pathlib import Path
        >>> hs.runs.SeedFolder(Path("runs/digits"), 0).newest()
        0
    """

    def __init__(self, run: Path, seed: int, config: Config | None = None) -> None:
        self.path = run / f"seed-{seed}"
        self.checkpoints = self.path / "checkpoints"
        self.split, self.damaged = self.path / "split.csv", self.path / "damaged.txt"
        self.config = config

    def lock(self) -> AbstractContextManager[object]:
        """Lock this seed: another process that tries to train it gets an error.

        Returns:
            A context manager that holds the lock.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        return locked(self.path, str(self.path))

    def prepare(self, keep: int | None = None) -> None:
        """Create the folders and remove what a killed process left; call it while holding the lock.

        Half-written checkpoints belong to the owner of the lock and are removed. Evaluations and exports write here as
        well, so other temporary files are removed only if the process that they name is gone. ``latest`` is set to the
        newest checkpoint. Files of an unfinished :class:`Logger` are removed, because its network is not the one that
        is trained now.

        Args:
            keep: Number of newest checkpoints that stay, as in :meth:`save`; None keeps all.
        """
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        for folder in (self.path, self.path.parent):
            sync_folder(folder)  # what is written below them is found again after a power cut
        self._sweep_checkpoints()
        sweep(self.path, TEMPORARY, PROBE)
        if (self.path / LOOP).exists():
            for path in (self.weights_path, self.path / MANIFEST, self.path / LOOP):
                path.unlink(missing_ok=True)
        newest = self.latest()
        if newest is None:
            return
        pointer = self.path / "latest"
        if not pointer.exists() or pointer.read_bytes() != newest.name.encode():
            write_bytes(pointer, newest.name.encode())
        if keep is not None:
            self._drop_old(newest.name, keep)

    # Result -----------------------------------------------------------------------------------------

    @property
    def result(self) -> dict[str, Any] | None:
        """The result if the seed is finished, else None; a ``ValueError`` if the file holds something else."""
        return read_result(self.path / "result.json", self.known().get("result.json"))

    def write_result(self, result: dict[str, Any]) -> None:
        """Write the result, after the manifest with the hashes of all files and of the log: the seed is finished.

        Args:
            result: the content of ``result.json``: final and best numbers of the seed.
        """
        self._sweep_checkpoints()
        content = json_bytes(result)
        lines, log = synced(self.log_path)
        add_file(self.path, "result.json", digest(content), log_lines=lines, log=log)
        write_bytes(self.path / "result.json", content)

    def known(self) -> dict[str, str]:
        """Return the hashes of the files of a finished seed.

        Returns:
            Hashes by file name; empty before the seed is finished.
        """
        return dict(read_manifest(self.path).get("files", {}))

    # The trained network ----------------------------------------------------------------------------

    @property
    def weights_path(self) -> Path:
        """File of the trained network."""
        return self.path / "model.safetensors"

    def write_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Write the trained network, and the manifest with its hash.

        Args:
            weights: tensors of the trained network by name.
        """
        files = {self.weights_path.name: write_tensors(self.weights_path, weights)}
        facts = self.path / "facts.json"
        if facts.exists():
            files[facts.name] = digest(facts.read_bytes())
        write_manifest(self.path, files, self.config, weights)

    def weights(self) -> dict[str, Tensor]:
        """Read the trained network.

        Returns:
            Tensors by name; a ``ValueError`` is raised where the file is damaged or of another run.
        """
        manifest = read_manifest(self.path, self.config)
        return read_tensors(self.weights_path, manifest.get("files", {}).get(self.weights_path.name))

    # Checkpoints ------------------------------------------------------------------------------------

    def class_folder(self, step: int, *, clear: bool = False) -> Path:
        """Where several processes write the class vectors of a checkpoint before :meth:`save`.

        Args:
            step: number of training steps after which the checkpoint is written.
            clear: remove what is there and make the folder again.

        Returns:
            The folder for the class vectors of that checkpoint.
        """
        folder = self.checkpoints / f"tmp-{CLASSES}-{step:08d}"
        if clear:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        return folder

    def save(self, step: int, model: dict[str, Tensor], state: Any, keep: int, classes: Path | None = None) -> Path:
        """Write a checkpoint under a temporary name, rename it, point ``latest`` at it, and remove old ones.

        Args:
            step: number of training steps that it was made after.
            model: weights of the network by name.
            state: everything else that is needed to continue.
            keep: number of newest checkpoints that stay; older ones are removed.
            classes: a folder with class vectors, see :meth:`class_folder`; it becomes a part of the checkpoint.

        Returns:
            The folder of the checkpoint that was written.
        """
        final = self.checkpoint(step)
        name, temporary = final.name, self.checkpoints / f"tmp-{final.name}"
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        tensors, skeleton = split(state)
        files = {
            "model.safetensors": write_tensors(temporary / "model.safetensors", model),
            "state.safetensors": write_tensors(temporary / "state.safetensors", tensors),
            "state.json": write_json(temporary / "state.json", {"step": step, "state": skeleton}),
        }
        if classes is not None:
            os.replace(classes, temporary / CLASSES)
            files |= {f"{CLASSES}/{path.name}": digest_of(path) for path in sorted((temporary / CLASSES).iterdir())}
        lines, log = synced(self.log_path)
        write_manifest(temporary, files, self.config, model, step=step, log_lines=lines, log=log)
        if final.exists():  # the same step again: its content is the same
            shutil.rmtree(temporary)
        else:
            os.replace(temporary, final)
        sync_folder(self.checkpoints)
        write_bytes(self.path / "latest", name.encode())
        self._drop_old(name, keep)
        return final

    def _sweep_checkpoints(self) -> None:
        """Remove what is half-written or half-removed, as far as the disk lets us."""
        for left in self.checkpoints.glob("tmp-*"):
            shutil.rmtree(left, ignore_errors=True)

    def _drop_old(self, newest: str, keep: int) -> None:
        """Remove checkpoints until ``keep`` are left; a half-removed one is never taken for a whole one."""
        for old in self._all()[:-keep]:
            if old.name < newest:
                gone = old.with_name(f"tmp-{old.name}")
                shutil.rmtree(gone, ignore_errors=True)
                os.replace(old, gone)
                shutil.rmtree(gone, ignore_errors=True)

    def checkpoint(self, step: int) -> Path:
        """Return the folder of the checkpoint of a step.

        Args:
            step: number of training steps that it was made after.

        Returns:
            The folder of that checkpoint, whether it exists or not.
        """
        return self.checkpoints / f"step-{step:08d}"

    def newest(self) -> int:
        """Return the step of the newest checkpoint.

        Returns:
            The step of the newest checkpoint; 0 if there is none.
        """
        found = self.latest()
        return 0 if found is None else int(found.name.removeprefix("step-"))

    def latest(self) -> Path | None:
        """Return the newest complete checkpoint. A directory gets its final name only once it is complete.

        Returns:
            The folder of the checkpoint, or None if there is none.
        """
        found = [path for path in self._all() if (path / "state.json").exists()]
        return found[-1] if found else None

    def load(self, checkpoint: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Read a checkpoint.

        Args:
            checkpoint: folder of the checkpoint to read.

        Returns:
            Weights and state. A ``ValueError`` is raised where it is damaged, :class:`Foreign` if it is of another run.
        """
        try:
            known = read_manifest(checkpoint, self.config).get("files", {})
            content = read_json(checkpoint / "state.json", known.get("state.json"))
            tensors = read_tensors(checkpoint / "state.safetensors", known.get("state.safetensors"))
            state = join(tensors, content["state"])
            if not isinstance(state, dict):
                raise ValueError(f"its state is {type(state).__name__}")
            for name, expected in known.items():
                if name.startswith(f"{CLASSES}/") and digest_of(checkpoint / name) != expected:
                    raise ValueError(f"{checkpoint / name} is not what was written")
            return read_tensors(checkpoint / "model.safetensors", known.get("model.safetensors")), state
        except (PermissionError, Foreign):
            raise
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{checkpoint} is damaged ({error})") from error

    def set_aside(self) -> list[str]:
        """Rename the checkpoints after the newest complete one to ``damaged-*``.

        A disk may lose what was completely written. Training continues from what is left, never silently from the
        start.

        Returns:
            For each renamed checkpoint, a sentence that says why.
        """
        damaged: dict[Path, str] = {}
        for checkpoint in reversed(self._all()):
            try:
                self.load(checkpoint)
            except Foreign:
                raise
            except ValueError as error:
                damaged[checkpoint] = str(error)
            else:
                return [self._set_aside(path, reason, checkpoint.name) for path, reason in damaged.items()]
        if damaged:
            raise ValueError(
                f"{next(iter(damaged.values()))}, and no earlier checkpoint is complete: remove {self.path} to train "
                "this seed from the start"
            )
        return []

    def _set_aside(self, checkpoint: Path, reason: str, instead: str) -> str:
        aside = checkpoint.with_name(f"damaged-{checkpoint.name}")
        shutil.rmtree(aside, ignore_errors=True)
        os.replace(checkpoint, aside)
        sync_folder(self.checkpoints)
        write_bytes(self.path / "latest", instead.encode())
        return f"{reason}: it was renamed to {aside}, and {instead} is used in its place"

    def _all(self) -> list[Path]:
        return sorted(path for path in self.checkpoints.glob("step-*") if _STEP.fullmatch(path.name) and path.is_dir())

    # Pictures ---------------------------------------------------------------------------------------

    def show(self, step: int, image: Tensor) -> None:
        """Save a picture of an evaluation.

        Args:
            step: number of training steps that it was made after.
            image: picture to store, uint8 ``(C, H, W)``.
        """
        folder = self.path / "samples"
        folder.mkdir(exist_ok=True)
        write_bytes(folder / f"step-{step:08d}.png", png(image))

    # Log --------------------------------------------------------------------------------------------

    @property
    def log_path(self) -> Path:
        """File of the log."""
        return self.path / "log.jsonl"

    def log(self, line: dict[str, Any]) -> None:
        """Append a line to the log.

        Args:
            line: numbers by name, with the ``step``.
        """
        with open(self.log_path, "a") as file:
            file.write(json_text(line) + "\n")

    def logged(self) -> dict[str, Any]:
        """Return the last value of everything in the log.

        Returns:
            The last logged values by name.
        """
        return {name: value for line in whole_lines(self.log_path) for name, value in line.items() if value is not None}

    def rate(self) -> float | None:
        """Compute the median of the logged steps per second, which compilation and other pauses do not change.

        Returns:
            The median of the steps per second; None if none were logged.
        """
        rates = [line["rate"] for line in whole_lines(self.log_path) if "rate" in line]
        return statistics.median(rates) if rates else None

    def doubt_log(self) -> str | None:
        """Compare the log of a finished seed with what it was when the training ended.

        Returns:
            A sentence if it has changed since; None if not, or if that is not known (older runs, unfinished seeds).
        """
        finished = (self.path / "result.json").exists()
        return doubted(self.log_path, read_manifest(self.path)) if finished else None

    def rewind_log(self, step: int) -> str | None:
        """Drop the lines after a step, and an incomplete one: they will be written again.

        Args:
            step: the step from which training continues.

        Returns:
            A warning if lines before it are lost, or None.
        """
        kept = [line for line in whole_lines(self.log_path) if line["step"] <= step]
        if self.log_path.exists():
            write_bytes(self.log_path, json_lines(kept))
        if step <= 0:
            return None
        manifest = read_manifest(self.checkpoint(step))
        lines = manifest.get("log_lines", 0)
        if len(kept) < lines:
            return f"{self.log_path} has {len(kept)} of {lines} lines up to step {step}: the others are lost"
        if "log" in manifest and digest(json_lines(kept)) != manifest["log"]:
            return f"{self.log_path} is not what was written up to step {step}: some of its numbers have changed"
        return None
