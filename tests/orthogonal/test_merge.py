"""hs.orthogonal.merge and what lies between attach and it: tasks, copies, dtypes, compilers, errors."""

from __future__ import annotations

import copy

import pytest
import torch
from orthogonal_models import IMAGES, Recurrent, assert_untouched, convnet, defect, snapshot
from torch import nn

import hypersphere as hs


def test_tasks_share_the_neurons() -> None:
    model = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 4))
    hs.orthogonal.attach(model, "cayley", tasks=2)
    x = torch.randn(3, 6)
    outputs = [hs.orthogonal.set_task(model, task)(x) for task in (0, 1)]
    assert not torch.allclose(*outputs)
    outputs[1].sum().backward()
    blocks = model[0].parametrizations.weight[0].tasks
    assert blocks[0].raw[0].grad is None
    assert blocks[1].raw[0].grad is not None
    assert len([b for b in model.buffers() if b.shape == (5, 6)]) == 1
    torch.testing.assert_close(hs.orthogonal.merge(copy.deepcopy(model), task=0)(x), outputs[0])
    torch.testing.assert_close(hs.orthogonal.merge(model)(x), outputs[1])
    with pytest.raises(ValueError, match="tasks=1"):
        hs.orthogonal.set_task(hs.orthogonal.attach(convnet()), 1)


def test_learnable_neurons_keep_their_parameter() -> None:
    model = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 4))
    weight = model[0].weight
    hs.orthogonal.attach(model, "cayley", learn_v=True)
    assert model[0].parametrizations.weight.original is weight
    model(torch.randn(2, 6)).sum().backward()
    assert weight.grad is not None
    hs.orthogonal.merge(model)
    assert model[0].weight is weight


def test_optimizer_state_elsewhere_survives_merging() -> None:
    model = hs.orthogonal.attach(nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 4)), "cayley")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.randn(2, 6)).square().sum().backward()
    optimizer.step()
    head = model[1].weight
    momentum = optimizer.state[head]["momentum_buffer"].clone()
    hs.orthogonal.merge(model)
    assert model[1].weight is head
    assert torch.equal(optimizer.state[head]["momentum_buffer"], momentum)


def test_state_dict_round_trip_before_and_after_merging() -> None:
    model, other = (hs.orthogonal.attach(convnet(), "householder", blocks=2) for _ in range(2))
    assert not torch.allclose(model(IMAGES), other(IMAGES))
    other.load_state_dict(model.state_dict())
    torch.testing.assert_close(other(IMAGES), model(IMAGES), atol=0, rtol=0)
    assigned = hs.orthogonal.attach(convnet(), "gradient")
    tagged = [hs.orthogonal.is_orthogonal(p) for p in assigned.parameters()]
    assigned.load_state_dict({name: t.clone() for name, t in assigned.state_dict().items()}, assign=True)
    assert [hs.orthogonal.is_orthogonal(p) for p in assigned.parameters()] == tagged
    assert any(tagged)
    plain = convnet()
    plain.load_state_dict(hs.orthogonal.merge(model).state_dict())
    torch.testing.assert_close(plain(IMAGES), other(IMAGES), atol=1e-6, rtol=0)


def test_deepcopy_is_independent() -> None:
    model = hs.orthogonal.attach(convnet(), "gradient")
    model(IMAGES).sum().backward()
    copied = copy.deepcopy(model)
    torch.testing.assert_close(copied(IMAGES), model(IMAGES))
    assert [hs.orthogonal.is_orthogonal(p) for p in copied.parameters()] == [
        hs.orthogonal.is_orthogonal(p) for p in model.parameters()
    ]
    before = model(IMAGES)
    hs.orthogonal.merge(copied)
    torch.testing.assert_close(model(IMAGES), before)
    partly = hs.orthogonal.attach(Recurrent(nn.GRU), include="rnn.weight_hh*")
    hs.orthogonal.attach(copy.deepcopy(partly), include="rnn.weight_ih*")
    assert partly(torch.ones(1, 1, 5)).isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("when", ["before", "after"])
