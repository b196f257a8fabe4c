"""CoMHE in inference mode and under another default dtype, and which of its learned projections move."""

import copy

import pytest
import torch
from test_regularizer_comhe import build, network
from torch import nn

from hypersphere.functional import energy, unit
from hypersphere.regularizers._views import project


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("projection", ["angle_preserving", "adversarial", "learned"])
def test_unrolled_steps_are_taken_in_inference_mode_and_not_kept(projection, training):
    reg = build(network(), projection=projection, unroll=2).train(training)
    before = {name: buffer.clone() for name, buffer in reg.named_buffers()}
    with torch.inference_mode():
        found = reg()
    for name, buffer in reg.named_buffers():
        if name != "_counter":
            torch.testing.assert_close(buffer, before[name], rtol=0, atol=0)
    with torch.no_grad():
        torch.testing.assert_close(found, copy.deepcopy(reg)())
    reg().backward()


@pytest.mark.parametrize("matrix", ["gaussian", "hadamard", "count_sketch"])
def test_projections_are_drawn_under_a_double_default(matrix):
    torch.set_default_dtype(torch.float64)
    try:
        assert build(network(), matrix=matrix)().dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("compiled", [False, True])
def test_of_learned_projections_only_the_largest_moves(compiled):
    model = nn.Sequential(nn.Linear(12, 6), nn.Linear(6, 4))
    reg = build(model, projection="learned", count=3, aggregate="max", refresh=None, inner_lr=0.1)
    leaf = reg.basis_12.clone().requires_grad_()
    each = energy(project(unit(model[0].weight.detach())[None], leaf), half_space=True).mean(1)
    (slope,) = torch.autograd.grad(each.max(), leaf)
    if compiled:
        reg.compile(backend="eager")
    reg()
    torch.testing.assert_close(reg.basis_12, leaf.detach() - 0.1 * slope)
    assert int((reg.basis_12 != leaf).flatten(1).any(1).sum()) == 1
