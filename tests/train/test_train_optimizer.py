"""Which optimizer trains what, at which rate."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from tiny import tiny
from torch import nn
from torch.optim import SGD, Adam, AdamW

from hypersphere import orthogonal, register
from hypersphere._core.registries import OPTIMIZERS
from hypersphere.optim import OrthogonalSGD
from hypersphere.optim.muon import Muon
from hypersphere.runs import attach
from hypersphere.train import OptimConfig, OrthogonalConfig, ScheduleConfig
from hypersphere.train.build import make_parts, make_step
from hypersphere.train.distributed import team
from hypersphere.train.optimizer import Optimizers, make_optimizers

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def rotated(seed=0):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
    generator = torch.Generator().manual_seed(seed)
    return orthogonal.attach(model, "gradient", generator=generator)


def rotations(model):
    return [p for name, p in model.named_parameters() if "parametrizations" in name]


def backward(model):
    torch.manual_seed(7)
    model(torch.randn(16, 6)).square().mean().backward()


@pytest.mark.parametrize(("name", "kind"), [("sgd", SGD), ("adam", Adam), ("adamw", AdamW), ("muon", Muon)])
def test_r_has_its_own_optimizer_and_everything_is_trained_once(name, kind):
    model = rotated()
    config = OptimConfig(name=name, lr=0.3, orthogonal_lr=0.05, momentum=0.8, weight_decay=1e-3)
    optimizers = make_optimizers(config, model, [1.0, 0.1], CPU)
    own = optimizers.parts[-1]
    assert isinstance(own, OrthogonalSGD)
    assert not any(isinstance(part, OrthogonalSGD) for part in optimizers.parts[:-1])
    (group,) = own.param_groups
    assert [id(p) for p in group["params"]] == [id(p) for p in rotations(model)]
    assert (group["lr"], group["momentum"], group["weight_decay"]) == (0.05, 0.8, 0.0)
    assert (group["solver"], group["iterations"], group["bounded"]) == ("fixed_point", 2, True)
    trained = [id(p) for part in optimizers.parts for group in part.param_groups for p in group["params"]]
    assert sorted(trained) == sorted(id(p) for p in model.parameters())
    assert any(isinstance(part, kind) for part in optimizers.parts) or name == "muon"  # no plain hidden matrix is left
    assert optimizers.rate(0) == (1e-3 if name == "muon" else 0.3)
    assert not optimizers.capturable
    optimizers.schedule(torch.tensor(1), 1)
    assert group["lr"] == pytest.approx(0.005)


def test_a_step_is_adams_on_the_others_and_a_rotation_of_r():
    model, twin = rotated(), rotated()
    optimizers = make_optimizers(OptimConfig(lr=0.01, orthogonal_lr=0.1), model, [1.0] * 5, CPU)
    first = [r.detach().clone() for r in rotations(model)]
    mine = {id(r) for r in rotations(twin)}
    adam = Adam([p for p in twin.parameters() if id(p) not in mine], 0.01)
    descent = OrthogonalSGD(rotations(twin), 0.1, 0.9, solver="fixed_point", bounded=True)
    for step in range(5):
        optimizers.schedule(torch.tensor(step), step)
        optimizers.zero_grad()
        backward(model)
        optimizers.step()
        twin.zero_grad()
        backward(twin)
        adam.step()
        descent.step()
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), twin.parameters(), strict=True))
    for r, start in zip(rotations(model), first, strict=True):
        assert (r.mT @ r - torch.eye(r.shape[-1])).abs().max() < 1e-5
        assert (r - start).abs().max() > 1e-3


def test_a_bad_gradient_of_r_changes_nothing():
    model = rotated()
    optimizers = make_optimizers(OptimConfig(), model, [1.0], CPU)
    backward(model)
    rotations(model)[0].grad.fill_(float("nan"))
    before = [p.detach().clone() for p in model.parameters()]
    with pytest.raises(RuntimeError, match="nothing was changed"):
        optimizers.step()
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_orthogonal_sgd_trains_everything_at_one_rate():
    optimizers = make_optimizers(OptimConfig(name="orthogonal_sgd", lr=0.3), rotated(), [1.0], CPU)
    (part,) = optimizers.parts
    assert isinstance(part, OrthogonalSGD)
    assert {(group["lr"], group["solver"], group["bounded"]) for group in part.param_groups} == {(0.3, "solve", False)}


@pytest.mark.parametrize("method", ["cayley", "lowdin", "relaxed"])
@pytest.mark.parametrize("name", ["sgd", "adam", "adamw", "muon", "orthogonal_sgd"])
def test_r_has_its_own_rate_under_every_method(method, name):
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
    orthogonal.attach(model, method, neurons="keep")
    config = OptimConfig(name=name, lr=0.3, orthogonal_lr=0.05, weight_decay=1e-3)
    optimizers = make_optimizers(config, model, [1.0, 0.1], CPU)
    turning = {id(p) for p in orthogonal.rotation_parameters(model)}
    rates = {}
    for part in optimizers.parts:
        for group in part.param_groups:
            for parameter in group["params"]:
                assert id(parameter) not in rates
                rates[id(parameter)] = group["lr"]
    assert len(rates) == len(list(model.parameters()))
    assert {rate for key, rate in rates.items() if key in turning} == {0.05}
    assert {rate for key, rate in rates.items() if key not in turning} == {1e-3 if name == "muon" else 0.3}
    optimizers.schedule(torch.tensor(1), 1)
    groups = [group for part in optimizers.parts for group in part.param_groups]
    assert {round(group["lr"], 6) for group in groups} == {0.005, 1e-4 if name == "muon" else 0.03}


def test_r_has_the_common_rate_unless_it_is_given_one():
    model = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 3))
    orthogonal.attach(model, "cayley", neurons="keep")
    optimizers = make_optimizers(OptimConfig(lr=0.3), model, [1.0], CPU)
    assert {group["lr"] for part in optimizers.parts for group in part.param_groups} == {0.3}
    (own,) = make_optimizers(OptimConfig(lr=0.3), rotated(), [1.0], CPU).parts[-1].param_groups
    assert own["lr"] == 0.02


def test_a_fixed_r_needs_no_optimizer():
    model = rotated()
    for r in rotations(model):
        r.requires_grad_(False)
    (part,) = make_optimizers(OptimConfig(), model, [1.0], CPU).parts
    assert isinstance(part, Adam)


def test_undecayed_parameters():
    model = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 3))
    config = OptimConfig(name="sgd", weight_decay=0.1, undecayed=("1.*",))
    (part,) = make_optimizers(config, model, [1.0], CPU).parts
    decays = {id(p): group["weight_decay"] for group in part.param_groups for p in group["params"]}
    assert {name: decays[id(p)] for name, p in model.named_parameters()} == {
        "0.weight": 0.1,
        "0.bias": 0.0,
        "1.weight": 0.0,
        "1.bias": 0.0,
    }
    (part,) = make_optimizers(replace(config, decay="all"), model, [1.0], CPU).parts
    decays = {id(p): group["weight_decay"] for group in part.param_groups for p in group["params"]}
    assert [decays[id(p)] for p in model.parameters()] == [0.1, 0.1, 0.0, 0.0]
    with pytest.raises(ValueError, match=r"optim.undecayed 'last\.\*' matches no parameter of 0.weight"):
        make_optimizers(replace(config, undecayed=("last.*",)), model, [1.0], CPU)


@pytest.mark.parametrize("field", ["lr", "orthogonal_lr"])
def test_rates_are_positive(field):
    with pytest.raises(ValueError, match=f"optim.{field}"):
        OptimConfig(**{field: 0.0})


@pytest.mark.parametrize(("name", "method"), [("adam", "gradient"), ("adamh", None), ("muonh", None)])
def test_a_stopped_training_goes_on_exactly(name, method, tmp_path):
    """Momentum of R, Adam's state of the others, and the schedule of both; lengths that stay, to the last bit."""
    optim = OptimConfig(name=name, lr=5e-3, orthogonal_lr=None if method is None else 0.1, weight_decay=1e-3)
    settings = {"orthogonal": OrthogonalConfig(method=method), "optim": optim}
    config = tiny(tmp_path, "whole", 12, schedule=ScheduleConfig(steps=12, milestones=(6, 9)), **settings)
    whole, half = (make_step(make_parts(config, 0, team("cpu"))) for _ in range(2))
    go(whole, 12)
    go(half, 8)
    torch.save(half.parts.optimizers.state_dict(), tmp_path / "state.pt")
    parts = make_parts(config, 0, team("cpu"))
    parts.objective.load_state_dict(half.parts.objective.state_dict())
    parts.optimizers.load_state_dict(torch.load(tmp_path / "state.pt"))
    go(make_step(parts, 8), 12)
    expected = whole.parts.objective.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in parts.objective.state_dict().items())


