"""Weight projection, weighted gradients and parameter groups: the formulas, and that outputs do not move."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, prune

import hypersphere as hs

LAYERS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "conv": (lambda: hs.nn.SphereConv2d(4, 6, 3, angular="sigmoid"), (2, 4, 5, 5)),
    "grouped": (lambda: hs.nn.DecoupledConv1d(4, 6, 3, groups=2, magnitude="log"), (2, 4, 7)),
    "transposed": (lambda: hs.nn.SphereConvTranspose2d(4, 6, 3, stride=2, groups=2, angular="linear"), (2, 4, 4, 4)),
    "linear": (lambda: hs.nn.DecoupledLinear(4, 6, bias=True, magnitude="tanh"), (3, 4)),
    "lstm": (lambda: hs.nn.SphereLSTM(4, 5, 2, bidirectional=True, proj_size=3), (6, 2, 4)),
    "gru": (lambda: hs.nn.DecoupledGRU(4, 5, angular="square_cosine", magnitude="log"), (6, 2, 4)),
}


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def filters(layer: nn.Module, name: str, weight: Tensor) -> list[Tensor]:
    """The neurons of a weight, read off the definition of its layer one by one."""
    if not isinstance(layer, nn.modules.conv._ConvTransposeNd):
        return list(weight)
    per_group = weight.chunk(layer.groups)
    return [group[:, j] for group in per_group for j in range(weight.shape[1])]


def weights(layer: nn.Module) -> dict[str, Tensor]:
    return {name: p for name, p in layer.named_parameters(recurse=False) if name.startswith("weight")}


def output(layer: nn.Module, x: Tensor) -> Tensor:
    out = layer(x)
    return out[0] if isinstance(out, tuple) else out


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("size", [1.0, 2.5])
def test_projection_sets_norms_and_keeps_outputs(kind: str, size: float) -> None:
    make, shape = LAYERS[kind]
    layer = make().double().eval()
    x = torch.randn(shape, dtype=torch.float64)
    before = output(layer, x)
    old = {name: [f.detach().clone() for f in filters(layer, name, w)] for name, w in weights(layer).items()}
    hs.optim.WeightProjection(layer, every=1, norm=size).step()
    torch.testing.assert_close(output(layer, x), before, rtol=1e-12, atol=1e-12)
    for name, weight in weights(layer).items():
        for new, was in zip(filters(layer, name, weight), old[name], strict=True):
            torch.testing.assert_close(new.detach(), size * was / was.norm(), rtol=1e-12, atol=1e-14)


def test_projection_keeps_objects_optimizers_and_plain_layers() -> None:
    model = nn.Sequential(hs.nn.SphereLinear(4, 4), nn.Linear(4, 4))
    parameter, plain = model[0].weight, model[1].weight.detach().clone()
    hs.optim.WeightProjection(model, every=1).step()
    assert model[0].weight is parameter
    assert parameter.requires_grad
    assert torch.equal(model[1].weight, plain)


def test_projection_of_a_zero_neuron_and_of_extreme_ones() -> None:
    layer = hs.nn.SphereLinear(3, 3)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[0.0, 0.0, 0.0], [3e30, 4e30, 0.0], [0.0, 3e-30, 4e-30]]))
    hs.optim.WeightProjection(layer, every=1).step()
    torch.testing.assert_close(layer.weight.detach(), torch.tensor([[0.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, 0.6, 0.8]]))


def test_projection_every_n_steps_and_its_state() -> None:
    layer = hs.nn.SphereLinear(3, 3)
    projection = hs.optim.WeightProjection(layer, every=3)
    assert [projection.step() for _ in range(7)] == [False, False, True, False, False, True, False]
    resumed = hs.optim.WeightProjection(layer, every=3)
    resumed.load_state_dict(projection.state_dict())
    assert projection.state_dict() == {"count": 7}
    assert [resumed.step() for _ in range(2)] == [False, True]
    assert hs.optim.WeightProjection(layer).every == 100


def test_projection_refuses_layers_that_were_replaced() -> None:
    model = nn.Sequential(hs.nn.SphereLinear(4, 3), hs.nn.SphereLinear(3, 2))
    projection = hs.optim.WeightProjection(model, every=1)
    model[1] = hs.nn.SphereLinear(3, 2)
    before = model[0].weight.detach().clone()
    with pytest.raises(ValueError, match=r"1.weight was replaced.*WeightProjection again"):
        projection.step()
    assert torch.equal(model[0].weight, before)


@pytest.mark.parametrize("aid", [hs.optim.WeightProjection, hs.optim.weighted_gradients])
def test_weighted_tied_and_parametrized_weights_raise_errors(aid: Any) -> None:
    what = aid.__name__
    for weighted in ("linear", "product", "separate"):
        model = nn.Sequential(hs.nn.SphereLinear(3, 3), hs.nn.DecoupledLinear(3, 3, weighted=weighted))
        with pytest.raises(ValueError, match=rf"{what} changes ‖w‖, on which 1 \(weighted='{weighted}'\) depends"):
            aid(model)
    with pytest.raises(ValueError, match=r"weighted='linear'"):
        aid(hs.nn.DecoupledGRU(3, 3, weighted="linear"))
    with pytest.raises(ValueError, match=rf"{what} found no hyperspherical layer.*hypersphere\.convert"):
        aid(nn.Linear(3, 3))
    with pytest.raises(ValueError, match=r"0\.weight is parametrized: merge"):
        aid(nn.Sequential(parametrizations.orthogonal(hs.nn.SphereLinear(3, 3))))
    tied = nn.Sequential(hs.nn.SphereLinear(3, 3), nn.Linear(3, 3))
    tied[1].weight = tied[0].weight
    with pytest.raises(ValueError, match=r"0\.weight is tied to the plain layer 1"):
        aid(tied)


def test_bad_arguments() -> None:
    layer = hs.nn.SphereLinear(3, 3)
    with pytest.raises(ValueError, match="every=0"):
        hs.optim.WeightProjection(layer, every=0)
    with pytest.raises(ValueError, match=r"norm=-1\.0"):
        hs.optim.WeightProjection(layer, norm=-1.0)
    with pytest.raises(ValueError, match=r"weight_decay=-1"):
        hs.optim.parameter_groups(layer, -1)
    with pytest.raises(TypeError, match=r"model must be a torch\.nn\.Module"):
        hs.optim.parameter_groups(layer.parameters(), 0.1)  # type: ignore[arg-type]


@pytest.mark.parametrize("aid", [hs.optim.WeightProjection, hs.optim.weighted_gradients])
@pytest.mark.parametrize(
    "computed",
    [
        lambda layer: prune.random_unstructured(layer, "weight", 0.5),
        torch.nn.utils.weight_norm,
        torch.nn.utils.spectral_norm,
    ],
    ids=["pruned", "weight_norm", "spectral_norm"],
)
@pytest.mark.filterwarnings("ignore:.*weight_norm.* is deprecated")
def test_weights_that_are_computed_in_each_forward_pass_are_refused(aid: Any, computed: Any) -> None:
    with pytest.raises(ValueError, match=r"0\.weight is not a parameter .*prune\.remove"):
        aid(nn.Sequential(computed(hs.nn.SphereLinear(3, 4))))


def test_gradients_are_weighted_once() -> None:
    """A notebook runs a cell again; the handles of the first call end it."""
    model = hs.nn.SphereLinear(4, 3)
    handles = hs.optim.weighted_gradients(model)
    with pytest.raises(ValueError, match="weight is multiplied by ‖w‖ already: call weighted_gradients once"):
        hs.optim.weighted_gradients(model)
    for handle in handles:
        handle.remove()
    assert len(hs.optim.weighted_gradients(model)) == 1


def test_weighted_gradients_refuse_weights_in_parts() -> None:
    """FSDP2 hands gradients to its parameters without calling their hooks."""
    from torch import distributed
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        model = fully_shard(nn.Sequential(hs.nn.SphereLinear(3, 4)), mesh=init_device_mesh("cpu", (1,)))
        with pytest.raises(ValueError, match=r"0\.weight is a DTensor"):
            hs.optim.weighted_gradients(model)
    finally:
        distributed.destroy_process_group()


@pytest.mark.parametrize("kind", LAYERS)
def test_weighted_gradient_is_that_of_the_unit_weight(kind: str) -> None:
    """‖w‖·∂L/∂w = (I − ŵŵᵀ)·∂L/∂ŵ (thesis 4.18): what a layer whose weights are ŵ gets."""
    make, shape = LAYERS[kind]
    layer, unit_layer = make().double().eval(), make().double().eval()
    unit_layer.load_state_dict(layer.state_dict())
    hs.optim.WeightProjection(unit_layer, every=1).step()
    x = torch.randn(shape, dtype=torch.float64)
    handles = hs.optim.weighted_gradients(layer)
    assert len(handles) == len(weights(layer))
    for each in (layer, unit_layer):
        output(each, x).square().sum().backward()
    for name, weight in weights(layer).items():
        torch.testing.assert_close(weight.grad, weights(unit_layer)[name].grad, rtol=1e-9, atol=1e-11)


def test_weighted_gradients_by_finite_differences_and_their_end() -> None:
    layer = hs.nn.SphereLinear(3, 1, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.mul_(5)
    x = torch.randn(1, 3, dtype=torch.float64)
    (plain,) = torch.autograd.grad(layer(x).sum(), layer.weight)
    unit_x, unit_w = x / x.norm(), layer.weight.detach() / layer.weight.norm()
    (handle,) = hs.optim.weighted_gradients(layer)
    layer(x).sum().backward()
    torch.testing.assert_close(layer.weight.grad, unit_x - (unit_w * unit_x).sum() * unit_w)
    step = 1e-6
    for i in range(3):
        moved = layer.weight.detach().clone()
        moved[0, i] += step * layer.weight.norm().item()  # moves ŵ by ``step``
        value = (moved * x).sum() / moved.norm() / x.norm()
        assert (value - layer(x).sum()).item() / step == pytest.approx(layer.weight.grad[0, i].item(), abs=1e-5)
    handle.remove()
    layer.weight.grad = None
    layer(x).sum().backward()
    torch.testing.assert_close(layer.weight.grad, plain)


def test_tied_and_frozen_weights() -> None:
    a, b = hs.nn.SphereLinear(3, 3, dtype=torch.float64), hs.nn.SphereLinear(3, 3, dtype=torch.float64)
    b.weight = a.weight
    frozen = hs.nn.SphereLinear(3, 3).requires_grad_(False)
    x = torch.randn(4, 3, dtype=torch.float64)
    (plain,) = torch.autograd.grad(b(a(x)).square().sum(), a.weight)
    handles = hs.optim.weighted_gradients(nn.ModuleList([a, b, frozen]))
    assert len(handles) == 1
    b(a(x)).square().sum().backward()
    torch.testing.assert_close(a.weight.grad, plain * a.weight.norm(dim=1, keepdim=True))
    before = frozen.weight.clone()
    hs.optim.WeightProjection(nn.ModuleList([a, b, frozen]), every=1).step()
    torch.testing.assert_close(a.weight.norm(dim=1), torch.ones(3, dtype=torch.float64))
    assert torch.equal(frozen.weight, before)


# Parameter groups ----------------------------------------------------------------------------------------------


class Learned(nn.Module):
    """An h of a user's own, with a matrix to learn."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.ones(2, 2))

    def forward(self, n: Tensor) -> Tensor:
        return n * self.mix.sum()


