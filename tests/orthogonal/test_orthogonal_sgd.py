"""hs.optim.OrthogonalSGD: the Cayley step of thesis 7.5-7.6 beside plain SGD."""

from __future__ import annotations

import copy
import itertools
import pickle

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import hypersphere as hs


def rotation(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> nn.Parameter:
    u = torch.randn(*shape, shape[-1], generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return nn.Parameter(hs.functional.orthogonalize(u, "gram_schmidt").to(dtype))


def defect(r: Tensor) -> float:
    r = r.detach().double()
    return float((r.mT @ r - torch.eye(r.shape[-1], dtype=r.dtype)).abs().max())


def make(r: nn.Parameter, **options: object) -> hs.optim.OrthogonalSGD:
    return hs.optim.OrthogonalSGD([{"params": [r], "orthogonal": True}], **options)  # type: ignore[arg-type]


def literal_step(u: np.ndarray, grad: np.ndarray, lam: float) -> np.ndarray:
    """Thesis 7.5 with −∇f (as printed it ascends)."""
    f, identity = -grad, np.eye(len(u))
    w_hat = f @ u.T - 0.5 * u @ (u.T @ f @ u.T)
    w = w_hat - w_hat.T
    return np.linalg.inv(identity - lam / 2 * w) @ (identity + lam / 2 * w) @ u


@pytest.mark.parametrize("lr", [0.01, 0.5, 10.0])
def test_equals_the_literal_step(lr: float) -> None:
    r = rotation(5)
    before = r.detach().numpy().copy()
    r.grad = torch.randn(5, 5, dtype=torch.float64)
    make(r, lr=lr).step()
    np.testing.assert_allclose(r.detach().numpy(), literal_step(before, r.grad.numpy(), lr), atol=1e-12)


def test_a_small_step_descends_along_the_projected_gradient() -> None:
    r = rotation(5)
    before = r.detach().clone()
    grad = torch.randn(5, 5, dtype=torch.float64)
    r.grad = grad
    make(r, lr=1e-6).step()
    projected = grad - before @ (before.mT @ grad + grad.mT @ before) / 2
    torch.testing.assert_close((before - r.detach()) / 1e-6, projected, atol=1e-4, rtol=0)
    assert float((grad * (r.detach() - before)).sum()) < 0


def test_fixed_point_converges_to_the_closed_step() -> None:
    errors = []
    for iterations in (1, 2, 3, 4):
        closed, iterated = rotation(6), rotation(6)
        closed.grad = iterated.grad = torch.randn(6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
        make(closed, lr=0.05).step()
        make(iterated, lr=0.05, solver="fixed_point", iterations=iterations, tolerance=1.0).step()
        errors.append(float((closed - iterated).detach().norm()))
    assert all(later < 0.5 * earlier for earlier, later in itertools.pairwise(errors))
    assert errors[1] < 5e-3


def test_bounded_step() -> None:
    r = rotation(4)
    before = r.detach().clone()
    r.grad = 1e6 * torch.randn(4, 4, dtype=torch.float64)
    make(r, lr=1.0, bounded=True).step()
    w = 0.5 * (before @ r.grad.mT - r.grad @ before.mT)
    torch.testing.assert_close(r.detach().numpy(), literal_step(before.numpy(), r.grad.numpy(), float(1 / w.norm())))
    r = rotation(4)
    r.grad = torch.zeros(4, 4, dtype=torch.float64)
    make(r, lr=1.0, bounded=True).step()
    torch.testing.assert_close(r.detach(), before)


@pytest.mark.parametrize("options", [{}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}])
@pytest.mark.parametrize("solver", ["solve", "fixed_point"])
def test_reaches_the_rotation_asked_for(options: dict[str, float], solver: str) -> None:
    r = rotation(2, 4)
    target = hs.functional.orthogonalize(0.4 * torch.randn(2, 4, 4, dtype=torch.float64), "cayley") @ r.detach()
    optimizer = make(r, lr=0.05, solver=solver, **options)
    for _ in range(300):
        optimizer.zero_grad()
        (r - target).square().sum().backward()
        optimizer.step()
        assert optimizer.drift() <= 5e-6
    torch.testing.assert_close(r.detach(), target, atol=1e-4, rtol=0)


@pytest.mark.parametrize("options", [{}, {"momentum": 0.9}, {"solver": "fixed_point", "momentum": 0.9}])
def test_stays_orthogonal_in_float32(options: dict[str, object]) -> None:
    torch.manual_seed(0)
    r = rotation(12, dtype=torch.float32)
    optimizer = make(r, lr=0.1, **options)
    worst = 0.0
    for _ in range(1500):
        r.grad = torch.randn(12, 12)
        optimizer.step()
        worst = max(worst, optimizer.drift())
    assert worst < 1e-5
    assert optimizer.state[r]["repairs"] > 0
    assert abs(float(torch.det(r.detach()))) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("nesterov", [False, True])
def test_the_rest_is_plain_sgd(nesterov: bool) -> None:
    torch.manual_seed(0)
    ours, theirs = nn.Linear(3, 2), nn.Linear(3, 2)
    theirs.load_state_dict(ours.state_dict())
    options = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01, "nesterov": nesterov}
    optimizers = [hs.optim.OrthogonalSGD(ours.parameters(), **options), torch.optim.SGD(theirs.parameters(), **options)]
    for _ in range(5):
        x = torch.randn(4, 3)
        for model, optimizer in zip((ours, theirs), optimizers, strict=True):
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_trains_attached_models_alone_or_beside_another_optimizer() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(64, 6), torch.randint(0, 3, (64,))
    for beside in (False, True):
        model = hs.orthogonal.attach(nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3)), "gradient")
        tagged = [p for p in model.parameters() if hs.orthogonal.is_orthogonal(p)]
        assert len(tagged) == 1
        rest = [p for p in model.parameters() if not hs.orthogonal.is_orthogonal(p)]
        sgd = hs.optim.OrthogonalSGD(tagged if beside else model.parameters(), lr=0.2, momentum=0.9)
        optimizers = [sgd, torch.optim.Adam(rest, lr=0.01)] if beside else [sgd]
        losses = []
        for _ in range(60):
            loss = nn.functional.cross_entropy(model(x), y)
            losses.append(float(loss))
            model.zero_grad()
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
        assert losses[-1] < 0.8 * losses[0]
        assert defect(hs.orthogonal.matrices(model)["0.weight"]) < 1e-5


