import copy
import itertools

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

from hypersphere.functional import energy
from hypersphere.regularizers import CoMHE, low_rank

KINDS = [
    {},
    {"matrix": "hadamard"},
    {"matrix": "count_sketch", "aggregate": "max"},
    {"projection": "angle_preserving"},
    {"projection": "angle_preserving", "unroll": 2, "preserve": "angle"},
    {"projection": "adversarial"},
    {"projection": "adversarial", "unroll": 1},
    {"projection": "learned"},
    {"projection": "learned", "unroll": 1, "share": False},
    {"projection": "group"},
    {"projection": "group", "stochastic": True},
    {"projection": "bilateral"},
]


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(2, 8, 3), nn.Conv2d(8, 6, 3), nn.Conv2d(8, 10, 3), nn.Flatten(), nn.Linear(72, 7), nn.Linear(7, 4)
    )


def build(model, **arguments):
    groups = {"group": 3} if arguments.get("projection") == "group" else {}
    return CoMHE(model, **{"dim": 5, "refresh": 3, **groups, **arguments})


def matrices(model):
    return [model[i].weight.flatten(1) for i in (0, 1, 2, 4)]


def test_random_is_thesis_6_4_and_6_5():
    model = network()
    for aggregate, combine in (("mean", torch.mean), ("max", torch.amax)):
        reg = build(model, aggregate=aggregate, count=3, output=0.0, s=1.0)
        expected = []
        for w in matrices(model):
            bases = reg.get_buffer(f"basis_{w.shape[1]}")
            assert bases.shape == (3, 5, w.shape[1])
            unit_w = w / w.norm(dim=1, keepdim=True)
            expected.append(combine(torch.stack([energy(unit_w @ p.mT, 1.0, half_space=True) for p in bases])))
        torch.testing.assert_close(reg(), torch.stack(expected).sum())


def test_defaults_are_the_thesis_ones():
    reg = CoMHE(nn.Sequential(nn.Linear(50, 8), nn.Linear(8, 3)))
    assert (reg.dim, reg.count, reg.half_space, reg.hidden, reg.output, reg.s) == (30, 5, True, 1.0, 1.0, 2.0)
    assert CoMHE(network(), projection="angle_preserving", dim=5).count == 1


def test_output_layer_keeps_its_plain_full_space_energy():
    model = network()
    torch.testing.assert_close(build(model, hidden=0.0)(), energy(model[5].weight))
    labels = torch.tensor([1, 1, 3])
    assert build(model, hidden=0.0)(labels) != build(model, hidden=0.0)()


def test_bases_are_shared_between_equal_dimensions():
    model = network()  # dimensions 18, 72, 72, 72
    assert sorted(k for k in build(model).state_dict() if k.startswith("basis")) == ["basis_18", "basis_72"]
    assert len([k for k in build(model, share=False).state_dict() if k.startswith("basis")]) == 4


def test_redrawn_on_schedule_and_only_then():
    model = network()
    reg = build(model, refresh=3)
    seen = []
    for _ in range(7):
        reg()
        seen.append(reg.basis_72.clone())
    same = [torch.equal(a, b) for a, b in itertools.pairwise(seen)]
    assert same == [True, True, False, True, True, False]
    fixed = build(model, refresh=None)
    first = fixed.basis_72.clone()
    for _ in range(5):
        fixed()
    assert torch.equal(first, fixed.basis_72)
    reg.eval()
    before, count = reg.basis_72.clone(), reg.steps
    for _ in range(4):
        reg()
    reg.layers()
    assert torch.equal(before, reg.basis_72)
    assert reg.steps == count


@pytest.mark.parametrize("arguments", KINDS, ids=str)
def test_resumes_exactly_and_ignores_the_global_seed(arguments):
    model = network()
    reg = build(model, seed=4, **arguments)
    for _ in range(4):
        reg()
    other = build(copy.deepcopy(model), seed=9, **arguments)
    other.load_state_dict(reg.state_dict())
    torch.manual_seed(1)
    mine = [reg().item() for _ in range(4)]
    torch.manual_seed(2)
    assert [other().item() for _ in range(4)] == mine


@pytest.mark.parametrize("arguments", KINDS, ids=str)
def test_gradients_reach_every_layer_and_copies_work(arguments):
    model = network()
    reg = build(model, **arguments)
    value = reg() + reg()  # two calls before one backward, as in gradient accumulation
    value.backward()
    assert all(torch.isfinite(model[i].weight.grad).all() and model[i].weight.grad.norm() > 0 for i in (0, 1, 2, 4, 5))
    assert list(reg.parameters()) == []
    other_model, other = copy.deepcopy((model, reg))
    assert other().item() == reg().item()
    assert all(torch.isfinite(v) for v in other.layers().values())
    assert other_model is not model


def test_groups_of_one_dimension_have_no_directions_to_spread():
    """In one dimension neurons are ±1: their energy would be a huge constant."""
    model = nn.Sequential(nn.Linear(9, 6), nn.Linear(6, 5), nn.Linear(5, 2))
    reg = CoMHE(model, projection="group", group=4, aggregate="max", output=0.0)
    halves = [model[0].weight[:, :4], model[0].weight[:, 4:8]]  # the ninth channel has no part of its own
    want = torch.stack([energy(half, half_space=True) for half in halves]).max()
    torch.testing.assert_close(reg.layers()["0.weight"], want.detach())
    reg().backward()
    assert model[0].weight.grad[:, :8].any()
    with pytest.raises(ValueError, match="group=1 leaves one dimension"):
        CoMHE(model, projection="group", group=1)
    with pytest.raises(ValueError, match="dim=1"):
        CoMHE(model, dim=1)


