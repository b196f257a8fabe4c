"""hs.orthogonal.attach: what is rotated, how it starts, what R may be."""

from __future__ import annotations

import copy

import numpy as np
import orthogonal_reference as reference
import pytest
import torch
from orthogonal_models import IMAGES, ORTHOGONAL, OTHERS, Recurrent, convnet, defect, rows
from torch import Tensor, nn
from torch.nn.utils import parametrize

import hypersphere as hs


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
    for method in (*ORTHOGONAL, *OTHERS, "canonical"):
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


@pytest.mark.parametrize("method", ["gram_schmidt", "householder", "lowdin", "canonical"])
def test_the_unit_start_is_the_random_r_of_shorter_columns(method: str) -> None:
    """R does not depend on the length of U's columns, but how far a step of SGD turns it does."""
    turned, matrices, lengths = {}, {}, {}
    for init in ("unit", "random"):
        torch.manual_seed(0)
        model = hs.orthogonal.attach(nn.Sequential(nn.Linear(100, 60), nn.Linear(60, 2)), method, init=init)
        (raw,) = [p for name, p in model.named_parameters() if p.shape[-2:] == (100, 100)]
        matrices[init] = hs.orthogonal.matrices(model)["0.weight"].detach()
        lengths[init] = float(raw.detach().norm(dim=-2).mean())
        slope = torch.randn(100, 100, generator=torch.Generator().manual_seed(1))
        (hs.orthogonal.matrices(model)["0.weight"] * slope).sum().backward()
        torch.optim.SGD([raw], lr=1e-5).step()
        turned[init] = float((hs.orthogonal.matrices(model)["0.weight"].detach() - matrices[init]).norm())
    torch.testing.assert_close(matrices["unit"], matrices["random"], atol=1e-4, rtol=0)
    assert lengths["unit"] == pytest.approx(1.0, abs=0.03)
    assert lengths["random"] == pytest.approx(10.0, abs=0.3)
    if method != "canonical":  # whose gradients are large wherever singular values are near each other
        assert turned["unit"] == pytest.approx(100 * turned["random"], rel=0.1)


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


def test_neurons_refined_by_a_function_of_ones_own() -> None:
    model = nn.Sequential(nn.Linear(4, 12), nn.Linear(12, 2))
    lengths = model[0].weight.detach().norm(dim=1)
    hs.orthogonal.attach(model, "cayley", neurons="keep", refine=lambda v: torch.ones_like(v))
    v = model[0].parametrizations.weight.original
    torch.testing.assert_close(v, (lengths / 2)[:, None].expand(12, 4))
    other = nn.Sequential(nn.Linear(4, 12), nn.Linear(12, 2))
    with pytest.raises(ValueError, match=r"refine must give directions of shape \(1, 12, 4\) for 0.weight"):
        hs.orthogonal.attach(other, "cayley", refine=lambda v: v.mT)
    assert not hasattr(other[0], "parametrizations")


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
    r = matrix("skew_symmetric")
    assert torch.equal(r, -r.mT)
    assert float(r.square().sum(1).mean()) == pytest.approx(1.0, abs=0.4)  # lengths are kept on average
    with pytest.raises(ValueError, match="init='identity' with a skew-symmetric R"):
        hs.orthogonal.attach(nn.Sequential(nn.Linear(9, 5), nn.Linear(5, 2)), "skew_symmetric", init="identity")
    with pytest.raises(ValueError, match="a skew-symmetric R of one row is 0"):
        hs.orthogonal.attach(nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 2)), "skew_symmetric", blocks=6)
    r = matrix("hessenberg")
    assert torch.equal(r, r.triu(-1))
    assert bool((r.diagonal(-1) != 0).all())
    r = matrix(hs.orthogonal.Hessenberg(upper=False))
    assert torch.equal(r, r.tril(1))
    assert int(torch.linalg.matrix_rank(matrix(hs.orthogonal.LowRank(rank=3)) - torch.eye(9))) == 3
    assert defect(matrix("free")) < 1e-5  # UPT starts where OPT does
    torch.testing.assert_close(matrix(lambda u: u @ u.mT), torch.eye(9))


