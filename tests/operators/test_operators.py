"""Every operator against loops in float64, by finite differences, and in every mode: the tables of the harness."""

import functools
import itertools
import math

import numpy as np
import torch
from operator_reference import ANGULAR, MAGNITUDE, convolution, operator, patch_norms, transposed_convolution

import hypersphere as hs
from harness import Case, Suite, draw, looped
from hypersphere.functional.angular import ANGULAR as BUILT_IN_G
from hypersphere.functional.magnitude import MAGNITUDES as BUILT_IN_H

F = hs.functional
G, H, WEIGHTED = sorted(ANGULAR), sorted(MAGNITUDE), [None, "linear", "product", "separate"]
EAGER = "value gradient second dtype autocast"
SIZES = {1: (7,), 2: (5, 4), 3: (4, 3, 3)}
KERNELS = {1: (3,), 2: (3, 2), 3: (2, 2, 2)}


def test_everything_that_is_built_in_has_a_reference():
    assert set(BUILT_IN_G) == set(ANGULAR)
    assert set(BUILT_IN_H) == set(MAGNITUDE)


def angle_of(kind):
    """g from the cosine, by the equation in the angle."""
    return looped(lambda c, *k: ANGULAR[kind](math.acos(c), *k))


def cosines():
    return 1.8 * torch.rand(12, dtype=torch.float64) - 0.9, draw(12).abs() / 4 + 0.2


def angles():
    """Also beyond π, where margins go."""
    return (6 * torch.rand(12, dtype=torch.float64),)


def half_turn():
    return (torch.linspace(0, math.pi, 201, dtype=torch.float64),)


def angular_cases(g):
    equation = looped(ANGULAR[g])
    return {
        f"{g} of the cosine": Case(lambda: lambda c, k: F.angular(c, g, k), cosines, angle_of(g), EAGER),
        f"{g} of the angle": Case(lambda: lambda t: F.angular_from_angle(t, g), angles, equation, EAGER),
        f"{g} from 0 to π": Case(lambda: lambda t: F.angular_from_angle(t, g), half_turn, equation, "value", 1e-13),
        # cos⁻¹(cos θ) near the ends, and between
        f"{g} from 1 to -1": Case(lambda: lambda t: F.angular(t.cos(), g), half_turn, equation, "value", 2e-8),
        f"{g} well within": Case(
            lambda: lambda t: F.angular(t[10:-10].cos(), g), half_turn, lambda t: equation(t[10:-10]), "value", 1e-13
        ),
    }


class TestAngular(Suite):
    cases = {name: case for g in G for name, case in angular_cases(g).items()} | {
        "every g of the cosine": Case(
            lambda: lambda c, k: torch.stack([F.angular(c, g, k) for g in G]),
            cosines,
            lambda c, k: np.stack([angle_of(g)(c, k) for g in G]),
        ),
        "every g of the angle": Case(
            lambda: lambda t: torch.stack([F.angular_from_angle(t, g) for g in G]),
            angles,
            lambda t: np.stack([looped(ANGULAR[g])(t) for g in G]),
        ),
    }


def few_norms():
    """With α and ρ."""
    return torch.tensor([0.3, 0.7, 1.4, 2.9]).double(), torch.tensor(1.3).double(), torch.tensor(0.9).double()


def many_norms():
    return torch.linspace(0.05, 4, 80, dtype=torch.float64), torch.ones(()).double(), torch.ones(()).double()


def magnitude_cases(h):
    value, slope = looped(MAGNITUDE[h]), looped(lambda n, a, r: MAGNITUDE[h](n, a, r) / n)
    for name, function, equation in (("value", F.magnitude, value), ("slope", F.magnitude_ratio, slope)):

        def make(function=function):
            return lambda n, a, r: function(n, h, a, None, r)

        yield f"{name} of {h}", Case(make, few_norms, equation, EAGER, 1e-13)
        yield f"{name} of {h}, many", Case(make, many_norms, equation, "value", 1e-13)


class TestMagnitude(Suite):
    """h and its slope h(n)/n, in the norm, α and ρ."""

    cases = {name: case for h in H for name, case in magnitude_cases(h)} | {
        f"every {name}": Case(
            lambda function=function: lambda n, a, r: torch.stack([function(n, h, a, None, r) for h in H]),
            few_norms,
            lambda n, a, r, p=power: np.stack([looped(MAGNITUDE[h])(n, a, r) / n**p for h in H]),
        )
        for name, function, power in (("value", F.magnitude, 0), ("slope", F.magnitude_ratio, 1))
    }


