"""Every head against its equation, by finite differences, compiled and exported: the tables of the harness."""

import itertools
import math

import loss_reference as ref
import numpy as np
import torch
from loss_cases import ALL, SOFTMAX, build

from harness import Case, Suite, draw

LABELS = [0, 4, 1, 2, 3, 5, 1]
IGNORED = -100
HALF = ["softmax_bias", "a_softmax", "arcface", "sphereface2", "adaface", "magface", "curricularface", "subcenter"]


def head_case(case, checks, samples=3, dim=4, classes=5, labels=None, chunk=None, **options):
    """A head of float64 class vectors on a batch of features."""
    y = torch.tensor(labels or [label % classes for label in LABELS[:samples]])
    return Case(
        lambda: build(case, dim, classes, dtype=torch.float64, chunk=chunk),
        lambda: (draw(len(y), dim, seed=3), y),
        reference_of(case),
        checks,
        1e-10,
        gradient=(1e-5, 1e-4),
        fast=chunk is not None,  # the entries one by one without blocks
        **options,
    )


def reference_of(case):
    """The equation of a case as a function of features, labels and parameters; None where there is none."""
    if case in SOFTMAX:
        _, _, name, options = SOFTMAX[case]
        return lambda x, y, weight, bias=None: ref.softmax_loss(name, x, weight, y.tolist(), bias=bias, **options)
    if case == "sphereface2":
        return lambda x, y, weight, bias: ref.sphereface2_loss(x, weight, y.tolist(), float(bias[0]))
    if case == "plus":

        def joined(x, y, **parameters):
            weight = parameters["head.weight"]
            return ref.softmax_loss("ASoftmax", x, weight, y.tolist(), margin=4) + 0.5 * ref.class_energy(weight, y, 2)

        return joined
    return None


class TestValues(Suite):
    """Dense and in blocks of classes, as in a first training step."""

    cases = {
        f"{case} in blocks of {chunk}": head_case(case, "value", 7, 5, 6, chunk=chunk, training=True)
        for case, chunk in itertools.product([*SOFTMAX, "sphereface2", "plus"], [None, 4])
    }


class TestGradients(Suite):
    cases = {
        **{
            f"{case} in blocks of {chunk}": head_case(
                case, "gradient", dim=3 if chunk is None else 4, classes=4 if chunk is None else 5, chunk=chunk
            )
            for case, chunk in itertools.product(ALL, [None, 2])
            if case != "adaface"  # takes the quality of a sample as a constant: test_losses_seeing.py
        },
        **{
            f"second of {case}": head_case(case, "second", 2, 3, 3)
            for case in [
                "l_softmax",
                "a_softmax",
                "ga_sigmoid",
                "arcface",
                "r_v2",
                "sphereface2",
                "plus",
                "magface_short",
                "subcenter",
            ]
        },
        **{
            f"second of {case} in blocks": head_case(case, "second", 2, 3, 3, chunk=2)
            for case in ["a_softmax", "r_v2", "w_learnable_k", "sphereface2", "plus"]
        },
    }


class TestModes(Suite):
    """Half precision is summed in float32; compilers take a head whole, and count its steps."""

    cases = {
        **{
            f"{case} by {backend}": head_case(
                case, "compile", classes=7, labels=[0, 6, IGNORED], training=True, backend=backend
            )
            for backend, cases in {
                "aot_eager": ["softmax_bias", "l_annealed", "r_v2", "sphereface2"],
                "eager": ["w_learnable_k", "s_sigmoid", "ga_square", "a_softmax", "arcface", "r_v1", "plus", "magface",
                          "subcenter"],
            }.items()
            for case in cases
        },
        **{
            f"{case} in blocks by {backend}": head_case(
                case, "compile", classes=7, labels=[0, 6, 2], training=True, chunk=4, backend=backend
            )
            for backend, cases in {
                "aot_eager": ["curricularface"],
                "eager": ["r_v2_annealed", "sphereface2", "adaface", "w_subcenters_k"],
            }.items()
            for case in cases
        },
        **{
            f"{case} in blocks of {chunk}, half": head_case(case, "dtype autocast", chunk=chunk, widened=True, half=0.1)
            for case, chunk in itertools.product(HALF, [None, 2])
        },
    }  # fmt: skip


class Logits(torch.nn.Module):
    def __init__(self, head):
        super().__init__()
        self.head = head

    def forward(self, x):
        return self.head.logits(x)


def plain_logits(case):
    """What a head ranks classes by: its equation without a margin."""
    if case not in SOFTMAX:
        return None
    _, _, name, options = SOFTMAX[case]

    def rows(x, **parameters):
        if name in ref.SEEING:
            return np.array([ref.cosines(row, parameters["head.weight"], 7) for row in x]) * options.get("s", 64.0)
        bias = parameters.get("head.bias")
        return np.array(
            [ref.logits(name, row, parameters["head.weight"], -1, lam=math.inf, bias=bias, **options) for row in x]
        )

    return rows


class TestLogits(Suite):
    cases = {
        **{
            case: Case(
                lambda case=case: Logits(build(case, 4, 7, dtype=torch.float64)),
                lambda: (draw(3, 4, seed=3),),
                plain_logits(case),
                "value export" if case == "a_softmax" else "value",
                1e-10,
            )
            for case in SOFTMAX
        },
        "sphereface2": Case(lambda: Logits(build("sphereface2", 4, 7)), lambda: (draw(3, 4, seed=3),), checks="export"),
    }
