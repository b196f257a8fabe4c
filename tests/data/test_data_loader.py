"""Resident batches: order, randomness by position, resuming, sharing, compiling."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hypersphere import data
from hypersphere.data._random import epoch_key, normals, uniforms, words


def numbered(count: int, classes: int = 10, size: int = 6) -> data.Split:
    """Images whose every pixel tells where it comes from."""
    images = torch.randint(
        1, 256, (count, 3, size, size), generator=torch.Generator().manual_seed(0), dtype=torch.uint8
    )
    return data.Split(images, torch.arange(count) % classes, tuple(map(str, range(classes))), {})


def murmur(key: int, position: int, lane: int) -> int:
    """The hash once more, on NumPy's wrapping 32-bit numbers."""

    def mix(x: np.uint32) -> np.uint32:
        x ^= x >> np.uint32(16)
        x = x * np.uint32(0x85EBCA6B)
        x ^= x >> np.uint32(13)
        x = x * np.uint32(0xC2B2AE35)
        return x ^ (x >> np.uint32(16))

    with np.errstate(over="ignore"):
        k = np.uint32(key)
        x = mix(np.uint32(position) + k)
        x = mix(x ^ (k * np.uint32(5) + np.uint32(0xE6546B64)))
        return int(mix(x + np.uint32(lane + 1) * np.uint32(0x9E3779B9)))


word = st.integers(0, 2**32 - 1)


@settings(deadline=None, max_examples=30)
@given(word, word, st.integers(0, 2**20))
def test_words_are_the_same_as_ints_tensors_and_numpy(key: int, position: int, lane: int) -> None:
    expected = murmur(key, position, lane)
    assert words(key, position, lane) == expected
    tensor = words(torch.tensor(key), torch.tensor([position]), torch.tensor(lane))
    assert tensor.tolist() == [expected]


def test_words_look_random() -> None:
    key = torch.tensor(epoch_key(0, 0))
    draws = words(key, torch.arange(2**16))
    bits = (draws.unsqueeze(1) >> torch.arange(32) & 1).double()
    assert (bits.mean(0) - 0.5).abs().max() < 5 * 0.5 / 2**8  # five standard errors
    correlation = torch.corrcoef(bits.T) - torch.eye(32)
    assert correlation.abs().max() < 5 / 2**8
    neighbours = torch.corrcoef(torch.stack([draws[:-1], draws[1:], words(key, torch.arange(1, 2**16), 1)]).double())
    assert (neighbours - torch.eye(3)).abs().max() < 5 / 2**8
    assert len({epoch_key(seed, epoch) for seed in range(40) for epoch in range(100)}) > 3990


def test_uniforms_and_normals_have_their_moments() -> None:
    draws = uniforms(words(torch.tensor(7), torch.arange(2**16)))
    assert 0 < draws.min() < draws.max() < 1
    assert abs(draws.mean() - 0.5) < 0.006
    gauss = normals(torch.tensor(7), torch.arange(2**16))
    assert abs(gauss.mean()) < 0.02
    assert abs(gauss.var() - 1) < 0.03
    assert abs((gauss**4).mean() - 3) < 0.3
    assert uniforms(torch.tensor([0, 2**32 - 1])).tolist() == [2.0**-24, 1 - 2.0**-24]


@pytest.mark.parametrize("epoch", [0, 1, 5])
def test_an_epoch_visits_every_sample_once(epoch: int) -> None:
    split = numbered(23)
    loader = data.Loader(split, 5, normalize=None, drop_last=False, seed=3)
    batches = list(loader.epoch(epoch))
    assert [len(labels) for _, labels in batches] == [5, 5, 5, 5, 3]
    seen = torch.cat([images for images, _ in batches]).flatten(1).tolist()
    assert sorted(seen) == sorted(split.images.flatten(1).tolist())
    assert seen != split.images.flatten(1).tolist()
    assert len(data.Loader(split, 5)) == 4


