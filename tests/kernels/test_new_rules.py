"""A g and an h as CONTRIBUTING adds them: a class in the tuple of built-in ones, first without and then with a formula.

Kernels do not know either, so plain operations compute them, where a GPU would run and elsewhere.
"""

import pytest
import torch

import hypersphere as hs
from hypersphere._core.registries import ANGULAR, MAGNITUDES
from hypersphere.functional.magnitude import _FORMULAS
from hypersphere.functional.operators.closed_forms import CLOSED_FORMS, Back, ClosedForm


class Cubic(hs.angular.Angular):
    """g = cos³ θ."""

    kind = "cubic"

    def from_cos(self, c):
        return c**3

    def from_angle(self, theta):
        return theta.cos() ** 3


class Half(hs.magnitude.Magnitude):
    """h = n/2."""

    kind = "half"

    def forward(self, n):
        return n / 2

    def ratio(self, n):
        return torch.full_like(n, 0.5)


def cubic_back(value, grad, k, need_k):
    c = torch.copysign(value.abs() ** (1 / 3), value)
    return Back(c, grad * c * c, 3.0)


@pytest.fixture(params=["plain", "with a formula"])
def rules(request, monkeypatch):
    for table, kind in ((ANGULAR, Cubic), (MAGNITUDES, Half)):
        monkeypatch.setattr(table, "_entries", dict(table._entries))
        table.add(kind.kind, kind)
    if request.param != "plain":
        form = ClosedForm(lambda c, k: c**3, lambda c, k: c.pow_(3), cubic_back)
        monkeypatch.setitem(CLOSED_FORMS, "cubic", form)
        monkeypatch.setitem(_FORMULAS, "half", (lambda n, a, b, r: n / 2, lambda n, a, b, r: 0 * n + 0.5))
        monkeypatch.setattr(hs.angular, "_FUSED", (*hs.angular._FUSED, Cubic))
        monkeypatch.setattr(hs.magnitude, "_FUSED", (*hs.magnitude._FUSED, Half))
    return {"angular": "cubic", "magnitude": "half"}


def test_every_layer_and_head_takes_them(rules, on_kernels):
    torch.manual_seed(0)
    x, rows = torch.randn(2, 4, 6, 6), torch.randn(3, 6)
    conv = hs.nn.DecoupledConv2d(4, 5, 3, **rules)
    patches = torch.nn.functional.unfold(x, 3).mT
    n = patches.norm(dim=-1, keepdim=True)
    wanted = n / 2 * (patches / n @ torch.nn.functional.normalize(conv.weight.flatten(1)).mT) ** 3
    for mode in (torch.enable_grad, torch.no_grad):
        with mode():
            torch.testing.assert_close(conv(x), wanted.mT.reshape(2, 5, 4, 4))
    for layer in (hs.nn.DecoupledLinear(6, 3, **rules), hs.nn.SphereLinear(6, 3, angular="cubic")):
        layer(rows).sum().backward()
    hs.nn.DecoupledLSTM(6, 3, **rules)(x[0])[0].sum().backward()
    for head in (hs.losses.WSoftmax, hs.losses.SSoftmax, hs.losses.GASoftmax):
        head(6, 5, angular="cubic")(rows, torch.tensor([0, 1, 2])).backward()
    folded = hs.nn.fold(torch.nn.Sequential(conv, torch.nn.ReLU()).eval())
    torch.testing.assert_close(folded(x), conv(x).relu())