def called(function, h, g, weighted, options):
    return functools.partial(function, magnitude=h, angular=g, weighted=weighted, **options)


def convolve(dims, h, g, weighted, checks, scale=1.0, transposed=False, size=None, batch=2, **options):
    """A case: 4 channels in 2 groups, stride 2, padding 1."""
    options = {"stride": 2, "padding": 1, "groups": 2, **options}
    function = F.decoupled_conv_transpose if transposed else F.decoupled_conv
    loops = transposed_convolution if transposed else convolution
    size = size or SIZES[dims]
    return Case(
        lambda: called(function, h, g, weighted, options),
        lambda: (scale * draw(batch, 4, *size), scale * draw(4, 2, *KERNELS[dims], seed=1)),
        lambda x, w: loops(x, w, h, g, weighted, **options),
        checks,
        fast=True,
    )


class TestConvolution(Suite):
    """Ball and segment have a corner at norm 1: where derivatives are checked, norms stay above it."""

    cases = {
        **{
            f"{dims}d {h} {g} {weighted}": convolve(dims, h, g, weighted, "value")
            for dims, h, g, weighted in itertools.product([1, 2, 3], H, G, WEIGHTED)
            if dims < 3 or weighted is None
        },
        **{
            f"derivatives of {h} {g} {weighted}": convolve(
                2, h, g, weighted, "gradient second" if second else "gradient",
                3.0 if h in ("ball", "segment") else 1.0, size=(5, 5),
            )
            for i, h in enumerate(H) for j, g in enumerate(G) for k, weighted in enumerate(WEIGHTED)
            for second in [(i + j + k) % 2 == 0]  # all pairs of two of the three
        },
        **{
            f"gradient of {dims}d {h} {g}, dilated": convolve(
                dims, h, g, None, "value gradient", size=[s + 3 for s in SIZES[dims]], batch=1, dilation=2
            )
            for dims, h, g in itertools.product([1, 3], ["sphere", "tanh"], G)
        },
        **{
            f"every entry of {h} {g}": Case(
                lambda h=h, g=g: called(F.decoupled_conv, h, g, None, {"padding": 1}),
                lambda: (draw(1, 2, 4, 4), draw(2, 2, 3, 3, seed=1)),
                lambda x, w, h=h, g=g: convolution(x, w, h, g, padding=1),
                "value gradient",
            )
            for h, g in [("sphere", "cosine"), ("sphere", "sigmoid"), ("tanh", "linear"), ("log", "cosine")]
        },
    }  # fmt: skip


class TestTransposedConvolution(Suite):
    cases = {
        **{
            f"{dims}d {h} {g} {weighted}": convolve(
                dims, h, g, weighted, "value", transposed=True, batch=1, output_padding=1
            )
            for dims, h, g, weighted in itertools.product([1, 2, 3], ["sphere", "tanh"], G, [None, "product"])
        },
        **{
            f"gradient of {dims}d {h} {g}": convolve(dims, h, g, None, "gradient", transposed=True, batch=1)
            for dims, h, g in itertools.product([1, 3], ["sphere", "tanh"], G)
        },
    }


def linear_loops(x, w, h, g, weighted):
    rows = [[operator(v, row, h, g, weighted) for v in w] for row in x.reshape(-1, x.shape[-1])]
    return np.array(rows).reshape(*x.shape[:-1], len(w))


class TestLinear(Suite):
    cases = {
        **{
            f"{h} {g} {weighted}": Case(
                lambda h=h, g=g, weighted=weighted: called(F.decoupled_linear, h, g, weighted, {}),
                lambda: (draw(2, 3, 5), draw(4, 5, seed=1)),
                functools.partial(linear_loops, h=h, g=g, weighted=weighted),
                "value",
            )
            for h, g, weighted in itertools.product(H, G, WEIGHTED)
        },
        **{
            f"every entry of {h} {g}": Case(
                lambda h=h, g=g: called(F.decoupled_linear, h, g, None, {}),
                lambda: (draw(3, 4), draw(2, 4, seed=1)),
                functools.partial(linear_loops, h=h, g=g, weighted=None),
                "value gradient second dtype compile export",
                backend="eager",  # those of TestLayers go through AOTAutograd
            )
            for h, g in [("sphere", "cosine"), ("sphere", "sigmoid"), ("tanh", "linear"), ("log", "cosine")]
        },
    }


