"""hs.orthogonal.attach and merge: what is rotated, how it starts, what remains."""

from __future__ import annotations

import copy

import numpy as np
import orthogonal_reference as reference
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

import hypersphere as hs

ORTHOGONAL = ("gram_schmidt", "householder", "lowdin", "cayley", "exponential", "gradient")
OTHERS = ("free", "relaxed", "cholesky", "triangular", "banded", "symmetric", "low_rank")


def convnet() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, bias=False),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, groups=4),
        nn.ReLU(),
        nn.ConvTranspose2d(8, 6, 2, groups=2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(6, 5),
        nn.Linear(5, 4),
    )


IMAGES = torch.randn(2, 3, 9, 9, generator=torch.Generator().manual_seed(0))


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase], **options: object) -> None:
        super().__init__()
        self.rnn = kind(5, 6, 2, **options)  # type: ignore[arg-type]
        self.out = nn.Linear(self.rnn(torch.zeros(1, 1, 5))[0].shape[-1], 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.rnn(x)[0])


def defect(r: Tensor) -> float:
    r = r.detach().double()
    return float((r.mT @ r - torch.eye(len(r), dtype=r.dtype)).abs().max())


def snapshot(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def assert_untouched(model: nn.Module, before: dict[str, Tensor]) -> None:
    after = model.state_dict()
    assert list(after) == list(before)
    for name, tensor in before.items():
        assert torch.equal(after[name], tensor), name
    assert not any(parametrize.is_parametrized(module) for module in model.modules())


@pytest.mark.parametrize("method", ORTHOGONAL)
@pytest.mark.parametrize("blocks", [1, 2, 5])
@pytest.mark.parametrize("share", [False, True])
def test_weights_are_rotated_neurons(method: str, blocks: int, share: bool) -> None:
    model = hs.orthogonal.attach(convnet(), method, blocks=blocks, share_blocks=share)
    for index in (0, 2, 4, 7):
        layer = model[index]
        r = hs.orthogonal.matrices(model)[f"{index}.weight"]
        assert defect(r) < 1e-5
        v = layer.parametrizations.weight.original
        for neuron, fixed in zip(rows(layer, layer.weight), rows(layer, v), strict=True):
            torch.testing.assert_close(neuron, r @ fixed)
    assert not parametrize.is_parametrized(model[8])


def rows(layer: nn.Module, weight: Tensor) -> list[Tensor]:
    """The neurons, one by one: filters, or for transposed convolutions the inputs' weights of one output."""
    if not isinstance(layer, nn.ConvTranspose2d):
        return [w.flatten() for w in weight]
    per_group = weight.shape[0] // layer.groups
    groups = [weight[g * per_group : (g + 1) * per_group] for g in range(layer.groups)]
    return [group[:, out].flatten() for group in groups for out in range(weight.shape[1])]


@pytest.mark.parametrize("method", ORTHOGONAL)
def test_energy_norms_and_angles_stay(method: str) -> None:
    model = hs.orthogonal.attach(nn.Sequential(nn.Linear(12, 10), nn.Linear(10, 2)), method).double()
    v = model[0].parametrizations.weight.original.detach().numpy()
    w = model[0].weight.detach().numpy()
    assert reference.energy(w) == pytest.approx(reference.energy(v), rel=1e-6)
    np.testing.assert_allclose(w @ w.T, v @ v.T, atol=1e-5)
    assert np.abs(w - v).max() > 0.1


@pytest.mark.parametrize("method", [*ORTHOGONAL, *OTHERS])
def test_merged_equals_unmerged(method: str) -> None:
    model = convnet()
    keys, shapes = list(model.state_dict()), [p.shape for p in model.parameters()]
    hs.orthogonal.attach(model, method, blocks=2)
    before = model(IMAGES)
    hs.orthogonal.merge(model)
    torch.testing.assert_close(model(IMAGES), before, atol=1e-6, rtol=0)
    assert list(model.state_dict()) == keys
    assert [p.shape for p in model.parameters()] == shapes
    assert all(p.requires_grad and p.is_leaf for p in model.parameters())
    assert type(model[0]) is nn.Conv2d
    hs.orthogonal.attach(model, method)  # progressive training (thesis F.8)


@pytest.mark.parametrize("kind", [nn.Conv1d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose3d])
def test_convolutions_of_other_dimensions(kind: type[nn.Module]) -> None:
    layer = kind(4, 6, 2, groups=2)
    x = torch.randn(1, 4, *[5] * (1 if kind in (nn.Conv1d, nn.ConvTranspose1d) else 3))
    model = hs.orthogonal.attach(nn.Sequential(layer), "lowdin")
    (r,) = hs.orthogonal.matrices(model).values()
    assert len(r) == 4 * (2 if x.dim() == 3 else 8) // 2
    before = model(x)
    torch.testing.assert_close(hs.orthogonal.merge(model)(x), before, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (nn.RNN, {}),
        (nn.LSTM, {"bidirectional": True}),
        (nn.LSTM, {"proj_size": 3, "bias": False}),
        (nn.GRU, {"batch_first": True}),
    ],
)
def test_recurrent_layers(kind: type[nn.RNNBase], options: dict[str, object]) -> None:
    model = Recurrent(kind, **options)
    keys = list(model.state_dict())
    x = torch.randn(3, 2, 5)
    hs.orthogonal.attach(model, "cayley")
    before = model(x)
    before.sum().backward()
    grads = [blocks.raw[0].grad for blocks in model.modules() if type(blocks).__name__ == "BlockMatrix"]
    assert grads
    assert all(grad is not None and bool(grad.abs().sum() > 0) for grad in grads)
    copied = copy.deepcopy(model)
    torch.testing.assert_close(copied(x), before)
    with torch.no_grad():  # the copy computes with its own matrices, as they are now
        next(b for b in copied.modules() if type(b).__name__ == "BlockMatrix").raw[0].mul_(-3.0)
    assert not torch.allclose(copied(x), before)
    torch.testing.assert_close(model.to(torch.float32)(x), before)
    hs.orthogonal.merge(model)
    torch.testing.assert_close(model(x), before, atol=1e-6, rtol=0)
    assert list(model.state_dict()) == keys
    assert type(model.rnn) is kind
    torch.testing.assert_close(copy.deepcopy(model)(x), before, atol=1e-6, rtol=0)


