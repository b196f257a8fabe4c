"""An attack leaves the model as it was (modes, gradients, requires_grad, buffers) and works wherever it is called."""

import copy

import pytest
import torch
from torch import nn

import hypersphere as hs

A = hs.attacks
ATTACKS = {
    "fgsm": lambda net, x, y: A.fgsm(net, x, y, 0.1, clip=(0.0, 1.0)),
    "bim": lambda net, x, y: A.bim(net, x, y, 0.1, iterations=3, clip=(0.0, 1.0), random_start=True),
    "deepfool": lambda net, x, y: A.deepfool(net, x, y, clip=(0.0, 1.0), iterations=3),
}


def make_network():
    net = nn.Sequential(
        hs.nn.DecoupledConv2d(3, 5, 3, magnitude="tanh"),
        nn.BatchNorm2d(5),
        nn.ReLU(),
        nn.Dropout(0.1),
        nn.Flatten(),
        nn.Linear(80, 4),
    )
    net[-1].bias.requires_grad_(False)
    net[0].weight.grad = torch.ones_like(net[0].weight)
    return net


@pytest.fixture
def batch():
    return torch.rand(6, 3, 6, 6), torch.tensor([0, 1, 2, 3, 0, 1])


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("training", [False, True])
def test_nothing_of_the_model_changes(attack, training, batch):
    net = make_network().train(training)
    net[1].eval()
    net[1].momentum = 0.7
    before = copy.deepcopy(net)
    for now, then in zip(net.parameters(), before.parameters(), strict=True):
        then.grad = None if now.grad is None else now.grad.clone()
    x, labels = batch
    kept = x.clone()
    found = ATTACKS[attack](net, x, labels)
    assert [part.training for part in net.modules()] == [part.training for part in before.modules()]
    for (name, now), then in zip(net.named_parameters(), before.parameters(), strict=True):
        assert torch.equal(now, then), name
        assert now.requires_grad == then.requires_grad
        assert (now.grad is None) == (then.grad is None)
        assert now.grad is None or torch.equal(now.grad, then.grad)
    for (name, now), then in zip(net.named_buffers(), before.buffers(), strict=True):
        assert torch.equal(now, then), name
    assert torch.equal(x, kept)
    assert x.grad is None
    assert not x.requires_grad
    assert not found.requires_grad
    assert not torch.equal(found, x)


def test_training_mode_statistics_change_only_when_asked(batch):
    net = make_network().train()
    before = net[1].running_mean.clone()
    A.fgsm(net, *batch, 0.1, clip=None)
    assert torch.equal(net[1].running_mean, before)
    assert net[0].magnitude.num_batches_tracked == 0
    A.bim(net, *batch, 0.1, iterations=3, clip=None, update_statistics=True)
    assert not torch.equal(net[1].running_mean, before)
    assert net[1].num_batches_tracked == 3
    assert net[0].magnitude.num_batches_tracked == 3


def test_training_mode_is_attacked_in_training_mode(batch):
    """BatchNorm by the batch's own statistics, as the step that follows will see it."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(108, 9), nn.BatchNorm1d(9), nn.ReLU(), nn.Linear(9, 4)).train()
    x, labels = batch
    leaf = x.clone().requires_grad_()
    nn.functional.cross_entropy(copy.deepcopy(net)(leaf), labels).backward()
    found = A.fgsm(net, x, labels, 0.1, clip=None, loss="cross_entropy")
    torch.testing.assert_close(found, x + 0.1 * leaf.grad.sign())


def test_a_heads_annealing_does_not_advance(batch):
    net, x = nn.Sequential(nn.Flatten(), nn.Linear(108, 8)), batch[0]
    head = hs.losses.ASoftmax(8, 4, annealing=hs.losses.Annealing()).train()
    before = {name: buffer.clone() for name, buffer in head.named_buffers()}
    A.bim(net, x, batch[1], 0.1, clip=None, loss=head)
    assert before
    assert all(torch.equal(buffer, before[name]) for name, buffer in head.named_buffers())


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_works_where_gradients_are_off(attack, context, batch):
    net = make_network().eval()
    torch.manual_seed(1)
    expected = ATTACKS[attack](net, *batch)
    with context():
        torch.manual_seed(1)
        x, labels = (tensor.clone() for tensor in batch)
        torch.testing.assert_close(ATTACKS[attack](net, x, labels), expected)


def test_a_graph_made_before_survives(batch):
    """The attack writes nothing that an earlier forward pass has saved."""
    net = make_network().train()
    loss = net(batch[0]).sum()
    for attack in ATTACKS.values():
        attack(net, *batch)
    loss.backward()
    assert net[0].weight.grad.isfinite().all()


def test_orthogonal_training_goes_on(batch):
    net = nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(80, 4))
    hs.orthogonal.attach(net, "cayley")
    found = A.fgsm(net, *batch, 0.1, clip=(0.0, 1.0))
    nn.functional.cross_entropy(net(found), batch[1]).backward()
    trained = [p for p in net.parameters() if p.requires_grad]
    assert trained
    assert all(p.grad is not None for p in trained)


def test_any_function_is_a_model(batch):
    weight = torch.randn(108, 4)
    found = A.fgsm(lambda x: x.flatten(1) @ weight, *batch, 0.1, clip=(0.0, 1.0))
    net = nn.Sequential(nn.Flatten(), nn.Linear(108, 4, bias=False))
    with torch.no_grad():
        net[1].weight.copy_(weight.T)
    assert torch.equal(found, A.fgsm(net, *batch, 0.1, clip=(0.0, 1.0)))
