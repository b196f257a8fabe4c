"""hs.orthogonal.adapter: frozen networks, names, files, merging and back."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
import torch
from orthogonal_models import IMAGES, Recurrent, convnet, defect
from torch import nn

import hypersphere as hs
from hypersphere.functional.orthogonalize import methods

METHODS = methods()


def trained(model: nn.Module, steps: int = 3, lr: float = 0.05) -> nn.Module:
    """A few steps on what requires a gradient."""
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=lr)
    for _ in range(steps):
        optimizer.zero_grad()
        model(IMAGES).square().sum().backward()
        optimizer.step()
    return model


@pytest.mark.parametrize("method", METHODS)
def test_starts_as_the_network_and_trains_rotations_only(method: str) -> None:
    model = convnet()
    before, frozen = model(IMAGES), {name: p.clone() for name, p in model.named_parameters()}
    assert hs.orthogonal.adapter(model, method, blocks=2) is model
    torch.testing.assert_close(model(IMAGES), before, atol=1e-5, rtol=0)
    learned = {name for name, p in model.named_parameters() if p.requires_grad}
    assert learned
    assert all(".by_name.default.raw." in name for name in learned)
    trained(model)
    assert not torch.allclose(model(IMAGES), before, atol=1e-4)
    for name, weight in frozen.items():
        now = dict(model.named_parameters())
        for key in (name, name.replace("weight", "parametrizations.weight.original")):
            if key in now:
                assert torch.equal(now[key], weight), name
    for index in (0, 2, 4, 7):  # every layer but the output layer, whose neurons keep their lengths and angles
        layer = model[index]
        old, new = layer.parametrizations.weight.original, layer.weight
        torch.testing.assert_close(new.norm(), old.norm())
        matrices = layer.parametrizations.weight[0].blocks("default").dense()
        assert defect(matrices) < 1e-5
    assert not hasattr(model[8], "parametrizations")


def test_disable_enable_and_several_names() -> None:
    model = convnet()
    base = model(IMAGES)
    trained(hs.orthogonal.adapter(model, name="first"))
    first = model(IMAGES)
    hs.orthogonal.adapter(model, "lowdin", target="0", name="second")
    assert hs.orthogonal.adapters(model) == ["first", "second"]
    torch.testing.assert_close(model(IMAGES), base, atol=1e-5, rtol=0)
    trained(model)
    second = model(IMAGES)
    assert not torch.allclose(second, first, atol=1e-4)
    torch.testing.assert_close(hs.orthogonal.enable(model, "first")(IMAGES), first)
    learned = [name for name, p in model.named_parameters() if p.requires_grad]
    assert learned  # training goes on with the one that is enabled
    assert all(".first." in name for name in learned)
    torch.testing.assert_close(hs.orthogonal.disable(model)(IMAGES), base)
    torch.testing.assert_close(hs.orthogonal.enable(model, "second")(IMAGES), second)
    with pytest.raises(ValueError, match="did you mean 'first'"):
        hs.orthogonal.enable(model, "frist")
    with pytest.raises(ValueError, match="name=None is ambiguous"):
        hs.orthogonal.enable(model)
    with pytest.raises(ValueError, match="already"):
        hs.orthogonal.adapter(model, name="first")


def test_merge_is_the_plain_network_and_unmerge_restores_every_bit() -> None:
    model = convnet()
    keys, plain = list(model.state_dict()), copy.deepcopy(model.state_dict())
    trained(hs.orthogonal.adapter(model, blocks=2))
    adapted = model(IMAGES)
    hs.orthogonal.merge(model)
    assert list(model.state_dict()) == keys
    assert type(model[0]) is nn.Conv2d
    torch.testing.assert_close(model(IMAGES), adapted, atol=1e-6, rtol=0)
    with pytest.raises(ValueError, match="unmerge"):
        hs.orthogonal.disable(model)
    copied = copy.deepcopy(model)
    for network in (model, copied):
        hs.orthogonal.unmerge(network)
        torch.testing.assert_close(network(IMAGES), adapted, atol=1e-6, rtol=0)
        for index in (0, 2, 4, 7):
            assert torch.equal(network[index].parametrizations.weight.original, plain[f"{index}.weight"])
        hs.orthogonal.disable(network)
        torch.testing.assert_close(network(IMAGES), _network(plain)(IMAGES))
    with pytest.raises(ValueError, match="no merged adapter"):
        hs.orthogonal.unmerge(model)


def _network(state: dict[str, torch.Tensor]) -> nn.Module:
    model = convnet()
    model.load_state_dict(state)
    return model


@pytest.mark.parametrize("method", METHODS)
def test_files(method: str, tmp_path: Path) -> None:
    model = convnet()
    plain = copy.deepcopy(model)
    trained(hs.orthogonal.adapter(model, method, blocks=3))
    hs.orthogonal.save_adapter(model, tmp_path / "mine")
    other = hs.orthogonal.load_adapter(copy.deepcopy(plain), tmp_path / "mine")
    torch.testing.assert_close(other(IMAGES), model(IMAGES))
    assert not any(p.requires_grad for n, p in other.named_parameters() if "by_name" not in n)
    hs.orthogonal.load_adapter(other, tmp_path / "mine", name="again")
    assert hs.orthogonal.adapters(other) == ["default", "again"]
    torch.testing.assert_close(other(IMAGES), model(IMAGES))
    hs.orthogonal.load_adapter(other, tmp_path / "mine")  # into the present one
    config = json.loads((tmp_path / "mine" / "adapter.json").read_text())
    assert config["method"] == ("gram_schmidt" if method == "householder" else method)
    about = config["weights"]["0.weight"]
    assert (about["dim"], about["blocks"], about["shape"]) == (27, 3, list(plain[0].weight.shape))


def test_skew_entries_are_packed(tmp_path: Path) -> None:
    model = trained(hs.orthogonal.adapter(convnet(), blocks=3, target="0"))
    hs.orthogonal.save_adapter(model, tmp_path)
    from safetensors.torch import load_file

    (tensor,) = load_file(tmp_path / "adapter.safetensors").values()
    assert tensor.shape == (3, 9 * 8 // 2)


def test_files_of_another_network_are_refused(tmp_path: Path) -> None:
    model = trained(hs.orthogonal.adapter(convnet()))
    hs.orthogonal.save_adapter(model, tmp_path)
    with pytest.raises(ValueError, match="does not have"):
        hs.orthogonal.load_adapter(nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)), tmp_path)
    wide = convnet()
    wide[0] = nn.Conv2d(4, 8, 3)
    with pytest.raises(ValueError, match="same network"):
        hs.orthogonal.load_adapter(wide, tmp_path)
    with pytest.raises(FileNotFoundError, match=r"adapter\.safetensors"):
        hs.orthogonal.load_adapter(convnet(), tmp_path / "nothing")
    (tmp_path / "adapter.json").write_text("{}")
    with pytest.raises(ValueError, match="not an adapter's config"):
        hs.orthogonal.load_adapter(convnet(), tmp_path)


def _parts(*sizes: int) -> nn.Module:
    return nn.Sequential(nn.Linear(sizes[0], sizes[1]), nn.ReLU(), nn.Linear(sizes[1], sizes[2]))


def test_the_same_names_with_other_shapes_are_another_network(tmp_path: Path) -> None:
    hs.orthogonal.save_adapter(hs.orthogonal.adapter(_parts(8, 12, 3)), tmp_path)
    with pytest.raises(ValueError, match=r"adapts 0\.weight of shape \(12, 8\), .* has shape \(20, 8\)"):
        hs.orthogonal.load_adapter(_parts(8, 20, 7), tmp_path)


def test_another_checkpoint_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = _parts(8, 12, 3)
    same, other = copy.deepcopy(model), _parts(8, 12, 3)
    hs.orthogonal.save_adapter(hs.orthogonal.adapter(model), tmp_path)
    hs.orthogonal.load_adapter(same, tmp_path)
    hs.orthogonal.load_adapter(_parts(8, 12, 3).to(torch.bfloat16), tmp_path)
    assert not [record for record in caplog.records if "other values" in record.message]
    hs.orthogonal.load_adapter(other, tmp_path)
    assert "was trained on other values of 0.weight: load it on the checkpoint" in caplog.text
    config = json.loads((tmp_path / "adapter.json").read_text())
    for about in config["weights"].values():
        del about["shape"], about["dtype"], about["sha256"]
    (tmp_path / "adapter.json").write_text(json.dumps(config))  # as earlier versions wrote it
    hs.orthogonal.load_adapter(_parts(8, 12, 3), tmp_path)


@pytest.mark.parametrize("adapted", [False, True])
def test_a_failed_load_changes_nothing(adapted: bool, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    hs.orthogonal.save_adapter(trained(hs.orthogonal.adapter(convnet(), name="new")), tmp_path)
    file = tmp_path / "adapter.safetensors"
    tensors = load_file(file)
    last = list(tensors)[-1]
    save_file({**tensors, last: tensors[last][:, 1:].contiguous()}, file)
    model = convnet()
    model[0].weight.requires_grad_(False)
    if adapted:
        hs.orthogonal.adapter(model, name="old", target="2")
    names = [(name, id(p), p.requires_grad) for name, p in model.named_parameters()]
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(ValueError, match="is needed: is it the same network"):
        hs.orthogonal.load_adapter(model, tmp_path)
    assert [(name, id(p), p.requires_grad) for name, p in model.named_parameters()] == names
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    if adapted:
        assert hs.orthogonal.adapters(model) == ["old"]
    file.write_bytes(file.read_bytes()[:50])
    with pytest.raises(ValueError, match=r"adapter\.safetensors is damaged"):
        hs.orthogonal.load_adapter(model, tmp_path)


def test_recurrent_layers_and_targets() -> None:
    model, x = Recurrent(nn.LSTM), torch.randn(3, 2, 5)
    before = model(x)
    hs.orthogonal.adapter(model, target="rnn.weight_hh_l*")
    torch.testing.assert_close(model(x), before, atol=1e-6, rtol=0)
    model(x).square().sum().backward()
    assert all(p.grad is not None and bool(p.grad.abs().sum() > 0) for p in model.parameters() if p.requires_grad)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.1 * torch.randn_like(parameter))
    moved = model(x)
    assert not torch.allclose(moved, before)
    torch.testing.assert_close(hs.orthogonal.merge(model)(x), moved, atol=1e-6, rtol=0)
    torch.testing.assert_close(hs.orthogonal.unmerge(model)(x), moved, atol=1e-6, rtol=0)
    torch.testing.assert_close(hs.orthogonal.disable(model)(x), before)


def test_mistakes_change_nothing() -> None:
    model = convnet()
    flags = [p.requires_grad for p in model.parameters()]
    for wrong, message in (
        ({"target": "nothing"}, "target pattern 'nothing' matches none"),
        ({"blocks": 1000}, "more than the"),
        ({"method": "caylay"}, "did you mean"),
        ({"name": "a.b"}, "must be a word"),
    ):
        with pytest.raises(ValueError, match=message):
            hs.orthogonal.adapter(model, **wrong)  # type: ignore[arg-type]
        assert [p.requires_grad for p in model.parameters()] == flags
        assert not any(hasattr(module, "parametrizations") for module in model)
    with pytest.raises(ValueError, match="no adapter"):
        hs.orthogonal.disable(model)


@pytest.mark.parametrize("blocks", [1, 3])  # 3: blocks of 5, 4 and 4
@pytest.mark.parametrize("method", METHODS)
def test_linear_layers_turn_their_inputs_where_that_is_cheaper(
    method: str, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same outputs and gradients as with rotated weights, in float64; the weight itself gets no gradient."""
    torch.manual_seed(0)
    layer = nn.Linear(13, 40).double()
    model = hs.orthogonal.adapter(nn.Sequential(layer), method, blocks=blocks, target="0")
    with torch.no_grad():
        for p in model.parameters():
            if p.requires_grad:
                p.add_(0.3 * torch.randn_like(p))
    x = torch.randn(2, 50, 13, dtype=torch.float64, requires_grad=True)
    learned = [p for p in model.parameters() if p.requires_grad]
    seen: list[torch.Size] = []
    turn = type(layer.parametrizations.weight[0].blocks("default")).turn_inputs

    def counted(self: object, rows: torch.Tensor) -> torch.Tensor:
        seen.append(rows.shape)
        return turn(self, rows)

    monkeypatch.setattr(type(layer.parametrizations.weight[0].blocks("default")), "turn_inputs", counted)
    out = model(x)
    expected = nn.functional.linear(x, layer.weight, layer.bias)
    assert seen == [(100, 13)]
    torch.testing.assert_close(out, expected)
    ours = torch.autograd.grad(out.square().sum(), [x, *learned])
    theirs = torch.autograd.grad(expected.square().sum(), [x, *learned])
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other)
    with torch.no_grad():
        torch.testing.assert_close(model(x), expected)  # 100 inputs, 40 neurons: the neurons are turned
    assert len(seen) == 1
    with torch.nn.utils.parametrize.cached():
        torch.testing.assert_close(model(x), expected)
    assert len(seen) == 1


