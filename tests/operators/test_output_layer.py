"""Which layer of a model is the classifier, and layers of other libraries."""

import copy
from collections import OrderedDict

import pytest
import torch
from torch import nn

import hypersphere as hs
from hypersphere._core import output_layer
from hypersphere._core.neurons import iter_neurons
from hypersphere._core.output_layer import find_output_layers


@pytest.fixture(autouse=True)
def _nothing_announced_yet(monkeypatch):
    monkeypatch.setattr(output_layer, "_announced", set())


class Conv1D(nn.Module):
    """What transformers calls Conv1D: a linear layer with its weight as (in, out)."""

    def __init__(self, outputs, inputs):
        super().__init__()
        self.nf = outputs
        self.weight, self.bias = nn.Parameter(torch.randn(inputs, outputs)), nn.Parameter(torch.randn(outputs))

    def forward(self, x):
        return x @ self.weight + self.bias


def test_linear_layers_with_neurons_in_columns_become_what_the_transposed_layer_becomes():
    model = nn.Sequential(Conv1D(5, 3), nn.ReLU(), nn.Linear(5, 2))
    twin = hs.convert(model, magnitude="tanh", angular="sigmoid")
    assert type(twin[0]) is hs.nn.DecoupledTransposedLinear
    assert twin[0].weight is not model[0].weight
    linear = hs.nn.DecoupledLinear(3, 5, bias=True, magnitude="tanh", angular="sigmoid")
    linear.load_state_dict({**twin[0].state_dict(), "weight": model[0].weight.detach().T})
    x = torch.randn(4, 3)
    torch.testing.assert_close(twin[0](x), linear(x))
    assert set(twin.state_dict()) >= set(model.state_dict())
    rows = {n.name: n.matrix() for n in iter_neurons(twin)}
    torch.testing.assert_close(rows["0.weight"], model[0].weight.T[None])


def backbone(**attributes):
    model = nn.Sequential(
        OrderedDict(body=nn.Linear(4, 4), aux=nn.Linear(4, 3), head=nn.Linear(4, 3), last=nn.Linear(3, 7))
    )
    for name, value in attributes.items():
        setattr(model, name, value)
    return model


def test_a_model_that_names_its_classifier_is_believed(caplog):
    model = backbone(get_classifier=lambda: None)
    model.get_classifier = lambda: model.head
    assert find_output_layers(model).layers == (("head", model.head),)
    model.get_classifier = lambda: (model.aux, model.head)
    assert [name for name, _ in find_output_layers(model).layers] == ["aux", "head"]
    assert [name for name, _ in find_output_layers(backbone(num_classes=3)).layers] == ["aux", "head"]
    assert find_output_layers(backbone(num_classes=0)).layers == ()
    model = backbone()
    model.get_output_embeddings = lambda: model.body
    assert find_output_layers(model).last == ("body", model.body)
    assert not caplog.records


def test_a_guessed_output_layer_is_announced_once_and_can_be_chosen(caplog):
    class Guessed(nn.Sequential):
        pass

    model = Guessed(nn.Linear(4, 4), nn.Linear(4, 3))
    for _ in range(2):
        hs.convert(model)
    assert [r.message for r in caplog.records] == [
        "convert takes '1', the last linear layer of Guessed, for the output layer: "
        "pass output_layer= (a name, a module, or False) to choose"
    ]
    caplog.clear()
    assert hs.embed(model, torch.ones(2, 4)).shape == (2, 4)  # the input of layer 1
    assert hs.embed(model, torch.ones(2, 4), features=model).shape == (2, 3)
    hs.orthogonal.adapter(copy.deepcopy(model))
    assert [r.message.partition(": pass ")[2].partition("=")[0] for r in caplog.records] == ["features", "target"]
    assert set(hs.convert(model, output_layer=False).conversion_report.converted) == {"0", "1"}
    assert set(hs.convert(model, output_layer="0").conversion_report.converted) == {"1"}


class Tasks(nn.Module):
    """Two heads on one body."""

    def __init__(self):
        super().__init__()
        self.body, self.age, self.kind = nn.Linear(4, 4), nn.Linear(4, 3), nn.Linear(4, 2)

    def forward(self, x):
        h = self.body(x).relu()
        return {"age": self.age(h), "kind": self.kind(h)}


def test_several_heads(caplog):
    report = hs.convert(Tasks()).conversion_report
    assert list(report.converted) == ["body"]
    assert "convert takes 'age', 'kind', which give the outputs of Tasks, for the output layers" in caplog.text
    model = Tasks()
    for heads in (["age", "kind"], [model.age, model.kind]):
        assert list(hs.convert(model, output_layer=heads).conversion_report.converted) == ["body"]
    assert list(hs.convert(model, output_layer=["kind"]).conversion_report.converted) == ["body", "age"]
    attached = hs.orthogonal.attach(Tasks(), "cayley", neurons="keep", output_layer=["age", "kind"])
    assert type(attached.age.weight) is nn.Parameter
    with pytest.raises(ValueError, match=r"'size' is not a module of the model"):
        hs.convert(model, output_layer=["age", "size"])


