"""Conversion of whole models: what changes, what stays and why, and that nothing else moves."""

from __future__ import annotations

import copy
import logging
import pickle
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from look_alikes import NETS, Everything, MobileNet, ResNet, Tagger, ViT, by_type, double
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize, prune

import hypersphere as hs

IDENTITY: dict[str, Any] = {"magnitude": "linear", "weighted": "linear", "angular": "cosine"}


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


# Whole networks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("net", "x"), NETS)
@pytest.mark.parametrize("inplace", [False, True])
def test_the_identity_operator_leaves_every_network_as_it_was(net: type[nn.Module], x: Tensor, inplace: bool) -> None:
    model = net().double().eval()
    expected = model(double(x))
    twin = hs.convert(model, **IDENTITY, inplace=inplace).eval()
    assert twin.conversion_report.converted
    torch.testing.assert_close(twin(double(x)), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("net", "x"), NETS)
def test_converted_networks_train(net: type[nn.Module], x: Tensor) -> None:
    twin = hs.convert(net(), magnitude="tanh", angular=hs.angular.Sigmoid(learnable=True), affine=True)
    twin(x).square().sum().backward()
    for name, parameter in twin.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name


@pytest.mark.parametrize(("net", "x"), NETS)
def test_the_original_of_a_copy_is_untouched(net: type[nn.Module], x: Tensor) -> None:
    model = net().eval()
    types, state, expected = by_type(model), copy.deepcopy(model.state_dict()), model(x)
    twin = hs.convert(model, keep_weights=False)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert by_type(model) == types
    assert torch.equal(model(x), expected)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert not hasattr(model, "conversion_report")


def test_types_of_every_layer() -> None:
    sphere, decoupled = hs.convert(Everything()), hs.convert(Everything(), magnitude="ball")
    names = {
        "c1": "Conv1d", "c2": "Conv2d", "c3": "Conv3d", "linear": "Linear",
        "t1": "ConvTranspose1d", "t2": "ConvTranspose2d", "t3": "ConvTranspose3d",
    }  # fmt: skip
    assert sphere.conversion_report.converted == {n: f"Sphere{names[n]}" for n in sphere.conversion_report.converted}
    assert set(sphere.conversion_report.converted) == set(names)
    assert all(by_type(decoupled)[name] == f"Decoupled{kind}" for name, kind in names.items())
    assert type(decoupled.out) is nn.Linear
    tagger = hs.convert(Tagger())
    assert [type(m).__name__ for m in (tagger.rnn, tagger.gru, tagger.plain)] == [
        "SphereLSTM",
        "SphereGRU",
        "SphereRNN",
    ]
    assert tagger.plain.mode == "RNN_RELU"
    assert (tagger.rnn.proj_size, tagger.rnn.bidirectional, tagger.rnn.batch_first) == (3, True, True)


def test_options_reach_the_layers() -> None:
    twin = hs.convert(
        ResNet(), magnitude=hs.magnitude.Ball(rho=2.0), angular="sigmoid", weighted="separate", affine=True
    )
    conv = twin.layer1[0].conv1
    assert (conv.weighted, conv.affine, conv.angular.kind) == ("separate", True, "sigmoid")
    assert conv.magnitude.rho.item() == pytest.approx(2.0)
    assert conv.magnitude is not twin.conv1.magnitude
    shared = hs.convert(ResNet(), angular=hs.angular.Sigmoid(learnable=True, share="network"))
    assert shared.conv1.angular is shared.layer1[0].conv1.angular


# Which layers ------------------------------------------------------------------------------------------------


def test_the_classifier_stays_plain_unless_named() -> None:
    assert hs.convert(ResNet()).conversion_report.kept == {"fc": "output layer"}
    assert type(hs.convert(ResNet(), include=["*"]).fc) is nn.Linear
    named = hs.convert(ResNet(), include=["*", "fc"])
    assert type(named.fc) is hs.nn.SphereLinear
    assert not named.conversion_report.kept
    only = hs.convert(ResNet(), include="fc")
    assert list(only.conversion_report.converted) == ["fc"]
    assert type(hs.convert(MobileNet()).get_classifier()) is nn.Linear


