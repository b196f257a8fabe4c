"""The layers in every mode that PyTorch has: compiled, exported, transformed, autocast, copied, saved."""

import copy
import io
import itertools
import pickle

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

import hypersphere as hs
from hypersphere._core.registries import ANGULAR

G = list(ANGULAR)
LAYERS = {
    "conv1d": (lambda **o: hs.nn.DecoupledConv1d(2, 4, 3, padding=1, groups=2, **o), (2, 2, 7)),
    "conv2d": (lambda **o: hs.nn.DecoupledConv2d(2, 4, 3, stride=2, padding=1, bias=True, **o), (2, 2, 6, 6)),
    "conv3d": (lambda **o: hs.nn.DecoupledConv3d(2, 4, 2, padding="same", **o), (1, 2, 4, 4, 3)),
    "transposed2d": (lambda **o: hs.nn.DecoupledConvTranspose2d(2, 4, 3, stride=2, **o), (2, 2, 4, 4)),
    "linear": (lambda **o: hs.nn.DecoupledLinear(5, 4, affine=True, **o), (3, 2, 5)),
    "sphere2d": (lambda magnitude=None, **o: hs.nn.SphereConv2d(2, 4, 3, affine=True, **o), (2, 2, 6, 6)),
}


def make(name, **options):
    build, shape = LAYERS[name]
    torch.manual_seed(0)
    return build(**options), torch.randn(shape)


def output_and_gradients(run, layer, x):
    x = x.clone().requires_grad_()
    out = run(x)
    return [out, *torch.autograd.grad(out.square().sum(), [x, *layer.parameters()])]


@pytest.mark.slow
def test_compiles_with_inductor_and_learnable_parameters():
    g = hs.angular.Sigmoid(learnable=True)
    layer = hs.nn.DecoupledConv2d(3, 4, 3, padding=1, magnitude="tanh", angular=g)
    x = torch.randn(2, 3, 6, 6)
    twin = copy.deepcopy(layer)
    found = output_and_gradients(torch.compile(twin, fullgraph=True), twin, x)
    torch.testing.assert_close(found, output_and_gradients(layer, layer, x), rtol=2e-5, atol=2e-5)


