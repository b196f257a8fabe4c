"""A batch read by one kernel is the batch of plain operations."""

import pytest
import torch

import hypersphere as hs
from hypersphere import kernels


def batches(loader, steps):
    return [loader.batch(torch.tensor(t)) for t in steps], [loader.batch(t) for t in steps]  # an int: plain operations


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize(
    "augment", [None, hs.data.Augment(hflip=True), hs.data.Augment(vflip=True, pad=2, fill=7)], ids=str
)
def test_a_batch(augment, channels_last):
    split = hs.data.Split(torch.randint(0, 256, (11, 3, 6, 5), dtype=torch.uint8), torch.arange(11), ("a",) * 11)
    loader = hs.data.Loader(
        split, 4, augment=augment, normalize="standard", drop_last=False, channels_last=channels_last
    )
    loader.start_epoch(3)
    for (inputs, labels), (expected, named) in zip(*batches(loader, range(3)), strict=True):
        torch.testing.assert_close(inputs, expected, rtol=1e-6, atol=1e-6)
        assert inputs.stride() == expected.stride()
        assert labels.tolist() == named.tolist()
    assert labels.tolist()[-1] == hs.data.loader.IGNORE
    assert kernels.LAUNCHES["batch_kernel"] == 3


def test_other_augmentations_take_plain_operations():
    split = hs.data.Split(torch.randint(0, 256, (8, 3, 6, 5), dtype=torch.uint8), torch.arange(8), ("a",) * 8)
    loader = hs.data.Loader(split, 4, augment=hs.data.Augment(pad=2, mode="reflect"))
    loader.batch(torch.tensor(0))
    assert kernels.LAUNCHES["batch_kernel"] == 0


def test_parts_of_processes_and_half_precision():
    split = hs.data.Split(torch.randint(0, 256, (8, 1, 4, 4), dtype=torch.uint8), torch.arange(8), ("a",) * 8)
    loader = hs.data.Loader(split, 4, rank=1, world=2, dtype=torch.bfloat16)
    (inputs, labels), (expected, named) = (found[0] for found in batches(loader, [1]))
    assert inputs.dtype == torch.bfloat16
    assert torch.equal(inputs, expected)
    assert torch.equal(labels, named)
