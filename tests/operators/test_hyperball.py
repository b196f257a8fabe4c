"""Optimizers on spheres against the formula in float64, and as parts of an ordinary training."""

import copy
import io
import os

import pytest
import torch
import torch.multiprocessing as mp
from torch import nn

import hypersphere as hs
from hypersphere.optim.muon import Muon

MAKERS = {
    "sgd": lambda params: hs.optim.hyperball(torch.optim.SGD(params, lr=0.1, momentum=0.9)),
    "neurons": lambda params: hs.optim.hyperball(torch.optim.RMSprop(params, lr=torch.tensor(0.1)), per="neuron"),
    "adamh": lambda params: hs.optim.AdamH(params, lr=0.1),
    "muonh": lambda params: hs.optim.MuonH(params, lr=0.1, per="neuron"),
}


def filters(seed=0, dtype=torch.float32):
    return nn.Parameter(torch.randn(4, 3, 2, 2, generator=torch.Generator().manual_seed(seed)).to(dtype))


def steps(optimizer, weight, count=3, first=0):
    for number in range(first, first + count):
        weight.grad = filters(number + 1).detach().to(weight.dtype)
        optimizer.step()
    return weight.detach().clone()


@pytest.mark.parametrize("per", ["matrix", "neuron"])
def test_the_step_is_the_formula(per):
    """R·N(W − η·R·N(u)), with the u of Adam computed beside it."""
    weight, other = filters(dtype=torch.float64), filters(dtype=torch.float64)
    optimizer = hs.optim.AdamH([weight], lr=0.2, betas=(0.8, 0.9), per=per)
    plain = torch.optim.Adam([other], lr=1.0, betas=(0.8, 0.9))
    shape = (1, -1) if per == "matrix" else (4, -1)
    radius = weight.detach().reshape(shape).norm(dim=1, keepdim=True)
    w = weight.detach().reshape(shape).clone()
    for number in range(3):
        before = other.detach().clone()
        steps(plain, other, 1, number)
        u = (before - other.detach()).reshape(shape)
        moved = w - 0.2 * radius * u / u.norm(dim=1, keepdim=True)
        w = radius * moved / moved.norm(dim=1, keepdim=True)
        steps(optimizer, weight, 1, number)
        torch.testing.assert_close(weight.detach().reshape(shape), w)
        other.data.copy_(weight.data)  # Adam's u does not depend on the weight


@pytest.mark.parametrize("name", MAKERS)
def test_lengths_stay_and_checkpoints_and_copies_continue(name):
    weight = filters()
    optimizer = MAKERS[name]([weight])
    shape = (4, -1) if name in ("neurons", "muonh") else (1, -1)
    before = weight.detach().reshape(shape).norm(dim=1)
    middle = steps(optimizer, weight)
    torch.testing.assert_close(middle.reshape(shape).norm(dim=1), before)
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    again = nn.Parameter(middle.clone())
    other = MAKERS[name]([again])
    other.load_state_dict(torch.load(io.BytesIO(file.getvalue()), weights_only=True))
    copied, third = copy.deepcopy((weight, optimizer)) if name.endswith("h") else (None, None)
    end = steps(optimizer, weight, first=3)
    assert torch.equal(end, steps(other, again, first=3))
    assert third is None or torch.equal(end, steps(third, copied, first=3))
    assert not torch.equal(end, middle)


def test_the_rest_of_a_network_gets_the_plain_step():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    twin = copy.deepcopy(net)
    frozen = net[2].weight.detach().clone()
    optimizer = hs.optim.hyperball(torch.optim.SGD(net.parameters(), lr=0.1), [net[0].weight])
    plain = torch.optim.SGD(twin.parameters(), lr=0.1)
    x = torch.randn(5, 4)
    for one, step in ((net, optimizer), (twin, plain)):
        one(x).square().sum().backward()
        step.step()
    assert torch.equal(net[2].weight, twin[2].weight)
    assert torch.equal(net[0].bias, twin[0].bias)
    assert not torch.equal(net[2].weight, frozen)
    assert not torch.equal(net[0].weight, twin[0].weight)
    before = net[0].weight.detach().clone()
    optimizer.zero_grad(set_to_none=True)
    optimizer.step()  # no gradient, no step
    net[0].weight.grad = torch.zeros_like(before)
    optimizer.step()  # a step of nothing
    assert torch.equal(net[0].weight, before)


def test_half_precision_and_rates_of_a_schedule():
    weight = filters(dtype=torch.bfloat16)
    optimizer = hs.optim.AdamH([weight], lr=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.0 if step else 1.0)
    before = steps(optimizer, weight, 1)
    schedule.step()
    torch.testing.assert_close(steps(optimizer, weight, 1, 1), before, rtol=0.01, atol=0.01)  # η = 0 turns nothing


def test_a_step_that_rounding_swallows_turns_nothing_at_random():
    weight = filters()
    before = weight.detach().clone()
    weight.grad = 1e-7 * filters(1).detach()
    hs.optim.hyperball(torch.optim.SGD([weight], lr=0.01)).step()
    assert (weight.detach() - before).norm() < 0.002 * before.norm()


def test_groups_have_their_own_lengths():
    one, other = filters(), filters()
    optimizer = hs.optim.AdamH([{"params": [one], "per": "neuron"}, {"params": [other], "lr": 0.2}], lr=0.1)
    before = one.detach().flatten(1).norm(dim=1)
    one.grad = other.grad = filters(1).detach()
    optimizer.step()
    torch.testing.assert_close(one.detach().flatten(1).norm(dim=1), before)
    torch.testing.assert_close(other.detach().norm(), before.norm())
    assert not torch.allclose(other.detach().flatten(1).norm(dim=1), before)