def test_another_output_layer() -> None:
    for which in ("0", "module"):
        model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
        twin = hs.convert(model, output_layer=model[0] if which == "module" else which)
        assert [type(layer) for layer in twin] == [nn.Linear, hs.nn.SphereLinear]
    with pytest.raises(ValueError, match="output_layer='last' is not a module"):
        hs.convert(ResNet(), output_layer="last")
    with pytest.raises(ValueError, match="not a module of the model"):
        hs.convert(ResNet(), output_layer=nn.Linear(2, 2))


def test_patterns() -> None:
    twin = hs.convert(ResNet(), include=["layer1.*", "conv1"], skip="*.1.*")
    assert list(twin.conversion_report.converted) == ["conv1", "layer1.0.conv1", "layer1.0.conv2"]
    assert twin.conversion_report.kept["layer1.1.conv1"] == "not selected"
    assert type(twin.layer2[0].conv1) is nn.Conv2d
    assert hs.convert(ResNet(), skip=("*",)).conversion_report.converted == {}
    with pytest.raises(ValueError, match=r"include pattern 'layer9.\*' matches none of: 'conv1'"):
        hs.convert(ResNet(), include="layer9.*")
    with pytest.raises(ValueError, match=r"skip pattern 'Conv1' matches none"):
        hs.convert(ResNet(), skip=["Conv1"])


def test_a_failed_conversion_in_place_changes_nothing() -> None:
    model = ResNet()
    types = by_type(model)
    with pytest.raises(ValueError, match="weighted='line'"):
        hs.convert(model, weighted="line", inplace=True)
    assert by_type(model) == types


def test_layers_that_must_stay_and_why() -> None:
    report = hs.convert(MobileNet()).conversion_report
    assert report.kept == {
        "conv_stem": "Conv2dSame has a custom forward",
        "blocks.std": "StdConv2d has a custom forward",
        "classifier": "output layer",
    }
    assert report.converted == {"blocks.dw": "SphereConv2d", "blocks.pw": "SphereConv2d"}
    report = hs.convert(ViT()).conversion_report
    assert report.kept["torch_attn.out_proj"] == "MultiheadAttention reads its weight without calling it"
    assert "attn.qkv" in report.converted


def test_parametrized_pruned_patched_lazy_and_complex_layers_stay() -> None:
    def patched(layer: nn.Linear) -> nn.Linear:
        layer.forward = lambda x: 2 * F.linear(x, layer.weight)  # type: ignore[method-assign]
        return layer

    model = nn.Sequential(
        parametrizations.weight_norm(nn.Linear(3, 3)),
        parametrizations.spectral_norm(nn.Conv2d(3, 3, 1)),
        prune.l1_unstructured(nn.Linear(3, 3), "weight", 0.5),
        parametrizations.orthogonal(nn.GRU(3, 3), "weight_hh_l0"),
        patched(nn.Linear(3, 3)),
        nn.LazyLinear(3),
        nn.Linear(3, 3, dtype=torch.cfloat),
        nn.Linear(3, 3),
    )
    report = hs.convert(model, inplace=True).conversion_report
    assert report.kept == {
        **dict.fromkeys("0123", "its weight is parametrized"),
        "4": "its forward was replaced",
        "5": "lazy: run a batch through the model first",
        "6": "its weight is complex",
        "7": "output layer",
    }
    assert parametrize.is_parametrized(model[0])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_scripted_parts_stay() -> None:
    model = nn.Sequential(torch.jit.script(nn.Linear(3, 4)), nn.Linear(4, 4), nn.Linear(4, 2))
    twin = hs.convert(model, inplace=True)
    assert twin.conversion_report.converted == {"1": "SphereLinear"}
    assert twin.conversion_report.kept["0"] == "it is scripted: convert it before torch.jit.script"


def test_subclass_without_a_forward_of_its_own_is_converted_with_its_attributes() -> None:
    class Named(nn.Conv2d):
        pass

    model = nn.Sequential(Named(3, 4, 1), nn.ReLU())
    model[0].nickname = "stem"  # type: ignore[assignment]
    model[0].register_buffer("seen", torch.ones(2))
    model[0].register_buffer("scratch", torch.ones(2), persistent=False)
    model[0].probe = nn.Identity()
    twin = hs.convert(model)
    assert type(twin[0]) is hs.nn.SphereConv2d
    assert twin[0].nickname == "stem"
    assert dict(twin[0].named_buffers()).keys() == {"seen", "scratch"}
    assert twin.state_dict().keys() == model.state_dict().keys()
    assert isinstance(twin[0].probe, nn.Identity)


