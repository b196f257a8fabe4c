"""What is no model, has no shapes yet or cannot be copied is told so, by every function that takes a model."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import prune

import hypersphere as hs

R = hs.regularizers
TAKERS = {
    "MHE": R.MHE,
    "CoMHE": R.CoMHE,
    "Orthonormal": R.Orthonormal,
    "SRIP": R.SRIP,
    "attach": hs.orthogonal.attach,
    "convert": hs.convert,
    "fuse": hs.nn.fuse,
    "fold": hs.nn.fold,
    "merge": hs.orthogonal.merge,
    "unmerge": hs.orthogonal.unmerge,
    "matrices": hs.orthogonal.matrices,
    "restart": hs.orthogonal.restart,
    "WeightProjection": hs.optim.WeightProjection,
}


@pytest.mark.parametrize("take", TAKERS.values(), ids=TAKERS.keys())
@pytest.mark.parametrize("model", [3, [nn.Linear(2, 2)], nn.Linear(2, 2).weight])
def test_a_model_that_is_not_a_module_raises_type_error(take, model):
    with pytest.raises(TypeError, match=r"model must be a torch\.nn\.Module, not (int|list|Parameter)"):
        take(model)


@pytest.mark.parametrize("take", [R.MHE, hs.orthogonal.attach])
def test_a_head_that_is_not_a_module_raises_type_error(take):
    with pytest.raises(TypeError, match=r"head must be a torch\.nn\.Module, not int"):
        take(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)), head=3)


@pytest.mark.parametrize("make", [R.MHE, R.CoMHE, R.Orthonormal, R.SRIP, R.Orthogonal])
def test_layers_without_a_shape_yet(make):
    model = nn.Sequential(nn.LazyConv2d(6, 3), nn.Flatten(), nn.LazyLinear(40), nn.LazyLinear(5))
    with pytest.raises(ValueError, match=r"0\.weight has no shape yet: run one batch through the model first"):
        make(model)()
    with pytest.raises(ValueError, match="has no shape yet"):
        make(model).layers()


def test_an_energy_may_be_made_before_the_shapes_are_known():
    model = nn.Sequential(nn.LazyLinear(6), nn.Linear(6, 3))
    penalty = R.MHE(model)
    model(torch.randn(2, 4))
    assert penalty() == R.MHE(model)()


def test_scripted_models_cannot_be_converted():
    with pytest.warns(DeprecationWarning, match="script"):
        scripted = torch.jit.script(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)))
    with pytest.raises(TypeError, match=r"scripted.*convert .* before"):
        hs.convert(scripted)


def old_weight_norm(model):
    with pytest.warns(FutureWarning, match="weight_norm"):
        nn.utils.weight_norm(model[0])
    model(torch.randn(2, 4))


def pruned(model):
    prune.l1_unstructured(model[0], "weight", 0.5)


@pytest.mark.parametrize("change", [old_weight_norm, pruned])
def test_models_that_cannot_be_copied_are_converted_in_place(change):
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2))
    change(model)
    with pytest.raises(ValueError, match="inplace=True"):
        hs.convert(model)
    report = hs.convert(model, inplace=True).conversion_report
    assert "parametrized" in report.kept["0"]
    assert report.converted == {"1": "SphereLinear"}


@pytest.mark.parametrize("cell", [nn.LSTMCell(4, 4), nn.GRUCell(4, 4), nn.RNNCell(4, 4), nn.Bilinear(4, 4, 4)])
def test_the_report_names_layers_without_a_twin(cell):
    report = hs.convert(nn.ModuleDict({"cell": cell, "one": nn.Linear(4, 4), "out": nn.Linear(4, 2)})).conversion_report
    assert report.kept["cell"] == f"{type(cell).__name__} has no hyperspherical twin"
    assert report.converted == {"one": "SphereLinear"}


def test_an_unknown_source_of_embeddings_is_named_by_its_argument():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    with pytest.raises(ValueError, match="features='foo' is not a module of the model") as error:
        hs.embed(model, torch.randn(3, 4), features="foo")
    assert "output_layer" not in str(error.value)
    x = torch.randn(3, 4)
    torch.testing.assert_close(hs.embed(model, x, features="1"), model[0](x).detach())


def test_numbers_of_numpy():
    model = nn.Sequential(nn.Linear(64, 8), nn.Linear(8, 3))
    assert R.CoMHE(model, dim=np.int64(2), hidden=np.float32(1.0)).dim == 2
    assert torch.isfinite(R.MHE(model, s=np.float64(1.0), sample=np.int16(4))())