def test_turned_inputs_keep_dtype_copies_and_merging() -> None:
    model = hs.orthogonal.adapter(nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2)), blocks=2)
    trained_once = [p for p in model.parameters() if p.requires_grad]
    model(torch.randn(64, 8)).square().sum().backward()
    assert all(p.grad is not None for p in trained_once)
    x = torch.randn(64, 8)
    with torch.autocast("cpu", torch.bfloat16):
        assert model(x).dtype == torch.bfloat16
    twin = copy.deepcopy(model)
    torch.testing.assert_close(twin(x), model(x))
    before = model(x)
    hs.orthogonal.merge(model)
    assert type(model[0]) is nn.Linear
    torch.testing.assert_close(model(x), before)
    hs.orthogonal.unmerge(model)
    torch.testing.assert_close(model(x), before)
    hs.orthogonal.disable(twin)
    torch.testing.assert_close(twin(x), twin[2](twin[0](x).relu()))
    compiled = torch.compile(model, backend="eager")
    torch.testing.assert_close(compiled(x), before)


def test_exported_for_any_number_of_inputs() -> None:
    model = hs.orthogonal.adapter(nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 2))).eval()
    batch = torch.export.Dim("batch", min=2, max=99)
    exported = torch.export.export(model, (torch.randn(3, 5),), dynamic_shapes=({0: batch},)).module()
    x = torch.randn(99, 5)
    torch.testing.assert_close(exported(x), model(x))