def test_nonfinite_gradients_never_reach_a_rotation() -> None:
    r, plain = rotation(4), nn.Parameter(torch.ones(2))
    before = r.detach().clone()
    r.grad, plain.grad = torch.full((4, 4), torch.nan, dtype=torch.float64), torch.ones(2)
    groups = [{"params": [plain]}, {"params": [r], "orthogonal": True}]
    with pytest.raises(RuntimeError, match="NaN or infinite gradient; nothing was changed"):
        hs.optim.OrthogonalSGD(groups, lr=0.1).step()
    assert torch.equal(r, before)
    assert torch.equal(plain, torch.ones(2))
    optimizer = hs.optim.OrthogonalSGD(groups, lr=0.1, nonfinite="skip")
    optimizer.step()
    assert optimizer.skipped == 1
    assert torch.equal(r, before)
    r.grad = torch.randn(4, 4, dtype=torch.float64)
    optimizer.step()
    assert not torch.equal(r, before)


@pytest.mark.parametrize(("solver", "size"), [("fixed_point", 1e10), ("solve", 1e20)])
def test_a_step_that_is_too_long_never_reaches_a_rotation(solver: str, size: float) -> None:
    """The fixed point overflows; in the closed form the 1 beside W is lost, and a skew matrix of 3 rows is singular."""
    r = nn.Parameter(torch.eye(3))
    before = r.detach().clone()
    r.grad = size * (torch.ones(3, 3).triu(1) - torch.ones(3, 3).tril(-1))
    with pytest.raises(RuntimeError, match=r"too long for torch.float32: it was not made. Lower lr"):
        make(r, lr=0.1, solver=solver).step()
    assert torch.equal(r, before)
    make(r, lr=0.1, solver=solver, bounded=True).step()
    assert defect(r) < 1e-5


def test_an_empty_stack() -> None:
    r = rotation(0, 3)
    r.grad = torch.zeros(0, 3, 3, dtype=torch.float64)
    optimizer = make(r, lr=0.1, bounded=True)
    optimizer.step()
    assert optimizer.drift() == 0


def test_state_round_trip() -> None:
    def run(steps: int, resume: bool) -> Tensor:
        generator = torch.Generator().manual_seed(7)
        r = rotation(4)
        optimizer = make(r, lr=0.1, momentum=0.9)
        for step in range(steps):
            if resume and step == 2:
                state = copy.deepcopy(optimizer.state_dict())
                optimizer = make(r, lr=5.0)
                optimizer.load_state_dict(state)
            r.grad = torch.randn(4, 4, dtype=torch.float64, generator=generator)
            optimizer.step()
        return r.detach()

    torch.testing.assert_close(run(5, resume=True), run(5, resume=False))