def test_epochs_and_seeds_differ_and_repeat() -> None:
    split = numbered(40)

    def order(seed: int, epoch: int) -> list[int]:
        loader = data.Loader(split, 40, seed=seed, normalize=None)
        images = next(loader.epoch(epoch))[0]
        return [int((split.images == image).flatten(1).all(1).nonzero()) for image in images]

    assert order(0, 0) == order(0, 0)
    assert len({tuple(order(seed, epoch)) for seed in range(3) for epoch in range(3)}) == 9
    unshuffled = data.Loader(split, 40, shuffle=False, normalize=None)
    assert torch.equal(unshuffled.batch(0)[0], split.images)


def test_order_is_uniform_over_places() -> None:
    loader = data.Loader(numbered(8, 8), 8, normalize=None)
    counts = torch.zeros(8, 8)
    for epoch in range(800):
        loader.start_epoch(epoch)
        counts[torch.arange(8), loader.batch(0)[1]] += 1
    chi = ((counts - 100) ** 2 / 100).sum()
    assert chi < 49 + 5 * (2 * 49) ** 0.5


def slow_augment(image: np.ndarray, rule: data.Augment, key: int, position: int) -> np.ndarray:
    """Flip, pad, cut: one image, plain slices."""
    flips, shifts = murmur(key, position, 0), murmur(key, position, 1)
    if rule.hflip and flips & 1:
        image = image[:, :, ::-1]
    if rule.vflip and flips >> 1 & 1:
        image = image[:, ::-1]
    mode = {"mode": rule.mode} | ({"constant_values": rule.fill} if rule.mode == "constant" else {})
    # The place is taken in the unflipped image, so a mirrored one moves the other way.
    padded = np.pad(image, ((0, 0), (rule.pad,) * 2, (rule.pad,) * 2), **mode)  # type: ignore[call-overload]
    down = ((shifts & 0xFFFF) * (2 * rule.pad + 1) >> 16) - rule.pad
    right = ((shifts >> 16) * (2 * rule.pad + 1) >> 16) - rule.pad
    if rule.vflip and flips >> 1 & 1:
        down = -down
    if rule.hflip and flips & 1:
        right = -right
    top, left = rule.pad + down, rule.pad + right
    return padded[:, top : top + image.shape[1], left : left + image.shape[2]]


RULES = [
    data.Augment(hflip=True),
    data.Augment(vflip=True),
    data.Augment(pad=2),
    data.Augment(hflip=True, vflip=True, pad=3, fill=9),
    data.Augment(hflip=True, pad=4, mode="reflect"),
    data.Augment(hflip=True, pad=4, mode="symmetric"),
    data.Augment(vflip=True, pad=6, mode="symmetric"),
]


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_augmentation_against_slices(rule: data.Augment) -> None:
    images = torch.randint(0, 256, (64, 3, 6, 9), dtype=torch.uint8)
    split = data.Split(images, torch.zeros(64, dtype=torch.int64), ("a",))
    loader = data.Loader(split, 16, augment=rule, normalize=None, shuffle=False, seed=11)
    loader.start_epoch(4)
    for step in (0, 3):
        got = loader.batch(step)[0]
        for row in range(16):
            position = step * 16 + row
            expected = slow_augment(images[position].numpy(), rule, epoch_key(11, 4), position)
            assert np.array_equal(got[row].numpy(), expected), (step, row)


def test_every_window_and_flip_is_equally_likely() -> None:
    size, pad, count = 5, 1, 9 * 4 * 200
    image = torch.arange(1, 26, dtype=torch.uint8).view(1, 1, size, size).expand(count, 1, size, size)
    seen = data.augment(image, hflip=True, vflip=True, pad=pad, seed=1)
    kinds, counts = seen.flatten(1).unique(dim=0, return_counts=True)
    assert len(kinds) == 36
    assert ((counts - 200.0) ** 2 / 200).sum() < 35 + 5 * 70**0.5


def test_augment_function_is_seeded_and_takes_floats() -> None:
    images = torch.randn(32, 1, 4, 4)
    one = data.augment(images, hflip=True, pad=1, seed=2, step=7)
    assert torch.equal(one, data.augment(images, hflip=True, pad=1, seed=2, step=7))
    assert not torch.equal(one, data.augment(images, hflip=True, pad=1, seed=2, step=8))
    assert torch.equal(data.augment(images), images)


