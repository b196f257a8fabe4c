"""Layer counts, shapes and parameter counts against the documents' tables."""

import pytest
import torch
from model_tables import CASES, Case, implied
from torch import nn

from hypersphere import models


def convolutions(model: nn.Module) -> list[nn.Conv2d]:
    return [m for name, m in model.named_modules() if isinstance(m, nn.Conv2d) and "shortcut" not in name]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_network_is_what_its_table_says(case: Case) -> None:
    model = models.create(case.name, case.classes, device="meta", **case.options).eval()
    expected = implied(case)
    convs = convolutions(model)
    given: list[tuple[int, ...]] = []
    for conv in convs:
        conv.register_forward_hook(lambda module, args, out: given.append(tuple(out.shape[1:])))
    out = model(torch.empty(2, *case.image, device="meta"))
    assert len(convs) == case.layers
    assert [tuple(conv.weight.shape) for conv in convs] == expected.weights
    assert given == expected.maps
    assert model.feature_dim == expected.features
    assert out.shape == (2, case.classes or expected.features)
    assert sum(p.numel() for p in model.parameters()) == expected.parameters


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("resnet18", 11_689_512), ("resnet34", 21_797_672), ("resnet50", 25_557_032)],
)
def test_imagenet_resnets_have_their_well_known_size(name: str, parameters: int) -> None:
    assert sum(p.numel() for p in models.create(name, device="meta").parameters()) == parameters


@pytest.mark.parametrize(("name", "millions"), [("resnet20", 0.27), ("resnet32", 0.46)])
def test_cifar_resnets_have_the_size_he_et_al_print(name: str, millions: float) -> None:
    model = models.create(name, 10, widths="f2", device="meta")
    assert round(sum(p.numel() for p in model.parameters()) / 1e6, 2) == millions


def test_the_reference_count_is_not_the_code_under_test() -> None:
    """CNN-3 of paper Table 5 by hand: 3 convolutions with BatchNorm, 256 features, 10 classes."""
    convs = 3 * 64 * 9 + 2 * 64 + 64 * 96 * 9 + 2 * 96 + 96 * 128 * 9 + 2 * 128
    fc = 128 * 4 * 4 * 256 + 2 * 256
    assert implied(CASES[0]).parameters == convs + fc + 256 * 10 + 10


def test_modified_resnet_has_18_layers_and_no_projections() -> None:
    model = models.create("resnet18_modified", device="meta")
    linear = [m for m in model.modules() if isinstance(m, nn.Linear)]
    assert len(convolutions(model)) + len(linear) == 18
    assert len(convolutions(model)) == len([m for m in model.modules() if isinstance(m, nn.Conv2d)])


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        # points → 64, 64, 64, 128, 1024 → 512, 256 → 40; a bias in the classifier, BatchNorm elsewhere
        ("pointnet", [(3, 64), (64, 64), (64, 64), (64, 128), (128, 1024), (1024, 512), (512, 256)]),
        (
            "pointnet2",
            [
                (3, 64), (64, 64), (64, 128), (131, 128), (128, 128), (128, 256), (259, 256), (256, 512), (512, 1024),
                (1024, 512), (512, 256),
            ],
        ),
    ],
)  # fmt: skip
def test_point_networks(name: str, layers: list[tuple[int, int]]) -> None:
    model = models.create(name, device="meta")
    assert sum(p.numel() for p in model.parameters()) == sum(i * o + 2 * o for i, o in layers) + 256 * 40 + 40


def test_tnets_add_their_layers() -> None:
    def tnet(k: int) -> int:
        sizes = [(k, 64), (64, 128), (128, 1024), (1024, 512), (512, 256)]
        return sum(i * o + 2 * o for i, o in sizes) + 256 * k * k + k * k

    plain, with_tnets = (models.create(name, device="meta") for name in ("pointnet", "pointnet_tnet"))
    difference = sum(p.numel() for p in with_tnets.parameters()) - sum(p.numel() for p in plain.parameters())
    assert difference == tnet(3) + tnet(64)


def test_mlp_and_gcn() -> None:
    mlp = models.create("mlp", device="meta")
    assert [tuple(p.shape) for p in mlp.parameters()] == [(256, 784), (256,), (256, 256), (256,), (10, 256), (10,)]
    gcn = models.create("gcn", device="meta")
    assert [tuple(p.shape) for p in gcn.parameters()] == [(16, 1433), (7, 16)]


def test_gan_pair_is_table_d5() -> None:
    generator = models.create("sngan_generator", device="meta").eval()
    dense = 128 * 512 * 16 + 512 * 16
    deconvs = sum(i * o * 16 + 2 * o for i, o in ((512, 256), (256, 128), (128, 64)))
    assert sum(p.numel() for p in generator.parameters()) == dense + deconvs + 64 * 3 * 9 + 3
    assert generator(torch.empty(2, 128, device="meta")).shape == (2, 3, 32, 32)
    discriminator = models.create("sngan_discriminator", device="meta").eval()
    rows = [(3, 64, 3), (64, 64, 4), (64, 128, 3), (128, 128, 4), (128, 256, 3), (256, 256, 4), (256, 512, 3)]
    assert [(m.in_channels, m.out_channels, m.kernel_size[0]) for m in convolutions(discriminator)] == rows
    assert [m.stride[0] for m in convolutions(discriminator)] == [1, 2, 1, 2, 1, 2, 1]
    expected = sum(i * o * k * k + o for i, o, k in rows) + 512 * 16 + 1
    assert sum(p.numel() for p in discriminator.parameters()) == expected
    assert discriminator(torch.empty(2, 3, 32, 32, device="meta")).shape == (2, 1)
    slopes = {m.negative_slope for m in discriminator.modules() if isinstance(m, nn.LeakyReLU)}
    assert slopes == {0.1}