def test_attributes_changed_after_construction_count() -> None:
    conv = nn.Conv2d(3, 4, 3, 2, 1)
    conv.stride, conv.dilation, conv.padding = (1, 1), (2, 2), (2, 2)
    twin = hs.convert(conv, **IDENTITY)
    x = torch.randn(1, 3, 8, 8)
    torch.testing.assert_close(twin(x), conv(x))


# Weights ---------------------------------------------------------------------------------------------------


def test_in_place_the_parameters_are_the_same_objects() -> None:
    for model in (ResNet(), Tagger(), Everything()):
        before = dict(model.named_parameters())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        assert hs.convert(model, inplace=True) is model
        after = dict(model.named_parameters())
        assert all(after[name] is parameter for name, parameter in before.items())
        start = {name: p.detach().clone() for name, p in after.items()}
        net_input = next(x for net, x in NETS if isinstance(model, net))
        model(net_input).square().sum().backward()
        optimizer.step()
        assert not torch.equal(next(iter(after.values())), next(iter(start.values())))


def test_new_weights_keep_ties_flags_and_objects() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Conv2d(1, 1, 1), nn.GRU(4, 4), nn.Linear(4, 2))
    model[1].weight = model[0].weight
    model[2].requires_grad_(False)
    old = {name: p.detach().clone() for name, p in model.named_parameters()}
    objects = dict(model.named_parameters())
    twin = hs.convert(model, keep_weights=False, inplace=True)
    assert twin[0].weight is twin[1].weight
    assert not twin[2].weight.requires_grad
    for name, parameter in twin.named_parameters():
        assert parameter is objects[name]
        assert torch.equal(parameter, old[name]) == name.startswith("4.")  # the output layer alone keeps its weights
    kept = hs.convert(model, include=["4"], keep_weights=True)
    assert torch.equal(kept[4].weight, model[4].weight)


def test_recurrent_twins_compute_with_the_kept_weights() -> None:
    gru = nn.GRU(3, 4)
    twin = hs.convert(gru, **IDENTITY, inplace=True)
    x = torch.randn(5, 2, 3)
    torch.testing.assert_close(twin(x)[0], gru(x)[0])
    twin.to(torch.float64)
    assert {w.dtype for w in twin._flat_weights} == {torch.float64}
    assert twin(x.double())[0].dtype == torch.float64


def test_shared_modules_stay_shared() -> None:
    conv = nn.Conv2d(3, 3, 3, padding=1)
    for model in (nn.Sequential(conv, nn.ReLU(), conv), nn.Sequential(nn.Sequential(conv), nn.Sequential(conv))):
        twin = hs.convert(model)
        layers = [m for m in twin.modules() if isinstance(m, nn.Conv2d)]
        assert [type(layer) for layer in layers] == [hs.nn.SphereConv2d]
        assert len(list(twin.named_parameters(remove_duplicate=False))) == 4
        assert len(twin.conversion_report.converted) == 1
    twin = hs.convert(nn.Sequential(conv, nn.ReLU(), conv), include="2")
    assert twin[0] is twin[2]
    assert list(twin.conversion_report.converted) == ["0"]
    assert hs.convert(nn.Sequential(conv, nn.ReLU(), conv), skip="2").conversion_report.kept == {"0": "not selected"}


def test_tied_embedding_stays_tied() -> None:
    twin = hs.convert(Tagger(), include=["decoder", "rnn"])
    assert type(twin.decoder) is hs.nn.SphereLinear
    assert twin.decoder.weight is twin.embed.weight


# What else hangs on a layer -----------------------------------------------------------------------------------


def test_hooks_survive() -> None:
    model = ResNet()
    seen: list[str] = []
    forward = model.conv1.register_forward_hook(lambda *_: seen.append("forward"))
    model.conv1.register_forward_pre_hook(lambda *_: seen.append("before"))
    model.conv1.register_full_backward_hook(lambda module, grad_in, grad_out: seen.append(f"back {len(grad_in)}"))
    hs.convert(model, inplace=True)
    x = torch.randn(2, 3, 8, 8, requires_grad=True)
    model(x).sum().backward()
    assert seen == ["before", "forward", "back 1"]
    forward.remove()
    seen.clear()
    model(x)
    assert seen == ["before"]