def test_groups_partition_the_trainable_parameters() -> None:
    g = hs.angular.Sigmoid(learnable=True)
    model = nn.ModuleDict(
        {
            "sphere": hs.nn.SphereConv2d(3, 4, 3, bias=True, affine=True, angular=g),
            "weighted": hs.nn.DecoupledConv2d(4, 4, 3, weighted="linear", magnitude="tanh"),
            "own": hs.nn.DecoupledLinear(4, 4, weighted="product", magnitude=Learned()),
            "transposed": hs.nn.SphereConvTranspose1d(4, 4, 3),
            "gru": hs.nn.DecoupledGRU(4, 4, angular=g, affine=True),
            "heavy": hs.nn.DecoupledLSTM(4, 4, proj_size=2, weighted="separate", magnitude=Learned()),
            "plain": nn.Conv2d(4, 4, 3),
            "batch": nn.BatchNorm2d(4),
            "layer": nn.LayerNorm((4, 5, 5)),
            "rms": nn.RMSNorm((4, 5)),
            "frozen": nn.Linear(4, 4).requires_grad_(False),
            "classifier": nn.Linear(4, 2),
        }
    )
    model["plain"].bias = nn.Parameter(torch.zeros(4, 1))  # a bias all the same
    model["again"] = model["plain"]
    model["attention"] = nn.MultiheadAttention(4, 1, add_bias_kv=True)  # whose bias_k and bias_v are (1, 1, 4)
    decayed, kept = hs.optim.parameter_groups(model, 5e-4)
    assert (decayed["weight_decay"], kept["weight_decay"]) == (5e-4, 0.0)
    names = {id(p): name for name, p in model.named_parameters()}
    found = [names[id(p)] for group in (decayed, kept) for p in group["params"]]
    assert sorted(found) == sorted(name for name, p in model.named_parameters() if p.requires_grad)
    heavy = {f"heavy.weight_{w}_l0" for w in ("ih", "hh", "hr")}
    assert {names[id(p)] for p in decayed["params"]} == {
        "weighted.weight", "own.weight", "plain.weight", "classifier.weight", *heavy,
        "attention.in_proj_weight", "attention.out_proj.weight",
    }  # fmt: skip
    torch.optim.SGD(hs.optim.parameter_groups(model, 5e-4), lr=0.1)  # which refuses duplicates


