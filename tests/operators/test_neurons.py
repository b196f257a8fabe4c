"""One reading of a model's neurons: sets, output layer, patterns."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils import parametrizations

import hypersphere as hs
from hypersphere._core.neurons import Neurons, is_named, iter_neurons, matches, select
from hypersphere._core.output_layer import find_output_layer


def found(model: nn.Module) -> dict[str, tuple[int, ...]]:
    return {neurons.name: tuple(neurons.matrix().shape) for neurons in iter_neurons(model)}


def test_every_layer_type() -> None:
    model = nn.ModuleDict(
        {
            "conv": nn.Conv2d(4, 6, 3, groups=2),
            "transposed": nn.ConvTranspose1d(4, 6, 5, groups=2),
            "linear": nn.Linear(7, 3),
            "sphere": hs.nn.SphereConv3d(2, 3, 2),
            "norm": nn.BatchNorm2d(3),
            "embedding": nn.Embedding(5, 3),
            "rnn": nn.RNN(3, 4),
            "gru": hs.nn.SphereGRU(3, 4),
            "lstm": nn.LSTM(3, 4, proj_size=2, bidirectional=True),
            "attention": nn.MultiheadAttention(4, 2),
            "cross": nn.MultiheadAttention(4, 2, kdim=3, vdim=5),
        }
    )
    lstm = {}
    for suffix in ("", "_reverse"):
        lstm |= {f"lstm.weight_ih_l0{suffix}": (4, 4, 3), f"lstm.weight_hh_l0{suffix}": (4, 4, 2)}
        lstm |= {f"lstm.weight_hr_l0{suffix}": (1, 2, 4)}
    assert found(model) == {
        "conv.weight": (2, 3, 18),
        "transposed.weight": (2, 3, 10),
        "linear.weight": (1, 3, 7),
        "sphere.weight": (1, 3, 16),
        "rnn.weight_ih_l0": (1, 4, 3),
        "rnn.weight_hh_l0": (1, 4, 4),
        "gru.weight_ih_l0": (3, 4, 3),
        "gru.weight_hh_l0": (3, 4, 4),
        **lstm,
        "attention.in_proj_weight": (3, 4, 4),
        "attention.out_proj.weight": (1, 4, 4),
        "cross.q_proj_weight": (1, 4, 4),
        "cross.k_proj_weight": (1, 4, 3),
        "cross.v_proj_weight": (1, 4, 5),
        "cross.out_proj.weight": (1, 4, 4),
    }


def test_transposed_neurons_are_the_kernels_of_output_channels() -> None:
    layer = nn.ConvTranspose2d(4, 6, 3, groups=2)
    (neurons,) = iter_neurons(layer)
    matrix = neurons.matrix()
    for group in range(2):
        for channel in range(3):
            kernel = layer.weight[2 * group : 2 * group + 2, channel]
            assert torch.equal(matrix[group, channel], kernel.flatten())


@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), st.lists(st.integers(1, 3), max_size=3), st.booleans())
@settings(deadline=None, max_examples=30)
def test_unflatten_inverts_flatten(groups: int, cin: int, cout: int, kernel: list[int], transposed: bool) -> None:
    shape = torch.Size((groups * cin, cout, *kernel) if transposed else (groups * cout, cin, *kernel))
    weight = torch.randn(shape)
    neurons = Neurons("", nn.Identity(), "weight", groups, transposed)
    matrix = neurons.flatten(weight)
    assert matrix.shape == (groups, cout, weight.numel() // (groups * cout))
    assert torch.equal(neurons.unflatten(matrix, shape), weight)


def test_parametrized_weight_is_the_one_computed_with() -> None:
    layer = parametrizations.orthogonal(nn.Linear(3, 3, bias=False))
    (neurons,) = iter_neurons(layer)
    assert torch.equal(neurons.weight, layer.weight)
    assert neurons.name == "weight"


def test_shared_modules_count_once() -> None:
    layer = nn.Linear(2, 2)
    assert list(found(nn.Sequential(layer, nn.ReLU(), layer))) == ["0.weight"]


def test_output_layer_rule() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Conv1d(2, 2, 1), nn.Linear(2, 2), nn.ReLU())
    head = hs.losses.WSoftmax(2, 3)
    assert find_output_layer(model) == ("2", model[2])
    assert find_output_layer(model, None, "0") == ("0", model[0])
    assert find_output_layer(model, None, model[1]) == ("1", model[1])
    assert find_output_layer(model, head, "0") == ("head", head)
    assert find_output_layer(model, model[0]) == ("0", model[0])
    assert find_output_layer(nn.Conv1d(2, 2, 1)) is None
    with pytest.raises(ValueError, match="output_layer='9' is not a module of the model"):
        find_output_layer(model, None, "9")
    with pytest.raises(ValueError, match="output_layer is not a module of the model"):
        find_output_layer(model, None, nn.Linear(2, 2))


def test_patterns() -> None:
    names = ["stem", "layer1.0.conv", "layer1.1.conv", "layer10.0.conv", "fc"]
    assert select(names) == set(names)
    assert select(names, "layer1.*") == {"layer1.0.conv", "layer1.1.conv"}
    assert select(names, ["layer1*", "fc"], skip="*.1.*") == {"layer1.0.conv", "layer10.0.conv", "fc"}
    assert select(names, []) == set()
    assert select(names, skip=[]) == set(names)
    with pytest.raises(ValueError, match=r"skip pattern 'head' matches none of: 'stem', 'layer1\.0\.conv'"):
        select(names, skip="head")
    with pytest.raises(ValueError, match=r"include pattern 'x' matches none of: .*, \.\.\.$"):
        select([str(i) for i in range(9)], "x")
    with pytest.raises(ValueError, match=r"target pattern 'conv' matches none of: .*; did you mean '\*\.conv'\?$"):
        select(names, "conv", argument="target")  # as PEFT means it
    assert matches("fc", ["a", "f?"])
    assert not matches("FC", "fc")  # names are case-sensitive on every system
    assert is_named("fc", ["*", "fc"])
    assert not is_named("fc", "*")
    assert not is_named("fc", None)


class Learned(nn.Module):
    """A map with a layer of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4, bias=False)

    def forward(self, u: torch.Tensor) -> torch.Tensor:
        return hs.functional.orthogonalize(self.layer(u), "cayley")