@pytest.mark.parametrize("start", [0, 7, 13, 29])
def test_going_on_at_any_step_repeats_nothing_and_misses_nothing(start: int) -> None:
    split = numbered(50)

    def make() -> data.Loader:
        return data.Loader(split, 8, augment=data.Augment(hflip=True, pad=1), seed=5)

    whole, resumed = make(), make()
    straight = [whole.batch(whole.seek(step)) for step in range(30)]
    for step in range(start, 30):
        images, labels = resumed.batch(resumed.seek(step))
        assert torch.equal(images, straight[step][0])
        assert torch.equal(labels, straight[step][1])
    assert not torch.equal(straight[0][0], straight[6][0])


@pytest.mark.parametrize("world", [2, 4])
def test_processes_share_the_global_batch(world: int) -> None:
    split = numbered(50)
    options = {"augment": data.Augment(hflip=True, pad=1), "seed": 5, "drop_last": False}
    single = data.Loader(split, 8, **options)  # type: ignore[arg-type]
    parts = [data.Loader(split, 8, rank=rank, world=world, **options) for rank in range(world)]  # type: ignore[arg-type]
    for step in (0, 3, 6):
        for loader in parts:
            loader.start_epoch(1)
        single.start_epoch(1)
        images, labels = single.batch(step)
        assert torch.equal(torch.cat([part.batch(step)[0] for part in parts]), images)
        assert torch.equal(torch.cat([part.batch(step)[1] for part in parts]), labels)
    assert sum(len(labels) for part in parts for _, labels in part.epoch(1)) == 50


def test_the_filling_of_the_last_batch_is_marked() -> None:
    loader = data.Loader(numbered(10), 8, drop_last=False)
    labels = loader.batch(torch.tensor(1))[1]
    assert (labels == -100).tolist() == [False] * 2 + [True] * 6
    assert [len(labels) for _, labels in loader] == [8, 2]


def test_a_loop_over_a_loader_sees_a_new_epoch_each_time() -> None:
    loader = data.Loader(numbered(32), 8, seed=1)

    def order(batches: object) -> list[int]:
        return torch.cat([labels for _, labels in batches]).tolist()  # type: ignore[attr-defined]

    epochs = [order(loader.epoch(epoch)) for epoch in range(6)]
    loader = data.Loader(numbered(32), 8, seed=1)
    assert [order(loader) for _ in range(3)] == epochs[:3]
    loader.start_epoch(4)
    assert [order(loader) for _ in range(2)] == epochs[4:6]
    loader.start_epoch(5)
    assert order(loader) == epochs[5]


def test_two_loops_over_one_loader_do_not_disturb_each_other() -> None:
    loader = data.Loader(numbered(30), 5)
    alone = [[labels.clone() for _, labels in loader.epoch(epoch)] for epoch in (0, 1)]
    together = zip(loader.epoch(0), loader.epoch(1), strict=True)
    for step, ((_, first), (_, second)) in enumerate(together):
        assert torch.equal(first, alone[0][step])
        assert torch.equal(second, alone[1][step])


def test_samples_are_those_of_a_torch_loader() -> None:
    split = numbered(8)
    images, labels = next(iter(torch.utils.data.DataLoader(split, batch_size=4)))  # type: ignore[arg-type]
    assert torch.equal(images, split.images[:4])
    assert torch.equal(labels, split.labels[:4])
    with pytest.raises(TypeError, match=r"split must be samples in memory.*not Dataset: .*FolderLoader.*resident"):
        data.Loader(data.Dataset("all", split, split), 4)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"folder must be files, such as .* not Split: Loader reads samples in memory"):
        data.FolderLoader(split, 4)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="images must be a tensor, not ndarray"):
        data.Split(split.images.numpy(), split.labels, split.classes)  # type: ignore[arg-type]


