"""What reset_parameters brings back: heads built on the meta device, and heads that start anew."""

import inspect
import pickle

import pytest
import torch
from loss_cases import ALL, build

import hypersphere as hs
from hypersphere.losses.head import ClassHead

L = hs.losses
D, C = 4, 5

MAKE = {
    **{case: (lambda case=case, **o: build(case, D, C, **o)) for case in ALL},
    "annealed": lambda **o: L.ASoftmax(D, C, annealing="sphereface", **o),
    "warm": lambda **o: L.ArcFace(D, C, annealing=L.MarginWarmup(2, 3), **o),
    "center": lambda **o: L.CenterLoss(L.Softmax(D, C, bias=True, **o)),
    "contrastive": lambda **o: L.ContrastiveLoss(L.Softmax(D, C, **o)),
    "triplet": lambda **o: L.TripletLoss(D, C, **o),
    "terms": lambda **o: L.CenterLoss(L.SphereFacePlus(L.ASoftmax(D, C, annealing="sphereface", **o))),
}


def garbage(head):
    """A head whose memory is not initialised."""
    with torch.no_grad():
        for tensor in (*head.parameters(), *head.buffers()):
            tensor.fill_(77)
    return head


def test_a_head_is_where_its_class_vectors_are():
    g = hs.angular.Sigmoid(learnable=True)  # on the CPU
    with torch.device("meta"):
        head = hs.losses.GASoftmax(4, 3, angular=g)
    assert {p.device.type for p in head.parameters()} == {"meta"}


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE.keys())
def test_a_head_from_the_meta_device_is_as_new(make):
    head = garbage(make(device="meta").to_empty(device="cpu"))
    expected = make()
    for one in (head, expected):
        torch.manual_seed(1)
        one.reset_parameters()
    for name, value in expected.state_dict().items():
        torch.testing.assert_close(head.state_dict()[name], value, msg=lambda text, name=name: f"{name}: {text}")
    x, y = torch.randn(6, D), torch.tensor([0, 0, 1, 1, 2, 2])
    torch.testing.assert_close(head.eval()(x, y), expected.eval()(x, y))


CLASSES = dict.fromkeys(one for one in map(vars(L).get, L.__all__) if isinstance(one, type))  # some have two names
HEADS = [one for one in CLASSES if issubclass(one, ClassHead | L.TripletLoss)]


@pytest.mark.parametrize("cls", HEADS)
def test_skip_init_makes_every_head(cls):
    """torch asks the signature for ``device``, which ``**options`` hides."""
    parameters = inspect.signature(cls).parameters
    assert {"device", "dtype"} <= parameters.keys()
    assert all(parameters[name].kind is inspect.Parameter.KEYWORD_ONLY for name in ("device", "dtype"))
    head = torch.nn.utils.skip_init(cls, D, C, dtype=torch.float64)
    assert {t.device.type for t in (*head.parameters(), *head.buffers())} == {"cpu"}
    assert head.weight.dtype == torch.float64
    head.reset_parameters()
    assert head(torch.randn(6, D), torch.tensor([0, 0, 1, 1, 2, 2])).isfinite()


def test_every_part_can_be_reset_by_itself():
    """As FSDP does: each module that owns tensors has a reset_parameters for them."""
    for make in MAKE.values():
        head = garbage(make())
        for module in head.modules():
            owned = (*module.parameters(recurse=False), *module.buffers(recurse=False))
            assert not owned or callable(getattr(module, "reset_parameters", None)), type(module).__name__
            if owned:
                module.reset_parameters()
        assert not any((t == 77).any() for t in (*head.parameters(), *head.buffers()))


def test_counters_start_anew():
    head = L.ASoftmax(D, C, annealing="sphereface")
    for _ in range(3):
        head(torch.randn(2, D), torch.tensor([0, 1]))
    assert head.annealing.step == 3
    head.reset_parameters()
    assert head.annealing.step == 0
    assert head.annealing.lam == 1000


def test_a_g_of_ones_own_need_not_know_of_it():
    class Cubic:
        def from_cos(self, c):
            return c**3

    L.WSoftmax(D, C, angular=Cubic()).reset_parameters()


@pytest.mark.parametrize("cls", [L.Softmax, L.WSoftmax, L.SSoftmax])
@pytest.mark.parametrize("option", [{"margin": 4}, {"annealing": "sphereface"}, {"detach_margin": True}])
def test_losses_without_a_margin_refuse_its_options(cls, option):
    with pytest.raises(TypeError, match=f"{next(iter(option))} .*no margin"):
        cls(D, C, **option)


def test_no_parameter_is_a_scalar():
    """FSDP2 takes none. SphereFace2 had one: such a state is still read."""
    assert all(one.dim() for case in ALL for one in build(case, 4, 5).parameters())
    old, head = L.SphereFace2(4, 5).state_dict(), L.SphereFace2(4, 5)
    head.load_state_dict(old | {"bias": torch.tensor(2.5)})
    assert head.bias.tolist() == [2.5]


@pytest.mark.parametrize("cls", [L.ArcFace, L.CosFace])
def test_numbers_of_the_classes_come_back_as_given(cls):
    margins, weights = torch.linspace(0.1, 0.5, C), torch.linspace(1, 2, C)
    head = cls(D, C, margin=margins, class_weight=weights, device="meta").to_empty(device="cpu")
    garbage(head).reset_parameters()
    torch.testing.assert_close(head.margin, margins)
    torch.testing.assert_close(head.class_weight, weights)
    again = pickle.loads(pickle.dumps(garbage(head.double())))
    again.reset_parameters()
    torch.testing.assert_close(again.margin, margins.double())
    with torch.device("meta"), pytest.raises(ValueError, match="margin is on the meta device"):
        cls(D, C, margin=torch.full((C,), 0.5))


@pytest.mark.parametrize("share", ["filter", "layer"])
def test_a_learned_k_has_the_dtype_of_the_head(share):
    g = hs.angular.Sigmoid(learnable=True, share=share)
    head = L.GASoftmax(D, C, angular=g, dtype=torch.float64)
    assert head.angular.raw_k.dtype == torch.float64
    assert g.raw_k.dtype == torch.float32