@pytest.mark.slow
def test_onnx_agrees_in_onnxruntime(tmp_path):
    import onnxruntime

    net = nn.Sequential(
        hs.nn.SphereConv2d(3, 4, 3, padding=1, angular="sigmoid"),
        hs.nn.DecoupledConv2d(4, 4, 3, stride=2, magnitude="tanh", angular="linear"),
        hs.nn.DecoupledConvTranspose2d(4, 4, 3, magnitude="log", angular="square_cosine"),
        nn.Flatten(),
        hs.nn.SphereLinear(4 * 5 * 5, 5, angular="cosine"),
    ).eval()
    x = torch.randn(2, 3, 8, 8)
    x[0, :, :4, :4] = 0
    path = tmp_path / "net.onnx"
    torch.onnx.export(net, (x,), path, dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    torch.testing.assert_close(torch.from_numpy(found), net(x).detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("g", G)
@pytest.mark.parametrize("h", ["sphere", "log"])
def test_function_transforms(g, h):
    layer = hs.nn.DecoupledConv2d(2, 3, 3, magnitude=h, angular=g, dtype=torch.float64)
    x = torch.randn(4, 2, 5, 5, dtype=torch.float64)
    t = torch.randn_like(x)
    out = layer(x)

    mapped = torch.func.vmap(lambda one: layer(one.unsqueeze(0)).squeeze(0))(x)
    torch.testing.assert_close(mapped, out)

    leaf = x.clone().requires_grad_()
    (expected,) = torch.autograd.grad(layer(leaf).square().sum(), leaf)
    torch.testing.assert_close(torch.func.grad(lambda x: layer(x).square().sum())(x), expected)

    value, push = torch.func.jvp(layer, (x,), (t,))
    jacobian = torch.func.jacrev(layer)(x[:1])
    torch.testing.assert_close(value, out)
    torch.testing.assert_close(torch.einsum("abcdefgh,efgh->abcd", jacobian, t[:1]), push[:1])

    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, t)
        torch.testing.assert_close(torch.autograd.forward_ad.unpack_dual(layer(dual)).tangent, push)


@pytest.mark.parametrize(
    "make",
    [
        lambda **o: hs.nn.DecoupledConv2d(2, 2, (3, 1), stride=2, padding=1, **o),
        lambda **o: hs.nn.DecoupledConvTranspose2d(2, 2, 2, stride=2, groups=2, **o),
    ],
)
@pytest.mark.parametrize("h", ["sphere", "log"])
def test_many_gradients_at_once(make, h):
    layer, jacobian = make(angular="linear", magnitude=h, dtype=torch.float64), torch.autograd.functional.jacobian
    x = torch.randn(1, 2, 2, 3, dtype=torch.float64)
    torch.testing.assert_close(jacobian(layer, x, vectorize=True), jacobian(layer, x))


def test_per_sample_gradients():
    layer = hs.nn.SphereConv2d(2, 3, 3, angular="sigmoid", dtype=torch.float64)
    weights = dict(layer.named_parameters())
    x = torch.randn(3, 2, 5, 5, dtype=torch.float64)

    def loss(weights, one):
        return torch.func.functional_call(layer, weights, (one.unsqueeze(0),)).square().sum()

    grads = torch.func.vmap(torch.func.grad(loss), (None, 0))(weights, x)["weight"]
    for one, grad in zip(x, grads, strict=True):
        (expected,) = torch.autograd.grad(layer(one.unsqueeze(0)).square().sum(), layer.weight)
        torch.testing.assert_close(grad, expected)


@pytest.mark.parametrize(("h", "g"), list(itertools.product(["sphere", "tanh"], ["cosine", "sigmoid"])))
def test_channels_last_is_kept(h, g):
    layer = hs.nn.DecoupledConv2d(4, 8, 3, padding=1, magnitude=h, angular=g).to(memory_format=torch.channels_last)
    x = torch.randn(2, 4, 6, 6)
    last = x.to(memory_format=torch.channels_last)
    out = layer(last)
    assert out.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(out, copy.deepcopy(layer).to(memory_format=torch.contiguous_format)(x))
    leaf = last.clone(memory_format=torch.preserve_format).requires_grad_()
    (grad,) = torch.autograd.grad(layer(leaf).square().sum(), leaf)
    plain = x.clone().requires_grad_()
    torch.testing.assert_close(grad, torch.autograd.grad(layer(plain).square().sum(), plain)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", LAYERS)
def test_copies_pickles_and_state_dicts(name):
    layer, x = make(name, magnitude="tanh", angular=hs.angular.Sigmoid(learnable=True))
    layer(x)
    layer.eval()
    buffer = io.BytesIO()
    torch.save(layer.state_dict(), buffer)
    buffer.seek(0)
    other, _ = make(name, magnitude="tanh", angular=hs.angular.Sigmoid(learnable=True))
    other.load_state_dict(torch.load(buffer, weights_only=True))
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), other.eval()):
        torch.testing.assert_close(twin(x), layer(x))


def test_a_plain_state_dict_loads_into_its_spherical_twin():
    plain, sphere = nn.Conv2d(3, 4, 3), hs.nn.SphereConv2d(3, 4, 3, bias=True)
    sphere.load_state_dict(plain.state_dict())
    assert torch.equal(sphere.weight, plain.weight)


def test_repr_says_what_it_is():
    layer = hs.nn.DecoupledConv2d(3, 8, 3, padding=1, weighted="linear", affine=True, magnitude=torch.relu)
    text = repr(layer)
    for part in (
        "3, 8, kernel_size=(3, 3)",
        "padding=(1, 1)",
        "weighted='linear'",
        "affine=True",
        "magnitude=",
        "Cosine()",
    ):
        assert part in text


