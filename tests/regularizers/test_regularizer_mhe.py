import copy
import io
import pickle

import pytest
import torch
from torch import nn

from hypersphere.functional import energy
from hypersphere.losses import CenterLoss, SubcenterArcFace
from hypersphere.regularizers import MHE, energies


class Everything(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 6, 3)
        self.grouped = nn.Conv2d(6, 8, 3, groups=2)
        self.up = nn.ConvTranspose2d(8, 5, 2)
        self.lstm = nn.LSTM(5, 7)
        self.attention = nn.MultiheadAttention(6, 2)
        self.hidden = nn.Linear(7, 9)
        self.classifier = nn.Linear(9, 4)


def small(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 16), nn.Linear(16, 5))


def test_sum_of_thesis_5_4():
    model = small()
    hidden = energy(model[0].weight.flatten(1)) + energy(model[3].weight)
    torch.testing.assert_close(MHE(model)(), 10 * hidden + energy(model[4].weight))
    half = energy(model[0].weight.flatten(1), half_space=True) + energy(model[3].weight, half_space=True)
    torch.testing.assert_close(MHE(model, half_space=True)(), half + energy(model[4].weight))
    torch.testing.assert_close(
        MHE(model, hidden=0.5, output=0.0, s=0.0)(),
        0.5 * sum(energy(w, 0.0) for w in (model[0].weight.flatten(1), model[3].weight)),
    )


def test_weights_in_channels_last_order_are_not_copied():
    model, other = small(), small().to(memory_format=torch.channels_last)
    other.load_state_dict(model.state_dict())
    reg = MHE(other)
    assert reg._sets()[0][0][0].data_ptr() == other[0].weight.data_ptr()
    value = reg()
    value.backward()
    expected = MHE(model)()
    expected.backward()
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(other[0].weight.grad, model[0].weight.grad)
    assert other[0].weight.grad.stride() == other[0].weight.stride()


def test_every_kind_of_layer():
    model = Everything()
    values = MHE(model).layers()
    assert set(values) == {
        "conv.weight", "grouped.weight", "up.weight", "lstm.weight_ih_l0", "lstm.weight_hh_l0",
        "attention.in_proj_weight", "attention.out_proj.weight", "hidden.weight", "classifier.weight",
    }  # fmt: skip
    grouped = model.grouped.weight.reshape(2, 4, -1)
    torch.testing.assert_close(values["grouped.weight"], energy(grouped).mean().detach())
    torch.testing.assert_close(values["up.weight"], energy(model.up.weight.transpose(0, 1).flatten(1)).detach())
    torch.testing.assert_close(
        values["lstm.weight_hh_l0"], energy(model.lstm.weight_hh_l0.reshape(4, 7, 7)).mean().detach()
    )
    torch.testing.assert_close(
        values["attention.in_proj_weight"], energy(model.attention.in_proj_weight.reshape(3, 6, 6)).mean().detach()
    )


def test_the_model_is_not_registered():
    model = small()
    reg = MHE(model)
    assert list(reg.parameters()) == []
    assert list(reg.children()) == []
    assert list(reg.state_dict()) == ["_extra_state"]
    reg().backward()
    assert all(model[i].weight.grad is not None for i in (0, 3, 4))


def test_output_layer_and_head():
    model = small()
    head = nn.Linear(5, 3)
    reg = MHE(model, head)
    assert list(reg.layers()) == ["0.weight", "3.weight", "4.weight", "head.weight"]
    torch.testing.assert_close(
        reg(),
        10 * sum(energy(w.flatten(1)) for w in (model[0].weight, model[3].weight, model[4].weight))
        + energy(head.weight),
    )
    reg = MHE(model, output_layer="3", half_space=True)
    expected = energy(model[0].weight.flatten(1), half_space=True) + energy(model[4].weight, half_space=True)
    torch.testing.assert_close(reg(), expected + energy(model[3].weight))


