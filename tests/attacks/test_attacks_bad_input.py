"""Errors name the argument, its value and the fix."""

import pytest
import torch
from torch import nn

import hypersphere as hs

A = hs.attacks
NET = nn.Sequential(nn.Flatten(), nn.Linear(12, 4)).eval()
X, Y = torch.rand(5, 3, 2, 2), torch.tensor([0, 1, 2, 3, 0])


def fgsm(x=X, labels=Y, eps=0.1, model=NET, clip=(0.0, 1.0), **options):
    return A.fgsm(model, x, labels, eps, clip=clip, **options)


CASES = [
    (lambda: fgsm(x=X.int()), TypeError, "x has dtype torch.int32"),
    (lambda: fgsm(x=X.numpy()), TypeError, "x must be a torch.Tensor"),
    (lambda: fgsm(x=X[0, 0, 0]), ValueError, "must be a batch"),
    (lambda: fgsm(x=255 * X), ValueError, "outside clip"),
    (lambda: fgsm(clip=(1.0, 0.0)), ValueError, "lowest, highest"),
    (lambda: fgsm(clip=0.5), ValueError, "lowest, highest"),
    (lambda: fgsm(clip=(None, 1.0)), ValueError, "lowest, highest"),
    (lambda: fgsm(x=torch.where(Y.view(-1, 1, 1, 1) == 2, torch.nan, X)), ValueError, "x holds NaN.* sample 2"),
    (lambda: A.pixels("standard", mean=(0.5, 0.5), std=(0.1, 0.1, 0.1)), ValueError, "2 channels, std= 3"),
    (lambda: A.pixels("standard", mean=(float("nan"),), std=(0.1,)), ValueError, "must be finite"),
    (lambda: A.robust_accuracy(NET, (X, Y), lambda m, x, y: x), TypeError, r"\[\(x, labels\)\]"),
    (lambda: fgsm(clip=(torch.zeros(4, 1, 1), 1.0)), ValueError, "clip.0. of shape .4, 1, 1. must broadcast"),
    (lambda: fgsm(labels=Y.float()), TypeError, "labels must be a tensor of class numbers"),
    (lambda: fgsm(labels=[0] * 5), TypeError, "labels must be a tensor of class numbers"),
    (lambda: fgsm(labels=Y[:3]), ValueError, r"labels of shape \(3,\) must be \(5,\)"),
    (lambda: fgsm(labels=Y + 3), ValueError, "labels hold 4, but the model has classes 0 to 3"),
    (lambda: fgsm(labels=Y - 1), ValueError, "labels hold -1"),
    (lambda: fgsm(eps=-0.1), ValueError, "eps=-0.1"),
    (lambda: fgsm(eps=float("nan")), ValueError, "eps=nan"),
    (lambda: fgsm(eps="8"), TypeError, "eps='8'"),
    (lambda: fgsm(eps=torch.tensor([0.1, -0.1]).view(2, 1)), ValueError, "eps must be ≥ 0"),
    (lambda: fgsm(eps=torch.rand(7, 1, 1)), ValueError, "eps of shape"),
    (lambda: fgsm(eps=torch.rand(3, 1, 1, device="meta")), ValueError, "eps is on meta, x on cpu"),
    (lambda: fgsm(loss="hinge"), ValueError, "loss='hinge' is unknown"),
    (lambda: fgsm(labels=None, targeted=True), ValueError, "targeted=True needs labels"),
    (lambda: fgsm(model=lambda x: x.flatten(1)[:, :1]), ValueError, "two classes or more"),
    (lambda: fgsm(model=lambda x: x), ValueError, "needs logits"),
    (lambda: fgsm(model=lambda x: torch.zeros(5, 4)), ValueError, "does not depend on x"),
    (lambda: fgsm(model=lambda x: NET(x) * torch.nan), ValueError, "NaN for 5 of 5 samples .first: sample 0."),
    (lambda: A.bim(NET, X, Y, 0.1, iterations=0, clip=None), ValueError, "iterations=0"),
    (lambda: A.bim(NET, X, Y, 0.1, step=-1.0, clip=None), ValueError, "step=-1.0"),
    (lambda: A.deepfool(NET, X, clip=None, norm="l1"), ValueError, "norm='l1' is unknown"),
    (lambda: A.deepfool(NET, X, clip=None, classes=1), ValueError, "classes=1"),
    (lambda: A.deepfool(NET, X, clip=None, overshoot=-1.0), ValueError, "overshoot=-1.0"),
    (lambda: A.deepfool(NET, X, clip=None, iterations=0), ValueError, "iterations=0"),
    (lambda: A.deepfool(NET, 9 * X, clip=(0.0, 1.0)), ValueError, "outside clip"),
    (lambda: A.deepfool(lambda x: NET(x) * torch.nan, X, clip=None), ValueError, "NaN"),
    (lambda: A.deepfool(lambda x: torch.rand(5, 4), X, clip=None), ValueError, "does not depend on x"),
    (lambda: A.pixels("symetric"), ValueError, "did you mean 'symmetric'"),
    (lambda: A.pixels("standard"), ValueError, "needs mean= and std="),
    (lambda: A.pixels("standard", mean=(0.5,), std=(0.0,)), ValueError, "std must be positive"),
    (lambda: A.pixels("unit").eps(-1), ValueError, "value=-1"),
    (lambda: A.pixels("unit").eps(1, peak=0), ValueError, "peak=0"),
    (lambda: A.adversarial_batch(NET, X, Y, fgsm, mixture="half"), ValueError, "mixture='half'"),
    (lambda: A.adversarial_batch(NET, X, Y, fgsm, mixture="replace", fraction=0), ValueError, "fraction=0"),
    (lambda: A.adversarial_batch(NET, X, Y, fgsm, fraction=0.5), ValueError, "belongs to mixture='replace'"),
    (lambda: A.adversarial_batch(NET, X, Y, fgsm, against="truth"), ValueError, "against='truth'"),
    (lambda: A.robust_accuracy(NET, [], lambda m, x, y: x), ValueError, "no labelled samples"),
    (lambda: A.robust_accuracy(NET, [(X, Y * 0 - 100)], lambda m, x, y: x), ValueError, "no labelled samples"),
    (lambda: A.robust_accuracy(NET, [(X, Y)], lambda m, x, y: x[:2]), ValueError, "inputs of that shape"),
    (lambda: A.robust_accuracy(NET, [(X, Y)], lambda m, x, y: x * torch.nan), ValueError, "NaN logits"),
    (lambda: A.robust_accuracy(NET, [((X, X), Y)], lambda m, x, y: x), ValueError, "models of one input"),
    (lambda: A.robust_accuracy(NET, [(X, Y + 1)], lambda m, x, y: x), ValueError, "labels hold 4"),
]


@pytest.mark.parametrize(("call", "error", "message"), CASES, ids=[case[2][:40] for case in CASES])
def test_bad_input_is_told(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_without_the_check_nan_goes_on_to_the_loss():
    found = fgsm(model=lambda x: NET(x) * torch.nan, check=False)
    assert found.isnan().all()
