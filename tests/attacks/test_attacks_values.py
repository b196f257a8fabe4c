"""Values: exact answers on linear classifiers, literal NumPy references, and a maintained attack library."""

import attacks_reference as reference
import numpy as np
import pytest
import torch
from torch import nn

import hypersphere as hs


@pytest.fixture
def tanh():
    """The same network twice: for NumPy and for torch, float64."""
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=shape) for shape in ((12, 7), (12,), (5, 12), (5,))]
    net = nn.Sequential(nn.Linear(7, 12), nn.Tanh(), nn.Linear(12, 5)).double()
    with torch.no_grad():
        for parameter, value in zip(net.parameters(), parts, strict=True):
            parameter.copy_(torch.from_numpy(value))
    x = rng.uniform(-1, 1, size=(16, 7))
    return reference.Tanh(*parts), net, x, rng.integers(0, 5, size=16)


@pytest.fixture
def linear():
    net = nn.Linear(6, 4).double()
    nn.init.normal_(net.weight)
    nn.init.normal_(net.bias)
    return net


# Linear classifiers: everything is known ---------------------------------------------------------------


def test_fgsm_on_two_classes_moves_along_the_sign_of_the_normal():
    net = nn.Linear(6, 2).double()
    x = torch.randn(9, 6, dtype=torch.float64)
    labels = torch.randint(2, (9,))
    away = (net.weight[1 - labels] - net.weight[labels]).sign()
    found = hs.attacks.fgsm(net, x, labels, 0.1, clip=None)
    torch.testing.assert_close(found, x + 0.1 * away)
    # ten steps of 0.03 end in the same corner of the cube
    torch.testing.assert_close(hs.attacks.bim(net, x, labels, 0.1, 0.03, 10, clip=None), x + 0.1 * away)
    towards = hs.attacks.fgsm(net, x, 1 - labels, 0.1, clip=None, targeted=True)
    torch.testing.assert_close(towards, x + 0.1 * away)


def test_the_sign_step_is_the_worst_of_the_cube_for_two_classes():
    net = nn.Linear(5, 2).double()
    x, labels = torch.randn(4, 5, dtype=torch.float64), torch.tensor([0, 1, 0, 1])
    found = hs.attacks.fgsm(net, x, labels, 0.2, clip=None)
    corners = torch.cartesian_prod(*[torch.tensor([-0.2, 0.2], dtype=torch.float64)] * 5)
    losses = nn.functional.cross_entropy(
        net(x.unsqueeze(1) + corners).flatten(0, 1), labels.repeat_interleave(32), reduction="none"
    )
    ours = nn.functional.cross_entropy(net(found), labels, reduction="none")
    torch.testing.assert_close(ours, losses.view(4, 32).amax(1))


@pytest.mark.parametrize(("norm", "dual"), [("l2", 2), ("linf", 1)])
def test_deepfool_on_a_linear_classifier_is_the_distance_to_the_nearest_hyperplane(linear, norm, dual):
    x = torch.randn(20, 6, dtype=torch.float64)
    found = hs.attacks.deepfool(linear, x, clip=None, norm=norm, overshoot=1e-6)
    logits, start = linear(x), linear(x).argmax(1)
    gaps = logits.gather(1, start[:, None]) - logits
    normals = linear.weight[None] - linear.weight[start][:, None]
    distances = gaps / normals.norm(dual, dim=2)
    distances[torch.arange(20), start] = torch.inf
    change = (found - x).norm(2 if norm == "l2" else torch.inf, dim=1)
    torch.testing.assert_close(change, distances.amin(1), rtol=2e-6, atol=1e-12)
    assert torch.equal(linear(found).argmax(1), distances.argmin(1))


def test_deepfool_goes_the_overshoot_beyond_the_boundary(linear):
    x = torch.randn(8, 6, dtype=torch.float64)
    small, large = (hs.attacks.deepfool(linear, x, clip=None, overshoot=o) for o in (1e-9, 0.5))
    torch.testing.assert_close(large - x, 1.5 * (small - x), rtol=1e-7, atol=1e-12)


def test_deepfool_considers_only_the_likeliest_classes(linear):
    x = torch.randn(30, 6, dtype=torch.float64)
    two, all_of_them = (hs.attacks.deepfool(linear, x, clip=None, classes=c) for c in (2, None))
    first, second = linear(x).topk(2).indices.T[:, :, None]
    assert (linear(two).gather(1, second) > linear(two).gather(1, first)).all()
    longer = (two - x).norm(dim=1) - (all_of_them - x).norm(dim=1)
    assert (longer > -1e-9).all()
    assert (longer > 1e-3).any()


