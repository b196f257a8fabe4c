"""Exported graphs and ``hs.nn.fold``: the same function in few nodes."""

import io
import warnings

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

import hypersphere as hs
from hypersphere._core.registries import ANGULAR
from hypersphere.nn.layer import _known

torch.manual_seed(0)


def statistics(model):
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            nn.init.normal_(module.running_mean, 0, 0.2)
            nn.init.uniform_(module.running_var, 0.5, 2.0)
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias)
    return model.eval()


def small(angular="cosine", magnitude="sphere", **options):
    return statistics(
        nn.Sequential(
            hs.nn.DecoupledConv2d(3, 6, 3, padding=1, angular=angular, magnitude=magnitude, **options),
            nn.BatchNorm2d(6),
            nn.ReLU(),
            hs.nn.DecoupledConv2d(6, 8, 1, groups=2, affine=True, bias=True, angular=angular, magnitude=magnitude),
            hs.nn.DecoupledConvTranspose2d(8, 4, 3, stride=2, angular=angular, magnitude=magnitude),
            nn.BatchNorm2d(4),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            hs.nn.DecoupledLinear(16, 5, angular=angular, magnitude=magnitude),
        )
    )


def batch():
    x = torch.randn(3, 3, 9, 9)
    x[1, :, :5] = 0  # zero patches
    return x


G = [*ANGULAR, hs.angular.Sigmoid(learnable=True)]
CASES = [("fold", g, h) for g in G for h in ("sphere", "tanh", hs.magnitude.Sphere(alpha=3.0))]
CASES += [("fold", "cosine", "log"), ("export", "cosine", "tanh"), ("export", G[-1], "sphere")]


@pytest.mark.parametrize(("way", "angular", "magnitude"), CASES, ids=str)
def test_the_same_function(way, angular, magnitude):
    model, x = small(angular, magnitude), batch()
    if way == "fold":
        made = hs.nn.fold(model)
        assert not any(isinstance(m, nn.BatchNorm2d) for m in made.modules())
        assert any(isinstance(m, nn.BatchNorm2d) for m in model.modules())
    else:
        made = torch.export.export(hs.nn.fuse(model), (x,)).module()
    with torch.no_grad():
        torch.testing.assert_close(made(x), model(x), rtol=2e-5, atol=2e-5)


def test_a_residual_network_with_a_forward_pass_of_its_own():
    class Unit(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.bn1 = hs.nn.SphereConv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)
            self.conv2, self.bn2 = hs.nn.SphereConv2d(4, 4, 3, padding=1, angular="sigmoid"), nn.BatchNorm2d(4)
            self.relu, self.last = nn.ReLU(), nn.ReLU()

        def forward(self, x):
            return self.last(x + self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x))))))

    model, x = statistics(hs.nn.fuse(Unit())), torch.randn(2, 4, 6, 6)
    made = hs.nn.fold(model)
    assert isinstance(made.conv1, hs.nn.Folded)
    assert isinstance(made.bn1, nn.Identity)
    assert type(made.relu) is nn.ReLU
    with torch.no_grad():
        torch.testing.assert_close(made(x), model(x), rtol=1e-5, atol=1e-5)


def test_the_range_that_is_documented():
    layer, x = hs.nn.SphereConv2d(3, 4, 3, angular="sigmoid").eval(), torch.randn(1, 3, 5, 5)
    made = hs.nn.fold(layer)
    with torch.no_grad():
        for size in (1e-12, 1.0, 1e17):
            torch.testing.assert_close(made(x * size), layer(x), rtol=1e-4, atol=1e-5)
        assert not made(torch.zeros_like(x)).any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_casting_what_was_folded(dtype):
    model = nn.Sequential(hs.nn.SphereConv2d(3, 4, 3, angular="linear"), nn.BatchNorm2d(4)).eval()
    x = torch.randn(2, 3, 5, 5)
    out = hs.nn.fold(model).to(dtype)(x.to(dtype))
    assert out.dtype == dtype
    torch.testing.assert_close(out.float(), model(x), rtol=0.02, atol=0.02)


def test_a_zero_filter_gives_zero():
    layer, x = hs.nn.SphereConv2d(3, 4, 3).eval(), torch.randn(1, 3, 5, 5)
    with torch.no_grad():
        layer.weight[2] = 0
        for made in (hs.nn.fold(layer), torch.export.export(layer, (x,)).module()):
            assert not made(x)[:, 2].any()
            torch.testing.assert_close(made(x), layer(x))


def test_a_parametrized_weight_is_computed_in_the_file():
    layer = hs.nn.SphereConv2d(3, 4, 3).eval()
    assert _known(layer, None) is not None
    nn.utils.parametrizations.weight_norm(layer)
    assert _known(layer, None) is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("angular", ["cosine", "sigmoid"])