def test_training_flag_dtype_and_layout() -> None:
    model = ResNet().to(torch.bfloat16, memory_format=torch.channels_last)
    model.layer1.eval()
    twin = hs.convert(model, magnitude="tanh", affine=True)
    assert twin.conv1.training
    assert not twin.layer1[0].conv1.training
    assert not twin.layer1[0].conv1.magnitude.training
    assert twin.layer1[0].conv1.weight.is_contiguous(memory_format=torch.channels_last)
    assert {p.dtype for p in twin.parameters()} == {torch.bfloat16}
    with torch.device("meta"):
        assert {p.device.type for p in hs.convert(ResNet(), magnitude="tanh").parameters()} == {"meta"}


def test_encoder_layers_do_not_bypass_their_converted_layers_at_inference() -> None:
    for norm_first in (False, True):
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first)
        model = nn.Sequential(nn.TransformerEncoder(layer, 2, enable_nested_tensor=not norm_first), nn.Linear(8, 2))
        twin = hs.convert(model.eval(), angular="sigmoid").eval()
        assert type(twin[0].layers[0].linear1) is hs.nn.SphereLinear
        x = torch.randn(2, 5, 8)
        expected = twin(x)  # with gradients there is no shortcut
        assert not torch.allclose(expected, model(x), atol=1e-3)
        with torch.no_grad():
            torch.testing.assert_close(twin(x), expected)
            mask = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
            shortcut = twin[0](x, src_key_padding_mask=mask)
        torch.testing.assert_close(shortcut[1, :3], twin[0](x, src_key_padding_mask=mask)[1, :3])


def test_untouched_encoders_keep_their_shortcut() -> None:
    model = nn.Sequential(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), nn.Linear(8, 8), nn.Linear(8, 2))
    assert hs.convert(model, include="1")[0].activation_relu_or_gelu == 1
    assert hs.convert(model)[0].activation_relu_or_gelu == 0


# Reports and repetition ---------------------------------------------------------------------------------------


def test_report_is_logged_and_readable(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "hypersphere"):
        twin = hs.convert(MobileNet())
    text = str(twin.conversion_report)
    assert caplog.messages[0] == text
    assert "cannot convert: conv_stem: Conv2dSame has a custom forward" in caplog.messages[1]
    assert text.splitlines() == [
        "converted 2 layers, kept 3",
        "  blocks.dw   -> SphereConv2d",
        "  blocks.pw   -> SphereConv2d",
        "  conv_stem   kept: Conv2dSame has a custom forward",
        "  blocks.std  kept: StdConv2d has a custom forward",
        "  classifier  kept: output layer",
    ]


def test_converting_twice_changes_nothing_more() -> None:
    once = hs.convert(Tagger())
    twice = hs.convert(once, magnitude="tanh")
    assert by_type(twice) == by_type(once)
    assert twice.conversion_report.converted == {}
    assert twice.conversion_report.kept == {
        **dict.fromkeys(("rnn", "gru", "plain"), "is hyperspherical already"),
        "decoder": "output layer",
    }


def test_a_bare_layer_becomes_its_twin() -> None:
    for layer in (nn.Conv2d(3, 4, 3), nn.Linear(3, 4), nn.LSTM(3, 4)):
        twin = hs.convert(layer, inplace=True)
        assert type(twin).__name__ == f"Sphere{type(layer).__name__}"
        assert next(twin.parameters()) is next(layer.parameters())
        assert str(twin.conversion_report).splitlines()[1] == f"  (itself)  -> {type(twin).__name__}"


def test_converted_models_copy_pickle_and_load() -> None:
    twin = hs.convert(ResNet(), magnitude="tanh", angular="sigmoid").eval()
    x = torch.randn(2, 3, 8, 8)
    other = hs.convert(ResNet(), magnitude="tanh", angular="sigmoid").eval()
    other.load_state_dict(twin.state_dict())
    for copied in (copy.deepcopy(twin), pickle.loads(pickle.dumps(twin)), other):
        assert torch.equal(copied(x), twin(x))


def test_checkpoints_of_the_plain_model_load_into_its_sphere_twin() -> None:
    plain = ResNet()
    hs.convert(ResNet()).load_state_dict(plain.state_dict())  # strict: the same keys


def test_a_model_that_is_not_a_module_raises_type_error() -> None:
    with pytest.raises(TypeError, match=r"model must be a torch\.nn\.Module, not type"):
        hs.convert(ResNet)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="angular='cosinus' is unknown"):
        hs.convert(ResNet(), angular="cosinus")
    assert hs.convert(nn.ReLU()).conversion_report.converted == {}
