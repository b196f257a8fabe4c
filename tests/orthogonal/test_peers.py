"""Matrices that are computed together: who belongs to the group, when it is computed, what is never stale.

The map itself is replaced by exact solves, so that the bookkeeping can be watched on a CPU; ``test_warm`` has the map.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

import hypersphere as hs
from hypersphere.functional import orthogonalize
from hypersphere.functional.orthogonalize import FromLast, from_last
from hypersphere.orthogonal import _blocks, _peers

X = torch.randn(4, 6, generator=torch.Generator().manual_seed(1))


class Together:
    """Stands for WarmCayley: exact, and remembers its calls."""

    calls: list[int] = []
    made = 0

    def __init__(self, shapes: Sequence[torch.Size], device: torch.device) -> None:
        self.shapes, self.device = list(shapes), device
        self.failed = torch.zeros(len(shapes))
        self.forgotten = 0
        Together.made += 1

    def __call__(self, raw: Sequence[Tensor]) -> list[Tensor]:
        Together.calls.append(len(raw))
        return [orthogonalize(u, "cayley") for u in raw]

    def forget(self) -> None:
        self.forgotten += 1


@pytest.fixture(autouse=True)
def together(monkeypatch: pytest.MonkeyPatch) -> type[Together]:
    monkeypatch.setattr(_peers, "WarmCayley", Together)
    monkeypatch.setattr(_peers, "usable", lambda raw, family="": True)
    monkeypatch.setattr(_peers.Peers, "_look_later", lambda self, warm: None)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    Together.calls, Together.made = [], 0
    return Together


def network(tasks: int = 1) -> nn.Sequential:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 5), nn.Linear(5, 2))
    return hs.orthogonal.attach(model, "cayley", neurons="gaussian", tasks=tasks)  # type: ignore[return-value]


def train(model: nn.Module, steps: int) -> list[float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.002)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(X).square().sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_one_call_a_step_from_the_second_on(together: type[Together], monkeypatch: pytest.MonkeyPatch) -> None:
    losses = train(network(), 5)
    assert together.calls == [3] * 4
    assert together.made == 1
    monkeypatch.setattr(_peers, "usable", lambda raw, family="": False)
    assert losses == pytest.approx(train(network(), 5), rel=1e-5)


def test_never_stale(together: type[Together]) -> None:
    model = network()
    train(model, 3)
    raw = model[0].parametrizations.weight[0].active.raw[0]
    seen = [model[0].weight.detach().clone()]

    def check() -> None:
        r = orthogonalize(raw.detach(), "cayley")[0]
        now = model[0].weight.detach().clone()
        torch.testing.assert_close(now, model[0].parametrizations.weight.original @ r.mT)
        assert not torch.allclose(now, seen[-1])
        seen.append(now)

    with torch.no_grad():
        raw.mul_(2.0)
    check()
    state = model.state_dict()
    model.load_state_dict({**state, "0.parametrizations.weight.0.tasks.0.raw.0": torch.randn(1, 6, 6)})
    check()
    model(X).sum().backward()
    raw.data.mul_(0.5)  # behind autograd's back, after a backward pass
    check()
    raw.data = torch.randn(1, 6, 6)
    check()


def test_gradient_accumulation_and_two_losses(together: type[Together]) -> None:
    model = network()
    train(model, 2)
    model.zero_grad()
    model(X).sum().backward()
    model(X.flip(0)).square().sum().backward()
    found = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    (model(X).sum() + model(X.flip(0)).square().sum()).backward()
    torch.testing.assert_close(found, [p.grad for p in model.parameters() if p.grad is not None])


def test_matrices_that_are_no_longer_read_are_dropped_after_some_steps(together: type[Together]) -> None:
    model = network(tasks=2)
    train(model, 3)
    hs.orthogonal.set_task(model, 1)
    train(model, 12)
    assert together.calls[-1] == 3  # the other task's matrices are gone
    assert 6 in together.calls


def test_copies_have_groups_of_their_own(together: type[Together]) -> None:
    model = network()
    train(model, 3)
    copied = copy.deepcopy(model)
    assert copied[0].parametrizations.weight[0].active.peers is copied[2].parametrizations.weight[0].active.peers
    assert copied[0].parametrizations.weight[0].active.peers is not model[0].parametrizations.weight[0].active.peers
    assert train(model, 3) == pytest.approx(train(copied, 3))


def test_restart_and_failures(together: type[Together]) -> None:
    model = network()
    train(model, 3)
    assert not hs.orthogonal.unconverged(model)
    warm = model[0].parametrizations.weight[0].active.peers._warm
    warm.failed[1] = 1
    assert hs.orthogonal.unconverged(model)
    hs.orthogonal.restart(model)
    assert warm.forgotten == 1  # not once a layer


def test_a_bad_outcome_ends_the_group(together: type[Together], monkeypatch: pytest.MonkeyPatch) -> None:
    """What the device reported a step ago is read without waiting, and exact solves follow."""

    class Event:
        def query(self) -> bool:
            return True

    def look(self: _peers.Peers, warm: Together) -> None:
        self._watch = (torch.tensor([0.0, 5000.0]), Event())  # type: ignore[assignment]

    monkeypatch.setattr(_peers.Peers, "_look_later", look)
    model = network()
    train(model, 6)
    assert together.calls == [3]


def test_prepared_weights_are_computed_together_from_the_first_step_on(together: type[Together]) -> None:
    model = network()
    with hs.orthogonal.prepared(model):
        model(X).sum().backward()
    assert together.calls == [3]


def test_parameters_that_are_too_large_from_the_start_are_solved_exactly(together: type[Together]) -> None:
    model = network()
    with torch.no_grad():
        for parameter in hs.orthogonal.rotation_parameters(model):
            parameter.mul_(1e6)
    with hs.orthogonal.prepared(model):
        assert model(X).isfinite().all()
    assert together.calls == []


def test_prepared_weights_are_the_weights(together: type[Together]) -> None:
    model = network()
    wanted = network()
    with hs.orthogonal.prepared(model):
        assert model[0].weight is model[0].weight
        loss = model(X).square().sum()
    loss.backward()
    wanted(X).square().sum().backward()
    torch.testing.assert_close([p.grad for p in model.parameters()], [p.grad for p in wanted.parameters()])
    assert model[0].weight is not model[0].weight
    compiled = torch.compile(lambda x: model(x).square().sum(), backend="eager", fullgraph=True)
    with hs.orthogonal.prepared(model):
        torch.testing.assert_close(compiled(X), loss)
    with hs.orthogonal.prepared(nn.Linear(2, 2)):
        pass


class Last(FromLast):
    """Stands for a map that starts from the last step: exact, and NaN where ``far`` is set."""

    kind = "qr"
    far = False

    def start(self, index: int, u: Tensor) -> tuple[Tensor, ...]:
        return (orthogonalize(u, "gram_schmidt"),)

    def _from_last(self, raw: Sequence[Tensor]) -> list[tuple[Tensor, ...]]:
        self.failed.fill_(int(Last.far))
        return [(orthogonalize(u, "gram_schmidt") * (torch.nan if Last.far else 1.0),) for u in raw]


def test_what_a_graph_could_not_start_is_computed_before_the_rest_of_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recording, a replay whose matrices are NaN, and what settles it; the graphs themselves are a GPU's."""
    monkeypatch.setitem(_peers._FROM_LAST, "gram_schmidt", Last)
    monkeypatch.setattr(_blocks, "usable", lambda raw, family: True)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(synchronize=lambda: None))
    torch.manual_seed(0)
    model = hs.orthogonal.attach(nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 5), nn.Linear(5, 2)), "gram_schmidt")
    blocks = [model[0].parametrizations.weight[0].active, model[1].parametrizations.weight[0].active]
    for one in blocks:
        one.join_peers()
    peers = blocks[0].peers
    assert not peers.can_be_recorded
    assert peers.solve(blocks[0]) is not None  # the first is the start
    assert peers.can_be_recorded
    monkeypatch.setattr(from_last, "is_captured", lambda x: True)
    monkeypatch.setattr(Last, "far", True)
    flag = peers.record().float()
    monkeypatch.setattr(from_last, "is_captured", lambda x: False)
    recorded = [peers.solve(one)[0][0] for one in blocks]  # type: ignore[index]
    assert all(r.isnan().all() for r in recorded)
    maps = hs.orthogonal.Recorded(None, [peers], flag, flag.clone())  # type: ignore[arg-type]
    assert not maps.found()  # the host has not been told yet
    assert maps.found(wait=True)
    assert maps.settle()
    assert not maps.settle()
    assert int(maps.failed) == 0
    for one, r in zip(blocks, recorded, strict=True):
        torch.testing.assert_close(r, orthogonalize(one.raw[0].detach(), "gram_schmidt"))
    assert not hs.orthogonal.unconverged(model)
