"""Identification against plain loops: ranks, CMC and open-set rates, in blocks of every size."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hypersphere.metrics import identification
from hypersphere.metrics._counting import Groups, Tail, count_at_least


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def cosine(a, b):
    length = math.sqrt(sum(p * p for p in a) * sum(q * q for q in b))
    return sum(p * q for p, q in zip(a, b, strict=True)) / length if length else 0.0


def slow_searches(probes, labels, gallery, names, distractors, protocol, itself):
    """(probe, mate's score, rank) of each search and all impostor scores, straight from the definition."""
    searches, impostors, best = [], [], []
    for i, probe in enumerate(probes):
        mates, rivals = [], [cosine(probe, d) for d in distractors]
        for j, row in enumerate(gallery):
            if names[j] == labels[i]:
                mates += [] if itself and i == j else [cosine(probe, row)]
            elif protocol == "closest":
                rivals.append(cosine(probe, row))
        wanted = mates if protocol == "megaface" else [max(mates)] if mates else []
        searches += [(i, score, 1 + sum(rival >= score for rival in rivals)) for score in sorted(wanted)]
        impostors += rivals
        best.append(max(rivals, default=-math.inf))
    return searches, impostors, best


def slow_tar(scores, impostors, far):
    cuts = [*scores, *impostors, math.inf]
    fits = [c for c in cuts if sum(s >= c for s in impostors) / len(impostors) <= far]
    return max(sum(s >= c for s in scores) / len(scores) for c in fits)


@pytest.mark.parametrize("protocol", ["closest", "megaface"])
@pytest.mark.parametrize("itself", [False, True])
@pytest.mark.parametrize("block", [1, 7, 4096])
def test_by_hand(protocol, itself, block):
    labels = torch.tensor([3, 3, 5, 5, 5, 9, 1, 3])
    probes = drawn(8, 4) + 1.5 * drawn(10, 4, seed=1)[labels]
    names = labels if itself else torch.tensor([5, 3, 3, 9, 9, 2])
    gallery = probes if itself else drawn(6, 4, seed=2) + 1.5 * drawn(10, 4, seed=1)[names]
    distractors = drawn(30, 4, seed=3)
    searches, impostors, best = slow_searches(
        probes.tolist(), labels.tolist(), gallery.tolist(), names.tolist(), distractors.tolist(), protocol, itself
    )
    given_gallery = {} if itself else {"gallery": gallery, "gallery_labels": names}
    found = identification(probes, labels, **given_gallery, distractors=distractors, protocol=protocol, block=block)
    assert found.probes.tolist() == [i for i, _, _ in searches]
    assert found.scores.tolist() == pytest.approx([score for _, score, _ in searches])
    assert found.ranks.tolist() == [rank for _, _, rank in searches]
    assert found.unmated == len(set(range(8)) - {i for i, _, _ in searches}) > 0
    assert found.impostors == len(impostors)
    assert found.impostor_tail.tolist() == pytest.approx(sorted(impostors, reverse=True))
    assert found.best_impostors.tolist() == pytest.approx(best)
    for k in range(1, 40):
        share = sum(rank <= k for _, _, rank in searches) / len(searches)
        assert found.rank(k) == pytest.approx(share)
        assert k > len(found.cmc) or found.cmc[k - 1].item() == pytest.approx(share)
    assert found.cmc[-1] == 1
    assert found.rates == {k: found.rank(k) for k in (1, 5, 10)}
    scores = [score for _, score, _ in searches]
    rates = [0.0, 0.01, 0.05, 0.3, 1.0]
    assert [found.tar_at(rate) for rate in rates] == pytest.approx([slow_tar(scores, impostors, r) for r in rates])
    assert found.tar_at(torch.tensor(rates, dtype=torch.float64)).tolist() == [found.tar_at(rate) for rate in rates]
    for fpir in (0.0, 0.25, 0.5, 1.0):
        cut = min(c for c in [*best, *scores, math.inf, -2] if sum(b > c for b in best) / len(best) <= fpir)
        for k in (1, 3):
            share = sum(rank <= k and score > cut for _, score, rank in searches) / len(searches)
            assert found.dir_at(fpir, k) == pytest.approx(share)


def test_every_form_of_distractors_gives_the_same(tmp_path):
    probes, labels, distractors = drawn(20, 8), torch.arange(20) % 5, drawn(101, 8, seed=1)
    expected = identification(probes.float(), labels, distractors=distractors.half().float(), block=16)
    half = distractors.half()
    np.save(tmp_path / "d.npy", half.numpy())
    (tmp_path / "d.bin").write_bytes(half.numpy().tobytes())
    forms = {
        "half": half,
        "array": half.numpy(),
        "memory map": np.load(tmp_path / "d.npy", mmap_mode="r"),
        "memory-mapped tensor": torch.from_file(str(tmp_path / "d.bin"), size=808, dtype=torch.float16).view(101, 8),
        "blocks": list(half.split(33)),
        "stream": (part for part in half.float().split(10)),
        "blocks of arrays": [half[:100].numpy(), half[100:].numpy(), half[:0].numpy()],
    }
    for name, form in forms.items():
        found = identification(probes.float(), labels, distractors=form, block=16)
        assert found.ranks.tolist() == expected.ranks.tolist(), name
        assert found.impostors == expected.impostors == 20 * 101 + 20 * 16


def test_ties_count_against_the_probe():
    """Features that are all equal identify nobody, whatever the sizes of the blocks."""
    for dim in (3, 33, 512):
        same = torch.full((30, dim), 0.3)
        for block in (7, 4096):
            for protocol in ("closest", "megaface"):
                found = identification(
                    same, torch.arange(30) % 3, distractors=torch.full((500, dim), 0.3), protocol=protocol, block=block
                )
                assert found.rank(10) == 0  # rounding makes a few distinct cosines, each with many competitors
    axes = torch.eye(4)
    found = identification(axes, torch.arange(4), axes, torch.arange(4), distractors=axes[:1])
    assert found.ranks.tolist() == [2, 1, 1, 1]  # the first distractor is as close as the first mate
    assert found.tar_at(0.0) == 0
    assert found.dir_at(0.0) == 0
    assert found.dir_at(0.25) == 0.75
    half = torch.tensor([[1.0, 0.0]]).expand(10, 2)
    found = identification(half, torch.arange(10) % 2, distractors=half)
    assert found.ranks.tolist() == [16] * 10  # exactly equal: behind all 5 + 10 competitors
    assert (found.tar_at(0.99), found.tar_at(1.0)) == (0, 1)


def test_the_tail_says_how_far_it_reaches():
    probes, labels, distractors = drawn(20, 8), torch.arange(20) % 5, drawn(400, 8, seed=1)
    full = identification(probes, labels, distractors=distractors, protocol="megaface")
    short = identification(probes, labels, distractors=distractors, protocol="megaface", tail=81, block=50)
    assert short.tar_at(0.01) == full.tar_at(0.01)  # 80 of 8,000 may be accepted
    assert short.tar_at(1.0) == 1
    with pytest.raises(ValueError, match="tail=102"):
        short.tar_at(101 / 8000)


@pytest.mark.parametrize("total", [1, 7, 100, 900])
def test_counts_that_floats_write_down(total):
    """A share of 29/100 allows 29 of 100, though 0.29·100 < 29 in floating point; a little less allows 28."""
    result = identification(drawn(2, 3), torch.zeros(2, dtype=torch.int64), distractors=drawn(9, 3, seed=1))
    counts = torch.arange(total)
    falling = replace(
        result,
        scores=(total - counts).double() - 0.5,  # the k-th mate lies below exactly k + 1 impostors
        impostor_tail=(total - counts).double(),
        impostors=total,
    )
    for dtype in (torch.float64, torch.float32):
        found = falling.tar_at((counts.double() / total).to(dtype))
        assert found.tolist() == pytest.approx((counts.double() / total).tolist(), abs=1e-12)
    assert [falling.tar_at(k / total) for k in range(total)] == pytest.approx((counts.double() / total).tolist())
    assert falling.tar_at(math.nextafter((total - 1) / total, 0)) == pytest.approx(max(total - 2, 0) / total)


@given(st.lists(st.lists(st.integers(-4, 4), max_size=12), max_size=8), st.integers(1, 12))
@settings(deadline=None, max_examples=30)
def test_tail_keeps_the_highest_of_any_blocks(blocks, size):
    tail = Tail(size)
    for block in blocks:
        tail.add(torch.tensor(block, dtype=torch.float32))
    everything = sorted((value for block in blocks for value in block), reverse=True)
    assert tail.highest().tolist() == everything[:size]
    assert tail.total == len(everything)


@given(st.integers(1, 5), st.integers(0, 9), st.integers(1, 4), st.randoms())
@settings(deadline=None, max_examples=30)
def test_counting_against_loops(rows, columns, thresholds, random):
    scores = [[random.randint(-3, 3) for _ in range(columns)] for _ in range(rows)]
    cuts = [sorted(random.choice([-2, 0, 1, math.inf]) for _ in range(thresholds)) for _ in range(rows)]
    found = count_at_least(torch.tensor(scores).view(rows, columns).float(), torch.tensor(cuts).float())
    assert found.tolist() == [
        [sum(s >= cut for s in row) for cut in own] for row, own in zip(scores, cuts, strict=True)
    ]


def test_groups():
    groups = Groups(torch.tensor([4, 1, 4, 4, 7]))
    rows, real = groups.members(torch.tensor([4, 1, 5]))
    assert [row[kept].tolist() for row, kept in zip(rows, real, strict=True)] == [[0, 2, 3], [1], []]
    places, largest = groups.places()
    assert (places.tolist(), largest) == ([0, 0, 1, 2, 0], 3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_precisions(dtype):
    probes, labels, distractors = drawn(20, 16).to(dtype), torch.arange(20) % 5, drawn(200, 16, seed=1).to(dtype)
    found = identification(probes, labels, distractors=distractors)
    exact = identification(probes.double(), labels, distractors=distractors.double())
    assert found.ranks.tolist() == exact.ranks.tolist()
    assert found.scores.tolist() == pytest.approx(exact.scores.tolist(), abs=1e-6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert identification(probes, labels, distractors=distractors).ranks.tolist() == exact.ranks.tolist()


def test_bad_input():
    x, labels = drawn(6, 4), torch.tensor([0, 0, 1, 1, 2, 2])
    nan = x.clone()
    nan[4, 0] = math.nan
    with pytest.raises(ValueError, match=r"probes has NaN .* row 4"):
        identification(nan, labels)
    with pytest.raises(ValueError, match=r"distractors has NaN .* row 16"):
        identification(x, labels, distractors=[drawn(12, 4), nan])
    with pytest.raises(ValueError, match="distractors has dimension 3, probes 4"):
        identification(x, labels, distractors=drawn(5, 3))
    with pytest.raises(ValueError, match="gallery has dimension 3"):
        identification(x, labels, drawn(5, 3), torch.arange(5))
    with pytest.raises(ValueError, match="no probe has a mate"):
        identification(x, torch.arange(6))
    with pytest.raises(ValueError, match="no probe has a mate"):
        identification(x, labels, x, labels + 10)
    with pytest.raises(ValueError, match="gallery_labels are missing"):
        identification(x, labels, x)
    with pytest.raises(ValueError, match="without gallery"):
        identification(x, labels, gallery_labels=labels)
    with pytest.raises(ValueError, match="6 class numbers"):
        identification(x, labels[:5])
    with pytest.raises(ValueError, match="pass distractors="):
        identification(x, labels, protocol="megaface")
    with pytest.raises(ValueError, match="protocol='mega'"):
        identification(x, labels, protocol="mega")
    with pytest.raises(ValueError, match="distractors is empty"):
        identification(x, labels, distractors=[])
    with pytest.raises(ValueError, match="probes is empty"):
        identification(x[:0], labels[:0])
    with pytest.raises(ValueError, match="no impostor scores"):
        identification(x, labels * 0).tar_at(0.1)
    with pytest.raises(ValueError, match=r"\(n, d\)"):
        identification(x, labels, distractors=[x[0]])
    with pytest.raises(TypeError, match="gave a float"):
        identification(x, labels, distractors=[1.0, 2.0])
    with pytest.raises(TypeError, match="iterable of blocks, not int"):
        identification(x, labels, distractors=3)
    with pytest.raises(ValueError, match="block=0"):
        identification(x, labels, block=0)
