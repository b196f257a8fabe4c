"""The loss with its counts by one kernel is that of plain operations, and so are the sums of a training."""

import pytest
import torch
import torch.nn.functional as F

from hypersphere import kernels
from hypersphere.data.loader import IGNORE
from hypersphere.train.fused import tally
from hypersphere.train.objective import Objective


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("shape", [(7, 10), (300, 20), (1, 1)], ids=str)
def test_the_loss_its_gradient_and_the_counts(shape, smoothing):
    logits = (5 * torch.randn(shape)).requires_grad_()
    labels = torch.randint(0, shape[1], shape[:1])
    labels[2:3] = IGNORE
    objective = Objective(torch.nn.Identity(), None, smoothing)
    loss, stats = objective.counted(logits, labels)
    (3 * loss).backward()
    exact = logits.detach().double().requires_grad_()
    expected = F.cross_entropy(exact, labels, ignore_index=IGNORE, label_smoothing=smoothing)
    (3 * expected).backward()
    torch.testing.assert_close(loss.double(), expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(logits.grad.double(), exact.grad, rtol=1e-5, atol=1e-7)
    right, samples = (exact.argmax(1) == labels).sum(), (labels != IGNORE).sum()
    assert stats.tolist() == [loss.item(), 0.0, float(right), float(samples), 1.0]
    assert kernels.LAUNCHES["criterion_kernel"] == 1


def test_half_precision_and_what_is_not_finite():
    labels = torch.tensor([1, 0])
    objective = Objective(torch.nn.Identity(), None)
    logits = torch.tensor([[0.5, 2.0, -1.0], [0.0, 1.0, 4.0]], dtype=torch.bfloat16, requires_grad=True)
    loss, _ = objective.counted(logits, labels)
    loss.backward()
    assert loss.dtype == torch.float32
    assert logits.grad.dtype == torch.bfloat16
    torch.testing.assert_close(loss, F.cross_entropy(logits.detach().float(), labels))
    for bad in (float("nan"), float("inf")):
        assert not objective.counted(torch.tensor([[0.5, bad], [0.0, 1.0]]), labels)[0].isfinite()


def test_many_classes_and_hinges_take_plain_operations():
    assert Objective(torch.nn.Identity(), None).counted(torch.zeros(128, 1000), torch.zeros(128).long()) is None
    assert Objective(torch.nn.Identity(), None, hinge=True).counted(torch.zeros(2, 2), torch.zeros(2).long()) is None


def test_sums_and_the_first_step_that_is_not_finite():
    values = [1.0, float("inf"), float("nan"), 2.0, float("-inf")]
    for dtype in (torch.float32, torch.float64):  # kernels take float32; float64 takes plain operations
        sums, bad = torch.zeros(5, dtype=torch.float64), torch.tensor(-1)
        for step, value in enumerate(values):
            stats, goes = torch.arange(5, dtype=torch.float64) + step, torch.tensor(int(step != 1))
            tally(torch.tensor(value, dtype=dtype), stats, goes, torch.tensor(step), bad, sums)
        assert (sums.tolist(), int(bad)) == ([9.0, 13.0, 17.0, 21.0, 25.0], 2)
        assert kernels.LAUNCHES["tally_kernel"] == len(values)


def test_a_rehearsal_launches_nothing():
    logits = torch.randn(2, 3, requires_grad=True)
    with kernels.rehearsed():
        loss, _ = Objective(torch.nn.Identity(), None).counted(logits, torch.tensor([0, 1]))
        loss.backward()
    assert kernels.LAUNCHES["criterion_kernel"] == 0
    assert logits.grad.shape == (2, 3)
