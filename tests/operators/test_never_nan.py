"""Never NaN: operators and energies drawn at random, in all precisions, at all scales, in every mode.

500 cases; ``HYPERSPHERE_FUZZ=10000`` for a night, which is ``make fuzz``.
"""

import os

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hypersphere as hs
from hypersphere.functional.angular import ANGULAR
from hypersphere.functional.magnitude import MAGNITUDES

CASES = int(os.environ.get("HYPERSPHERE_FUZZ", "500"))
NN = hs.nn
# dtype → powers of ten of the inputs
RANGES = {torch.float64: (-150, 150), torch.float32: (-30, 30), torch.bfloat16: (-30, 30), torch.float16: (-7, 2)}
OPERATORS = {  # name → layer, shape of its input
    "linear": (lambda **rules: NN.DecoupledLinear(4, 3, **rules), (3, 4)),
    "conv1d": (lambda **rules: NN.DecoupledConv1d(2, 3, 3, padding=1, **rules), (2, 2, 5)),
    "conv2d": (lambda **rules: NN.DecoupledConv2d(2, 3, 3, padding=1, **rules), (2, 2, 4, 4)),
    "conv3d": (lambda **rules: NN.DecoupledConv3d(1, 2, 2, **rules), (2, 1, 3, 3, 3)),
    "grouped": (lambda **rules: NN.DecoupledConv2d(2, 4, 3, groups=2, stride=2, padding=1, **rules), (2, 2, 4, 4)),
    "transposed": (lambda **rules: NN.DecoupledConvTranspose2d(2, 3, 3, stride=2, **rules), (2, 2, 3, 3)),
    "recurrent": (lambda **rules: NN.DecoupledRNN(3, 2, **rules), (3, 2, 3)),
    "gated": (lambda **rules: NN.DecoupledLSTM(3, 2, **rules), (3, 2, 3)),
}
NIGHT = settings(deadline=None, derandomize=CASES == 500, suppress_health_check=list(HealthCheck))


@st.composite
def operators(draw):
    dtype = draw(st.sampled_from(list(RANGES)))
    rules = {"angular": draw(st.sampled_from(ANGULAR)), "magnitude": draw(st.sampled_from(MAGNITUDES))}
    if rules["angular"] == "sigmoid":
        k = draw(st.sampled_from([0.02, 0.05, 0.1, 0.3, 1.0, 5.0]) | st.floats(0.01, 100.0))
        rules["angular"] = hs.angular.Sigmoid(k, learnable=draw(st.booleans()))
    name = draw(st.sampled_from(list(OPERATORS)))
    rules["affine"] = draw(st.booleans())
    if name not in ("recurrent", "gated"):
        rules["weighted"] = draw(st.sampled_from([None, None, "linear", "product", "separate"]))
    torch.manual_seed(draw(st.integers(0, 99)))
    make, shape = OPERATORS[name]
    layer, x = make(**rules), torch.randn(shape, dtype=torch.float64)
    x = x * 10.0 ** draw(st.integers(*RANGES[dtype]))
    weights = [p for n, p in layer.named_parameters() if "weight" in n]
    match draw(st.sampled_from(["random", "random", "zero", "constant", "aligned", "mixed"])):
        case "zero":
            x[0] = 0
        case "constant":
            x[0] = 2.0
            for weight in weights:
                torch.nn.init.ones_(weight)
        case "aligned":
            x = x.abs().mean().expand(shape).clone()
            for weight in weights:
                torch.nn.init.constant_(weight, -0.5)
        case "mixed":  # rows of very different lengths
            x[0] = x[0] / x[0].norm()
    modes = ["eager", "func", "eval"] + ["autocast"] * (dtype == torch.float32)
    return layer.to(dtype), x.to(dtype), draw(st.sampled_from(modes))


def first(out):
    return out[0] if isinstance(out, tuple) else out


@settings(NIGHT, max_examples=CASES)
@given(operators())
def test_no_value_and_no_gradient_is_nan(drawn):
    layer, x, mode = drawn
    if mode == "func":
        names = dict(layer.eval().named_parameters())  # a running norm that moves in place is none of a transform's

        def loss(values, x):
            return first(torch.func.functional_call(layer, values, (x,))).sum()

        grads_of, grad_x = torch.func.grad(loss, (0, 1))(names, x)
        out, grads = first(layer(x)), [grad_x, *grads_of.values()]
    else:
        layer.train(mode != "eval")
        x.requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=mode == "autocast"):
            out = first(layer(x))
        out.sum().backward()
        grads = [x.grad, *(p.grad for p in layer.parameters())]
    for value in (out, *grads):
        assert value is None or not torch.isnan(value).any()


@st.composite
def neurons(draw):
    dtype = draw(st.sampled_from(list(RANGES)))
    torch.manual_seed(draw(st.integers(0, 99)))
    count, dim = draw(st.integers(2, 5)), draw(st.integers(1, 4))
    w = torch.randn(count, dim, dtype=torch.float64) * 10.0 ** draw(st.integers(*RANGES[dtype]))
    match draw(st.sampled_from(["random", "twins", "opposite", "zero"])):
        case "twins":
            w[1] = w[0]
        case "opposite":
            w[1] = -w[0]
        case "zero":
            w[1] = 0
    options = {"half_space": draw(st.booleans()), "block_size": draw(st.sampled_from([None, 2]))}
    s = draw(st.sampled_from([0.0, 1.0, 2.0, 10.0, 12.0, 40.0]) | st.floats(0.0, 100.0))
    if draw(st.booleans()):
        sizes = st.sampled_from([0.1, 1.0, -0.3, 20.0, 1e-3])
        options["weights"] = torch.tensor([draw(sizes) for _ in range(count)])
    else:
        options["distance"] = draw(st.sampled_from(["euclidean", "angular"]))
    return w.to(dtype), s, options


@settings(NIGHT, max_examples=CASES // 5)
@given(neurons())
def test_no_energy_and_no_gradient_of_it_is_nan(drawn):
    w, s, options = drawn
    w.requires_grad_()
    value = hs.functional.energy(w, s, **options)
    (gradient,) = torch.autograd.grad(value, w)
    assert not torch.isnan(value)
    if value.abs() < torch.finfo(value.dtype).max ** 0.5:  # beyond it the gradient of near duplicates leaves the dtype
        assert not torch.isnan(gradient).any()