def test_half_precision_models_keep_r_in_float32(dtype: torch.dtype, when: str) -> None:
    model = nn.Sequential(nn.Linear(8, 6), nn.Linear(6, 2))
    if when == "before":
        model.to(dtype)
    hs.orthogonal.attach(model, "cayley")
    model.to(dtype)
    assert model[0].weight.dtype == dtype
    assert model[0].parametrizations.weight.original.dtype == dtype
    r = hs.orthogonal.matrices(model)["0.weight"]
    assert r.dtype == torch.float32
    assert defect(r) < 1e-5
    model(torch.randn(3, 8, dtype=dtype)).float().sum().backward()
    hs.orthogonal.merge(model)
    assert model[0].weight.dtype == dtype


def test_autocast_keeps_r_and_the_product_in_float32() -> None:
    model = hs.orthogonal.attach(nn.Sequential(nn.Linear(8, 6), nn.Linear(6, 2)), "lowdin")
    expected = model[0].weight.detach().clone()
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(model[0].weight.detach(), expected)
        loss = model(torch.randn(3, 8)).float().sum()
    loss.backward()
    assert model[0].parametrizations.weight[0].active.raw[0].grad.dtype == torch.float32


def test_float64_models_stay_float64() -> None:
    model = hs.orthogonal.attach(nn.Sequential(nn.Linear(8, 6), nn.Linear(6, 2)).double(), "gradient")
    assert defect(hs.orthogonal.matrices(model)["0.weight"]) < 1e-13


def test_attention() -> None:
    model = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True)
    hs.orthogonal.attach(model, "lowdin")
    assert set(hs.orthogonal.matrices(model)) == {
        "self_attn.in_proj_weight",
        "self_attn.out_proj.weight",
        "linear1.weight",
    }
    x = torch.randn(2, 5, 8)
    before = model(x)
    torch.testing.assert_close(hs.orthogonal.merge(copy.deepcopy(model))(x), before, atol=1e-6, rtol=0)
    model.eval()
    with torch.no_grad():  # the fused inference path reads the weights by itself
        torch.testing.assert_close(model(x), before.detach(), atol=1e-5, rtol=0)


def test_include_and_skip() -> None:
    attached = hs.orthogonal.attach(convnet(), include=["0", "2"])
    assert set(hs.orthogonal.matrices(attached)) == {"0.weight", "2.weight"}
    attached = hs.orthogonal.attach(convnet(), skip="0")
    assert set(hs.orthogonal.matrices(attached)) == {"2.weight", "4.weight", "7.weight"}
    model = Recurrent(nn.GRU)
    hs.orthogonal.attach(model, include="rnn.weight_hh*")
    assert set(hs.orthogonal.matrices(model)) == {"rnn.weight_hh_l0", "rnn.weight_hh_l1"}
    before = model(torch.ones(1, 1, 5))
    torch.testing.assert_close(hs.orthogonal.merge(model)(torch.ones(1, 1, 5)), before)
    twice = hs.orthogonal.attach(convnet(), "cayley", include="0")
    hs.orthogonal.attach(twice, "lowdin", include="2")  # methods may differ by layer
    assert set(hs.orthogonal.matrices(twice)) == {"0.weight", "2.weight"}


def test_the_output_layer_can_be_another() -> None:
    backbone = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 4))
    hs.orthogonal.attach(backbone, head=nn.Linear(4, 2))
    assert set(hs.orthogonal.matrices(backbone)) == {"0.weight", "1.weight"}
    model = hs.orthogonal.attach(nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 4)), output_layer="0")
    assert set(hs.orthogonal.matrices(model)) == {"1.weight"}


def test_compiles_with_its_gradients() -> None:
    model = hs.orthogonal.attach(nn.Sequential(nn.Linear(7, 6), nn.Tanh(), nn.Linear(6, 2)), "householder", blocks=2)
    x = torch.randn(3, 7)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), model(x))
    compiled(x).sum().backward()
    grads = [p.grad for p in model.parameters()]
    model.zero_grad()
    model(x).sum().backward()
    for grad, p in zip(grads, model.parameters(), strict=True):
        torch.testing.assert_close(grad, p.grad)


