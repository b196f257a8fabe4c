"""λ and warm-up: the published numbers, one step per training forward, exact resuming."""

import copy
import gc
import io
import math
import pickle

import pytest
import torch

import hypersphere as hs

L = hs.losses


def lambdas(schedule, steps):
    out = []
    for _ in range(steps):
        out.append(schedule.lam.item())
        schedule()
    return out


@pytest.mark.parametrize(
    ("name", "base", "gamma", "power", "minimum"),
    [
        ("sphereface", 1000, 0.12, 1, 5),
        ("l_softmax_mnist", 1000, 2.5e-5, 35, 0),
        ("l_softmax_cifar10", 1000, 2e-5, 45, 0),
        ("l_softmax_cifar10+", 1000, 1e-5, 45, 0),
    ],
)
def test_presets(name, base, gamma, power, minimum):
    schedule = L.Annealing.preset(name)
    for t in (0, 1, 7, 1000, 20_000):
        schedule.step.fill_(t)
        expected = max(minimum, base * (1 + gamma * t) ** -power)
        assert schedule.lam.item() == pytest.approx(expected, rel=1e-5)
        assert schedule.share().item() == pytest.approx(1 / (1 + expected), rel=1e-5)


def test_schedules_as_text():
    slow = L.ASoftmax(4, 3, annealing="gamma=2e-5; power=45;minimum=0").annealing
    assert (slow.base, slow.gamma, slow.power, slow.minimum) == (1000.0, 2e-5, 45.0, 0.0)
    assert L.Annealing.parse("minimum=1").extra_repr() == L.Annealing(minimum=1.0).extra_repr()
    assert L.Annealing.parse("l_softmax_mnist").extra_repr() == L.Annealing.preset("l_softmax_mnist").extra_repr()
    assert L.Annealing.parse("minimum=1;").minimum == 1.0
    for text, complaint in {
        "minimum=1;minimum=2": "gives minimum twice",
        "floor=1": "annealing='floor' is unknown",
        "minimum=": "'' is no number",
        "minimum=-1": "minimum=-1",
        "nothing": "preset='nothing' is unknown",
    }.items():
        with pytest.raises(ValueError, match=complaint):
            L.ASoftmax(4, 3, annealing=text)


def test_the_step_moves_once_per_training_forward_only():
    head = L.ASoftmax(4, 3, annealing=L.Annealing())
    x, y = torch.randn(2, 4), torch.tensor([0, 1])
    losses = [head(x, y).item() for _ in range(3)]
    assert head.annealing.step.item() == 3
    assert losses[0] < losses[1] < losses[2]  # the margin's share grows
    head.eval()
    assert head(x, y).item() == head(x, y).item() > losses[2]
    head.logits(x)
    assert head.annealing.step.item() == 3


@pytest.mark.parametrize("schedule", [L.Annealing(100.0, 0.3, 1.7, 0.0), L.MarginWarmup(3, steps_per_epoch=3)])
@pytest.mark.parametrize("converted", [False, True])
def test_a_head_in_float64_has_all_its_digits(schedule, converted):
    """Its loss with the margin's share in Python's numbers; in float32 everything stays as it was."""
    schedule = copy.deepcopy(schedule)
    head = L.AMSoftmax(4, 3, annealing=schedule, dtype=None if converted else torch.float64).double()
    x, y = torch.randn(2, 4, dtype=torch.float64), torch.tensor([0, 1])
    for t in range(4):
        loss = head(x, y).item()
        share = t / 9 if isinstance(schedule, L.MarginWarmup) else 1 / (1 + 100 * (1 + 0.3 * t) ** -1.7)
        shifted = L.AMSoftmax(4, 3, margin=head.margin * share, dtype=torch.float64)
        shifted.load_state_dict({"weight": head.weight})
        assert loss == pytest.approx(shifted(x, y).item(), rel=1e-14)
    assert schedule.share().dtype == torch.float64
    assert list(head.state_dict()) == ["weight", "annealing.step"]
    assert head.float()(x.float(), y).dtype == schedule.share().dtype == torch.float32


def test_resuming_continues_exactly():
    a, b = L.LSoftmax(4, 3, annealing="l_softmax_mnist"), L.LSoftmax(4, 3, annealing="l_softmax_mnist")
    x, y = torch.randn(2, 4), torch.tensor([0, 1])
    for _ in range(5):
        a(x, y)
    file = io.BytesIO()
    torch.save(a.state_dict(), file)
    file.seek(0)
    b.load_state_dict(torch.load(file))
    assert "annealing.step" in a.state_dict()
    assert [a(x, y).item() for _ in range(3)] == [b(x, y).item() for _ in range(3)]


