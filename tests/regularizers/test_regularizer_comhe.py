import copy
import itertools

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

from hypersphere.functional import energy, unit
from hypersphere.regularizers import CoMHE, low_rank
from hypersphere.regularizers._views import preservation, preservation_slope, project

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


@pytest.mark.parametrize("projection", ["angle_preserving", "adversarial", "learned"])
@pytest.mark.parametrize(("unroll", "inner_lr"), [(1, 0.7), (3, 0.7), (3, 0.05)])
def test_unrolled_gradient_is_second_order(projection, unroll, inner_lr):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 5), nn.Linear(5, 2)).double()
    reg = CoMHE(model, projection=projection, unroll=unroll, dim=3, inner_lr=inner_lr, output=0.0, refresh=None).eval()
    weight = model[0].weight.detach().clone()
    start = reg.basis_8.clone()

    def value(w):
        points, bases = unit(w)[None], start.clone().requires_grad_()
        for _ in range(unroll):
            if projection == "angle_preserving":
                inner = preservation(points, bases, "cosine").sum()
            else:
                sign = 1 if projection == "learned" else -1
                inner = sign * energy(project(points, bases), half_space=True).sum()
            (slope,) = torch.autograd.grad(inner, bases, create_graph=True)
            rate = inner_lr
            if projection == "angle_preserving":  # η counts for entries N(0, 1), here N(0, 1/3)
                rate = torch.minimum(torch.tensor(inner_lr / 3), inner / slope.square().sum())
            bases = bases - rate * slope
        return energy(project(points, bases), half_space=True).mean()

    reg().backward()
    numeric = torch.zeros_like(weight)
    for index in range(weight.numel()):  # differences through the whole inner descent
        step = torch.zeros_like(weight).view(-1).index_fill_(0, torch.tensor(index), 1e-6).view_as(weight)
        numeric.view(-1)[index] = (value(weight + step) - value(weight - step)).detach() / 2e-6
    torch.testing.assert_close(model[0].weight.grad, numeric, rtol=1e-5, atol=1e-8)
    constant = energy(project(unit(model[0].weight)[None], start), half_space=True).mean()
    first_order = torch.autograd.grad(constant, model[0].weight)[0]
    assert (numeric - first_order).norm() > 1e-3 * numeric.norm()


def test_preservation_is_thesis_6_6_and_descends():
    torch.manual_seed(0)
    w, basis = torch.randn(1, 6, 9, dtype=torch.float64), torch.randn(1, 4, 9, dtype=torch.float64)
    total = 0.0
    for i in range(6):
        for j in range(6):
            if i != j:
                true = torch.cosine_similarity(w[0, i], w[0, j], dim=0)
                image = torch.cosine_similarity(basis[0] @ w[0, i], basis[0] @ w[0, j], dim=0)
                total += float((true.acos() - image.acos()) ** 2)
    assert preservation(w, basis, "angle").tolist() == [pytest.approx(total)]
    reg = CoMHE(nn.Sequential(nn.Linear(40, 10), nn.Linear(10, 2)), projection="angle_preserving", dim=8)
    weight = reg._hidden[0].matrix().detach()
    before = preservation(weight, reg.basis_40, "cosine")
    for _ in range(10):  # of one step each, at the default rate
        reg()
    assert preservation(weight, reg.basis_40, "cosine") < 0.7 * before


@pytest.mark.parametrize("shape", [(1, 7, 12), (2, 5, 9), (1, 1, 4)])
def test_the_slope_of_the_preservation_is_that_of_autograd(shape):
    torch.manual_seed(0)
    weight, bases = torch.randn(shape, dtype=torch.float64), torch.randn(3, 2, shape[-1], dtype=torch.float64)
    weight[0, -1] = 0  # no direction
    weight.requires_grad_()
    bases[0] = 0  # no image
    leaf, units, seed = bases.clone().requires_grad_(), unit(weight), torch.randn_like(bases)
    value = preservation(units, leaf, "cosine")
    (expected,) = torch.autograd.grad(value.sum(), leaf, create_graph=True)
    found, itself = preservation_slope(units, bases)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(itself, value)
    second = [torch.autograd.grad((one * seed).sum(), weight, retain_graph=True)[0] for one in (found, expected)]
    torch.testing.assert_close(*second)


