"""R is computed once per step however often the weight is read, and never stale."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.utils.checkpoint import checkpoint

import hypersphere as hs
from hypersphere.functional import Orthogonalizer, register_orthogonalizer
from hypersphere.functional.orthogonalize import algorithms as exact


@pytest.fixture
def computed() -> Iterator[list[int]]:
    """Grows by one with every computation of a Cayley matrix."""
    calls: list[int] = []

    def forward(u: Tensor) -> tuple[Tensor, ...]:
        calls.append(1)
        return exact.cayley(u)

    used = register_orthogonalizer("cayley", "cpu", Orthogonalizer(forward, exact.cayley_backward))
    yield calls
    register_orthogonalizer("cayley", "cpu", used)


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return hs.orthogonal.attach(nn.Sequential(nn.Linear(5, 5), nn.Linear(5, 2)), "cayley")  # type: ignore[return-value]


X = torch.randn(4, 5, generator=torch.Generator().manual_seed(1))


def test_once_per_step(computed: list[int]) -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        computed.clear()
        x = X
        for _ in range(4):
            x = model[0](x)
        loss = model[1](x).square().sum() + model[0].weight.norm()  # a regulariser reads it as well
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert len(computed) == 1, step


def test_gradient_is_that_of_separate_computations() -> None:
    def gradient(cached: bool) -> Tensor:
        model = network()
        raw = model[0].parametrizations.weight[0].active.raw[0]
        if not cached:
            type(model[0].parametrizations.weight[0].active.method).kept = False
        try:
            model(torch.tanh(model[0](X))).square().sum().backward()
        finally:
            type(model[0].parametrizations.weight[0].active.method).kept = True
        assert raw.grad is not None
        return raw.grad

    torch.testing.assert_close(gradient(True), gradient(False))


def test_never_stale(computed: list[int]) -> None:
    model = network()
    raw = model[0].parametrizations.weight[0].active.raw[0]
    seen = [model[0].weight.detach().clone()]

    def changed() -> None:
        seen.append(model[0].weight.detach().clone())
        assert not torch.allclose(seen[-1], seen[-2])

    with torch.no_grad():
        raw.mul_(2.0)
    changed()
    model.load_state_dict({**model.state_dict(), "0.parametrizations.weight.0.tasks.0.raw.0": torch.randn(1, 5, 5)})
    changed()
    raw.data = torch.randn(1, 5, 5)
    changed()
    model[0].weight.sum().backward()
    raw.data.mul_(0.5)  # behind autograd's back, as some optimizers do after backward
    changed()
    with torch.no_grad():
        raw.data.mul_(0.5)  # as weight averaging does between evaluations
        changed()
        raw.data.mul_(0.5)
        changed()


def test_two_losses_with_a_backward_each() -> None:
    model = network()
    first, second = model(X).square().sum(), model(X.flip(0)).sin().sum()
    first.backward()
    second.backward()
    separate = model[0].parametrizations.weight[0].active.raw[0].grad.clone()
    model.zero_grad()
    (model(X).square().sum() + model(X.flip(0)).sin().sum()).backward()
    torch.testing.assert_close(separate, model[0].parametrizations.weight[0].active.raw[0].grad)


def test_gradient_accumulation_and_retained_graphs() -> None:
    model = network()
    for _ in range(3):
        model(X).sum().backward()
    loss = model(X).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    accumulated = model[0].parametrizations.weight[0].active.raw[0].grad.clone()
    model.zero_grad()
    (5 * model(X).sum()).backward()
    torch.testing.assert_close(accumulated, model[0].parametrizations.weight[0].active.raw[0].grad)


def test_checkpointing() -> None:
    model = network()
    model(X).square().sum().backward()
    expected = model[0].parametrizations.weight[0].active.raw[0].grad.clone()
    model.zero_grad()
    hidden = checkpoint(lambda x: model[0](model[0](x)), X, use_reentrant=False)
    assert hidden is not None
    model[1](checkpoint(model[0], X, use_reentrant=False)).square().sum().backward()
    torch.testing.assert_close(model[0].parametrizations.weight[0].active.raw[0].grad, expected)


def test_functional_call_uses_the_given_parameters(computed: list[int]) -> None:
    model = network()
    parameters = {name: p.detach().clone() for name, p in model.named_parameters()}
    name = next(name for name in parameters if ".raw." in name)
    before = model(X)
    parameters[name] = 2 * parameters[name]
    assert not torch.allclose(torch.func.functional_call(model, parameters, X), before)
    torch.testing.assert_close(model(X), before)

    def loss(parameters: dict[str, Tensor]) -> Tensor:
        return torch.func.functional_call(model, parameters, X).square().sum()

    parameters = {name: p.detach() for name, p in model.named_parameters()}
    model(X).square().sum().backward()
    torch.testing.assert_close(torch.func.grad(loss)(parameters)[name], dict(model.named_parameters())[name].grad)


def test_torchs_own_cache_serves_evaluation(computed: list[int]) -> None:
    model = network().eval()
    computed.clear()
    with torch.no_grad(), parametrize.cached():
        for _ in range(3):
            model(X)
    assert len(computed) == 1


def test_data_parallel_replicas_do_not_share() -> None:
    model = network()
    kept = model(X)
    replica = model[0].parametrizations.weight[0].active._replicate_for_data_parallel()
    assert replica.matrices()[0].shape == (1, 5, 5)
    torch.testing.assert_close(model(X), kept)


def test_nothing_is_held_after_backward() -> None:
    model = network()
    blocks = model[0].parametrizations.weight[0].active
    model(X).sum().backward()
    assert blocks._kept is None
    with torch.no_grad():
        model(X)
    assert blocks._kept is None