# Literal references ------------------------------------------------------------------------------------


@pytest.mark.parametrize("targeted", [False, True])
@pytest.mark.parametrize("loss", ["log_odds", "cross_entropy"])
def test_sign_attacks_follow_their_formula(tanh, targeted, loss):
    numpy_net, net, x, labels = tanh
    inputs, classes = torch.from_numpy(x), torch.from_numpy(labels)
    options = {"clip": (-0.9, 1.1), "targeted": targeted, "loss": loss}
    inside = inputs.clamp(-0.9, 1.1)
    for iterations, step in ((1, 0.3), (7, 0.08)):
        expected = [
            reference.bim(numpy_net, a, y, 0.3, step, iterations, -0.9, 1.1, targeted)
            for a, y in zip(inside.numpy(), labels, strict=True)
        ]
        found = hs.attacks.bim(net, inside, classes, 0.3, step, iterations, **options)
        torch.testing.assert_close(found, torch.from_numpy(np.stack(expected)))
    one = hs.attacks.bim(net, inside, classes, 0.3, 0.3, 1, **options)
    assert torch.equal(hs.attacks.fgsm(net, inside, classes, 0.3, **options), one)


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("bounds", [None, (-1.0, 1.0)])
def test_deepfool_follows_its_formula(tanh, norm, bounds):
    numpy_net, net, x, _ = tanh
    low, high = bounds or (-np.inf, np.inf)
    expected = np.stack([reference.deepfool(numpy_net, a, norm, 30, 0.02, low, high) for a in x])
    found = hs.attacks.deepfool(net, torch.from_numpy(x), clip=bounds, norm=norm, iterations=30, classes=None)
    torch.testing.assert_close(found, torch.from_numpy(expected))
    assert (net(found).argmax(1) != net(torch.from_numpy(x)).argmax(1)).all()


def test_the_thesis_step_is_a_quarter_and_twenty_times(tanh):
    _, net, x, labels = tanh
    inputs, classes = torch.from_numpy(x), torch.from_numpy(labels)
    found = hs.attacks.bim(net, inputs, classes, 0.2, clip=None)
    torch.testing.assert_close(found, hs.attacks.bim(net, inputs, classes, 0.2, 0.05, 20, clip=None))


# A maintained library ----------------------------------------------------------------------------------


@pytest.fixture
def images():
    net = nn.Sequential(nn.Conv2d(3, 6, 3), nn.Tanh(), nn.Flatten(), nn.Linear(96, 4)).eval()
    return net, torch.rand(10, 3, 6, 6), torch.randint(4, (10,))


def art(net, clip):
    from art.estimators.classification import PyTorchClassifier  # seconds, for these tests alone

    return PyTorchClassifier(net, nn.CrossEntropyLoss(), (3, 6, 6), 4, clip_values=clip)


@pytest.mark.parametrize("targeted", [False, True])
def test_the_same_as_the_adversarial_robustness_toolbox(images, targeted):
    from art.attacks.evasion import BasicIterativeMethod, FastGradientMethod

    net, x, labels = images
    oracle = art(net, (0.0, 1.0))
    theirs = FastGradientMethod(oracle, eps=0.1, targeted=targeted).generate(x.numpy(), labels.numpy())
    ours = hs.attacks.fgsm(net, x, labels, 0.1, clip=(0.0, 1.0), targeted=targeted)
    torch.testing.assert_close(ours, torch.from_numpy(theirs))
    attack = BasicIterativeMethod(oracle, eps=0.1, eps_step=0.03, max_iter=8, targeted=targeted, verbose=False)
    ours = hs.attacks.bim(net, x, labels, 0.1, 0.03, 8, clip=(0.0, 1.0), targeted=targeted)
    torch.testing.assert_close(ours, torch.from_numpy(attack.generate(x.numpy(), labels.numpy())))


def test_deepfool_is_no_longer_than_the_toolbox_and_fools_as_many(images):
    """Theirs linearises at the point without the overshoot, so the paths differ a little."""
    from art.attacks.evasion import DeepFool

    net, x, _ = images
    start = net(x).argmax(1)
    theirs = DeepFool(art(net, None), max_iter=50, epsilon=0.02, nb_grads=4, batch_size=10, verbose=False)
    other = torch.from_numpy(theirs.generate(x.numpy()))
    ours = hs.attacks.deepfool(net, x, clip=None, classes=4)
    assert (net(ours).argmax(1) != start).all()
    lengths = [(found - x).flatten(1).norm(dim=1) for found in (ours, other)]
    torch.testing.assert_close(lengths[0], lengths[1], rtol=0.03, atol=1e-4)
