"""Few-shot episodes: all trained at once must be each trained alone."""

import math

import numpy as np
import pytest
import torch

from hypersphere.metrics import few_shot


def drawn(classes=8, each=20, dim=6, spread=1.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(classes * each) % classes
    centers = torch.randn(classes, dim, generator=generator, dtype=torch.float64)
    noise = torch.randn(classes * each, dim, generator=generator, dtype=torch.float64)
    return centers[labels] + spread * noise, labels


def alone(x, y, ways, shots, queries, episodes, method, seed, epochs, scale=2.0, lr=1e-2, decay=1e-3, batch=4):
    """Each episode by itself: SGD written out, gradients of softmax regression by hand (thesis sec. F.3)."""
    generator = torch.Generator().manual_seed(seed)
    members = [[i for i, label in enumerate(y.tolist()) if label == c] for c in sorted(set(y.tolist()))]
    plans = []
    for _ in range(episodes):
        chosen = torch.randperm(len(members), generator=generator)[:ways].tolist()
        take = [torch.randperm(len(members[c]), generator=generator)[: shots + queries].tolist() for c in chosen]
        plans.append([[members[c][i] for i in rows] for c, rows in zip(chosen, take, strict=True)])
    dim, count = x.shape[1], ways * shots
    start = torch.rand(episodes, ways, dim + 1, generator=generator).double().numpy()
    start = (2 * start - 1) / math.sqrt(dim)
    orders = [torch.rand(episodes, count, generator=generator).argsort(1).tolist() for _ in range(epochs)]
    x, shares = x.numpy(), []
    for e, plan in enumerate(plans):
        support = np.array([x[i] for rows in plan for i in rows[:shots]])
        target = np.repeat(np.arange(ways), shots)
        asked = np.array([x[i] for rows in plan for i in rows[shots:]])
        w, b, momentum = start[e, :, :dim].copy(), start[e, :, dim].copy(), None
        if method == "baseline++":
            support = support / np.linalg.norm(support, axis=1, keepdims=True)
            asked = asked / np.linalg.norm(asked, axis=1, keepdims=True)
        for order in orders:
            for first in range(0, count, batch):
                rows = order[e][first : first + batch]
                v, t = support[rows], target[rows]
                length = np.linalg.norm(w, axis=1, keepdims=True)
                logits = v @ w.T + b if method == "baseline" else scale * v @ (w / length).T
                p = np.exp(logits - logits.max(1, keepdims=True))
                p /= p.sum(1, keepdims=True)
                p[np.arange(len(t)), t] -= 1
                p /= len(t)
                if method == "baseline":
                    gradient = np.c_[p.T @ v, p.sum(0)]
                else:
                    direct = scale * p.T @ v
                    u = w / length
                    gradient = np.c_[(direct - u * (u * direct).sum(1, keepdims=True)) / length, np.zeros(ways)]
                gradient += decay * np.c_[w, b if method == "baseline" else np.zeros(ways)]
                momentum = gradient if momentum is None else 0.9 * momentum + (1 - 0.9) * gradient
                w, b = w - lr * momentum[:, :dim], b - lr * momentum[:, dim]
        if method == "baseline++":
            w = w / np.linalg.norm(w, axis=1, keepdims=True)
        scores = asked @ w.T + (b if method == "baseline" else 0)
        shares.append((scores.argmax(1) == np.repeat(np.arange(ways), queries)).mean())
    return shares


@pytest.mark.parametrize("method", ["baseline", "baseline++"])
def test_each_episode_alone_gives_the_same(method):
    x, y = drawn()
    found = few_shot(x, y, ways=4, shots=3, queries=9, episodes=6, method=method, seed=5, epochs=15)
    expected = alone(x, y, 4, 3, 9, 6, method, 5, 15)
    assert found.episode_accuracies.tolist() == pytest.approx(expected)
    assert found.accuracy == pytest.approx(np.mean(expected))
    assert found.interval == pytest.approx(1.96 * np.std(expected, ddof=1) / math.sqrt(6))
    assert 0.25 < found.accuracy < 1


def test_nearest():
    """Without noise every query lies on its class; with two axes per class the mean direction decides."""
    x, y = drawn(spread=0.0)
    assert few_shot(x, y, shots=1, queries=5, episodes=4, method="nearest").accuracy == 1
    x, y = drawn(spread=1.0)
    found = few_shot(x, y, ways=3, shots=2, queries=4, episodes=50, method="nearest", seed=1)
    generator, shares = torch.Generator().manual_seed(1), []
    members = [(y == c).nonzero().squeeze(1) for c in range(8)]
    for _ in range(50):
        chosen = torch.randperm(8, generator=generator)[:3].tolist()
        rows = [members[c][torch.randperm(20, generator=generator)[:6]] for c in chosen]
        means = [sum(v / v.norm() for v in x[r[:2]]) for r in rows]
        hits = [
            max(range(3), key=lambda j, v=v: float(v @ means[j] / means[j].norm())) == i
            for i, r in enumerate(rows)
            for v in x[r[2:]]
        ]
        shares.append(sum(hits) / len(hits))
    assert found.episode_accuracies.tolist() == pytest.approx(shares)


@pytest.mark.parametrize("method", ["baseline", "baseline++", "nearest"])
def test_seeds_and_precisions(method):
    x, y = drawn()
    settings = {"queries": 8, "episodes": 8, "epochs": 5, "method": method}
    one = few_shot(x, y, **settings)
    assert one.episode_accuracies.tolist() == few_shot(x, y, **settings).episode_accuracies.tolist()
    assert one.episode_accuracies.tolist() != few_shot(x, y, **settings, seed=1).episode_accuracies.tolist()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        half = few_shot(x.half(), y, **settings)
    torch.testing.assert_close(half.accuracy, few_shot(x.half().double(), y, **settings).accuracy, atol=5e-3, rtol=0)
    with torch.inference_mode():
        assert few_shot(x.clone(), y, **settings).accuracy == one.accuracy


def test_the_global_random_state_is_not_touched():
    x, y = drawn()
    before = torch.random.get_rng_state()
    few_shot(x, y, queries=8, episodes=2, epochs=1)
    assert torch.equal(before, torch.random.get_rng_state())
    assert not x.requires_grad


def test_bad_input():
    x, y = drawn()
    with pytest.raises(ValueError, match="0 of 8 classes have the 21 samples"):
        few_shot(x, y)
    with pytest.raises(ValueError, match="ways=9"):
        few_shot(x, y, ways=9, queries=5)
    with pytest.raises(ValueError, match="method='baseline\\+'"):
        few_shot(x, y, method="baseline+")
    with pytest.raises(ValueError, match="ways=1"):
        few_shot(x, y, ways=1)
    with pytest.raises(ValueError, match="episodes=1"):
        few_shot(x, y, episodes=1)
    with pytest.raises(ValueError, match="row 0"):
        few_shot(x * math.nan, y)
    with pytest.raises(ValueError, match="lr=0"):
        few_shot(x, y, lr=0)
