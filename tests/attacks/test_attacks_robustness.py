"""Accuracy under attack, transfer, and training against attacks, on real digits."""

import copy
from functools import partial

import pytest
import torch
from torch import nn

import hypersphere as hs

A = hs.attacks
PIXELS = A.pixels("unit")
FGSM = partial(A.fgsm, eps=PIXELS.eps(24), clip=PIXELS.clip)


@pytest.fixture(scope="module")
def digits():
    data = hs.data.load("digits")
    return [(hs.data.normalize(part.images, "unit"), part.labels) for part in (data.train, data.test)]


def fit(digits, seed, attack=None, **options):
    torch.manual_seed(seed)
    x, labels = digits[0]
    net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10))
    optimizer = torch.optim.Adam(net.parameters(), 5e-3)
    for step in range(150):
        rows = torch.arange(step * 64, (step + 1) * 64) % len(x)
        inputs, classes = x[rows], labels[rows]
        if attack is not None:
            inputs, classes = A.adversarial_batch(net, inputs, classes, attack, **options)
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(inputs), classes).backward()
        optimizer.step()
    return net


@pytest.fixture(scope="module")
def natural(digits):
    return fit(digits, 0)


def batches(digits):
    x, labels = digits[1]
    return zip(x.split(100), labels.split(100), strict=True)


def test_white_box_transfer_and_adversarial_training(digits, natural):
    """The order that Tables 4.7 and 4.8 rest on: own gradients hurt more than transferred ones; training helps."""
    other, trained = fit(digits, 1), fit(digits, 0, FGSM)
    white = A.robust_accuracy(natural, batches(digits), FGSM)
    black = A.robust_accuracy(natural, batches(digits), FGSM, source=other)
    hardened = A.robust_accuracy(trained, batches(digits), FGSM)
    bim = A.robust_accuracy(natural, batches(digits), partial(A.bim, eps=PIXELS.eps(24), clip=PIXELS.clip))
    assert white.clean == black.clean > 90
    assert white.adversarial < black.adversarial < white.clean - 5
    assert white.adversarial < white.clean - 20
    assert bim.adversarial <= white.adversarial
    assert hardened.adversarial > white.adversarial + 10
    assert hardened.clean > 90
    assert white.samples == len(digits[1][1])
    torch.testing.assert_close(white.linf, torch.full_like(white.linf, 24 / 255), rtol=1e-4, atol=0)


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_deepfool_fools_everything_within_the_bounds(digits, natural, norm):
    attack = partial(A.deepfool, clip=PIXELS.clip, norm=norm)
    result = A.robust_accuracy(natural, batches(digits), attack)
    assert result.adversarial == 0
    assert torch.equal(result.right, result.l2 > 0)
    assert not result.held.any()
    x = digits[1][0].flatten(1).double()
    expected = (result.l2 / x.norm(dim=1))[result.right].mean()
    assert result.relative == pytest.approx(float(expected))
    assert 0.02 < result.relative < 0.5


def test_deepfool_is_shorter_in_the_norm_it_minimises(digits, natural):
    l2, linf = (
        A.robust_accuracy(natural, batches(digits), partial(A.deepfool, clip=None, norm=norm))
        for norm in ("l2", "linf")
    )
    assert l2.l2.mean() < linf.l2.mean()
    assert linf.linf.mean() < l2.linf.mean()


def test_numbers_are_those_of_a_loop(digits, natural):
    x, labels = digits[1]
    result = A.robust_accuracy(natural, [(x, labels)], FGSM)
    found = FGSM(natural, x, labels)
    hits = [
        [int(natural(sample[None]).argmax()) == int(label) for sample, label in zip(part, labels, strict=True)]
        for part in (x, found)
    ]
    assert result.clean == pytest.approx(100 * sum(hits[0]) / len(labels))
    assert result.adversarial == pytest.approx(100 * sum(hits[1]) / len(labels))
    assert result.right.tolist() == hits[0]
    assert result.held.tolist() == hits[1]
    torch.testing.assert_close(result.l2, (found.double() - x.double()).flatten(1).norm(dim=1))


def test_padding_does_not_count_and_tuples_are_inputs(digits, natural):
    x, labels = digits[1]
    padded = torch.cat([labels[:30], torch.full((10,), -100)])
    result = A.robust_accuracy(natural, [((x[:40],), padded)], FGSM)
    same = A.robust_accuracy(natural, [(x[:30], labels[:30])], FGSM)
    assert result == same
    assert result.samples == 30


def test_models_are_evaluated_in_evaluation_mode_and_restored(digits):
    net = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, 10)).train()
    net[2].eval()
    source = copy.deepcopy(net)
    seen = []

    def attack(model, x, labels):
        seen.append((model, model.training, net[1].training))
        return x

    before = net[1].running_mean.clone()
    A.robust_accuracy(net, batches(digits), attack, source=source)
    assert seen[0] == (source, False, False)
    assert [part.training for part in (net, *net)] == [True, True, True, False]
    assert [part.training for part in (source, *source)] == [True, True, True, False]
    assert torch.equal(net[1].running_mean, before)
    with pytest.raises(ZeroDivisionError):
        A.robust_accuracy(net, batches(digits), lambda *_: 1 / 0)
    assert net.training


def test_batches_for_training(natural):
    x, labels = torch.rand(10, 1, 8, 8), torch.arange(10)
    twins = FGSM(natural, x, labels)
    inputs, classes = A.adversarial_batch(natural, x, labels, FGSM)
    assert torch.equal(inputs, torch.cat([x, twins]))
    assert torch.equal(classes, torch.cat([labels, labels]))
    loss = nn.functional.cross_entropy
    halves = (loss(natural(x), labels) + loss(natural(twins), labels)) / 2
    torch.testing.assert_close(loss(natural(inputs), classes), halves)
    inputs, classes = A.adversarial_batch(natural, x, labels, FGSM, mixture="replace")
    assert torch.equal(inputs, twins)
    assert classes is labels
    inputs, _ = A.adversarial_batch(natural, x, labels, FGSM, mixture="replace", fraction=0.3)
    assert torch.equal(inputs, torch.cat([twins[:3], x[3:]]))
    labels[0] = -100
    inputs, classes = A.adversarial_batch(natural, x, labels, FGSM, mixture="replace", against="predictions")
    assert torch.equal(inputs[1:], FGSM(natural, x[1:], None))
    assert torch.equal(inputs[0], x[0])
    assert torch.equal(classes, labels)