@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_states_of_files_take_the_layout_of_the_parameter(name):
    """Files hold contiguous tensors; a fused optimizer refuses a momentum whose layout is not that of its parameter."""
    model = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    optimizers = make_optimizers(OptimConfig(name=name), model, [1.0], CPU)
    model(torch.randn(2, 3, 5, 5)).sum().backward()
    optimizers.step()
    kept = optimizers.parts[0].state[model.weight]
    moments = {key: value.clone() for key, value in kept.items() if value.shape == model.weight.shape}
    states = optimizers.state_dict()
    for state in states[0].values():
        state |= {key: value.contiguous() for key, value in state.items()}
    optimizers.load_state_dict(states)
    loaded = optimizers.parts[0].state[model.weight]
    assert moments
    for key, value in moments.items():
        assert torch.equal(loaded[key], value)
        assert loaded[key].stride() == model.weight.stride()


def go(step, end):
    while step.step < end:
        step()


def test_neurons_that_the_network_starts_with():
    """``orthogonal.neurons='keep'``: v is what ``model.init`` drew; else one Gaussian for all (thesis Table 7.3)."""
    columns = {}
    for init in (nn.init.xavier_normal_, lambda weight: nn.init.normal_(weight, std=0.01)):
        for neurons in ("keep", "draw"):
            torch.manual_seed(0)
            model = nn.Sequential(nn.Linear(400, 50), nn.Linear(50, 3))
            init(model[0].weight)
            drawn = model[0].weight.detach().clone()
            attach(OrthogonalConfig("cayley", neurons=neurons), model, None, 0)
            v = model[0].parametrizations.weight.original
            assert torch.equal(v, drawn) == (neurons == "keep")
            columns.setdefault(neurons, []).append(v)
    assert torch.equal(*columns["draw"])
    assert not torch.equal(*columns["keep"])
    with pytest.raises(ValueError, match=r"orthogonal\.mean and orthogonal\.std draw the neurons"):
        OrthogonalConfig("cayley", neurons="keep", std=1.0)


