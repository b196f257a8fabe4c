"""``hs.energy``: a table in a terminal, an HTML table in a notebook."""

import numpy as np
import pytest
import torch
from torch import nn

import hypersphere as hs


def test_every_layer_has_its_energy():
    model = nn.Sequential(nn.Conv2d(3, 8, 3, groups=1), nn.ReLU(), nn.Conv2d(8, 8, 3, groups=2), nn.Linear(4, 5))
    table = hs.energy(model, s=1.0)
    assert [layer.layer for layer in table] == ["0.weight", "2.weight", "3.weight"]
    wanted = hs.functional.energy(model[0].weight.detach().flatten(1), 1.0)
    assert table["0.weight"].energy == pytest.approx(float(wanted))
    assert (table["2.weight"].sets, table["2.weight"].neurons) == (2, 4)
    assert table["2.weight"].energy == pytest.approx(
        float(hs.functional.energy(model[2].weight.detach().view(2, 4, -1), 1.0).mean())
    )
    lines = repr(table).splitlines()
    assert len(lines) == 2 + len(table)
    assert lines[1].split() == ["layer", "neurons", "dim", "energy", "random"]
    assert "s = 1, euclidean, full space" in lines[0]
    assert len(hs.energy(model, skip="3*")) == 2
    assert [layer.layer for layer in hs.energy(model, include=["0", "2.weight"], skip="2")] == ["0.weight"]


def test_layers_whose_weight_is_made_when_it_is_read():
    """Such a tensor does not outlive the call, and a later one may have its id."""
    made = nn.utils.parametrizations.spectral_norm
    assert len(hs.energy(nn.Sequential(*(made(nn.Linear(8, 8)) for _ in range(12))))) == 12
    layer = nn.Linear(8, 8)
    assert len(hs.energy(nn.ModuleList([layer, nn.Linear(8, 8), layer]))) == 2


def test_html_in_a_notebook():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.add_module("<b>", nn.Linear(3, 4))

    page = hs.energy(Odd())._repr_html_()
    assert page.startswith("<table>")
    assert "&lt;b&gt;.weight" in page
    assert "<b>" not in page
    assert page.count("<tr>") == 2


@pytest.mark.parametrize("read", [torch.as_tensor, np.asarray, np.ndarray.tolist])
def test_vectors_of_any_kind(read):
    rows = np.random.default_rng(0).normal(size=(6, 3))
    wanted = float(hs.functional.energy(torch.from_numpy(rows)))
    assert hs.energy(read(rows))["vectors"].energy == pytest.approx(wanted, rel=1e-5)


def test_what_cannot_be_measured_is_named():
    with pytest.raises(ValueError, match="no weight with two neurons"):
        hs.energy(nn.ReLU())
    with pytest.raises(TypeError, match="not a tensor or array"):
        hs.energy("model")
    with pytest.raises(ValueError, match="vectors as rows"):
        hs.energy([1.0, 2.0])
    with pytest.raises(KeyError, match="not one of the layers"):
        hs.energy(torch.eye(3))["x"]