def test_groups_of_channels_are_thesis_6_9():
    model = network()
    reg = build(model, projection="group", output=0.0, include="2")
    w = model[2].weight  # 8 channels in groups of 3: 3, 3, 2
    parts = [energy(w[:, a:b].flatten(1), half_space=True) for a, b in ((0, 3), (3, 6), (6, 8))]
    torch.testing.assert_close(reg(), torch.stack(parts).mean())
    shuffled = build(model, projection="group", stochastic=True, output=0.0, include="2")
    order = shuffled.order_8
    parts = [energy(w[:, order[a:b]].flatten(1), half_space=True) for a, b in ((0, 3), (3, 6), (6, 8))]
    torch.testing.assert_close(shuffled(), torch.stack(parts).mean())


def test_bilateral_is_thesis_e_21():
    model = network()
    reg = build(model, projection="bilateral", output=0.0, include="4")
    w = model[4].weight
    expected = energy(w @ reg.basis_72[0].mT, half_space=True) + energy(reg.mixing_7[0] @ w, half_space=True)
    torch.testing.assert_close(reg(), expected)


def test_low_rank_bilateral_is_thesis_e_23():
    torch.manual_seed(0)
    layer = nn.Linear(12, 9, dtype=torch.float64)
    original = layer.weight.detach().clone()
    low_rank(layer, rank=4)
    entry = layer.parametrizations.weight
    y1, y2, p1 = entry.original0.mT, entry.original1.mT, entry[0].projection.double()
    torch.testing.assert_close(layer.weight.mT, y2 @ torch.linalg.inv(p1 @ y2) @ y1)
    u, s, vh = torch.linalg.svd(original)
    torch.testing.assert_close(layer.weight, (u[:, :4] * s[:4]) @ vh[:4])  # the best start
    assert sum(p.numel() for p in entry.parameters()) == 9 * 4 + 4 * 12
    model = nn.Sequential(layer, nn.Linear(9, 3, dtype=torch.float64))
    reg = CoMHE(model, projection="bilateral", output=0.0)
    torch.testing.assert_close(
        reg(), energy(entry.original0, half_space=True) + energy(entry.original1, half_space=True)
    )
    reg().backward()
    assert entry.original0.grad.norm() > 0
    with pytest.raises(ValueError, match="is parametrized"):
        low_rank(layer, rank=3)
    for projection in ("random", "learned", "group"):  # of other views the weight is the weight
        groups = {"group": 4, "stochastic": True} if projection == "group" else {}
        reg = CoMHE(model, projection=projection, output=0.0, dim=5, **groups)
        held = {name.partition("_")[0]: one for name, one in reg.named_buffers()}
        if projection == "random":
            views = torch.stack([layer.weight @ basis.mT for basis in held["basis"]])
            torch.testing.assert_close(reg(), energy(views, half_space=True).mean())
        reg().backward()
    parametrize.remove_parametrizations(layer, "weight")
    assert layer.weight.shape == (9, 12)
    conv = low_rank(nn.Conv2d(4, 6, 3), rank=3)
    assert conv(torch.randn(1, 4, 5, 5)).shape == (1, 6, 3, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.isfinite(conv(torch.randn(1, 4, 5, 5))).all()


@pytest.mark.parametrize("projection", ["random", "learned", "group"])
def test_a_call_in_inference_mode_spoils_no_later_one(projection):
    model = network()
    reg = build(model, projection=projection, stochastic=projection == "group", refresh=1)
    reg()
    with torch.inference_mode():
        assert torch.isfinite(reg())
    reg.refresh = None
    reg().backward()


def test_layers_too_small_to_compress():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Conv2d(8, 6, 3), nn.Flatten(), nn.Linear(6, 2))  # 27 and 72
    plain = CoMHE(model, output=0.0).layers()["0.weight"]
    torch.testing.assert_close(plain, energy(model[0].weight.flatten(1), half_space=True).detach())
    assert "0.weight" not in CoMHE(model, small="skip").layers()
    with pytest.raises(ValueError, match=r"dim=30 .* 0.weight \(27\)"):
        CoMHE(model, small="error")
    with pytest.raises(ValueError, match="use a smaller dim"):
        CoMHE(model, dim=72)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"projection": "randm"}, "did you mean 'random'"),
        ({"dim": 0}, "dim"),
        ({"count": 0}, "count"),
        ({"aggregate": "sum"}, "aggregate"),
        ({"refresh": 0}, "refresh"),
        ({"matrix": "orthogonal"}, "matrix"),
        ({"unroll": -1}, "unroll"),
        ({"inner_lr": 0.0}, "inner_lr"),
        ({"inner_every": 0}, "inner_every"),
        ({"projection": "angle_preserving", "inner_every": 10, "unroll": 1}, "inner_every=10 is for unroll=0"),
        ({"small": "clamp"}, "small"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        build(network(), **arguments)


def test_bad_low_rank():
    with pytest.raises(ValueError, match="rank=10 is larger"):
        low_rank(nn.Linear(12, 9), rank=10)
    with pytest.raises(ValueError, match="not a weight"):
        low_rank(nn.ReLU())
    with pytest.raises(ValueError, match="columns"):
        low_rank(nn.ConvTranspose2d(4, 4, 3), rank=2)
    with pytest.raises(ValueError, match="in columns"):
        low_rank(type("Conv1D", (nn.Linear,), {})(4, 4), rank=2)  # as transformers has it


def test_half_precision_and_autocast():
    model = network().bfloat16()
    for arguments in KINDS:
        reg = build(model, **arguments).eval()
        value = reg()
        assert value.dtype == torch.float32
        torch.testing.assert_close(value, build(copy.deepcopy(model).float(), **arguments).eval()())
        with torch.autocast("cpu", dtype=torch.bfloat16):
            torch.testing.assert_close(reg(), value)
