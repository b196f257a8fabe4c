"""``loss.shard``: a training that 4, 2 and 1 processes share in turn has the losses and weights of one process."""

import json
import os
import pickle
import signal
import socket
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from safetensors.torch import load_file
from tiny import tiny
from torch.distributed.checkpoint.metadata import BytesStorageMetadata, Metadata

from hypersphere.runs.files import digest
from hypersphere.runs.manifest import add_file
from hypersphere.train import Callback, LossConfig, ModelConfig, OptimConfig, Stopped, run, with_values
from hypersphere.train.shard_reader import Reader

STEPS = 18
HEAD = {"name": "ga_softmax", "margin": 2, "angular": "sigmoid", "learnable_k": True}


class StopAt(Callback):
    """Ask the process to end, as an operator would; it stops when all have noticed, two steps later."""

    def __init__(self, step):
        self.step = step

    def on_step(self, training, step, values):
        if step == self.step:
            os.kill(os.getpid(), signal.SIGTERM)


def config(folder, shard):
    small = ModelConfig(name="cnn3", widths="4,4,4", feature_dim=8, norm="off")
    made = tiny(folder, "shard", STEPS, model=small, loss=LossConfig(shard=shard, **HEAD))
    return replace(made, optim=OptimConfig(name="adam", lr=5e-3, clip=0.5))


def share(rank, world, port, folder, stop):
    """One of ``world`` processes, as torchrun starts them."""
    os.environ.update(WORLD_SIZE=str(world), RANK=str(rank), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(world))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    try:
        with pytest.raises(Stopped) if stop < STEPS else open(os.devnull):
            run(config(Path(folder), True), callbacks=[StopAt(stop)])
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def together(world, folder, stop):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.start_processes(share, (world, port, str(folder), stop), world, start_method="fork")


def losses(folder):
    lines = [json.loads(line) for line in (folder / "shard" / "seed-0" / "log.jsonl").read_text().splitlines()]
    return {line["step"]: line["loss"] for line in lines if "loss" in line}


@pytest.mark.slow
def test_four_two_and_one_process_train_one_network(tmp_path):
    one, many = tmp_path / "one", tmp_path / "many"
    run(config(one, False))
    together(4, many, 2)
    seed = many / "shard" / "seed-0"
    checkpoint = seed / "checkpoints" / (seed / "latest").read_text()
    assert len(list((checkpoint / "classes").glob("*.distcp"))) == 4
    saved = {*load_file(checkpoint / "model.safetensors"), *load_file(checkpoint / "state.safetensors")}
    assert not any("head.weight" in name or "raw_k" in name for name in saved)
    together(2, many, 8)
    together(1, many, STEPS)
    alone, shared = losses(one), losses(many)
    assert list(shared) == list(range(2, STEPS + 1, 2))
    assert shared == pytest.approx(alone, abs=1e-5)
    ours, theirs = (load_file(folder / "shard" / "seed-0" / "model.safetensors") for folder in (one, many))
    assert ours.keys() == theirs.keys()
    for key, value in ours.items():
        torch.testing.assert_close(theirs[key], value, atol=2e-4, rtol=1e-3)


def test_a_damaged_part_of_the_class_vectors_is_noticed(tmp_path):
    short = with_values(config(tmp_path, True), {"schedule.steps": 8})
    run(short)
    last = sorted((tmp_path / "shard" / "seed-0" / "checkpoints").glob("step-*"))[-1]
    (part,) = (last / "classes").glob("*.distcp")
    part.write_bytes(part.read_bytes()[:-1] + b"?")
    (tmp_path / "shard" / "seed-0" / "result.json").unlink()
    run(short)
    assert (last.parent / f"damaged-{last.name}").exists()


class Payload:
    """A pickle that leaves a mark when it is read."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


def test_the_description_of_class_vectors_runs_no_code(tmp_path):
    """torch.distributed.checkpoint pickles it; also what it lists as bytes would be unpickled."""
    short, mark = with_values(config(tmp_path, True), {"schedule.steps": 4}), tmp_path / "mark"
    run(short)
    (tmp_path / "shard" / "seed-0" / "result.json").unlink()
    last = sorted((tmp_path / "shard" / "seed-0" / "checkpoints").glob("step-*"))[-1]
    file = last / "classes" / ".metadata"
    whole = file.read_bytes()
    names = Reader(last / "classes").read_metadata().state_dict_metadata
    listed = Metadata({name: BytesStorageMetadata() for name in names}, storage_data={})
    asked = b"cbuiltins\ngetattr\n(ctorch\nSize\nVmro\ntR."  # only an Enum may be asked
    for content in (pickle.dumps(Payload(mark)), pickle.dumps(listed), pickle.dumps({}), whole[:-9], b"", asked):
        file.write_bytes(content)
        add_file(last, "classes/.metadata", digest(content))
        with pytest.raises(ValueError, match=r"\.metadata does not describe class vectors"):
            run(short)
    assert not mark.exists()
    outside = pickle.loads(whole)
    for info in outside.storage_data.values():
        info.relative_path = "../../elsewhere"
    file.write_bytes(pickle.dumps(outside))
    with pytest.raises(ValueError, match="names a file outside of its folder"):
        Reader(last / "classes").read_metadata()
    file.write_bytes(whole)
    add_file(last, "classes/.metadata", digest(whole))
    run(short)


@pytest.mark.parametrize("wrong", [{"name": "cross_entropy"}, {"center": 0.1}, {"name": "triplet"}])
def test_losses_that_cannot_be_split_are_refused(wrong):
    with pytest.raises(ValueError, match=r"loss\.shard splits the class vectors"):
        LossConfig(**{"name": "arcface", "shard": True, **wrong})