HEADS: dict[str, Any] = {
    "Softmax": hs.losses.Softmax,
    "LSoftmax": hs.losses.LSoftmax,
    "WSoftmax": hs.losses.WSoftmax,
    "SSoftmax": hs.losses.SSoftmax,
    "GASoftmax": hs.losses.GASoftmax,
    "ASoftmax": hs.losses.ASoftmax,
    "AMSoftmax": hs.losses.AMSoftmax,
    "ArcFace": hs.losses.ArcFace,
    "SphereFaceR": hs.losses.SphereFaceR,
    "SphereFace2": hs.losses.SphereFace2,
}


@pytest.mark.parametrize("name", HEADS)
def test_class_vectors_decay_exactly_where_their_length_counts(name: str) -> None:
    head = HEADS[name](6, 4).double()
    x, labels = torch.randn(5, 6, dtype=torch.float64), torch.tensor([0, 1, 2, 3, 0])
    before = head(x, labels)
    decayed, kept = hs.optim.parameter_groups(nn.ModuleList([nn.Linear(6, 6), head]), 0.1)
    with torch.no_grad():
        head.weight.mul_(torch.tensor([[0.5], [1.5], [2.0], [3.0]], dtype=torch.float64))
    length_counts = not torch.allclose(head(x, labels), before)
    assert any(p is head.weight for p in decayed["params"]) == length_counts
    assert any(p is head.weight for p in kept["params"]) != length_counts