def test_merged_adapters_under_a_rotation_are_not_taken_out() -> None:
    model = hs.orthogonal.merge(hs.orthogonal.adapter(convnet())).requires_grad_(True)
    hs.orthogonal.attach(model, neurons="keep", init="identity")
    before = model(IMAGES)
    with pytest.raises(ValueError, match=r"has been parametrized since its adapter was merged: .*merge\(model\)"):
        hs.orthogonal.unmerge(model)
    torch.testing.assert_close(model(IMAGES), before)
    hs.orthogonal.unmerge(hs.orthogonal.merge(model))
    assert hs.orthogonal.adapters(model) == ["default"]


def test_merging_the_task_of_a_network_without_tasks_is_refused() -> None:
    model = hs.orthogonal.adapter(convnet())
    with pytest.raises(ValueError, match="has no orthogonal parametrization"):
        hs.orthogonal.merge(model, task=3)
    assert hs.orthogonal.adapters(model) == ["default"]


def test_householder_files_of_before_are_refused(tmp_path: Path) -> None:
    hs.orthogonal.save_adapter(hs.orthogonal.adapter(convnet(), "householder"), tmp_path)
    path = tmp_path / "adapter.json"
    path.write_text(path.read_text().replace("gram_schmidt", "householder"))
    with pytest.raises(ValueError, match="Householder adapter of an earlier version"):
        hs.orthogonal.load_adapter(convnet(), tmp_path)
