"""Which labels a batch's class energy takes, which it leaves out, and which weights an energy has."""

import math

import numpy as np
import pytest
import torch
from torch import nn

import hypersphere as hs
from hypersphere.functional import class_energy, energy

MHE = hs.regularizers.MHE
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16]


def by_loops(w, labels, s=2.0):
    """1/(m(N−1)) Σ_i Σ_{j≠y_i} ‖ŵ_{y_i} − ŵ_j‖^(−s) over the labels given."""
    w = np.asarray(w, dtype=np.float64)
    unit = [row / math.sqrt(float(row @ row)) for row in w]
    terms = [np.linalg.norm(unit[y] - unit[j]) ** -s for y in labels for j in range(len(unit)) if j != y]
    return sum(terms) / max(len(labels) * (len(unit) - 1), 1)


@pytest.fixture
def w():
    return torch.randn(5, 4, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_every_integer_type_means_classes(w, dtype):
    """uint8 is no mask, and as many labels as classes are no mask either."""
    for labels in ([0, 0, 3], [1, 2, 3, 4, 2]):
        value = class_energy(w, torch.tensor(labels, dtype=dtype))
        assert value.item() == pytest.approx(by_loops(w, labels), rel=1e-12)


@pytest.mark.parametrize("ignored", [-100, -1, 255, 2])
def test_ignored_labels_are_left_out(w, ignored):
    value = class_energy(w, torch.tensor([0, ignored, 3, ignored]), ignore_index=ignored)
    assert value.item() == pytest.approx(by_loops(w, [0, 3]), rel=1e-12)
    assert class_energy(w, torch.tensor([ignored, ignored]), ignore_index=ignored) == 0


def test_ignored_labels_get_no_gradient(w):
    w.requires_grad_()
    (with_ignored,) = torch.autograd.grad(class_energy(w, torch.tensor([0, -100, 3])), w)
    (without,) = torch.autograd.grad(class_energy(w, torch.tensor([0, 3])), w)
    torch.testing.assert_close(with_ignored, without)


@pytest.mark.parametrize("wrong", [-1, 5, -101])
def test_labels_out_of_range(w, wrong):
    with pytest.raises(ValueError, match=rf"labels contain {wrong}.*\[0, 4\].*ignore_index=-100"):
        class_energy(w, torch.tensor([0, wrong]))


@pytest.mark.parametrize("labels", [[0, 1], torch.tensor([0.0, 1.0]), torch.tensor([True, False]), None])
def test_labels_of_other_types(w, labels):
    with pytest.raises(TypeError, match=r"labels .*class indices"):
        class_energy(w, labels)


def test_labels_of_another_shape(w):
    with pytest.raises(ValueError, match=r"labels of shape \(1, 2\)"):
        class_energy(w, torch.tensor([[0, 1]]))


@pytest.mark.parametrize("wrap", [lambda head: head, hs.losses.SphereFacePlus], ids=["head", "joined"])
def test_a_regularizer_leaves_out_what_its_head_ignores(wrap):
    head = wrap(hs.losses.ASoftmax(4, 3, ignore_index=-1))
    penalty = MHE(nn.Linear(4, 4), head=head, hidden=0.0)
    expected = by_loops(head.weight.detach(), [0, 2])
    assert penalty(torch.tensor([0, -1, 2])).item() == pytest.approx(expected, rel=1e-5)
    with pytest.raises(ValueError, match="labels contain -100"):
        penalty(torch.tensor([0, -100]))


def test_a_regularizer_without_a_head_ignores_what_cross_entropy_does():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))
    penalty = MHE(model, hidden=0.0)
    expected = by_loops(model[1].weight.detach(), [0, 2])
    assert penalty(torch.tensor([0, -100, 2])).item() == pytest.approx(expected, rel=1e-5)


def test_ignored_labels_compile(w):
    labels = torch.tensor([0, -100, 3])
    compiled = torch.compile(class_energy, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(w, labels), class_energy(w, labels))


def test_per_class_energies_by_vmap(w):
    each = torch.vmap(lambda y: class_energy(w, y[None]))(torch.arange(5))
    torch.testing.assert_close(each, torch.tensor([by_loops(w, [y]) for y in range(5)], dtype=torch.float64))


@pytest.mark.parametrize("half_space", [False, True])
@pytest.mark.parametrize("block_size", [None, 2])
@pytest.mark.parametrize("zeros", [[0.0, 0.0, 0.0], [1.0, 0.0, 2.0]])
def test_weights_of_zero_are_refused(half_space, block_size, zeros):
    with pytest.raises(ValueError, match="weights"):
        energy(torch.randn(3, 4), half_space=half_space, weights=torch.tensor(zeros), block_size=block_size)
