"""PointNet and PointNet++: sets, not sequences."""

import itertools

import pytest
import torch

from hypersphere import models
from hypersphere._core.extremes import largest, smallest
from hypersphere.models.pointnet2 import ball_neighbours, farthest_points, gather_points


def test_farthest_points_against_the_definition() -> None:
    torch.manual_seed(0)
    xyz = torch.randn(2, 15, 3, dtype=torch.float64)
    for cloud, picked in zip(xyz, farthest_points(xyz, 6).tolist(), strict=True):
        taken = [0]
        while len(taken) < 6:
            nearest = [min((cloud[i] - cloud[j]).norm().item() for j in taken) for i in range(15)]
            taken.append(nearest.index(max(nearest)))
        assert picked == taken


def test_ball_neighbours_against_the_definition() -> None:
    torch.manual_seed(1)
    xyz = torch.randn(2, 12, 3)
    centres = xyz[:, :4]
    index = ball_neighbours(centres, xyz, 1.2, 5)
    for n, m in itertools.product(range(2), range(4)):
        inside = [p for p in range(12) if (xyz[n, p] - centres[n, m]).norm() <= 1.2][:5]
        assert index[n, m].tolist() == inside + [inside[0]] * (5 - len(inside))


def test_gather_points() -> None:
    values, index = torch.randn(2, 5, 3), torch.randint(5, (2, 4, 6))
    out = gather_points(values, index)
    assert all(
        torch.equal(out[n, i, j], values[n, index[n, i, j]]) for n in range(2) for i in range(4) for j in range(6)
    )
    assert gather_points(values[..., :0], index).shape == (2, 4, 6, 0)


@pytest.mark.parametrize("name", ["pointnet", "pointnet_tnet"])
def test_pointnet_is_a_function_of_the_set(name: str) -> None:
    torch.manual_seed(0)
    model = models.create(name, 5, conv="sphere").eval()
    x = torch.randn(2, 30, 3)
    torch.testing.assert_close(model(x[:, torch.randperm(30)]), model(x))
    torch.testing.assert_close(model(torch.cat([x, x[:, :7]], 1)), model(x))


def test_pointnet2_sees_positions_only_relative_to_centres_and_in_the_last_level() -> None:
    torch.manual_seed(0)
    model = models.create("pointnet2", 5, points=(12, 6), radii=(0.6, 1.2), samples=(8, 8)).eval()
    x = torch.randn(2, 40, 3)
    xyz, values = model.body.levels[0](x, x[..., :0])
    moved, same = model.body.levels[0](x + 3.0, x[..., :0])
    torch.testing.assert_close(moved, xyz + 3.0)
    torch.testing.assert_close(same, values, rtol=1e-3, atol=1e-4)
    assert xyz.shape == (2, 12, 3)
    assert values.shape == (2, 12, 128)


def test_tnets_start_as_the_identity_and_the_penalty_is_zero_there() -> None:
    torch.manual_seed(0)
    model = models.create("pointnet_tnet", 5).eval()
    transform = model.body.input_transform(torch.randn(2, 3, 10))
    torch.testing.assert_close(transform, torch.eye(3).expand(2, 3, 3))
    scores, penalty = model(torch.randn(2, 10, 3), penalty=True)
    assert scores.shape == (2, 5)
    assert penalty.item() == 0
    with torch.no_grad():
        model.body.feature_transform.matrix.bias.mul_(2)
    assert model(torch.randn(2, 10, 3), penalty=True)[1].item() == pytest.approx(2 * 64 * (1 - 4) ** 2 / 2)
    assert models.create("pointnet", 5).eval()(torch.randn(2, 10, 3), penalty=True)[1].item() == 0


def test_further_channels() -> None:
    x = torch.randn(2, 20, 6)
    for name, options in (("pointnet_tnet", {}), ("pointnet2", {"points": (8, 4)})):
        assert models.create(name, 5, in_channels=6, **options)(x).shape == (2, 5)


def test_dropout_is_on_the_last_hidden_layer_and_with_tnets_on_both() -> None:
    drops = [m.p for m in models.create("pointnet").modules() if isinstance(m, torch.nn.Dropout)]
    assert drops == [0.3]
    head = [type(layer).__name__ for layer in models.create("pointnet_tnet").body.head]
    assert [name for name in head if name == "Dropout"] == [head[1], head[3]]
    drops = [m.p for m in models.create("pointnet_tnet").modules() if isinstance(m, torch.nn.Dropout)]
    assert drops == [0.3, 0.3]  # none in the T-Nets
    drops = [m.p for m in models.create("pointnet2").modules() if isinstance(m, torch.nn.Dropout)]
    assert drops == [0.5, 0.5]


def test_generator_gives_images_and_gradients_reach_both_networks() -> None:
    torch.manual_seed(0)
    for conv in ("plain", "sphere"):
        generator = models.create("sngan_generator", conv=conv, widths=(16, 8, 8, 4), base=2)
        discriminator = models.create("sngan_discriminator", image_size=16, widths=(4, 4, 8, 8))
        images = generator(torch.randn(3, generator.latent_dim))
        assert images.shape == (3, 3, 16, 16)
        assert images.abs().max() <= 1
        discriminator(images).mean().backward()
        for model in (generator, discriminator):
            assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.slow
@pytest.mark.parametrize("extreme", [largest, smallest])
def test_compiled_extremes_have_a_gradient_in_bfloat16(extreme) -> None:
    """A compiler computes the entries anew, unrounded: none equals the result, and amax would divide by none."""

    def function(x, w):
        with torch.autocast("cpu", torch.bfloat16):
            return extreme(torch.relu(1.37 * torch.nn.functional.linear(x, w) + 0.1), 1).float().sum()

    x, w = torch.randn(4, 50, 8), torch.randn(16, 8, requires_grad=True)
    (expected,) = torch.autograd.grad(function(x, w), w)
    (found,) = torch.autograd.grad(torch.compile(function)(x, w), w)
    torch.testing.assert_close(found, expected, rtol=0.02, atol=0.1)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["pointnet", "pointnet_tnet"])
def test_compiled_networks_have_gradients_in_bfloat16(name: str) -> None:
    model, x = models.create(name).cuda(), torch.rand(8, 256, 3, device="cuda")

    def loss(x):
        with torch.autocast("cuda", torch.bfloat16):
            return model(x).float().square().mean()

    torch.compile(loss)(x).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