def test_neurons_of_another_length():
    """``orthogonal.std`` draws v from N(mean, std²); rotations keep it."""
    model = nn.Sequential(nn.Linear(400, 50), nn.Linear(50, 3))
    attach(OrthogonalConfig("cayley", std=1.5, mean=0.5), model, None, 0)
    v = model[0].parametrizations.weight.original
    assert v.mean().item() == pytest.approx(0.5, abs=0.05)
    assert v.std().item() == pytest.approx(1.5, abs=0.05)
    assert torch.allclose(model[0].weight.norm(dim=1), v.norm(dim=1), rtol=1e-4)
    with pytest.raises(ValueError, match=r"orthogonal\.std"):
        OrthogonalConfig(std=0.0)
    with pytest.raises(ValueError, match=r"orthogonal\.blocks=1000 is more than the \d+ channels of the largest layer"):
        attach(OrthogonalConfig("cayley", blocks=1000), nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2)), None, 0)


@pytest.mark.parametrize(("blocks", "sizes"), [(2, [14, 13]), (3, [9] * 3), (4, [9] * 3), (16, [9] * 3)])
def test_a_layer_has_no_more_blocks_than_channels(blocks, sizes):
    """Thesis F.5 cuts neurons along their channels, of which a first convolution has three."""
    model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.Conv2d(16, 8, 3), nn.Flatten(), nn.Linear(8, 2))
    attach(OrthogonalConfig("cayley", blocks=blocks), model, None, 0)
    first, second = (R.detach().abs() > 0 for R in orthogonal.matrices(model).values())
    assert torch.equal(first, torch.block_diag(*(torch.ones(size, size) for size in sizes)) > 0)
    assert int(second.sum(1).max()) == 144 // blocks


@pytest.mark.parametrize("blocks", [1, 4])
def test_frozen_layers_stay_as_they_are_however_many_blocks(blocks):
    layers = (nn.Conv2d(3, 16, 3), nn.Conv2d(16, 8, 3), nn.Conv2d(8, 8, 3))
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(8, 2))
    model[1].requires_grad_(False)
    attach(OrthogonalConfig("cayley", blocks=blocks), model, None, 0)
    assert set(orthogonal.matrices(model)) == {"0.weight", "2.weight"}


@pytest.mark.parametrize("name", [*OPTIMIZERS, "torch.optim:RMSprop", "torch.optim:Rprop"])
def test_on_a_gpu_optimizers_are_fused_where_they_can_be_and_captured_where_that_is_known(name, monkeypatch):
    """Made without a GPU: only the arguments are looked at."""
    monkeypatch.setattr(Optimizers, "__init__", lambda self, parts, factors, device: setattr(self, "parts", parts))
    found = make_optimizers(OptimConfig(name=name), nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)), [1.0], CUDA)
    assert found.capturable == (name != "orthogonal_sgd")
    assert found.can_skip == (name in ("sgd", "adam", "adamw", "adamh"))
    for part in found.parts:
        assert part.defaults.get("capturable", True)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda groups, lr: SimpleNamespace(), "'made' gives a SimpleNamespace, not a torch.optim.Optimizer"),
        (
            lambda groups, lr, momentum, rho: None,
            "groups of parameters, lr, momentum: .*'rho'. Give its other arguments",
        ),
        (lambda groups, lr: torch.optim.LBFGS(groups[0]["params"], lr), "no weight decay: set --optim.weight-decay 0"),
    ],
)
@pytest.mark.usefixtures("unregistered")
def test_what_is_no_optimizer_says_so(made, message):
    register("optimizer", "made", made)
    with pytest.raises(ValueError, match=message):
        make_optimizers(OptimConfig(name="made", weight_decay=0.1), nn.Linear(4, 2), [1.0], CPU)
