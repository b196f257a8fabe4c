"""Every loss from its equation, slowly, in NumPy float64: one sample and one class at a time."""

from __future__ import annotations

import math

import numpy as np


def cosine(u, v):
    nu, nv = np.linalg.norm(u), np.linalg.norm(v)
    return 0.0 if nu == 0 or nv == 0 else float(np.clip(u @ v / (nu * nv), -1.0, 1.0))


def psi(theta, m):
    k = min(math.floor(m * theta / math.pi), math.ceil(m) - 1)
    return (-1) ** k * math.cos(m * theta) - 2 * k


def g(kind, theta, k=0.3):
    if kind == "cosine":
        return math.cos(theta)
    if kind == "linear":
        return 1 - 2 * theta / math.pi
    if kind == "square_cosine":
        return math.copysign(math.cos(theta) ** 2, math.cos(theta))
    a = math.exp(-math.pi / (2 * k))
    e = math.exp(theta / k - math.pi / (2 * k))
    return (1 + a) / (1 - a) * (1 - e) / (1 + e)  # paper eq. 4


def g_margin(kind, theta, m, k=0.3):
    if kind == "cosine":
        return psi(theta, m)
    if kind == "square_cosine":
        n = min(math.floor(m * theta / math.pi), math.ceil(m) - 1)
        c = math.cos(m * theta)
        return (-1) ** n * c * abs(c) - 2 * n
    return g(kind, m * theta, k)


def logits(name, x, w, label, *, margin=None, scale=None, kind="cosine", lam=0.0, bias=None):
    """The training logits of one sample; λ blends the margin with the plain form."""
    out = []
    for j, v in enumerate(w):
        theta, nx, nw = math.acos(cosine(x, v)), np.linalg.norm(x), np.linalg.norm(v)
        own = j == label
        if name == "Softmax":
            plain = full = float(x @ v)
        elif name == "LSoftmax":
            plain = nx * nw * math.cos(theta)
            full = nx * nw * psi(theta, margin) if own else plain
        elif name in ("WSoftmax", "GASoftmax", "ASoftmax"):
            plain = nx * g(kind, theta)
            full = nx * g_margin(kind, theta, margin) if own and margin else plain
        elif name == "SSoftmax":
            plain = full = scale * g(kind, theta)
        else:
            plain = scale * math.cos(theta)
            full = scale * face(name, theta, own, margin)
        logit = full if lam == 0 else plain if math.isinf(lam) else (lam * plain + full) / (1 + lam)
        out.append(logit + (0.0 if bias is None else bias[j]))
    return np.array(out)


def face(name, theta, own, m):
    if name == "v2":
        return math.cos(theta) if own else math.cos(theta / m)
    if not own:
        return math.cos(theta)
    if name == "AMSoftmax":
        return math.cos(theta) - m
    if name == "ArcFace":
        return math.cos(theta + m) if theta <= math.pi - m else math.cos(theta) - m * math.sin(m)
    return psi(theta, m) if name == "v0" else math.cos(min(m * theta, math.pi))


def cross_entropy(rows, labels, weight=None, smoothing=0.0, ignore_index=-100):
    """(loss of each sample, divisor of the mean), from the definition in PyTorch's manual."""
    losses, divisor = [], 0.0
    for z, y in zip(rows, labels, strict=True):
        if y == ignore_index:
            losses.append(0.0)
            continue
        q = np.ones(len(z)) if weight is None else weight
        log_p = z - z.max() - math.log(np.exp(z - z.max()).sum())
        losses.append(-(1 - smoothing) * q[y] * log_p[y] - smoothing / len(z) * float((q * log_p).sum()))
        divisor += q[y]
    return np.array(losses), divisor


def softmax_loss(name, x, w, labels, *, weight=None, smoothing=0.0, **options):
    """The mean loss of a batch. Margins that see the batch (``SEEING``) need all of it for a row."""
    if name in SEEING:  # what is ignored has no class
        rows, extra = SEEING[name](x, w, labels, **{key: v for key, v in options.items() if key != "bias"})
    else:
        rows = [logits(name, xi, w, yi, **options) for xi, yi in zip(x, labels, strict=True)]
        extra = np.zeros(len(rows))
    losses, divisor = cross_entropy(rows, labels, weight, smoothing)
    counted = [i for i, y in enumerate(labels) if y != -100]
    q = np.ones(len(w)) if weight is None else weight
    return (losses.sum() + sum(q[labels[i]] * extra[i] for i in counted)) / divisor