def test_identity_start_is_orthogonal_fine_tuning() -> None:
    for method in (*ORTHOGONAL, "free", "relaxed", "cholesky", "triangular", "banded", "symmetric", "low_rank"):
        model = convnet()
        before = model(IMAGES)
        hs.orthogonal.attach(model, method, init="identity", blocks=2)
        torch.testing.assert_close(model(IMAGES), before, atol=1e-6, rtol=0)


def test_random_start_draws_he_neurons() -> None:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(200, 400), nn.Linear(400, 2))
    kept = model[0].weight.detach().clone()
    hs.orthogonal.attach(model, "gradient")
    v = model[0].parametrizations.weight.original
    assert not isinstance(v, nn.Parameter)
    assert float(v.std()) == pytest.approx((2 / 200) ** 0.5, rel=0.02)
    assert float((v**4).mean() / v.var() ** 2) == pytest.approx(3.0, rel=0.05)  # Gaussian, not uniform (1.8)
    other = nn.Sequential(nn.Linear(200, 400), nn.Linear(400, 2))
    other[0].weight.data.copy_(kept)
    hs.orthogonal.attach(other, "gradient", neurons="keep")
    assert torch.equal(other[0].parametrizations.weight.original, kept)


@pytest.mark.parametrize("method", ["cayley", "exponential"])
def test_the_default_skew_start_is_like_a_uniform_rotation_and_the_literal_one_is_not(method: str) -> None:
    diagonals = {}
    for init in ("random", "literal"):
        torch.manual_seed(0)
        model = hs.orthogonal.attach(nn.Sequential(nn.Linear(288, 4), nn.Linear(4, 2)), method, init=init)
        diagonals[init] = float(hs.orthogonal.matrices(model)["0.weight"].diagonal().mean())
    assert abs(diagonals["random"]) < 0.05
    if method == "cayley":
        assert diagonals["literal"] < -0.8  # near −I


def test_generator_makes_starts_reproducible() -> None:
    weights = []
    for _ in range(2):
        model = convnet()
        hs.orthogonal.attach(model, "lowdin", generator=torch.Generator().manual_seed(5))
        weights.append(model[2].weight.detach())
    assert torch.equal(*weights)


def test_normalized_neurons() -> None:
    model = hs.orthogonal.attach(convnet(), "gram_schmidt", normalize=True)
    for index in (0, 2, 4, 7):
        for neuron in rows(model[index], model[index].weight):
            assert float(neuron.norm()) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("space", ["full", "half"])