def test_patterns():
    model = small()
    assert list(MHE(model, include="0").layers()) == ["0.weight"]
    assert list(MHE(model, skip=["4", "0.*"]).layers()) == ["3.weight"]
    assert list(MHE(Everything(), include="lstm.weight_hh*").layers()) == ["lstm.weight_hh_l0"]
    with pytest.raises(ValueError, match="matches none"):
        MHE(model, include="layer9.*")
    with pytest.raises(ValueError, match="no layer is left"):
        MHE(model, include="0", skip="0")


def test_labels_take_all_sub_centers_of_a_class():
    head = SubcenterArcFace(4, 3, sub_centers=2, ignore_index=1, dtype=torch.float64)
    reg = MHE(nn.Linear(6, 4, dtype=torch.float64), CenterLoss(head), hidden=0.0)
    unit = nn.functional.normalize(head.weight)
    terms = [(unit[i] - unit[j]).norm() ** -2 for i in (0, 1, 4, 5) for j in range(6) if i != j]  # classes 0 and 2
    for labels in ([0, 2, 1], [[0, 2], [2, 0], [1, 1]]):  # heads take labels of any shape, and so does the energy
        torch.testing.assert_close(reg(torch.tensor(labels)), torch.stack(terms).mean())
    torch.testing.assert_close(reg(torch.arange(3)), torch.stack(terms).mean())
    torch.testing.assert_close(MHE(nn.Linear(6, 4), head, hidden=0.0)(), energy(head.weight))


def test_labels_take_the_classes_of_the_batch():
    model = small()
    reg = MHE(model, hidden=0.0)
    labels = torch.tensor([0, 3, 3])
    unit = torch.nn.functional.normalize(model[4].weight)
    terms = [(unit[y] - unit[j]).norm() ** -2 for y in (0, 3, 3) for j in range(5) if j != y]
    torch.testing.assert_close(reg(labels), torch.stack(terms).mean())
    torch.testing.assert_close(reg(labels[:, None]), reg(labels))
    reg(labels).backward()
    assert model[4].weight.grad.abs().sum() > 0


def test_sampled_neurons_estimate_the_energy_and_resume():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 40), nn.Linear(40, 3))
    reg = MHE(model, sample=10, output=0.0, hidden=1.0, seed=3)
    draws = torch.stack([reg().detach() for _ in range(400)])
    assert len(draws.unique()) > 300
    assert draws.mean().item() == pytest.approx(energy(model[0].weight).item(), rel=0.01)
    other = MHE(model, sample=10, output=0.0, hidden=1.0, seed=99)
    other.load_state_dict(reg.state_dict())
    assert torch.equal(other(), reg())
    reg.eval()
    assert torch.equal(reg(), reg())  # evaluation does not advance
    assert MHE(model, sample=100)() == MHE(model)()


def test_parametrized_weights_are_read_as_the_layer_sees_them():
    model = small()
    nn.utils.parametrizations.weight_norm(model[3])
    reg = MHE(model, include="3")
    torch.testing.assert_close(reg(), 10 * energy(model[3].weight))
    reg().backward()
    assert model[3].parametrizations.weight.original1.grad.abs().sum() > 0
    with torch.no_grad():
        before = reg()
        model[3].parametrizations.weight.original1.normal_()
    assert reg() != before


def test_tied_weights_count_once_and_shared_modules_too():
    first, second = nn.Linear(6, 6), nn.Linear(6, 6)
    second.weight = first.weight
    model = nn.Sequential(first, second, first, nn.Linear(6, 3))
    assert list(MHE(model).layers()) == ["0.weight", "3.weight"]


@pytest.mark.parametrize("copies", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))])
def test_copies_stay_connected(copies):
    model, reg = copies((small(), None))[0], None
    reg = MHE(model, sample=4)
    reg()
    other, other_reg = copies((model, reg))
    assert other_reg.steps == 1
    with torch.no_grad():
        other[0].weight.normal_()
    assert other_reg.layers()["0.weight"] != reg.layers()["0.weight"]
    torch.testing.assert_close(other_reg.layers()["0.weight"], energy(other[0].weight.flatten(1)).detach())