class TestPatchNorm(Suite):
    cases = {
        f"{dims}d kernel {k} stride {s} padding {p} dilation {d} groups {g}": Case(
            lambda a=(k, s, p, d, g): lambda x: F.patch_norm(x, *a),
            lambda dims=dims: (draw(2, 4, *[6, 5, 5][:dims]),),
            lambda x, a=(k, s, p, d, g): patch_norms(x, *a),
            f"value gradient {'second' if dims < 3 else ''} {'compile export' if dims == 2 and d == 2 else ''}",
            fast=True,
        )
        for dims, (k, s, p, d, g) in itertools.product(
            [1, 2, 3],
            [(3, 1, 1, 1, 1), (3, 2, 1, 1, 2), (2, 1, 2, 1, 1), (1, 2, 0, 1, 4), (3, 1, 2, 2, 2), (2, 2, 1, 2, 4)],
        )
    }


def layer_case(build, shape, h, g, checks, **geometry):
    """A layer as a module, its bias and affine parameters in the reference."""

    def reference(x, weight, bias=0.0, scale=1.0, shift=0.0, **other):
        def column(v):
            return np.reshape(v, (-1, *[1] * (len(shape) - 2))) if np.ndim(v) and not linear else v

        linear = weight.ndim == 2
        loops = linear_loops if linear else geometry.get("loops", convolution)
        options = {name: value for name, value in geometry.items() if name != "loops"}
        plain = loops(x, weight, h, g, None, **options)
        return plain * column(scale) + column(shift) + column(bias)

    return Case(
        lambda: randomised(build(magnitude=h, angular=g)),
        lambda: (draw(*shape),),
        reference,
        checks,
        compiled=(2e-4, 2e-4),
        fast=True,
        casts=True,
    )


def randomised(layer):
    """Biases and affine parameters that do something."""
    with torch.no_grad():
        for name in ("bias", "scale", "shift"):
            if getattr(layer, name, None) is not None:
                getattr(layer, name).normal_()
    return layer


LAYERS = {
    "conv1d": (
        lambda **o: hs.nn.DecoupledConv1d(2, 4, 3, padding=1, groups=2, **o),
        (2, 2, 7),
        {"padding": 1, "groups": 2},
    ),
    "conv2d": (
        lambda **o: hs.nn.DecoupledConv2d(2, 4, 3, stride=2, padding=1, bias=True, **o),
        (2, 2, 6, 6),
        {"stride": 2, "padding": 1},
    ),
    "conv3d": (lambda **o: hs.nn.DecoupledConv3d(2, 4, 3, padding="same", **o), (1, 2, 4, 4, 3), {"padding": 1}),
    "transposed2d": (
        lambda **o: hs.nn.DecoupledConvTranspose2d(2, 4, 3, stride=2, **o),
        (2, 2, 4, 4),
        {"stride": 2, "loops": transposed_convolution},
    ),
    "linear": (lambda **o: hs.nn.DecoupledLinear(5, 4, affine=True, **o), (3, 2, 5), {}),
    "sphere2d": (lambda magnitude, **o: hs.nn.SphereConv2d(2, 4, 3, affine=True, **o), (2, 2, 6, 6), {}),
}


class TestLayers(Suite):
    cases = {
        f"{name} {h} {g}": layer_case(
            build, shape, "sphere" if name == "sphere2d" else h, g,
            checks + " compile" * ((place + rule) % 3 == 0 and rule < 3),  # every layer once, every rule twice
            **geometry,
        )
        for (place, (name, (build, shape, geometry))), (rule, (h, g, checks)) in itertools.product(
            enumerate(LAYERS.items()),
            enumerate([
                ("sphere", "linear", "value"),
                ("tanh", "sigmoid", "value dtype autocast export"),
                ("segment", "cosine", "value"),
                ("tanh", "cosine", "value dtype autocast"),
            ]),
        )
    }  # fmt: skip