def test_one_image_without_gradients(angular, dtype):
    """Filters of any length, more of them than positions or fewer; and none is remembered from the call before."""
    for size in (2, 9):
        for layer in (
            hs.nn.SphereConv2d(4, 6, 3, padding=1, groups=2, angular=angular, dtype=dtype),
            hs.nn.SphereConvTranspose2d(4, 6, 3, angular=angular, dtype=dtype),
            hs.nn.SphereLinear(size, 6, angular=angular, dtype=dtype),
        ):
            x = torch.randn(1, 4, size, size, dtype=dtype)
            expected = layer(x).detach()  # with gradients, so with unit filters
            for length in (1.0, 1e-3, 1e-30, 1e30):
                layer.weight.data = layer.weight.data * length
                with torch.no_grad():
                    torch.testing.assert_close(layer(x), expected, rtol=1e-5, atol=1e-6)
                layer.weight.data = layer.weight.data / length
            with torch.inference_mode():
                layer.weight.data.neg_()
                torch.testing.assert_close(layer(x), -expected, rtol=1e-5, atol=1e-6)
                layer.weight.data.zero_()
                assert not layer(x).any()


def test_what_cannot_be_folded_stays():
    model = nn.Sequential(hs.nn.DecoupledConv2d(3, 4, 3, weighted="linear"), nn.BatchNorm2d(4)).eval()
    made, x = hs.nn.fold(model), torch.randn(2, 3, 5, 5)
    assert isinstance(made[1], nn.BatchNorm2d)
    torch.testing.assert_close(made(x), model(x))
    with pytest.raises(TypeError, match=r"must be a torch.nn.Module"):
        hs.nn.fold("model")


def test_modules_in_several_places():
    """An operator before two BatchNorms, and a BatchNorm behind two operators."""
    layer = hs.nn.SphereConv2d(3, 3, 3, padding=1)
    norms = [nn.BatchNorm2d(3), nn.BatchNorm2d(3)]
    model, x = (
        nn.Sequential(layer, norms[0], nn.ReLU(), nn.Sequential(layer), norms[1], norms[1]),
        torch.randn(2, 3, 5, 5),
    )
    model(x)
    torch.testing.assert_close(hs.nn.fold(model)(x), model.eval()(x))


def test_hooks_output_sizes_and_single_samples():
    up, x = hs.nn.SphereConvTranspose2d(3, 4, 3, stride=2), torch.randn(3, 5, 5)
    folded = hs.nn.fold(up)
    torch.testing.assert_close(folded(x, output_size=[12, 12]), up(x, output_size=[12, 12]))
    assert hs.nn.fold(hs.nn.SphereLinear(5, 4))(torch.empty(0, 3, 5)).shape == (0, 3, 4)
    up.register_forward_hook(lambda module, given, out: -out)
    torch.testing.assert_close(hs.nn.fold(up)(x), -folded(x))
    pruned = prune.l1_unstructured(hs.nn.SphereLinear(5, 4), "weight", 0.5)
    with pytest.raises(ValueError, match="prune compute: remove them first"):
        hs.nn.fold(pruned)