def test_what_computes_a_weight_is_no_layer_of_the_model() -> None:
    def make() -> nn.Sequential:
        return nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 4), nn.Linear(4, 3))

    model = hs.orthogonal.attach(make(), Learned(), include=["0"], neurons="keep")
    assert [one.name for one in iter_neurons(model)] == ["0.weight", "1.weight", "2.weight"]
    ends = hs.orthogonal.attach(nn.Sequential(nn.Conv1d(4, 3, 1)), Learned(), output_layer=False, neurons="keep")
    assert find_output_layer(ends) is None
    assert list(hs.convert(model).conversion_report.converted) == ["1"]
    hs.orthogonal.attach(model, skip="0", neurons="keep")
    assert list(hs.orthogonal.matrices(model)) == ["0.weight", "1.weight"]
    for name in ("0.parametrizations", "0.parametrizations.weight", "0.parametrizations.weight.0"):
        for output_layer in (name, model.get_submodule(name)):
            with pytest.raises(
                ValueError, match=rf"'{name}' is no layer: it computes a weight of '0'; name that layer"
            ):
                find_output_layer(model, None, output_layer)
        with pytest.raises(ValueError, match=f"include pattern '{name}' matches none of: '0', '0.weight', '1'"):
            hs.orthogonal.attach(make(), include=name)


def test_the_size_of_attached_neurons_is_known_without_their_weight() -> None:
    def failing(u: torch.Tensor) -> torch.Tensor:
        if ready:
            raise AssertionError("the weight was computed")
        return u

    ready: list[str] = []
    for make in (
        lambda: nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 3)),
        lambda: nn.Sequential(nn.Conv2d(4, 6, 3, groups=2), nn.Flatten(), nn.Linear(6, 3)),
        lambda: nn.Sequential(nn.ConvTranspose1d(4, 6, 5, groups=2), nn.Flatten(), nn.Linear(6, 3)),
        lambda: nn.Sequential(hs.nn.DecoupledTransposedLinear(5, 4), nn.Linear(4, 3)),
        lambda: nn.ModuleList([nn.GRU(3, 4), nn.Linear(4, 3)]),
    ):
        ready.clear()
        plain = {one.name: (one.dim, one.shape) for one in iter_neurons(make())}
        attached = hs.orthogonal.attach(make(), failing, neurons="keep")
        ready.append("attached")
        assert {one.name: (one.dim, one.shape) for one in iter_neurons(attached)} == plain


def test_the_size_of_neurons_with_an_adapter_and_of_those_that_others_parametrize() -> None:
    model = hs.orthogonal.adapter(nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 3)))
    parametrizations.weight_norm(model[1])
    parametrizations.spectral_norm(model[0])  # on top of the adapter
    assert [one.shape for one in iter_neurons(model)] == [(4, 6), (3, 4)]
    assert [one.dim for one in iter_neurons(model)] == [6, 4]