def test_canonical_orthogonalization_is_thesis_f_11() -> None:
    u = torch.randn(3, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    r = hs.orthogonal.Canonical()(u)
    for matrix, found in zip(u, r, strict=True):
        d, v = torch.linalg.eigh(matrix.mT @ matrix)
        d, v = d.flip(0), v.flip(1)
        v = v * v.gather(0, v.abs().argmax(0, keepdim=True)).sign()
        torch.testing.assert_close(found, matrix @ v @ torch.diag(d**-0.5), rtol=1e-8, atol=1e-8)
        torch.testing.assert_close(found.mT @ found, torch.eye(6, dtype=torch.float64), rtol=0, atol=1e-12)
    assert torch.autograd.gradcheck(hs.orthogonal.Canonical(), u[:1].clone().requires_grad_())
    torch.testing.assert_close(hs.orthogonal.Canonical()(3 * u), r)  # lengths do not matter


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


def test_a_shared_block_counts_as_often_as_it_occurs() -> None:
    """The penalty is that of the whole R, whether its blocks are one parameter or many."""
    torch.manual_seed(0)
    shared = nn.Sequential(nn.Linear(11, 5), nn.Linear(5, 2))
    hs.orthogonal.attach(shared, "relaxed", blocks=4, share_blocks=True, init="literal", neurons="gaussian")
    r = hs.orthogonal.matrices(shared)["0.weight"].detach()
    expected = float((r.mT @ r - torch.eye(11)).square().sum())
    assert float(hs.orthogonal.penalty(shared).detach()) == pytest.approx(expected, rel=1e-5)


def test_new_neurons_are_announced(caplog: pytest.LogCaptureFixture) -> None:
    def network() -> nn.Sequential:
        return nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))

    with caplog.at_level("WARNING", "hypersphere"):
        hs.orthogonal.attach(network(), output_layer="1")
    assert "drew new neurons" in caplog.text
    for quiet in ({"neurons": "gaussian"}, {"neurons": "keep"}, {"init": "identity"}):
        caplog.clear()
        with caplog.at_level("WARNING", "hypersphere"):
            hs.orthogonal.attach(network(), output_layer="1", **quiet)
        assert "neurons" not in caplog.text


def test_models_say_what_their_output_layers_are() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3), nn.Linear(3, 2))
    model.get_classifier = lambda: model[1]  # type: ignore[assignment]
    hs.orthogonal.attach(model, neurons="keep")
    assert set(hs.orthogonal.matrices(model)) == {"0.weight", "2.weight"}
    headless = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))
    hs.orthogonal.attach(headless, neurons="keep", output_layer=False)
    assert set(hs.orthogonal.matrices(headless)) == {"0.weight", "1.weight"}


def test_the_parameters_of_r_are_found_for_a_rate_of_their_own() -> None:
    model = hs.orthogonal.attach(convnet(), "lowdin", neurons="keep", tasks=2)
    found = {id(p) for p in hs.orthogonal.rotation_parameters(model)}
    assert found == {id(p) for name, p in model.named_parameters() if ".raw." in name}
    assert len(found) == 8


@pytest.mark.parametrize("method", ["householder", "gram_schmidt", "lowdin", "cayley", "exponential"])
@pytest.mark.parametrize("dim", [7, 8])
def test_a_small_step_from_the_identity_changes_little(method: str, dim: int) -> None:
    """Householder's own algorithm turns the last column over as soon as U leaves the identity, if d is even."""
    torch.manual_seed(0)
    for attached in (True, False):
        model = nn.Sequential(nn.Linear(dim, 6), nn.ReLU(), nn.Linear(6, 3))
        x = torch.randn(5, dim)
        before = model(x).detach()
        if attached:
            hs.orthogonal.attach(model, method, init="identity")
        else:
            hs.orthogonal.adapter(model, method)
        torch.testing.assert_close(model(x), before)
        model(x).sum().backward()
        torch.optim.SGD(hs.orthogonal.rotation_parameters(model) if attached else
                        [p for p in model.parameters() if p.requires_grad], lr=1e-6).step()  # fmt: skip
        assert (model(x) - before).abs().max() < 1e-3


@pytest.mark.parametrize("method", ["gradient", "relaxed", "free", "cayley", "lowdin", "canonical"])
def test_tensors_are_laid_out_as_those_of_ordinary_networks(method: str) -> None:
    """Others ask for it: safetensors, parameters_to_vector, LBFGS."""
    layers = (nn.ConvTranspose2d(4, 6, 3), nn.ConvTranspose2d(6, 4, 3, groups=2), hs.nn.SphereConvTranspose2d(4, 2, 3))
    model = nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(2))
    model(torch.randn(2, 4, 5, 5))
    for _ in range(2):
        hs.orthogonal.attach(model, method, neurons="gaussian")
        assert all(tensor.is_contiguous() for tensor in model.state_dict().values())
        hs.orthogonal.merge(model)
        assert all(tensor.is_contiguous() for tensor in model.state_dict().values())
        nn.utils.parameters_to_vector(model.parameters())
