"""The real sets: published counts, balance, shapes and means, with every checksum on."""

from __future__ import annotations

import pytest
import torch

from hypersphere import data


def read(name: str):
    return data.load(name, download=False)


@pytest.mark.real_data("cifar10")
def test_cifar10() -> None:
    cifar = read("cifar10")
    assert (cifar.train.images.shape, cifar.test.images.shape) == ((50000, 3, 32, 32), (10000, 3, 32, 32))
    assert cifar.train.counts.tolist() == [5000] * 10
    assert cifar.test.counts.tolist() == [1000] * 10
    assert cifar.mean == pytest.approx((0.4914, 0.4822, 0.4465), abs=5e-5)
    assert cifar.std == pytest.approx((0.2470, 0.2435, 0.2616), abs=5e-5)
    assert [cifar.classes[label] for label in cifar.train.labels[:4]] == ["frog", "truck", "truck", "deer"]
    assert len(data.imbalance(cifar, "single").train) == 45_500
    assert len(data.imbalance(cifar, "multiple").train) == 27_500


@pytest.mark.real_data("cifar100")
def test_cifar100() -> None:
    cifar = read("cifar100")
    assert (cifar.train.images.shape, cifar.test.images.shape) == ((50000, 3, 32, 32), (10000, 3, 32, 32))
    assert cifar.train.counts.tolist() == [500] * 100
    assert cifar.test.counts.tolist() == [100] * 100
    assert cifar.train.extra["coarse"].bincount().tolist() == [2500] * 20
    assert cifar.mean == pytest.approx((0.5071, 0.4865, 0.4409), abs=5e-5)
    assert cifar.std == pytest.approx((0.2673, 0.2564, 0.2762), abs=5e-5)
    aquatic = cifar.train.labels[cifar.train.extra["coarse"] == 0].unique()
    assert [cifar.classes[label] for label in aquatic] == ["beaver", "dolphin", "otter", "seal", "whale"]
    assert len(data.imbalance(cifar, "single").train) == 45_500
    assert len(data.imbalance(cifar, "multiple").train) == 25_250


@pytest.mark.real_data("mnist")
def test_mnist() -> None:
    mnist = read("mnist")
    assert (mnist.train.images.shape, mnist.test.images.shape) == ((60000, 1, 28, 28), (10000, 1, 28, 28))
    assert mnist.train.counts.tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert mnist.test.counts.tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert mnist.train.labels[:5].tolist() == [5, 0, 4, 1, 9]
    assert (mnist.mean[0], mnist.std[0]) == pytest.approx((0.1307, 0.3081), abs=5e-5)
    assert data.imbalance(mnist, "digit0").train.counts[:2].tolist() == [100, 6742]


@pytest.mark.real_data("fashion_mnist")
def test_fashion_mnist() -> None:
    fashion = read("fashion_mnist")
    assert (fashion.train.images.shape, fashion.test.images.shape) == ((60000, 1, 28, 28), (10000, 1, 28, 28))
    assert fashion.train.counts.tolist() == [6000] * 10
    assert fashion.test.counts.tolist() == [1000] * 10
    assert (fashion.mean[0], fashion.std[0]) == pytest.approx((0.2860, 0.3530), abs=5e-5)
    assert fashion.classes[fashion.train.labels[0]] == "Ankle boot"