def test_weights_that_are_added_later_are_checked_too():
    optimizer = hs.optim.AdamH([filters()])
    optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(2, 2))]})
    with pytest.raises(ValueError, match="is zero, without a direction"):
        optimizer.step()


def test_mistakes_say_what_to_do():
    vector, weight, zero = nn.Parameter(torch.ones(3)), filters(), nn.Parameter(torch.zeros(2, 2))
    for build, message in (
        (lambda: hs.optim.hyperball(torch.optim.SGD([vector], 0.1)), "the optimizer has none"),
        (lambda: hs.optim.hyperball(torch.optim.SGD([vector, weight], 0.1), [vector]), "two or more dimensions"),
        (lambda: hs.optim.hyperball(torch.optim.SGD([vector], 0.1), [weight]), "does not have"),
        (lambda: hs.optim.hyperball(torch.optim.AdamW([weight])), "weight_decay=0.01 has no effect"),
        (lambda: hs.optim.AdamH([zero]), "is zero, without a direction"),
        (lambda: hs.optim.AdamH([weight], per="row"), "per='row' is unknown"),
        (lambda: hs.optim.AdamH([{"params": [weight], "per": "row"}]), "per='row' is unknown"),
        (lambda: hs.optim.hyperball(hs.optim.AdamH([weight])), "call hyperball once"),
        (lambda: hs.optim.MuonH([weight, vector]), "Muon takes weights of two or more dimensions"),
        (lambda: hs.optim.MuonH([weight], lr=-1.0), "lr=-1.0 must be finite and ≥ 0"),
        (lambda: hs.optim.MuonH([{"params": [weight], "momentum": 2.0}]), "momentum=2.0 is a share"),
    ):
        with pytest.raises(ValueError, match=message):
            build()
    with pytest.raises(TypeError, match="not list"):
        hs.optim.hyperball([weight])
    assert isinstance(hs.optim.MuonH([weight]), Muon)


@pytest.mark.parametrize("name", MAKERS)
def test_a_weight_that_others_rescale_turns_no_further(name):
    """Its length comes back with the next step, and the step is at most η of its angle."""
    weight = filters()
    shape = (4, -1) if name in ("neurons", "muonh") else (1, -1)
    optimizer, radius = MAKERS[name]([weight]), weight.detach().reshape(shape).norm(dim=1)
    for number, factor in enumerate((1.0, 0.01, 300.0)):
        with torch.no_grad():
            weight.mul_(factor)
        before = weight.detach().reshape(shape).double()
        after = steps(optimizer, weight, 1, number).reshape(shape)
        torch.testing.assert_close(after.norm(dim=1), radius)
        turned = torch.nn.functional.cosine_similarity(before, after.double()).clamp(-1, 1).acos()
        assert bool((turned <= 0.1 + 1e-3).all())
        assert bool((turned > 0.01).all())


@pytest.mark.parametrize("name", MAKERS)
def test_a_weight_that_others_set_to_zero_moves_again(name):
    weight = filters()
    shape = (4, -1) if name in ("neurons", "muonh") else (1, -1)
    optimizer, radius = MAKERS[name]([weight]), weight.detach().reshape(shape).norm(dim=1)
    steps(optimizer, weight, 1)
    with torch.no_grad():
        weight.zero_()
    torch.testing.assert_close(steps(optimizer, weight, 1, 1).reshape(shape).norm(dim=1), radius)


SHARDED = {
    "matrix": lambda params: hs.optim.AdamH(params, lr=0.1),
    "neuron": lambda params: hs.optim.AdamH(params, lr=0.1, per="neuron"),
    "muon": lambda params: hs.optim.MuonH(params, lr=0.1),
}


def rows(count, seed):
    return torch.randn(count, 5, generator=torch.Generator().manual_seed(seed))


def shared(rank, world, port, path):
    from torch.distributed import destroy_process_group, init_process_group
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    init_process_group("gloo", rank=rank, world_size=world)
    try:
        mesh, found = init_device_mesh("cpu", (world,)), {}
        for name, make in SHARDED.items():
            weights = [nn.Parameter(distribute_tensor(rows(count, 0), mesh, [Shard(0)])) for count in (4, 1)]
            optimizer = make(weights)
            for step in (1, 2):
                for weight in weights:
                    weight.grad = distribute_tensor(rows(len(weight), step), mesh, [Shard(0)])
                optimizer.step()
            found[name] = [weight.detach().full_tensor() for weight in weights]
        if rank == 0:
            torch.save(found, path)
    finally:
        destroy_process_group()


@pytest.mark.slow
def test_a_process_may_hold_no_row_of_a_weight(tmp_path):
    """As FSDP2 splits four rows over three processes, two to each, or a single one."""
    mp.start_processes(shared, (3, 20000 + os.getpid() % 20000, tmp_path / "found.pt"), 3, start_method="fork")
    found = torch.load(tmp_path / "found.pt", weights_only=True)
    for name, make in SHARDED.items():
        weights = [nn.Parameter(rows(count, 0)) for count in (4, 1)]
        optimizer = make(weights)
        for step in (1, 2):
            for weight in weights:
                weight.grad = rows(len(weight), step)
            optimizer.step()
        close = {"atol": 0.02, "rtol": 0.02} if name == "muon" else {}  # in bfloat16
        torch.testing.assert_close(found[name], [weight.detach() for weight in weights], **close)
