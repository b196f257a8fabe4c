"""Which layers a regularizer acts on: those with directions, while they are the model's."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

import hypersphere as hs
from hypersphere.regularizers import MHE, CoMHE, energies


class TestOneDimension:
    """The directions of one dimension are ±1: pairs of equal ones have no energy."""

    @pytest.mark.parametrize("flat", [nn.GRU(1, 8), nn.Linear(1, 8), nn.Conv2d(4, 8, 1, groups=4)])
    def test_such_layers_are_left_out_and_named_once(self, flat, caplog):
        model = nn.Sequential(flat, nn.Linear(8, 6), nn.Linear(6, 3))
        reg = MHE(model)
        assert not any(name in ("0.weight", "0.weight_ih_l0") for name in reg.layers())
        assert reg().item() < 1000
        assert CoMHE(model, dim=3)().item() < 1000
        assert max(energies(model).layers.values()) < 1000
        assert max(layer.energy for layer in hs.energy(model)) < 1000
        told = [record.getMessage() for record in caplog.records]
        assert len(told) == 1
        assert "0.weight" in told[0]
        assert "one dimension" in told[0]

    def test_an_output_layer_too(self):
        reg = MHE(nn.Sequential(nn.Linear(6, 1), nn.Linear(1, 3)))
        assert reg.output_neurons is None
        assert reg(torch.tensor([0, 1])).isfinite()

    def test_lazy_layers_after_the_first_batch(self):
        model = nn.Sequential(nn.LazyLinear(8), nn.Linear(8, 3))
        reg = MHE(model)
        model(torch.ones(2, 1))
        assert reg().item() < 1000
        assert list(reg.layers()) == ["1.weight"]

    def test_nothing_else(self):
        flat = nn.Linear(1, 8)
        with pytest.raises(ValueError, match=r"two dimensions or more.*weight"):
            MHE(flat)
        with pytest.raises(ValueError, match="two dimensions or more"):
            hs.energy(flat)
        with pytest.raises(ValueError, match="one dimension"):
            hs.energy(torch.ones(4, 1))
        assert energies(flat).layers == {}

    def test_looking_is_no_power_iteration(self):
        model = nn.Sequential(nn.Linear(4, 4), spectral_norm(nn.Linear(4, 5)), nn.Linear(5, 3))
        before = model[1].parametrizations.weight[0]._u.clone()
        MHE(model)
        torch.testing.assert_close(model[1].parametrizations.weight[0]._u, before, rtol=0, atol=0)
        assert model[1].parametrizations.weight[0].training


class TestLayersThatChangeLater:
    """A regularizer acts on the layers of the model, and says so where it cannot."""

    @staticmethod
    def model() -> nn.Sequential:
        return nn.Sequential(nn.Linear(40, 12), nn.ReLU(), nn.Sequential(nn.Linear(12, 9)), nn.Linear(9, 4))

    @pytest.mark.parametrize("make", [MHE, CoMHE, hs.regularizers.SRIP, hs.regularizers.Orthonormal])
    @pytest.mark.parametrize("name", ["0", "2.0"])
    def test_a_replaced_layer_is_an_error(self, make, name):
        model = self.model()
        reg = make(model)
        reg()
        old = model.get_submodule(name)
        model.set_submodule(name, nn.Linear(old.in_features, old.out_features))
        with pytest.raises(ValueError, match=rf"{name}.weight was replaced.*{make.__name__}.*again"):
            reg()
        with pytest.raises(ValueError, match="was replaced"):
            reg.layers()
        make(model)()

    def test_a_replaced_classifier_is_an_error(self):
        model = self.model()
        reg = MHE(model)
        model[3] = nn.Linear(9, 7)
        with pytest.raises(ValueError, match=r"3.weight was replaced"):
            reg(torch.tensor([6]))

    def test_a_block_that_is_gone_is_an_error(self):
        model = self.model()
        reg = MHE(model)
        del model[2]
        with pytest.raises(ValueError, match=r"2.0.weight was replaced"):
            reg()

    def test_a_head_is_no_part_of_the_model(self):
        head = hs.losses.ArcFace(4, 3)
        model = self.model()
        reg = MHE(model, head)
        reg()
        model[0] = nn.Linear(40, 12)
        with pytest.raises(ValueError, match=r"0.weight was replaced"):
            reg()

    def test_layers_that_move_are_wrapped_or_converted_are_kept(self):
        model = self.model()
        reg = MHE(model)
        want = reg()
        model.insert(0, nn.ReLU())
        model[3] = nn.DataParallel(model[3])
        hs.convert(model, inplace=True, output_layer=False)
        assert isinstance(model[1], hs.nn.SphereLinear)
        torch.testing.assert_close(reg(), want, rtol=0, atol=0)
        reg().backward()
        assert all(p.grad is not None for name, p in model.named_parameters() if name.endswith("weight"))

    def test_a_new_parameter_is_followed(self):
        model = self.model()
        reg = MHE(model)
        model[0].weight = nn.Parameter(torch.randn(12, 40))
        reg().backward()
        assert model[0].weight.grad is not None

    def test_copies_stay_connected(self):
        model = self.model()
        pair = copy.deepcopy((model, MHE(model)))
        pair[1]()
        pair[0][0] = nn.Linear(40, 12)
        with pytest.raises(ValueError, match="was replaced"):
            pair[1]()