@pytest.mark.real_data("lfw")
def test_lfw() -> None:
    faces = read("lfw")
    assert (len(faces), len(faces.people)) == (13233, 5749)
    assert int((faces.labels.bincount() >= 2).sum()) == 1680  # people with two images or more
    assert faces.people[int(faces.labels.bincount().argmax())] == "George_W_Bush"
    assert int(faces.labels.bincount().max()) == 530
    pairs = faces.pairs
    assert len(pairs) == 6000
    assert pairs.fold.bincount().tolist() == [600] * 10
    assert pairs.fold[pairs.same].bincount().tolist() == [300] * 10
    assert torch.equal(faces.labels[pairs.left] == faces.labels[pairs.right], pairs.same)
    assert (len(faces.train_pairs), int(faces.train_pairs.same.sum())) == (2200, 1100)
    assert (len(faces.test_pairs), int(faces.test_pairs.same.sum())) == (1000, 500)
    train, test = faces.labels[faces.train_index].unique(), faces.labels[faces.test_index].unique()
    assert (len(train), len(test)) == (4038, 1711)
    assert len(torch.cat([train, test]).unique()) == 5749
    assert torch.isin(faces.train_pairs.left, faces.train_index).all()
    assert torch.isin(faces.test_pairs.right, faces.test_index).all()
    images = faces.images(torch.arange(0, 13233, 500))
    assert images.dtype == torch.uint8
    assert images.shape[:2] == (27, 3)
    assert 60 < images.float().mean() < 180


@pytest.mark.real_data("omniglot")
def test_omniglot() -> None:
    omniglot = read("omniglot")
    assert omniglot.train.images.shape == (964 * 20, 1, 105, 105)
    assert omniglot.test.images.shape == (659 * 20, 1, 105, 105)
    assert omniglot.train.counts.tolist() == [20] * 964
    assert omniglot.test.counts.tolist() == [20] * 659
    assert len({name.split("/")[0] for name in omniglot.train.classes}) == 30
    assert len({name.split("/")[0] for name in omniglot.test.classes}) == 20
    assert ((omniglot.train.images == 0) | (omniglot.train.images == 255)).all()
    assert omniglot.mean[0] == pytest.approx(0.9221, abs=5e-5)  # mostly paper


@pytest.mark.real_data("modelnet40")
def test_modelnet40() -> None:
    clouds = read("modelnet40")
    assert (clouds.train.points.shape, clouds.test.points.shape) == ((9843, 1024, 3), (2468, 1024, 3))
    assert clouds.num_classes == 40
    counts = dict(zip(clouds.classes, clouds.train.counts.tolist(), strict=True))
    assert (counts["airplane"], counts["chair"], counts["bathtub"], counts["xbox"]) == (626, 889, 106, 103)
    assert sorted(set(clouds.test.counts.tolist())) == [20, 50, 86, 100]  # 20 in some classes, 100 in most
    radius = clouds.train.points.norm(dim=2).amax(1)
    assert radius.max() < 1 + 5e-3  # every cloud fits the unit ball
    assert radius.median() > 0.9


@pytest.mark.parametrize(
    ("name", "nodes", "edges", "features", "classes", "isolated"),
    [
        pytest.param("cora", 2708, 5278, 1433, 7, 0, marks=pytest.mark.real_data("cora")),
        pytest.param("citeseer", 3327, 4552, 3703, 6, 48, marks=pytest.mark.real_data("citeseer")),
        pytest.param("pubmed", 19717, 44324, 500, 3, 0, marks=pytest.mark.real_data("pubmed")),
    ],
)
def test_planetoid(name: str, nodes: int, edges: int, features: int, classes: int, isolated: int) -> None:
    graph = read(name)
    assert graph.features.shape == (nodes, features)
    assert graph.edges.shape == (2, 2 * edges)
    assert graph.num_classes == classes
    assert graph.labels[graph.train].bincount().tolist() == [20] * classes
    assert (len(graph.val), len(graph.test)) == (500, 1000)
    assert len(torch.cat([graph.train, graph.val, graph.test]).unique()) == 20 * classes + 1500
    degree = graph.edges[0].bincount(minlength=nodes)
    assert int((degree == 0).sum()) == isolated
    adjacency = graph.adjacency()
    assert adjacency.values().max() <= 1
    ones = torch.sparse.mm(adjacency, (degree + 1).float().sqrt().unsqueeze(1)).squeeze(1)
    torch.testing.assert_close(ones, (degree + 1).float().sqrt())  # √degree is its eigenvector for 1