def test_normalizations() -> None:
    split = numbered(16)
    pixels = split.images.double()

    def first(**options: object) -> Tensor:
        return data.Loader(split, 16, shuffle=False, **options).batch(0)[0]  # type: ignore[arg-type]

    torch.testing.assert_close(first().double(), (pixels - 127.5) / 128, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(first(normalize="unit").double(), pixels / 255, atol=1e-6, rtol=1e-6)
    flat = pixels.transpose(0, 1).flatten(1) / 255
    mean, std = flat.mean(1), flat.std(1, correction=0)
    expected = (pixels / 255 - mean.view(3, 1, 1)) / std.view(3, 1, 1)
    torch.testing.assert_close(first(normalize="standard").double(), expected, atol=1e-5, rtol=1e-5)
    given_ = first(normalize="standard", mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
    torch.testing.assert_close(given_.double(), (pixels / 255 - 0.5) / 0.25, atol=1e-5, rtol=1e-5)
    assert torch.equal(first(normalize=None), split.images)
    assert first(dtype=torch.bfloat16).dtype == torch.bfloat16
    assert first(channels_last=True).is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(
        first(normalize="mean").double(), pixels / 255 - mean.view(3, 1, 1), atol=1e-6, rtol=1e-6
    )
    for kind in ("symmetric", "unit", "standard", "mean"):
        statistics = {"mean": tuple(mean.tolist()), "std": tuple(std.tolist())} if kind in data.MEASURED else {}
        torch.testing.assert_close(
            data.normalize(split.images, kind, **statistics), first(normalize=kind, **statistics)
        )
    assert data.normalize(split.images, None) is split.images
    with pytest.raises(TypeError, match="pass the pixels as uint8"):
        data.normalize(split.images / 255)  # which would be taken for bytes between 0 and 1


def test_buffers_keep_their_address_and_the_step_may_be_a_tensor() -> None:
    loader = data.Loader(numbered(32), 8, augment=data.Augment(hflip=True, pad=2))
    assert loader._draws is not None
    addresses = loader._order.data_ptr(), loader._draws.data_ptr()
    step = torch.zeros((), dtype=torch.int64)
    for epoch in (0, 1):
        loader.start_epoch(epoch)
        for number in range(4):
            images, labels = loader.batch(step.fill_(number))
            assert torch.equal(images, loader.batch(number)[0])
            assert torch.equal(labels, loader.batch(number)[1])
    assert addresses == (loader._order.data_ptr(), loader._draws.data_ptr())


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_batches_follow_step_and_epoch_without_recompiling(backend: str) -> None:
    torch._dynamo.reset()
    loader = data.Loader(numbered(32), 8, augment=data.Augment(hflip=True, vflip=True, pad=2), normalize="standard")
    compiled = torch.compile(loader.batch, fullgraph=True, backend=backend)
    step = torch.zeros((), dtype=torch.int64)
    with torch._dynamo.config.patch(error_on_recompile=True):
        for epoch in (0, 3):
            loader.start_epoch(epoch)
            for number in (0, 2):
                images, labels = compiled(step.fill_(number))
                expected = loader.batch(number)
                torch.testing.assert_close(images, expected[0], atol=1e-6, rtol=1e-6)
                assert torch.equal(labels, expected[1])


def test_point_clouds_turn_scale_and_shake() -> None:
    points = torch.randn(40, 30, 3)
    split = data.CloudSplit(points, torch.arange(40) % 4, tuple("abcd"))
    turned = data.Loader(split, 40, shuffle=False, augment=data.PointAugment(jitter=0)).batch(0)[0]
    torch.testing.assert_close(turned.norm(dim=2), points.norm(dim=2))
    assert torch.equal(turned[:, :, 1], points[:, :, 1])
    assert torch.linalg.det(points[0, :3]).item() == pytest.approx(torch.linalg.det(turned[0, :3]).item(), rel=1e-3)
    assert (turned - points).abs().amax((1, 2)).min() > 1e-3
    shaken = data.Loader(split, 40, shuffle=False, augment=data.PointAugment(rotate=False)).batch(0)[0] - points
    assert shaken.std().item() == pytest.approx(0.01, rel=0.05)
    assert shaken.abs().max() <= 0.05 + 1e-6
    scaled = data.Loader(split, 40, shuffle=False, augment=data.PointAugment(False, 0.0, scale=0.2)).batch(0)[0]
    ratio = (scaled / points).flatten(1)
    assert ratio.std(1).max() < 1e-4
    assert 0.8 <= ratio.min() < 0.87
    assert 1.13 < ratio.max() <= 1.2
    assert torch.equal(data.Loader(split, 8, shuffle=False).batch(1)[0], points[8:16])


def test_bad_arguments_are_named() -> None:
    split = numbered(10)
    cases: list[tuple[dict[str, object], str]] = [
        ({"batch_size": 0}, "batch_size=0 must be at least 1"),
        ({"batch_size": 11}, "batch_size=11 is more than the 10 samples"),
        ({"batch_size": 5, "world": 2}, "batch_size=5 is shared by world=2"),
        ({"batch_size": 4, "world": 2, "rank": 2}, "rank=2"),
        ({"batch_size": 4, "normalize": "imagenet"}, "normalize='imagenet' is unknown"),
        ({"batch_size": 4, "normalize": "mean", "std": (0.5,)}, "normalize='mean' needs mean="),
        ({"batch_size": 4, "normalize": "standard", "mean": (0.5,)}, "needs mean= and std="),
        ({"batch_size": 4, "normalize": "standard", "mean": (0.5,), "std": (0.0,)}, "must be positive"),
        ({"batch_size": 4, "normalize": "standard", "mean": (float("nan"),), "std": (0.1,)}, "must be finite"),
        ({"batch_size": 4, "normalize": "mean", "mean": (0.1, 0.2, 0.3, 0.4)}, "one number for each of the"),
        ({"batch_size": 4, "augment": data.PointAugment()}, "use Augment for images"),
    ]
    for options, message in cases:
        with pytest.raises(ValueError, match=message):
            data.Loader(split, **options).batch(0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="one number for each of the 1 channels"):
        data.normalize(torch.zeros(2, 1, 4, 4, dtype=torch.uint8), "standard", mean=(0.1,) * 3, std=(0.1,) * 3)
    with pytest.raises(TypeError, match="uint8 in a tensor"):
        data.normalize(np.zeros((1, 4, 4), np.uint8))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="seed='a' must be an int"):
        data.Loader(split, 5, seed="a")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="holds no samples"):
        data.Loader(split.subset(torch.arange(0)), 5, drop_last=False)
    with pytest.raises(ValueError, match="factor=0"):
        split.shrunk(0)
    loader = data.Loader(split, 5)
    for step in (-1, 2):
        with pytest.raises(ValueError, match=f"step={step} must be in 0..1"):
            loader.batch(step)
    with pytest.raises(ValueError, match="mode='wrap' is unknown"):
        data.Augment(mode="wrap")
    with pytest.raises(ValueError, match="fill=256 must be a byte"):
        data.Augment(fill=256)
    with pytest.raises(ValueError, match=r"pad=6 is more than an image of 6×6 .*: give at most 5"):
        data.Loader(split, 5, augment=data.Augment(pad=6, mode="reflect")).batch(0)
    with pytest.raises(ValueError, match=r"pad=7 is more than .* mode='symmetric': give at most 6"):
        data.Loader(split, 5, augment=data.Augment(pad=7, mode="symmetric")).batch(0)
    with pytest.raises(ValueError, match=r"images must be a \(B, C, H, W\) tensor"):
        data.augment(torch.zeros(3, 4, 4))
    with pytest.raises(ValueError, match="scale=1"):
        data.PointAugment(scale=1.0)


@pytest.mark.gpu
def test_a_cuda_graph_replays_new_batches() -> None:
    loader = data.Loader(numbered(64).to("cuda"), 8, augment=data.Augment(hflip=True, pad=2))
    reference = data.Loader(numbered(64), 8, augment=data.Augment(hflip=True, pad=2))
    step = torch.zeros((), dtype=torch.int64, device="cuda")
    loader.batch(step)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        images, labels = loader.batch(step)
        step += 1
    for epoch in (0, 1):
        loader.start_epoch(epoch)
        reference.start_epoch(epoch)
        step.zero_()
        for number in range(8):
            graph.replay()
            torch.testing.assert_close(images.cpu(), reference.batch(number)[0])
            assert torch.equal(labels.cpu(), reference.batch(number)[1])