def test_an_angle_preserving_projection_moves_noticeably_at_each_call():
    """At its defaults a call moves P by some percent: with the mean over pairs it was 5e-5, so AP was RP."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(576, 64), nn.Linear(64, 64), nn.Linear(64, 10))
    for settings in ({}, {"unroll": 1}):
        reg = CoMHE(model, projection="angle_preserving", **settings)
        start = reg.basis_576.clone()
        before = preservation(model[0].weight[None], start, "cosine")
        reg()
        assert 0.01 < (reg.basis_576 - start).norm() / start.norm() < 0.5
        for _ in range(9):
            reg()
        assert preservation(model[0].weight[None], reg.basis_576, "cosine") < 0.7 * before


@pytest.mark.parametrize("settings", [{}, {"unroll": 1}, {"preserve": "angle"}])
@pytest.mark.parametrize("cosine", [0.0, 0.2, 0.9])
def test_a_fresh_projection_of_neurons_that_point_alike_does_not_overshoot(cosine, settings):
    """A step of η is too long where all pairs pull the same way: L_P grew twentyfold, and the energy a thousandfold."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1152, 128, bias=False), nn.Linear(128, 10))
    with torch.no_grad():
        weight = unit(torch.randn(128, 1152))
        model[0].weight.copy_((1 - cosine) ** 0.5 * weight + cosine**0.5 * unit(torch.randn(1152)))
    reg = CoMHE(model, projection="angle_preserving", output=0.0, **settings)
    preserve = settings.get("preserve", "cosine")
    weight = model[0].weight[None].detach()
    before, start = preservation(weight, reg.basis_1152, preserve).item(), reg().item()
    assert preservation(weight, reg.basis_1152, preserve).item() < 4 * before
    assert max(reg().item() for _ in range(19)) < 10 * start


@pytest.mark.parametrize("projection", ["angle_preserving", "adversarial"])
def test_alternating_projections_move_at_every_so_many_calls(projection):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(40, 10), nn.Linear(10, 2))
    arguments = {"projection": projection, "dim": 8, "inner_every": 3, "inner_lr": 0.01}
    reg = CoMHE(model, **arguments)
    each = CoMHE(model, **(arguments | {"inner_every": 1}))
    moved = []
    for _ in range(7):
        before = reg.basis_40.clone()
        reg()
        moved.append(not torch.equal(before, reg.basis_40))
    assert moved == [True, False, False, True, False, False, True]
    for _ in range(3):  # as many moves, of the same size
        each()
    assert torch.equal(reg.basis_40, each.basis_40)
    other = CoMHE(model, **arguments)
    other.load_state_dict(reg.state_dict())
    mine = [reg().item() for _ in range(4)]
    assert [other().item() for _ in range(4)] == mine
    reg()  # the 12th call; the 13th would move
    before = reg.basis_40.clone()
    reg.eval()()
    assert torch.equal(before, reg.basis_40)


def test_adversarial_ascends_the_energy():
    torch.manual_seed(0)
    reg = CoMHE(
        nn.Sequential(nn.Linear(40, 10), nn.Linear(10, 2)),
        projection="adversarial",
        dim=8,
        inner_steps=3,
        inner_lr=0.005,
        output=0.0,
    )
    values = [reg().item() for _ in range(6)]
    assert values == sorted(values)
    assert values[-1] > values[0] + 1e-3


def test_learned_projections_descend_the_energy_as_a_parameter_does():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(40, 10), nn.Linear(10, 2)).double()
    reg = CoMHE(model, projection="learned", dim=8, inner_lr=0.005, output=0.0, refresh=None)
    basis = nn.Parameter(reg.basis_40.clone())
    descent = torch.optim.SGD([basis], lr=0.005)
    values = []
    for _ in range(5):
        descent.zero_grad()
        energy(project(unit(model[0].weight.detach())[None], basis), half_space=True).sum().backward()
        descent.step()
        values.append(reg().item())
        torch.testing.assert_close(reg.basis_40, basis.detach())
    assert values == sorted(values, reverse=True)


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


@pytest.mark.parametrize(
    "options",
    [
        {"projection": "angle_preserving", "preserve": "angle", "unroll": 2},
        {"projection": "angle_preserving", "unroll": 1},
        {"projection": "adversarial", "unroll": 1, "inner_lr": 0.01},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_unrolled_projections_that_are_never_redrawn_compile(options):
    """The backward pass needs the projections from before the step, in whose place the new ones are kept."""
    torch.manual_seed(0)
    start, found = nn.Sequential(nn.Linear(40, 12), nn.Linear(12, 3)), []
    for compiled in (False, True):
        model = copy.deepcopy(start)
        reg = CoMHE(model, dim=6, refresh=None, **options)
        if compiled:
            torch._dynamo.reset()
            reg.compile(backend="aot_eager", fullgraph=True)
        for _ in range(2):
            model.zero_grad()
            reg().backward()
        found.append((model[0].weight.grad, reg.basis_40))
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-6)
