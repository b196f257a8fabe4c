"""More elements than 32 bits can count: a small batch, repeated until it has them, gives the same in every copy."""

import copy

import pytest
import torch
from torch import nn

import hypersphere as hs
from hypersphere import kernels

pytestmark = pytest.mark.gpu
MANY = 2**31
ROOM = 60 * 2**30  # bytes of a GPU that these tests need


@pytest.fixture(autouse=True)
def _room():
    if torch.cuda.mem_get_info()[0] < ROOM:
        pytest.skip("less than 60 GiB of GPU memory are free")
    yield
    torch.cuda.empty_cache()


def conv(*args, **kwargs):
    return hs.nn.DecoupledConv2d(*args, padding=1, magnitude=kwargs.pop("magnitude", "sphere"), **kwargs)


CASES = {  # layers, and the entries of a sample that one copy of the small batch has
    "block, many outputs": (lambda: [conv(8, 64, 3, angular="sigmoid"), nn.BatchNorm2d(64), nn.ReLU()], (8, 32, 32)),
    "many inputs": (lambda: [conv(64, 8, 3, angular="linear", magnitude="tanh")], (64, 32, 32)),
    "depthwise": (lambda: [conv(64, 64, 3, groups=64, magnitude="ball")], (64, 32, 32)),
    "rows": (lambda: [hs.nn.SphereLinear(64, 2048, angular="sigmoid"), nn.BatchNorm1d(2048)], (64,)),
    "pooling": (lambda: [conv(8, 64, 3), nn.ReLU(), nn.MaxPool2d(2), conv(64, 8, 3)], (8, 32, 32)),
}


@pytest.mark.parametrize("last", [True, False], ids=["channels last", "usual order"])
@pytest.mark.parametrize("case", CASES)
def test_a_repeated_batch(case, last):
    layers, shape = CASES[case]
    if len(shape) == 1 and not last:
        pytest.skip("rows have one order")
    exact = nn.Sequential(*layers()).double()
    model = nn.Sequential(*layers()).float()
    model.load_state_dict(exact.state_dict())
    model = hs.nn.fuse(model) if last else model
    few = copy.deepcopy(model)
    small = torch.randn(128, *shape).bfloat16()
    widest = 2048 if len(shape) == 1 else 64 * 32 * 32
    copies = MANY // (128 * widest) + 1
    along = torch.randn_like(exact(small.double()))
    x, z = run(model, small, along, copies, last)
    assert len(x) * widest > MANY
    assert kernels.LAUNCHES["apply_kernel"] >= 1
    x_few, z_few = run(few, small, along, 1, last)
    wanted = small.double().requires_grad_()
    expected = exact(wanted)
    expected.backward(along)
    for name, found, one, reference in [("z", z, z_few, expected), ("dx", x.grad, x_few.grad, wanted.grad)]:
        for part in (slice(0, 128), slice(len(x) - 128, len(x))):
            assert error(found[part], one) < 0.01, (name, part)
            assert error(found[part], reference) < 0.2, (name, part)  # a kink or another maximum counts for much
    for name, parameter in model.named_parameters():
        assert error(parameter.grad / copies, few.get_parameter(name).grad) < 0.01, name


def run(model, small, along, copies, last):
    """x, with its gradient, and z of a batch that is repeated; so is the gradient of z."""
    x = small.repeat(copies, *[1] * (small.dim() - 1))
    if last and x.dim() == 4:
        x = x.contiguous(memory_format=torch.channels_last)
    x.requires_grad_()
    with torch.autocast(x.device.type, torch.bfloat16):
        z = model(x)
    z.backward(along.to(z.dtype).repeat(copies, *[1] * (z.dim() - 1)))
    return x, z.detach()


def error(found, reference):
    return float((found.double() - reference.double()).norm() / reference.double().norm())
