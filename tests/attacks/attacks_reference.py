"""The attacks written from their formulae with NumPy, one sample after the other, on a network with known Jacobian."""

import numpy as np


class Tanh:
    """z = B·tanh(A·x + a) + b, with its Jacobian."""

    def __init__(self, a, offset, b, bias):
        self.a, self.offset, self.b, self.bias = a, offset, b, bias

    def logits(self, x):
        return self.b @ np.tanh(self.a @ x + self.offset) + self.bias

    def jacobian(self, x):
        hidden = np.tanh(self.a @ x + self.offset)
        return self.b @ ((1 - hidden**2)[:, None] * self.a)


def cross_entropy_gradient(net, x, label):
    logits = net.logits(x)
    p = np.exp(logits - logits.max())
    p /= p.sum()
    p[label] -= 1
    return net.jacobian(x).T @ p


def bim(net, x, label, eps, step, iterations, low, high, targeted=False):
    found = x.copy()
    for _ in range(iterations):
        direction = np.sign(cross_entropy_gradient(net, found, label))
        found = found + (-step if targeted else step) * direction
        found = np.clip(np.clip(found, x - eps, x + eps), low, high)
    return found


def deepfool(net, x, norm, iterations, overshoot, low=-np.inf, high=np.inf):
    start = int(np.argmax(net.logits(x)))
    total, found = np.zeros_like(x), x.copy()
    for _ in range(iterations):
        logits, slopes = net.logits(found), net.jacobian(found)
        if np.argmax(logits) != start:
            break
        best, step = np.inf, None
        for k in range(len(logits)):
            if k == start:
                continue
            w, f = slopes[k] - slopes[start], abs(logits[k] - logits[start])
            length = np.sqrt((w**2).sum()) if norm == "l2" else np.abs(w).sum()
            if f / length < best:
                best = f / length
                step = f / (w**2).sum() * w if norm == "l2" else f / length * np.sign(w)
        total = total + step
        found = np.clip(x + (1 + overshoot) * total, low, high)
    return found