def test_an_output_layer_of_another_kind_is_no_matter_for_a_warning(caplog):
    class Mine(nn.Linear):
        def forward(self, x):
            return super().forward(x)

    model = nn.Sequential(nn.Linear(4, 4), Mine(4, 3))
    report = hs.convert(model, output_layer="1").conversion_report
    assert report.kept == {"1": "output layer"}
    assert not caplog.records
    hs.convert(model, output_layer=False)
    assert "cannot convert: 1: Mine" in caplog.text


def test_one_by_one_convolutions_are_heads_by_name_or_size():
    layers = OrderedDict(features=nn.Conv2d(3, 8, 3), classifier=nn.Conv2d(8, 5, 1))
    assert find_output_layers(nn.Sequential(layers)).last[0] == "classifier"
    plain = nn.Sequential(nn.Conv2d(3, 8, 1), nn.Conv2d(8, 5, 1))
    assert find_output_layers(plain).last is None
    plain.num_classes = 5
    assert find_output_layers(plain).last[0] == "1"
    ends = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 5, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    assert find_output_layers(ends).last[0] == "2"
    assert find_output_layers(ends).guessed
    ends.insert(3, nn.BatchNorm2d(5))  # the end of a block, as a backbone has it
    assert find_output_layers(ends).last is None


def test_stacks_of_experts_are_listed():
    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.token = nn.Parameter(torch.zeros(2, 4, 3)), nn.Parameter(torch.zeros(1, 4, 3))

    model = nn.Sequential(nn.Conv1d(3, 4, 3), Experts(), nn.Linear(4, 2))
    assert hs.convert(model).conversion_report.kept["1.up"] == "Experts computes with it without a layer"
    assert set(hs.convert(model).conversion_report.kept) == {"1.up", "2"}
    hs.orthogonal.attach(model, blocks=2, neurons="keep")
    assert set(hs.convert(model).conversion_report.kept) == {"0", "1.up", "2"}


def test_nothing_converted_is_a_warning_and_attention_is_listed(caplog):
    model = nn.Sequential(OrderedDict(attention=nn.MultiheadAttention(4, 2)))
    report = hs.convert(model, output_layer=False).conversion_report
    assert "attention.in_proj_weight" in report.kept
    assert [r.levelname for r in caplog.records] == ["WARNING"]
    caplog.clear()
    hs.convert(
        nn.Sequential(OrderedDict(attention=nn.MultiheadAttention(4, 2), up=nn.Linear(4, 4))), output_layer=False
    )
    assert [r.levelname for r in caplog.records] == ["WARNING"]
    assert "cannot convert: attention.in_proj_weight: MultiheadAttention" in caplog.text


class Learned(nn.Module):
    def __init__(self):
        super().__init__()
        self.slope = nn.Parameter(torch.ones(()))

    def from_cos(self, c):
        return self.slope * c


def test_objects_that_learn_are_copied_for_each_layer():
    g = Learned()
    twin = hs.convert(nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 2)), angular=g)
    assert twin[0].angular is not twin[1].angular
    assert len({id(p) for n, p in twin.named_parameters() if n.endswith("slope")}) == 2


@pytest.mark.parametrize("wrong", [3, [3], 1.5], ids=repr)
def test_what_is_no_layer_is_named(wrong):
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    for use in (hs.convert, hs.regularizers.MHE, hs.orthogonal.attach):
        with pytest.raises(TypeError, match=r"output_layer=.* is no layer: pass a module of the model, its name"):
            use(model, output_layer=wrong)
    assert find_output_layers(model, output_layer=iter(["0", model[1]])).layers == (("0", model[0]), ("1", model[1]))


@pytest.mark.parametrize("given", ["2", "module"])
def test_a_classifier_of_several_layers_is_left_alone_as_a_whole(given):
    def network():
        return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3)))

    model = network()
    twin = hs.convert(model, output_layer=model[2] if given == "module" else given)
    assert [type(layer).__name__ for layer in twin[2]] == ["Linear", "ReLU", "Linear"]
    assert type(twin[0]) is hs.nn.SphereLinear
    model = network()
    before = copy.deepcopy(model[2].state_dict())
    hs.orthogonal.attach(model, output_layer=model[2] if given == "module" else given)
    torch.testing.assert_close(model[2].state_dict(), before)
    assert hasattr(model[0], "parametrizations")
    with pytest.raises(ValueError, match="has no single weight of class vectors"):
        hs.regularizers.MHE(network(), output_layer="2")
