"""Arriving is cheap: what `import hypersphere` loads, and that the first eager call of anything imports no compiler."""

import json

import pytest

import programs

MODULES = 80  # at most, beyond torch and what torch itself loads

COUNT = """
import json, sys
import torch
before = set(sys.modules)
import hypersphere
print(json.dumps(sorted(n for n in set(sys.modules) - before if not n.startswith(("torch.", "torchgen.")))))
"""

# One after another: the first that imports a compiler is named.
CALLS = """
import json, sys
import torch
import hypersphere as hs
from hypersphere._core.registries import ANGULAR, HEADS, MAGNITUDES, MAPS, REGULARIZERS
from hypersphere.functional.orthogonalize import methods

F, L = hs.functional, hs.losses
COMPILERS = ("torch._dynamo", "torch._inductor", "triton")
x, rows, labels = torch.randn(2, 4, 6, 6), torch.randn(3, 8), torch.tensor([0, 1, 1])
net = lambda: torch.nn.Sequential(torch.nn.Conv2d(4, 6, 3), torch.nn.Flatten(), torch.nn.Linear(96, 5))
MANY = 20_000  # classes

CALLS = {}
for g in ANGULAR:
    CALLS[f"SphereConv2d {g}"] = lambda g=g: hs.nn.SphereConv2d(4, 6, 3, angular=g)(x)
for h in MAGNITUDES:
    CALLS[f"DecoupledConv2d {h}"] = lambda h=h: hs.nn.DecoupledConv2d(4, 6, 3, magnitude=h, angular="linear")(x)
CALLS["learnable k"] = lambda: hs.nn.SphereConv2d(4, 6, 3, angular=hs.angular.Sigmoid(learnable=True))(x)
CALLS["DecoupledLinear tanh"] = lambda: hs.nn.DecoupledLinear(8, 5, magnitude="tanh", angular="sigmoid")(rows)
for name in hs.nn.__all__:
    layer = getattr(hs.nn, name)
    if name[-2:] in ("1d", "2d", "3d"):
        CALLS[name] = lambda layer=layer, n=int(name[-2]): layer(4, 6, 3)(free(2, 4, *[6] * n))
    elif name.endswith("Linear"):
        CALLS[name] = lambda layer=layer: layer(4, 6)(free(3, 4))
    elif name.endswith(("RNN", "LSTM", "GRU")):
        CALLS[name] = lambda layer=layer: layer(4, 6)(free(5, 2, 4))[0]
CALLS["convert"] = lambda: hs.convert(net())(x)
for name, head in HEADS.items():
    CALLS[name] = lambda head=head: head(8, 5)(rows, labels)
    if name not in ("triplet", "floored_softmax"):  # which have no blocks
        CALLS[f"{name} in blocks"] = lambda head=head: head(8, MANY, chunk=6_000)(rows, labels)
CALLS["so many classes that it takes blocks"] = lambda: L.ArcFace(8, MANY)(free(256, 8), torch.arange(256))
CALLS["annealed"] = lambda: L.ASoftmax(8, 5, annealing="sphereface")(rows, labels)
CALLS["annealed in blocks"] = lambda: L.ASoftmax(8, MANY, annealing="sphereface", chunk=6_000)(rows, labels)
CALLS["SphereFacePlus"] = lambda: L.SphereFacePlus(L.ASoftmax(8, 5))(rows, labels)
CALLS["CenterLoss"] = lambda: L.CenterLoss(L.Softmax(8, 5))(rows, labels)
for s in (0.0, 1.0, 2.0):
    for distance in ("euclidean", "angular"):
        CALLS[f"energy s={s} {distance}"] = lambda s=s, d=distance: F.energy(free(40, 8), s, distance=d)
CALLS["energy in blocks"] = lambda: F.energy(free(4000, 3), half_space=True)
CALLS["refine"] = lambda: F.refine(free(6, 8), steps=2)
CALLS["energy of neurons of one direction"] = lambda: F.energy(torch.cat([rows, rows, -rows]), half_space=True)
for name, regularizer in REGULARIZERS.items():
    CALLS[name] = lambda r=regularizer: r(net())()
CALLS["PointNet2"] = lambda: hs.models.create("pointnet2", 5, points=(8, 4), samples=(4, 4))(free(2, 20, 3))
for method in methods():
    CALLS[f"map {method}"] = lambda m=method: F.orthogonalize(free(6, 6), m)
for method in MAPS:
    CALLS[f"OPT {method}"] = lambda m=method: hs.orthogonal.attach(net(), m)(x)


def free(*shape):
    return torch.randn(*shape).requires_grad_()


def imports_a_compiler(call):
    out = call()
    if out.requires_grad:
        out.sum().backward()
    return any(name in sys.modules for name in COMPILERS)


if any(name in sys.modules for name in COMPILERS):
    sys.exit("torch or the package imports a compiler by itself")
x.requires_grad_(), rows.requires_grad_()
torch.set_num_threads(1)
guilty = next((name for name, call in CALLS.items() if imports_a_compiler(call)), None)
print(json.dumps({"guilty": guilty, "calls": len(CALLS)}))
"""


def answer(code):
    done = programs.run(["-c", code], bare=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_importing_loads_few_modules():
    found = answer(COUNT)
    assert any(name.startswith("hypersphere.") for name in found)
    assert len(found) <= MODULES, f"{len(found)} modules:\n{' '.join(found)}"


@pytest.mark.slow
def test_the_first_eager_call_imports_no_compiler():
    found = answer(CALLS)
    assert found["calls"] > 100
    assert found["guilty"] is None, f"{found['guilty']} imports torch._dynamo, torch._inductor or triton"