def test_exports_after_merging() -> None:
    model = hs.orthogonal.attach(convnet().eval(), "householder", blocks=2)
    before = model(IMAGES)
    program = torch.export.export(hs.orthogonal.merge(model), (IMAGES,))
    torch.testing.assert_close(program.module()(IMAGES), before, atol=1e-5, rtol=1e-5)
    assert not any("orthogonalize" in str(node.target) for node in program.graph.nodes)


def test_errors_leave_the_model_as_it_was() -> None:
    def refused(match: str, model: nn.Module | None = None, *args: object, **options: object) -> None:
        model = convnet() if model is None else model
        before = snapshot(model)
        with pytest.raises((ValueError, TypeError), match=match):
            hs.orthogonal.attach(model, *args, **options)
        assert_untouched(model, before)

    refused("output layer", include=["0", "8"])
    refused("output layer", include="8.weight")
    refused("did you mean 'cayley'", None, "cayly")
    refused("method=3", None, 3)
    refused("blocks=0", blocks=0)
    refused("blocks=2.5", blocks=2.5)
    refused("blocks=10 is more than", blocks=10)
    refused("matches none", include="layer*")
    refused("init='zero'", init="zero")
    refused("refine='both'", refine="both")
    refused("neurons='old'", neurons="old")
    refused("tasks=0", tasks=0)
    refused("nothing to attach", nn.Sequential(nn.Linear(3, 2)))
    refused("nothing to attach", nn.Sequential(nn.ReLU()))
    tied = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 2))
    tied[1].weight = tied[0].weight
    refused("tied to 1.weight", tied)
    refused("one matrix for each block", None, lambda u: u[..., :2])


def test_attach_twice_and_merge_without_attach() -> None:
    model = hs.orthogonal.attach(convnet())
    before = model(IMAGES)
    with pytest.raises(ValueError, match=r"0\.weight is attached already: merge"):
        hs.orthogonal.attach(model)
    torch.testing.assert_close(model(IMAGES), before)
    plain = convnet()
    for function in (hs.orthogonal.merge, hs.orthogonal.matrices, hs.orthogonal.penalty):
        with pytest.raises(ValueError, match="has no orthogonal parametrization"):
            function(plain)
    normed = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(3, 3)), nn.Linear(3, 2))
    with pytest.raises(ValueError, match="another parametrization"):
        hs.orthogonal.attach(normed)
    lazy = nn.Sequential(nn.LazyLinear(3), nn.Linear(3, 2))
    with pytest.raises(ValueError, match="no shape yet"):
        hs.orthogonal.attach(lazy)


def test_a_shared_module_is_attached_once() -> None:
    layer = nn.Linear(4, 4)
    model = nn.Sequential(layer, layer, nn.Linear(4, 2))
    hs.orthogonal.attach(model)
    assert list(hs.orthogonal.matrices(model)) == ["0.weight"]
    x = torch.randn(2, 4)
    before = model(x)
    torch.testing.assert_close(hs.orthogonal.merge(model)(x), before)


@pytest.mark.parametrize("learn_v", [False, True])
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("kernel", [1, 3])
def test_merge_keeps_the_memory_format(kernel: int, late: bool, learn_v: bool) -> None:
    """Channels last before attach, or between attach and merge."""
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Conv2d(4, 6, kernel), nn.Conv2d(6, 2, kernel), nn.Flatten(), nn.LazyLinear(2))
    plain(torch.zeros(1, 4, 7, 7))
    model = copy.deepcopy(plain).to(memory_format=torch.contiguous_format if late else torch.channels_last)
    strides = copy.deepcopy(plain).to(memory_format=torch.channels_last)[0].weight.stride()
    for one in (plain, model):
        draw = torch.Generator().manual_seed(1)
        hs.orthogonal.attach(one, "cayley", neurons="keep", learn_v=learn_v, generator=draw)
    model.to(memory_format=torch.channels_last)
    trained = model[0].parametrizations.weight.original if learn_v else None
    for one in (plain, model):
        hs.orthogonal.merge(one)
    assert model[0].weight.stride() == strides
    assert torch.equal(model[0].weight, plain[0].weight)
    assert trained is None or model[0].weight is trained