def test_decay_leaves_directions_where_they_are() -> None:
    model = nn.Sequential(hs.nn.SphereLinear(3, 3), nn.Linear(3, 3))
    before = [layer.weight.detach().clone() for layer in model]
    optimizer = torch.optim.SGD(hs.optim.parameter_groups(model, 0.5), lr=0.1)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    assert torch.equal(model[0].weight, before[0])
    torch.testing.assert_close(model[1].weight.detach(), 0.95 * before[1])


@pytest.mark.parametrize("plain", [nn.Embedding(6, 4), nn.Linear(4, 6, bias=False)], ids=["embedding", "linear"])
@pytest.mark.parametrize("plain_first", [True, False])
def test_a_weight_that_a_plain_layer_shares_decays(plain: nn.Module, plain_first: bool) -> None:
    for other in (hs.nn.SphereLinear(4, 6, bias=False), hs.losses.ArcFace(4, 6)):
        other.weight = plain.weight  # type: ignore[assignment]
        model = nn.ModuleList([plain, other] if plain_first else [other, plain])
        decayed, kept = hs.optim.parameter_groups(model, 0.1)
        assert [id(p) for p in decayed["params"]] == [id(plain.weight)]  # type: ignore[attr-defined]
        assert kept["params"] == []
    layer, twin = hs.nn.SphereLinear(4, 6, bias=False), hs.nn.SphereLinear(4, 6, bias=False)
    twin.weight = layer.weight
    assert hs.optim.parameter_groups(nn.ModuleList([layer, twin]), 0.1)[0]["params"] == []
