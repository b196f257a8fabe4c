"""Beside pytorch-metric-learning: its call convention, its miners, its samplers, and its values where it is right."""

import copy
import math
import pickle

import pytest
import torch

import hypersphere as hs

losses = pytest.importorskip("pytorch_metric_learning.losses")
from pytorch_metric_learning import miners, samplers  # noqa: E402
from pytorch_metric_learning.utils import loss_and_miner_utils as lmu  # noqa: E402

from hypersphere.losses._inputs import miner_weights  # noqa: E402

N, D, C = 24, 8, 6


@pytest.fixture
def batch():
    return torch.randn(N, D), torch.randint(0, C, (N,))


def same_vectors(head, theirs):
    with torch.no_grad():
        head.weight.copy_(theirs.W.T)
    return head


PAIRS = {
    "arcface": (
        lambda: hs.losses.ArcFace(D, C, margin=math.radians(28.6), scale=64.0),
        lambda: losses.ArcFaceLoss(C, D, margin=28.6, scale=64),
    ),
    "cosface": (
        lambda: hs.losses.CosFace(D, C, margin=0.35, scale=64.0),
        lambda: losses.CosFaceLoss(C, D, margin=0.35, scale=64),
    ),
    "sphereface": (lambda: hs.losses.SphereFace(D, C), lambda: losses.SphereFaceLoss(C, D, margin=4, scale=1)),
    "l_softmax": (lambda: hs.losses.LSoftmax(D, C), lambda: losses.LargeMarginSoftmaxLoss(C, D, margin=4, scale=1)),
    "s_softmax": (lambda: hs.losses.SSoftmax(D, C, scale=20.0), lambda: losses.NormalizedSoftmaxLoss(C, D, 0.05)),
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("miner", [None, miners.MultiSimilarityMiner(), miners.TripletMarginMiner()])
def test_same_loss_with_and_without_a_miner(name, miner, batch):
    ours, theirs = PAIRS[name][0](), PAIRS[name][1]()
    same_vectors(ours, theirs)
    x, y = batch
    mined = None if miner is None else miner(x, y)
    assert ours(x, y, mined).item() == pytest.approx(theirs(x, y, mined).item(), rel=2e-5)


@pytest.mark.parametrize("miner", [miners.MultiSimilarityMiner(), miners.BatchHardMiner(), miners.AngularMiner()])
def test_miner_weights(miner, batch):
    x, y = batch
    mined = miner(x, y)
    torch.testing.assert_close(miner_weights(mined, N, x), lmu.convert_to_weights(mined, y, x.dtype))


def test_nothing_mined_weighs_all_alike(batch):
    x, y = batch
    empty = (torch.zeros(0, dtype=torch.int64),) * 3
    head = hs.losses.ArcFace(D, C)
    assert head(x, y, empty) == head(x, y)
    for wrong in (torch.arange(3), [[0], [1], [2]], (torch.rand(2),) * 3):
        with pytest.raises(TypeError, match="miner returns"):
            head(x, y, wrong)


def test_logits_by_their_name(batch):
    x, _ = batch
    for name in ("arcface", "cosface", "sphereface", "l_softmax"):
        ours, theirs = PAIRS[name][0](), PAIRS[name][1]()
        torch.testing.assert_close(same_vectors(ours, theirs).get_logits(x), theirs.get_logits(x), rtol=1e-4, atol=1e-4)


def test_copies_and_pickles(batch):
    loss = hs.losses.metric_learning(hs.losses.ArcFace(D, C)).eval()
    for other in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        torch.testing.assert_close(other(*batch), loss(*batch))
        assert type(other).__name__ == type(loss).__name__
        assert not other.training
        assert other.head.weight is not loss.head.weight


def test_training_with_a_sampler_and_a_miner():
    y = torch.arange(C).repeat_interleave(20)
    x = torch.randn(C, D)[y] + 0.3 * torch.randn(len(y), D)
    sampler = samplers.MPerClassSampler(y, m=4, length_before_new_iter=len(y))
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=24, sampler=sampler)
    net, head = torch.nn.Linear(D, D), hs.losses.CosFace(D, C)
    optimizer = torch.optim.Adam([*net.parameters(), *head.parameters()], lr=0.02)
    miner = miners.MultiSimilarityMiner()
    for _ in range(12):
        for features, labels in loader:
            embeddings = net(features)
            optimizer.zero_grad()
            head(embeddings, labels, miner(embeddings, labels)).backward()
            optimizer.step()
    assert (head.logits(net(x)).argmax(1) == y).float().mean() > 0.95
