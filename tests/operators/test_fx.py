"""torch.fx: every layer is one node, so that features can be taken where they are."""

import copy
import gc

import pytest
import torch
from torch import fx, nn

import hypersphere as hs

X = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        hs.nn.SphereConv2d(3, 4, 3, angular="sigmoid"), nn.BatchNorm2d(4), nn.ReLU(),
        hs.nn.DecoupledConvTranspose2d(4, 4, 3, magnitude="tanh"), nn.Flatten(), hs.nn.DecoupledLinear(256, 5),
    ).eval()  # fmt: skip


MODELS = {
    "layers": network,
    "fused": lambda: hs.nn.fuse(network()),
    "folded": lambda: hs.nn.fold(network()),
    "converted": lambda: hs.convert(
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3)), output_layer="3"
    ).eval(),
    "adapted": lambda: hs.orthogonal.attach(network(), "cayley", include="0", neurons="keep"),
    "created": lambda: hs.models.create("cnn3", 10, image_size=8, widths=(4, 4, 4), conv="sphere").eval(),
    "resnet": lambda: hs.models.create("resnet18", num_classes=3, widths=(4, 4, 4, 4), conv="sphere").eval(),
}


@pytest.mark.parametrize("name", MODELS)
def test_graphs_compute_what_the_network_does(name):
    model = MODELS[name]()
    x = torch.randn(2, 3, 64, 64) if name == "resnet" else X
    graph = fx.symbolic_trace(model)
    with torch.no_grad():
        torch.testing.assert_close(graph(x), model(x))
    targets = {str(node.target) for node in graph.graph.nodes if node.op == "call_module"}
    layers = {key for key, part in model.named_modules() if isinstance(part, hs.nn.layer.Decoupled)}
    assert layers <= targets


def test_hooks_are_done_once():
    model = network()
    for part in (model[0], model[3], model[5]):
        part.register_forward_hook(lambda module, given, out: 2 * out + 1)
        part.register_forward_pre_hook(lambda module, given: (given[0] - 1,))
    with torch.no_grad():
        torch.testing.assert_close(fx.symbolic_trace(model)(X), model(X))


def test_a_layer_by_itself_is_no_graph():
    with pytest.raises(TypeError, match=r"a SphereLinear by itself.*nn.Sequential"):
        fx.symbolic_trace(hs.nn.SphereLinear(2, 2))


def test_features_by_node():
    model = network()
    graph = fx.symbolic_trace(model)
    wanted = next(node for node in graph.graph.nodes if node.target == "3")
    for node in reversed(list(graph.graph.nodes)):
        if node.op == "output":
            node.args = (wanted,)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    with torch.no_grad():
        torch.testing.assert_close(graph(X), model[:4](X))


def test_recurrent_layers():
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = hs.nn.SphereLSTM(5, 6)

        def forward(self, x):
            return self.rnn(x)[0]

    model, x = Tagger().eval(), torch.randn(4, 2, 5)
    graph = fx.symbolic_trace(model)
    with torch.no_grad():
        torch.testing.assert_close(graph(x), model(x))


def test_a_graph_outlives_its_network():
    """What an operator computes for its neighbours is theirs again where the module that holds them is gone."""

    class Row(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.bn, self.act = hs.nn.SphereLinear(3, 4), nn.BatchNorm1d(4), nn.SiLU()

        def forward(self, x):
            return self.act(self.bn(self.fc(x)))

    model, x = hs.nn.fuse(Row().eval()), torch.randn(5, 3)
    assert len(model.fusion.blocks[0]) == 3
    expected, graph = model(x), fx.symbolic_trace(model)
    torch.testing.assert_close(graph(x), expected)
    torch.testing.assert_close(copy.deepcopy(graph)(x), expected)
    del model
    gc.collect()
    torch.testing.assert_close(graph(x), expected)