def test_a_relu_behind_a_layer_that_stays_and_one_that_does_not():
    class Row(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.relu = hs.nn.SphereLinear(3, 4), nn.ReLU()
            self.second = hs.nn.DecoupledLinear(4, 3, angular="linear", weighted="linear")

        def forward(self, x):
            return self.relu(self.second(self.relu(self.first(x))))

    model, x = Row().eval(), torch.randn(5, 3)
    torch.testing.assert_close(hs.nn.fold(model)(x), model(x))


def test_layers_that_share_their_functions_have_no_more_nodes():
    shared = {"angular": hs.angular.Sigmoid(), "magnitude": hs.magnitude.Sphere(alpha=2.0)}
    own = {"angular": "sigmoid", "magnitude": hs.magnitude.Sphere(alpha=2.0)}
    x, counts = torch.randn(2, 4), []
    for rules in (shared, own):
        model = nn.Sequential(hs.nn.DecoupledLinear(4, 4, **rules), hs.nn.DecoupledLinear(4, 4, **rules)).eval()
        program = torch.export.export(hs.nn.fold(model), (x,))
        counts.append(len(program.graph.nodes))
        torch.testing.assert_close(program.module()(x), model(x), rtol=1e-5, atol=1e-5)
    assert counts[0] == counts[1]


def test_training_graphs_keep_their_gradients():
    layer, x = hs.nn.SphereConv2d(3, 4, 3).train(), torch.zeros(1, 3, 5, 5)
    program = torch.export.export(layer, (x,))
    leaf = x.clone().requires_grad_()
    program.module()(leaf).sum().backward()
    assert leaf.grad.isfinite().all()


def clips(program):
    return sum(node.target is torch.ops.aten.clamp.default for node in program.graph.nodes)


@pytest.mark.parametrize("angular", ["linear", "sigmoid"])
def test_only_cosines_that_may_reach_one_are_clipped(angular):
    """Behind a ReLU, cos lies between −‖ŵ⁻‖ and ‖ŵ⁺‖; a filter that is all positive may still be met exactly."""
    mixed, positive = (hs.nn.SphereConv2d(4, 5, 3, angular=angular) for _ in range(2))
    with torch.no_grad():
        positive.weight[2].abs_()
        for layer, clipped in ((mixed, 0), (positive, 1)):
            x = torch.cat([layer.weight, -layer.weight, torch.zeros(1, 4, 3, 3)])  # extreme patches, and a zero patch
            model = nn.Sequential(nn.ReLU(), layer).eval()
            program = torch.export.export(hs.nn.fold(model), (x,))
            assert clips(program) == clipped
            torch.testing.assert_close(program.module()(x), model(x), rtol=1e-5, atol=1e-5)


def test_cosines_are_clipped_where_the_input_is_not_known():
    layer, x = hs.nn.SphereConv2d(4, 5, 3, angular="linear"), torch.randn(2, 4, 4, 4)
    assert clips(torch.export.export(hs.nn.fold(layer.eval()), (x,))) == 1  # it may have any sign
    model = hs.nn.fold(nn.Sequential(nn.ReLU(), layer).eval())
    assert clips(torch.export.export(model, (x,), strict=True)) == 1  # dynamo reads the code that would ask
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, backend="eager", fullgraph=True)(x), model(x))


def test_what_is_overwritten_behind_a_relu_is_clipped():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = hs.nn.SphereConv2d(4, 5, 3, angular="linear")

        def forward(self, x):
            x = x.relu()
            x.view(-1).sub_(1)
            return self.conv(x)

    assert clips(torch.export.export(hs.nn.fold(Net().eval()), (torch.randn(2, 4, 5, 5),))) == 1


@pytest.mark.parametrize(("angular", "first", "behind_relu"), [("cosine", 5, 5), ("sigmoid", 9, 8)])
def test_onnx_has_few_nodes(angular, first, behind_relu):
    """Nodes of a layer with BatchNorm beyond the one convolution of a plain network, folded before or by the export.

    ResNet-18 has one first layer and 16 behind a ReLU: 85 and 137 nodes more, at most 150.
    """
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    plain = nn.Sequential(
        nn.Conv2d(3, 16, 7, padding=3, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 64, 3, padding=1, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
    )
    model = statistics(hs.convert(plain, angular=angular, output_layer=False))  # its layers share g and h
    x = torch.randn(1, 3, 8, 8)
    x[..., :4] = 0
    for made in (hs.nn.fuse(model), hs.nn.fold(model)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            content = torch.onnx.export(made, (x,), dynamo=True, verbose=False).model_proto
        assert len(content.graph.node) - 5 <= first + behind_relu
        options = runtime.SessionOptions()
        options.intra_op_num_threads = 1
        file = io.BytesIO(content.SerializeToString()).getvalue()
        session = runtime.InferenceSession(file, options)
        (out,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        with torch.no_grad():
            torch.testing.assert_close(torch.from_numpy(out), model(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda: (hs.nn.SphereLinear(8, 6), nn.BatchNorm1d(6)), (4, 6, 8)),  # BatchNorm's channels are the tokens
        (lambda: (hs.nn.SphereConv1d(3, 6, 3), nn.BatchNorm1d(6)), (3, 8)),  # one sample, six positions
        (lambda: (hs.nn.SphereConv2d(3, 6, 3), nn.BatchNorm2d(6)), (3, 8, 8)),
        (lambda: (hs.nn.DecoupledLinear(8, 6, magnitude="tanh"), nn.BatchNorm1d(6)), (8,)),
    ],
)
def test_a_folded_batchnorm_takes_no_inputs_with_channels_elsewhere(make, shape):
    folded = hs.nn.fold(nn.Sequential(*make()).eval())
    for gradients in (False, True):
        with (
            torch.set_grad_enabled(gradients),
            pytest.raises(ValueError, match=r"BatchNorm is folded.*\(N, C, \.\.\.\)"),
        ):
            folded(torch.randn(shape))
    alone = hs.nn.fold(nn.Sequential(make()[0]).eval())
    assert alone(torch.randn(shape)).dim() == len(shape)
