"""What holds for every input: the cube, the bounds, units, edges, precision."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import hypersphere as hs

A = hs.attacks


def network(seed=0, channels=3):
    torch.manual_seed(seed)
    net = nn.Sequential(hs.nn.SphereConv2d(channels, 5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(80, 4))
    return net.eval()


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 10**6),
    eps=st.floats(0, 0.5),
    step=st.floats(0, 1),
    iterations=st.integers(1, 4),
    low=st.floats(-1, 0),
    random_start=st.booleans(),
    targeted=st.booleans(),
)
def test_never_outside_the_cube_and_the_bounds(seed, eps, step, iterations, low, random_start, targeted):
    net = network()
    generator = torch.Generator().manual_seed(seed)
    x = low + (1 - low) * torch.rand(3, 3, 6, 6, generator=generator)
    labels = torch.randint(4, (3,), generator=generator)
    options = {"clip": (low, 1.0), "targeted": targeted}
    for found in (
        A.fgsm(net, x, labels, eps, **options),
        A.bim(net, x, labels, eps, step, iterations, random_start=random_start, generator=generator, **options),
    ):
        assert found.shape == x.shape
        assert (found - x).abs().max() <= eps + 1e-6
        assert found.min() >= low - 1e-7
        assert found.max() <= 1 + 1e-7
    fooled = A.deepfool(net, x, clip=(low, 1.0), iterations=5)
    assert fooled.min() >= low - 1e-7
    assert fooled.max() <= 1 + 1e-7


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 10**6), size=st.integers(1, 5))
def test_attacking_a_batch_is_attacking_each_sample_alone(seed, size):
    net = network().double()
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(size, 3, 6, 6, generator=generator, dtype=torch.float64)
    labels = torch.randint(4, (size,), generator=generator)
    for attack in (
        lambda x, y: A.bim(net, x, y, 0.1, 0.04, 3, clip=(0.0, 1.0)),
        lambda x, y: A.deepfool(net, x, y, clip=(0.0, 1.0)),
    ):
        alone = torch.cat([attack(x[i : i + 1], labels[i : i + 1]) for i in range(size)])
        torch.testing.assert_close(attack(x, labels), alone, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["symmetric", "unit", "standard", "mean"])
def test_budgets_and_bounds_of_every_normalisation(kind):
    images = torch.randint(0, 248, (4, 3, 6, 6), dtype=torch.uint8)
    images[0, :, 0, :2] = torch.tensor([0, 247], dtype=torch.uint8)
    options = {"mean": (0.4, 0.5, 0.6), "std": (0.2, 0.3, 0.4)} if kind in hs.data.MEASURED else {}
    x, brighter = (hs.data.normalize(bytes_, kind, **options) for bytes_ in (images, images + 8))
    pixels = A.pixels(kind, **options)
    for eps in (pixels.eps(8), pixels.eps(8 / 255, peak=1)):
        torch.testing.assert_close(x + eps, brighter, rtol=0, atol=2e-6)
    ends = torch.tensor([0, 255], dtype=torch.uint8).view(2, 1, 1, 1).expand(2, 3, 6, 6)
    for bound, end in zip(pixels.clip, hs.data.normalize(ends, kind, **options), strict=True):
        torch.testing.assert_close(torch.as_tensor(bound).expand_as(end), end, rtol=0, atol=2e-6)
    found = A.fgsm(network(), x, torch.tensor([0, 1, 2, 3]), pixels.eps(8), clip=pixels.clip)
    scale = torch.as_tensor(pixels.scale)
    assert ((found - x).abs() / scale).max() <= 8 + 1e-3
    assert ((found - x).abs() / scale).max() > 7.9


def test_bytes_themselves():
    pixels = A.pixels(None)
    assert pixels.eps(8) == 8
    assert pixels.clip == (0.0, 255.0)


def test_one_budget_for_each_sample():
    net, x = network(), torch.rand(2, 3, 6, 6)
    eps = torch.tensor([0.0, 0.2]).view(2, 1, 1, 1)
    change = (A.bim(net, x, torch.tensor([0, 1]), eps, clip=None) - x).abs().flatten(1).amax(1)
    assert change[0] == 0
    torch.testing.assert_close(change[1], torch.tensor(0.2))


def test_random_start_is_uniform_in_the_cube_and_reproducible():
    net, x, labels = network(), torch.full((50, 3, 6, 6), 0.5), torch.zeros(50, dtype=torch.int64)
    starts = [
        A.bim(net, x, labels, 0.1, 0.0, 1, clip=None, random_start=True, generator=torch.Generator().manual_seed(seed))
        for seed in (1, 1, 2)
    ]
    assert torch.equal(starts[0], starts[1])
    assert not torch.equal(starts[0], starts[2])
    share = ((starts[0] - x) / 0.2 + 0.5).flatten()
    assert share.min() < 0.01
    assert share.max() > 0.99
    assert abs(share.mean() - 0.5) < 0.02
    assert abs(share.var() - 1 / 12) < 0.01


def test_no_labels_means_the_models_own_answers():
    net, x = network(), torch.rand(6, 3, 6, 6)
    answers = net(x).argmax(1)
    for attack in (A.fgsm, A.bim):
        assert torch.equal(attack(net, x, None, 0.1, clip=None), attack(net, x, answers, 0.1, clip=None))
    assert torch.equal(A.deepfool(net, x, clip=None), A.deepfool(net, x, answers, clip=None))


def test_samples_labelled_minus_100_stay():
    net, x = network(), torch.rand(5, 3, 6, 6)
    labels = net(x).argmax(1)
    labels[1::2] = -100
    for loss in ("log_odds", "cross_entropy"):
        found = A.bim(net, x, labels, 0.1, clip=None, loss=loss)
        assert torch.equal(found[1::2], x[1::2])
        assert not torch.equal(found[::2], x[::2])
    found = A.deepfool(net, x, labels, clip=None)
    assert torch.equal(found[1::2], x[1::2])
    assert (net(found).argmax(1) != labels).all()


def test_deepfool_leaves_what_is_wrong_already():
    net, x = network(), torch.rand(6, 3, 6, 6)
    wrong = (net(x).argmax(1) + 1) % 4
    assert torch.equal(A.deepfool(net, x, wrong, clip=None), x)


def test_zero_images_have_a_finite_gradient():
    for conv in (hs.nn.SphereConv2d(3, 5, 3), hs.nn.DecoupledConv2d(3, 5, 3, magnitude="tanh")):
        net = nn.Sequential(conv, nn.ReLU(), nn.Flatten(), nn.Linear(80, 4)).eval()
        x = torch.zeros(2, 3, 6, 6)
        x[1, :, :3] = 0.5
        labels = torch.tensor([0, 1])
        for found in (
            A.fgsm(net, x, labels, 0.1, clip=(0.0, 1.0)),
            A.bim(net, x, labels, 0.1, clip=(0.0, 1.0)),
            A.deepfool(net, x, clip=(0.0, 1.0)),
        ):
            assert found.isfinite().all()
        assert (A.fgsm(net, x, labels, 0.1, clip=(0.0, 1.0))[1] != x[1]).any()


def test_deepfool_leaves_a_point_where_two_classes_tie():
    net = nn.Linear(3, 3)
    nn.init.eye_(net.weight)
    nn.init.zeros_(net.bias)
    x = torch.tensor([[0.0, 0.0, 0.0], [2.0, 2.0, 0.0]])
    found = A.deepfool(net, x, clip=None)
    assert (net(found).argmax(1) != net(x).argmax(1)).all()
    assert (found - x).abs().max() < 1e-4


def test_saturated_softmax_still_has_a_direction():
    """Where p_y rounds to 1 the float32 cross-entropy drops the term of the target; the log odds do not."""
    net = nn.Linear(2, 3, bias=False)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[400.0, 300.0], [1.0, 2.0], [0.0, 1.0]]))
    x, label = torch.ones(1, 2), torch.tensor([0])
    exact = torch.tensor([[0.9, 0.9]])
    torch.testing.assert_close(A.fgsm(net, x, label, 0.1, clip=None), exact)
    assert not torch.equal(A.fgsm(net, x, label, 0.1, clip=None, loss="cross_entropy"), exact)


def test_a_loss_of_ones_own():
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 6)).eval()
    head = hs.losses.ArcFace(6, 4)
    x, labels = torch.rand(5, 3, 2, 2), torch.randint(4, (5,))
    found = A.fgsm(net, x, labels, 0.1, clip=None, loss=head)
    leaf = x.clone().requires_grad_()
    head(net(leaf), labels).backward()
    torch.testing.assert_close(found, x + 0.1 * leaf.grad.sign())
    assert head(net(found), labels) > head(net(x), labels)


def test_empty_batches():
    net = network().train()
    x, labels = torch.rand(0, 3, 6, 6), torch.zeros(0, dtype=torch.int64)
    for found in (
        A.fgsm(net, x, labels, 0.1, clip=None),
        A.bim(net, x, None, 0.1, clip=(0.0, 1.0)),
        A.deepfool(net, x, labels, clip=None),
    ):
        assert found.shape == x.shape


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_the_dtype_of_the_input_is_kept(dtype):
    net = nn.Sequential(nn.Flatten(), nn.Linear(108, 4)).to(dtype)
    x, labels = torch.rand(4, 3, 6, 6, dtype=dtype), torch.tensor([0, 1, 2, 3])
    for found in (
        A.fgsm(net, x, labels, 0.1, clip=(0.0, 1.0)),
        A.bim(net, x, labels, 0.1, clip=(0.0, 1.0)),
        A.deepfool(net, x, clip=None),
    ):
        assert found.dtype == dtype
        assert found.isfinite().all()
    assert (net(found).argmax(1) != net(x).argmax(1)).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_agrees_up_to_its_rounding(dtype):
    net, x, labels = network(), torch.rand(8, 3, 6, 6), torch.randint(4, (8,))
    plain = A.fgsm(net, x, labels, 0.1, clip=(0.0, 1.0))
    with torch.autocast("cpu", dtype):
        half = A.fgsm(net, x, labels, 0.1, clip=(0.0, 1.0))
        fooled = A.deepfool(net, x, clip=(0.0, 1.0))
        nn.functional.cross_entropy(net(half), labels).backward()  # what autocast kept of the attack does no harm
    assert half.dtype == torch.float32
    assert (half == plain).float().mean() > 0.97
    assert fooled.isfinite().all()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())


def test_more_iterations_and_budget_are_a_stronger_attack():
    net, x = network(), torch.rand(64, 3, 6, 6)
    labels = net(x).argmax(1)

    def loss(found):
        return nn.functional.cross_entropy(net(found), labels).item()

    losses = [
        loss(A.bim(net, x, labels, eps, eps / 4, n, clip=(0.0, 1.0))) for eps, n in ((0.02, 4), (0.05, 4), (0.05, 20))
    ]
    assert loss(x) < losses[0] < losses[1] < losses[2]


def test_a_random_start_leaves_ignored_samples_alone():
    net, x, labels = network(), torch.rand(6, 3, 6, 6), torch.tensor([0, -100, 1, -100, 2, 3])
    found = A.bim(net, x, labels, 0.1, iterations=2, clip=(0.0, 1.0), random_start=True)
    changed = (found != x).flatten(1).any(1)
    assert changed.tolist() == (labels >= 0).tolist()


def test_a_budget_for_each_channel_keeps_the_dtype_of_the_inputs():
    net, x = nn.Sequential(nn.Flatten(), nn.Linear(12, 4)).bfloat16(), torch.rand(5, 3, 2, 2).bfloat16()
    for eps in (torch.full((3, 1, 1), 0.1), torch.full((3, 1, 1), 0.1, dtype=torch.float64)):
        assert A.bim(net, x, None, eps, iterations=2, clip=(0.0, 1.0)).dtype == torch.bfloat16


def test_pixels_of_one_mean_for_all_channels():
    assert A.pixels("mean", mean=0.5).clip[0].item() == -0.5