def test_deterministic_mode():
    layer = hs.nn.SphereConv3d(2, 3, 2, angular="sigmoid")
    x = torch.randn(2, 2, 4, 4, 4, requires_grad=True)
    torch.use_deterministic_algorithms(True)
    try:
        first = torch.autograd.grad(layer(x).square().sum(), x)[0]
        second = torch.autograd.grad(layer(x).square().sum(), x)[0]
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.equal(first, second)


def test_numbers_may_differ_between_compiled_layers():
    """Dynamo makes a number symbolic when it meets a second value of it."""
    torch.compiler.reset()
    layers = [
        hs.nn.DecoupledConv2d(2, 3, 3, magnitude=hs.magnitude.Segment(a, b)) for a, b in ((1, 0.1), (2, 0.3), (3, 0.7))
    ]
    run = torch.compile(lambda layer, x: layer(x), fullgraph=True, backend="eager")
    x = torch.randn(2, 2, 5, 5)
    for layer in layers:
        torch.testing.assert_close(run(layer, x), layer(x))


def test_meta_device_and_factory_arguments():
    layer = hs.nn.DecoupledConv2d(3, 4, 3, magnitude="tanh", device="meta", dtype=torch.float64)
    assert all(p.device.type == "meta" and p.dtype == torch.float64 for p in layer.parameters())
    assert layer(torch.empty(2, 3, 8, 8, device="meta", dtype=torch.float64)).shape == (2, 4, 6, 6)
    dilated = hs.nn.SphereConv2d(3, 4, 3, dilation=2, angular="sigmoid", device="meta")
    assert dilated(torch.empty(2, 3, 8, 8, device="meta")).shape == (2, 4, 4, 4)
    g, h = hs.angular.Sigmoid(learnable=True), hs.magnitude.Ball()  # on the CPU
    with torch.device("meta"):
        layer = hs.nn.DecoupledLinear(3, 4, angular=g, magnitude=h, affine=True)
    assert {t.device.type for t in (*layer.parameters(), *layer.buffers())} == {"meta"}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
def test_traced_by_jit_and_fx():
    """What torch checks a trace against is traced without gradients, and has another number of samples here."""
    layer, x = make("conv2d", angular="sigmoid")
    model = hs.nn.fuse(nn.Sequential(layer, nn.BatchNorm2d(4), nn.ReLU(), hs.nn.SphereLinear(3, 5))).eval()
    for traced in (torch.jit.trace(model, x, check_inputs=[(x[:1],)]), make_fx(model)(x)):
        torch.testing.assert_close(traced(1e-25 * x), model(1e-25 * x))


def test_anomaly_mode_and_checkpointing():
    layer = hs.nn.SphereConv2d(2, 3, 3, angular="sigmoid")
    x = torch.randn(2, 2, 5, 5, requires_grad=True)
    expected = torch.autograd.grad(layer(x).square().sum(), x)[0]
    with torch.autograd.set_detect_anomaly(True):
        checkpointed = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)
        torch.testing.assert_close(torch.autograd.grad(checkpointed.square().sum(), x)[0], expected)


@pytest.mark.gpu
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize(("h", "g"), [("sphere", "linear"), ("tanh", "sigmoid"), ("segment", "cosine")])
def test_cuda_agrees_with_cpu(name, h, g, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # its rounding would hide ours
    torch.compiler.reset()
    layer, x = make(name, magnitude=h, angular=g)
    twin = copy.deepcopy(layer).cuda()
    expected = output_and_gradients(layer, layer, x)
    for run in (twin, torch.compile(twin, fullgraph=True)):
        found = output_and_gradients(run, twin, x.cuda())
        torch.testing.assert_close([t.cpu() for t in found], expected, rtol=2e-3, atol=2e-3)
