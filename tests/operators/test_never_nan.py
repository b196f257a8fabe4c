"""Never NaN: operators drawn at random, in all precisions, at all scales, in eager mode and under torch.func.

500 cases; ``HYPERSPHERE_FUZZ=10000`` for a night.
"""

import os

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hypersphere as hs
from hypersphere.functional.angular import ANGULAR
from hypersphere.functional.magnitude import MAGNITUDES

CASES = int(os.environ.get("HYPERSPHERE_FUZZ", "500"))
RANGES = {torch.float32: (-12, 12), torch.bfloat16: (-6, 6), torch.float16: (-1, 2)}  # powers of ten of the inputs


@st.composite
def operators(draw):
    dtype = draw(st.sampled_from(list(RANGES)))
    g = draw(st.sampled_from(ANGULAR))
    if g == "sigmoid":
        g = hs.angular.Sigmoid(draw(st.sampled_from([0.02, 0.05, 0.1, 0.3, 1.0, 5.0])), learnable=draw(st.booleans()))
    kind = draw(st.sampled_from(["conv", "transposed", "linear"]))
    options = {"angular": g, "magnitude": draw(st.sampled_from(MAGNITUDES)), "affine": draw(st.booleans())}
    options["weighted"] = draw(st.sampled_from([None, None, "linear", "product", "separate"]))
    torch.manual_seed(draw(st.integers(0, 99)))
    if kind == "linear":
        layer, shape = hs.nn.DecoupledLinear(4, 3, **options), (3, 4)
    elif kind == "conv":
        layer, shape = hs.nn.DecoupledConv2d(2, 3, 3, padding=1, **options), (2, 2, 4, 4)
    else:
        layer, shape = hs.nn.DecoupledConvTranspose2d(2, 3, 3, stride=2, **options), (2, 2, 3, 3)
    x = torch.randn(shape) * 10.0 ** draw(st.integers(*RANGES[dtype]))
    match draw(st.sampled_from(["random", "random", "zero", "constant", "aligned"])):
        case "zero":
            x[0] = 0
        case "constant":
            x[0] = 2.0
            torch.nn.init.ones_(layer.weight)
        case "aligned":
            x = x.abs().mean().expand(shape).clone()
            torch.nn.init.constant_(layer.weight, -0.5)
    return layer.to(dtype), x.to(dtype), draw(st.sampled_from(["eager", "func"])) if dtype != torch.float16 else "eager"


@settings(max_examples=CASES, deadline=None, derandomize=CASES == 500, suppress_health_check=list(HealthCheck))
@given(operators())
def test_no_value_and_no_gradient_is_nan(drawn):
    layer, x, mode = drawn
    if mode == "eager":
        x.requires_grad_()
        out = layer(x)
        out.sum().backward()
        grads = [x.grad, *(p.grad for p in layer.parameters())]
    else:
        names = dict(layer.eval().named_parameters())  # a running norm that moves in place is none of a transform's

        def loss(values, x):
            return torch.func.functional_call(layer, values, (x,)).sum()

        grads_of, grad_x = torch.func.grad(loss, (0, 1))(names, x)
        out, grads = layer(x), [grad_x, *grads_of.values()]
    for value in (out, *grads):
        assert value is None or not torch.isnan(value).any()