def test_state_survives_a_file():
    reg = MHE(small(), sample=4, seed=7)
    reg()
    buffer = io.BytesIO()
    torch.save(reg.state_dict(), buffer)
    buffer.seek(0)
    other = MHE(small(), sample=4)
    other.load_state_dict(torch.load(buffer, weights_only=True))
    assert (other.seed, other.steps) == (7, 1)


def test_training_lowers_the_energy():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 12), nn.Linear(12, 3))
    reg = MHE(model, half_space=True)
    before = reg.layers()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(60):
        optimizer.zero_grad()
        reg().backward()
        optimizer.step()
    assert all(reg.layers()[name] < before[name] for name in before)


def test_weighted_energy_of_thesis_d_10():
    model = small().double()
    beta = 1 + torch.rand(8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    filters = model[0].weight.detach().flatten(1)
    points = beta[:, None] * filters / filters.norm(dim=1, keepdim=True)
    pairs = [(points[i] - points[j]).norm() ** -1.0 for i in range(8) for j in range(8) if i != j]
    expected = sum(pairs) / len(pairs)
    reg = MHE(model, s=1.0, hidden=1.0, output=0.0, include="0", weights={"0": beta})
    torch.testing.assert_close(reg(), expected, rtol=1e-12, atol=0)
    torch.testing.assert_close(reg.layers()["0.weight"], expected, rtol=1e-12, atol=0)
    assert "beta_0__weight" in reg.state_dict()
    plain = MHE(model, s=1.0, hidden=1.0, output=0.0, include="0")
    assert reg() < plain()  # longer neurons are farther apart
    same = MHE(model, s=1.0, hidden=1.0, output=0.0, include="0", weights={"0.weight": torch.ones(8)})
    torch.testing.assert_close(same(), plain())
    sampled = MHE(model, s=1.0, hidden=1.0, output=0.0, include="0", weights={"0": beta}, sample=5)
    values = [sampled().item() for _ in range(200)]
    assert sum(values) / 200 == pytest.approx(float(expected), rel=0.02)
    recurrent = nn.Sequential(nn.LSTM(8, 8), nn.Linear(8, 2))
    beta = torch.ones(32)
    with pytest.raises(
        ValueError, match=r"'0', which has several sets of neurons: name them, 0.weight_ih_l0, 0.weight"
    ):
        MHE(recurrent, weights={"0": beta})
    assert "beta_0__weight_ih_l0" in MHE(recurrent, weights={"0.weight_ih_l0": beta}).state_dict()
    with pytest.raises(ValueError, match=r"'1' and '1.weight', which are the same neurons"):
        MHE(
            nn.Sequential(nn.ReLU(), nn.Linear(4, 3), nn.Linear(3, 2)),
            weights=dict.fromkeys(("1", "1.weight"), beta[:3]),
        )
    with pytest.raises(TypeError, match="weights is a list: give a dict"):
        MHE(recurrent, weights=[beta])
    groups = nn.Sequential(nn.Conv2d(4, 6, 3, groups=2), nn.Flatten(), nn.Linear(6, 2)).double()
    both = MHE(groups, s=1.0, hidden=1.0, output=0.0, weights={"0": torch.arange(1.0, 7.0)})
    halves = [energy(w.flatten(1), 1.0, weights=b) for w, b in
              zip(groups[0].weight.split(3), torch.arange(1.0, 7.0).split(3), strict=True)]  # fmt: skip
    torch.testing.assert_close(both(), sum(halves) / 2)


def test_neurons_of_large_weight_move_less():
    """Thesis D.4, Figure D.1: ten directions, the first of β 1 or 10, moved by the gradient of the energy alone."""
    turned = []
    for first in (1.0, 10.0):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 10, bias=False), nn.Linear(10, 2))
        beta = torch.ones(10)
        beta[0] = first
        reg = MHE(model, hidden=1.0, output=0.0, weights={"0": beta})
        start = model[0].weight.detach()[0].clone()
        optimizer = torch.optim.SGD([model[0].weight], 0.05)
        for _ in range(100):
            optimizer.zero_grad()
            reg().backward()
            optimizer.step()
        turned.append(1 - float(torch.cosine_similarity(start, model[0].weight[0].detach(), dim=0)))
    assert turned[1] < 0.2 * turned[0]