def test_closures_and_schedulers() -> None:
    r = rotation(3)
    optimizer = make(r, lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)

    def closure() -> float:
        optimizer.zero_grad()
        loss = r.trace()
        loss.backward()
        return float(loss.detach())

    assert optimizer.step(closure) == pytest.approx(float(rotation(3).trace()))
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.05)


def test_bad_input() -> None:
    def refused(match: str, parameter: Tensor, **options: object) -> None:
        with pytest.raises((ValueError, TypeError), match=match):
            make(nn.Parameter(parameter), **{"lr": 0.1, **options})

    identity = torch.eye(3)
    refused("lr=-1", identity, lr=-1.0)
    refused("lr='fast'", identity, lr="fast")
    refused("momentum=-0.5", identity, momentum=-0.5)
    refused("solver='exact'", identity, solver="exact")
    refused("iterations=0", identity, iterations=0)
    refused("nonfinite='ignore'", identity, nonfinite="ignore")
    refused("nesterov", identity, nesterov=True)
    refused("tolerance=0", identity, tolerance=0.0)
    refused("square matrices", torch.randn(3, 4))
    refused("orthogonalize it first", 2 * identity)
    optimizer = make(nn.Parameter(identity), lr=0.1)
    with pytest.raises(ValueError, match="square matrices"):
        optimizer.add_param_group({"params": [nn.Parameter(torch.randn(3, 4))], "orthogonal": True})
    assert len(optimizer.param_groups) == 1


@pytest.mark.parametrize("lr", [torch.tensor(0.1), torch.tensor([0.1]), np.float32(0.1)], ids=["0d", "1d", "numpy"])
def test_learning_rates_as_tensors_and_numpy_numbers(lr) -> None:
    torch.manual_seed(0)
    start, plain = torch.linalg.qr(torch.randn(4, 4))[0], torch.randn(3, 2)
    results = []
    for rate in (0.1, lr):
        r, p = nn.Parameter(start.clone()), nn.Parameter(plain.clone())
        groups = [{"params": [r], "orthogonal": True}, {"params": [p]}]
        optimizer = hs.optim.OrthogonalSGD(groups, rate, momentum=0.9, weight_decay=0.1)
        for _ in range(3):
            r.grad, p.grad = torch.arange(16.0).view(4, 4), p.detach().clone()
            optimizer.step()
        results.append((r.detach(), p.detach()))
    torch.testing.assert_close(results[1], results[0])
    if isinstance(lr, torch.Tensor):
        optimizer.param_groups[1]["lr"].zero_()  # a schedule that writes into the tensor
        before = p.detach().clone()
        r.grad, p.grad = torch.zeros(4, 4), torch.ones(3, 2)
        optimizer.step()
        assert torch.equal(p, before)


def test_learning_rates_that_are_none() -> None:
    parameters = [nn.Parameter(torch.randn(2, 2))]
    for wrong in (torch.tensor(-0.1), torch.tensor([0.1, 0.2]), torch.tensor(float("nan"))):
        with pytest.raises(ValueError, match="lr"):
            hs.optim.OrthogonalSGD(parameters, wrong)
    with pytest.raises(TypeError, match="lr="):
        hs.optim.OrthogonalSGD(parameters, "0.1")


@pytest.mark.parametrize("through", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copies_treat_gradients_that_are_not_finite_alike(through) -> None:
    r = rotation(4)
    optimizer = make(r, lr=0.1, nonfinite="skip")
    r.grad = torch.full_like(r, torch.nan)
    optimizer.step()
    other = through(optimizer)
    assert (other.nonfinite, other.skipped) == ("skip", 1)
    (found,) = other.param_groups[0]["params"]
    found.grad = torch.full_like(found, torch.nan)
    other.step()
    assert other.skipped == 2


@pytest.mark.parametrize("momentum", [1.0, 1.5, -0.1])
def test_a_momentum_that_does_not_fade_is_refused(momentum: float) -> None:
    with pytest.raises(ValueError, match="momentum"):
        make(rotation(4), lr=0.1, momentum=momentum)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_matrices_of_half_precision_are_refused(dtype: torch.dtype) -> None:
    with pytest.raises(ValueError, match="use float32"):
        make(nn.Parameter(torch.eye(4, dtype=dtype)), lr=0.1)