def cosines(x, w, classes):
    """The cosine to each class: of several vectors of a class, the largest."""
    k = len(w) // classes
    return [max(cosine(x, w[j * k + i]) for i in range(k)) for j in range(classes)]


def arc(theta, m):
    return face("ArcFace", theta, True, m)


def adaface(x, w, labels, *, m=0.4, s=64.0, h=1 / 3, momentum=0.99, mean=20.0, std=100.0):
    """The first training step: the running mean and deviation of the norms have seen this batch."""
    norms = np.clip(np.linalg.norm(x, axis=1), 1e-3, 100)
    counted = norms[[i for i, y in enumerate(labels) if y != -100]]
    if len(counted) > 0:
        mean = momentum * mean + (1 - momentum) * counted.mean()
    if len(counted) > 1:
        std = momentum * std + (1 - momentum) * counted.std(ddof=1)
    rows = []
    for xi, n, y in zip(x, norms, labels, strict=True):
        z = min(max((n - mean) / (std + 1e-3) * h, -1), 1)
        row = [s * cosine(xi, v) for v in w]
        turned = min(max(math.acos(cosine(xi, w[max(y, 0)])) - m * z, 0), math.pi)
        row[max(y, 0)] = s * (math.cos(turned) - (m + m * z))
        rows.append(np.array(row))
    return rows, np.zeros(len(rows))


def magface(x, w, labels, *, norms=(10.0, 110.0), margins=(0.45, 0.8), s=64.0, lam=35.0):
    (la, ua), (lm, um) = norms, margins
    rows, extra = [], []
    for xi, y in zip(x, labels, strict=True):
        a = min(max(np.linalg.norm(xi), la), ua)
        row = [s * cosine(xi, v) for v in w]
        row[max(y, 0)] = s * arc(math.acos(cosine(xi, w[max(y, 0)])), (um - lm) / (ua - la) * (a - la) + lm)
        rows.append(np.array(row))
        extra.append(lam * (1 / a + a / ua**2))
    return rows, np.array(extra)


def curricularface(x, w, labels, *, m=0.5, s=64.0, momentum=0.99, t=0.0):
    """The first training step: t has seen this batch."""
    own = [cosine(xi, w[max(y, 0)]) for xi, y in zip(x, labels, strict=True)]
    counted = [c for c, y in zip(own, labels, strict=True) if y != -100]
    t = momentum * t + (1 - momentum) * float(np.mean(counted)) if counted else t
    rows = []
    for xi, y, c in zip(x, labels, own, strict=True):
        target = arc(math.acos(c), m)
        row = []
        for j, v in enumerate(w):
            cj = cosine(xi, v)
            row.append(s * (target if j == y else cj * (t + cj) if cj > target else cj))
        rows.append(np.array(row))
    return rows, np.zeros(len(rows))


def subcenter(x, w, labels, *, k=3, m=0.5, s=64.0):
    rows = []
    for xi, y in zip(x, labels, strict=True):
        closest = cosines(xi, w, len(w) // k)
        rows.append(np.array([s * (arc(math.acos(c), m) if j == y else c) for j, c in enumerate(closest)]))
    return rows, np.zeros(len(rows))


SEEING = {"adaface": adaface, "magface": magface, "curricularface": curricularface, "subcenter": subcenter}


def sphereface2_loss(x, w, labels, b, *, lam=0.7, r=40.0, m=0.4, t=3.0):
    total = 0.0
    for xi, y in zip(x, labels, strict=True):
        for j, v in enumerate(w):
            z = 2 * ((cosine(xi, v) + 1) / 2) ** t - 1
            if j == y:
                total += lam / r * np.logaddexp(0, -r * (z - m) - b)
            else:
                total += (1 - lam) / r * np.logaddexp(0, r * (z + m) + b)
    return total / len(labels)


def class_energy(w, labels, s):
    unit = [v / np.linalg.norm(v) for v in w]
    total = 0.0
    for y in labels:
        for j in range(len(w)):
            if j != y:
                d = np.linalg.norm(unit[y] - unit[j])
                total += -math.log(d) if s == 0 else d**-s
    return total / (len(labels) * (len(w) - 1))