@pytest.mark.parametrize(
    ("weights", "options", "message"),
    [
        ({"9": torch.ones(8)}, {}, "not a hidden layer"),
        ({"4": torch.ones(5)}, {}, "not a hidden layer"),  # the output layer
        ({"0": torch.ones(7)}, {}, "8 positive numbers"),
        ({"0": torch.zeros(8)}, {}, "8 positive numbers"),
        ({"0": 2.0}, {}, "8 positive numbers"),
        ({"0": torch.full((8,), torch.inf)}, {}, "8 positive numbers"),
        ({"0": torch.ones(8)}, {"distance": "angular"}, "angles do not depend"),
    ],
)
def test_bad_weights(weights, options, message):
    with pytest.raises(ValueError, match=message):
        MHE(small(), weights=weights, **options)


def test_bad_input():
    with pytest.raises(ValueError, match="no layer with neurons"):
        MHE(nn.Sequential(nn.ReLU(), nn.BatchNorm2d(3)))
    with pytest.raises(TypeError, match="output layers are always in full space"):
        MHE(small(), half_space="output")
    with pytest.raises(ValueError, match="hidden"):
        MHE(small(), hidden=-1.0)
    with pytest.raises(ValueError, match="s=-2"):
        MHE(small(), s=-2.0)
    with pytest.raises(ValueError, match="output_layer"):
        MHE(small(), output_layer="nope")
    with pytest.raises(ValueError, match="no single weight"):
        MHE(small(), nn.ReLU())
    with pytest.raises(ValueError, match="sample"):
        MHE(small(), sample=1)


def test_half_precision_and_autocast():
    model = small().bfloat16()
    value = MHE(model)()
    assert value.dtype == torch.float32
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(MHE(model)(), value)
    assert "3.weight" in repr(MHE(model))


def test_compiles_once():
    model = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 3))
    reg, plain = MHE(model, half_space=True), MHE(model, half_space=True)
    torch._dynamo.utils.counters.clear()
    reg.compile(backend="aot_eager", fullgraph=True)
    for _ in range(4):
        value = reg()
        value.backward()
        torch.testing.assert_close(value, plain())
        with torch.no_grad():
            model[0].weight.mul_(1.1).add_(0.01)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    assert reg.steps == 4
    other, other_model = pickle.loads(pickle.dumps((reg, model)))
    torch.testing.assert_close(other(), MHE(other_model, half_space=True)())


def test_energies_of_a_network_are_one_number_for_logs_and_reports():
    model, head = small(), nn.Linear(5, 3)
    found = energies(model, head, half_space=True)
    hidden = [energy(w.flatten(1), half_space=True).item() for w in (model[0].weight, model[3].weight, model[4].weight)]
    assert list(found.hidden.values()) == pytest.approx(hidden)
    assert found.output == {"head.weight": pytest.approx(energy(head.weight).item())}
    assert found.mean == pytest.approx(sum(hidden) / 3)
    assert list(found.layers) == ["0.weight", "3.weight", "4.weight", "head.weight"]
    assert energies(nn.ReLU()).mean is None
    assert energies(nn.Linear(4, 3)).mean is None
    with pytest.raises(ValueError, match="output_layer"):
        energies(model, output_layer="nope")


def test_old_state_is_loaded():
    reg = MHE(small(), sample=4)
    reg.load_state_dict({"_extra_state": torch.tensor([7, 12])})
    assert (reg.seed, reg.steps) == (7, 12)