def test_refined_neurons_have_less_energy_and_their_lengths(space: str) -> None:
    torch.manual_seed(0)
    plain, refined = (nn.Sequential(nn.Linear(4, 12), nn.Linear(12, 2)) for _ in range(2))
    refined.load_state_dict(plain.state_dict())
    hs.orthogonal.attach(plain, "lowdin", neurons="keep")
    hs.orthogonal.attach(refined, "lowdin", neurons="keep", refine=space)
    v, better = (m[0].parametrizations.weight.original.detach() for m in (plain, refined))
    torch.testing.assert_close(better.norm(dim=1), v.norm(dim=1))
    pair = [torch.cat([x, -x]) if space == "half" else x for x in (v, better)]
    assert reference.energy(pair[1].double().numpy()) < reference.energy(pair[0].double().numpy())


@pytest.mark.parametrize(("dim", "blocks", "sizes"), [(12, 4, [3] * 4), (11, 4, [3, 3, 3, 2]), (7, 7, [1] * 7)])
def test_blocks_divide_the_neuron_evenly_or_nearly(dim: int, blocks: int, sizes: list[int]) -> None:
    for share in (False, True):
        model = nn.Sequential(nn.Linear(dim, 5), nn.Linear(5, 2))
        hs.orthogonal.attach(model, "gram_schmidt", blocks=blocks, share_blocks=share)
        r = hs.orthogonal.matrices(model)["0.weight"]
        found, start = [], 0
        for size in sizes:
            found.append(r[start : start + size, start : start + size])
            start += size
        torch.testing.assert_close(torch.block_diag(*found), r)
        same = torch.equal(found[0], found[1])
        assert same == (share or (sizes[0] == 1 and bool(found[0].sign() == found[1].sign())))
        free = sum(p.numel() for name, p in model.named_parameters() if ".raw." in name)
        assert free == sum(size**2 for size in (set(sizes) if share else sizes))


def test_structures_of_generalised_training() -> None:
    def matrix(method: object) -> Tensor:
        torch.manual_seed(0)
        model = hs.orthogonal.attach(nn.Sequential(nn.Linear(9, 5), nn.Linear(5, 2)), method)
        return hs.orthogonal.matrices(model)["0.weight"].detach()

    r = matrix("cholesky")
    assert torch.linalg.eigvalsh(r).min() > 0
    torch.testing.assert_close(r, r.mT)
    r = matrix("triangular")
    assert torch.equal(r, r.tril())
    assert torch.equal(
        matrix(hs.orthogonal.Triangular(upper=True)), matrix(hs.orthogonal.Triangular(upper=True)).triu()
    )
    r = matrix(hs.orthogonal.Banded(width=2))
    assert torch.equal(r, r.tril(2).triu(-2))
    assert bool((r.diagonal(2) != 0).all())
    r = matrix("symmetric")
    assert torch.equal(r, r.mT)
    assert int(torch.linalg.matrix_rank(matrix(hs.orthogonal.LowRank(rank=3)) - torch.eye(9))) == 3
    assert defect(matrix("free")) < 1e-5  # UPT starts where OPT does
    torch.testing.assert_close(matrix(lambda u: u @ u.mT), torch.eye(9))


class Scaled(nn.Module):
    """A user's own map with a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, u: Tensor) -> Tensor:
        return self.scale * u


def test_a_users_module_is_copied_for_each_layer_and_trained() -> None:
    model = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 4), nn.Linear(4, 2))
    own = Scaled()
    hs.orthogonal.attach(model, own, init="identity")
    scales = [p for name, p in model.named_parameters() if name.endswith("scale")]
    assert len(scales) == 2
    assert own.scale not in set(scales)
    model(torch.randn(3, 6)).sum().backward()
    assert all(p.grad is not None for p in scales)
    copied = copy.deepcopy(model)
    with torch.no_grad():
        next(p for name, p in copied.named_parameters() if name.endswith("scale")).fill_(5.0)
    torch.testing.assert_close(hs.orthogonal.matrices(copied)["0.weight"], 5 * torch.eye(6))
    torch.testing.assert_close(hs.orthogonal.matrices(model)["0.weight"], 2 * torch.eye(6))


def test_penalty_of_relaxed_matrices() -> None:
    model = hs.orthogonal.attach(nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 4), nn.Linear(4, 2)), "relaxed")
    assert float(hs.orthogonal.penalty(model)) < 1e-8
    with torch.no_grad():
        for name, p in model.named_parameters():
            if ".raw." in name:
                p.mul_(2.0)  # RᵀR − I = 3I
    value = hs.orthogonal.penalty(model, beta=0.5)
    assert float(value) == pytest.approx(0.5 * 9 * (6 + 5), rel=1e-5)
    value.backward()
    with pytest.raises(ValueError, match="no relaxed matrix"):
        hs.orthogonal.penalty(hs.orthogonal.attach(nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 4)), "free"))


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
    refused("one matrix a block", None, lambda u: u[..., :2])


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