def test_copies_count_on_their_own():
    a = L.LSoftmax(4, 3, annealing=L.Annealing())
    b, c = copy.deepcopy(a), pickle.loads(pickle.dumps(a))
    a(torch.randn(2, 4), torch.tensor([0, 1]))
    assert (a.annealing.step, b.annealing.step, c.annealing.step) == (1, 0, 0)
    assert torch.equal(a.weight, c.weight)


def test_warm_up_by_epochs(caplog):
    warmup = L.MarginWarmup(4)
    head = L.ArcFace(4, 3, annealing=warmup)
    x, y = torch.randn(2, 4), torch.tensor([0, 1])
    shares = []
    for epoch in range(6):
        warmup.set_epoch(epoch)
        head(x, y)
        head(x, y)  # constant within an epoch
        shares.append(warmup.share().item())
    assert shares == [0, 0.25, 0.5, 0.75, 1, 1]
    assert head.state_dict()["annealing.step"] == 5
    assert not caplog.records
    forgotten = L.ArcFace(4, 3, annealing=L.MarginWarmup(4))
    for _ in range(2):
        forgotten(x, y)
    assert [r.message[:42] for r in caplog.records] == ["MarginWarmup(epochs=4) has no margin until"]


def test_warm_up_by_steps():
    warmup = L.MarginWarmup(2, steps_per_epoch=5)
    assert [round(warmup().item(), 6) for _ in range(12)] == [i / 10 for i in range(10)] + [1, 1]
    warmup.set_epoch(1)
    assert warmup.share().item() == 0.5


def test_warm_up_starts_plain_and_ends_with_the_margin():
    x, y = torch.randn(2, 4), torch.tensor([0, 1])
    head = L.ArcFace(4, 3, annealing=L.MarginWarmup(1, 1))
    first, last = head(x, y), head(x, y)
    head.annealing = None
    torch.testing.assert_close(last, head(x, y))
    torch.testing.assert_close(first, torch.nn.functional.cross_entropy(head.logits(x), y))


@pytest.mark.parametrize("name", ["base", "gamma", "power", "minimum"])
def test_negative_lambda_is_refused(name):
    with pytest.raises(ValueError, match=f"{name}=-1"):
        L.Annealing(**{name: -1.0})


def test_bad_schedules():
    with pytest.raises(ValueError, match="did you mean 'sphereface'"):
        L.ASoftmax(4, 3, annealing="spherefaces")
    with pytest.raises(TypeError, match="annealing=5"):
        L.ASoftmax(4, 3, annealing=5)
    with pytest.raises(ValueError, match="epochs=0"):
        L.MarginWarmup(0)
    assert math.isinf(L.Annealing(base=math.inf, power=1000.0).lam)


class TestOneScheduleForSeveralHeads:
    def test_each_counts_its_own_steps(self):
        schedule = L.Annealing()
        first = L.ASoftmax(4, 3, annealing=schedule)
        second = L.SphereFacePlus(L.ASoftmax(4, 3, annealing=schedule))
        assert first.annealing is schedule
        assert second.owner.annealing is not schedule
        for _ in range(2):
            first(torch.randn(2, 4), torch.tensor([0, 1]))
        second(torch.randn(2, 4), torch.tensor([0, 1]))
        assert (int(schedule.step), int(second.owner.annealing.step)) == (2, 1)
        assert int(L.ASoftmax(4, 3, annealing=schedule).annealing.step) == 0  # one that comes later

    def test_one_that_is_told_the_epoch_is_shared(self):
        warmup = L.MarginWarmup(4)
        heads = [L.ArcFace(4, 3, annealing=warmup) for _ in range(2)]
        warmup.set_epoch(3)
        assert [float(head.annealing.share()) for head in heads] == [0.75, 0.75]

    def test_it_is_free_when_its_head_is_gone(self):
        schedule = L.Annealing()
        head = L.ASoftmax(4, 3, annealing=schedule)
        del head
        gc.collect()
        assert L.ASoftmax(4, 3, annealing=schedule).annealing is schedule

    def test_copies_of_a_head_count_apart(self):
        head = L.ASoftmax(4, 3, annealing=L.Annealing())
        for copied in (copy.deepcopy(head), pickle.loads(pickle.dumps(head))):
            copied(torch.randn(2, 4), torch.tensor([0, 1]))
            assert int(copied.annealing.step) == 1
        assert int(head.annealing.step) == 0
