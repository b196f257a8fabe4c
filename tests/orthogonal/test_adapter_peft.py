"""OFT adapters that PEFT has saved: the same network, and mistakes. The reference is computed in NumPy's float64."""

import json
import logging

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import hypersphere as hs


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 3))


def write(folder, tensors, **config):
    folder.mkdir(exist_ok=True)
    save_file({f"base_model.model.{name}.oft_R.weight": value for name, value in tensors.items()},
              folder / "adapter_model.safetensors")  # fmt: skip
    about = {"peft_type": "OFT", "oft_block_size": 4, "r": 0, "use_cayley_neumann": False} | config
    (folder / "adapter_config.json").write_text(json.dumps(about))
    return folder


def rotation(values, neumann=0):
    """Of one block, from the formulas."""
    size = int((1 + (1 + 8 * len(values)) ** 0.5) / 2)
    q = np.zeros((size, size))
    q[np.triu_indices(size, 1)] = values
    q -= q.T
    if not neumann:
        return (np.eye(size) - q) @ np.linalg.inv(np.eye(size) + q)
    powers = [np.linalg.matrix_power(q, n) for n in range(neumann)]
    return powers[0] + 2 * sum(powers[1:-1]) + powers[-1]


def numbers(scale=0.3):
    generator = torch.Generator().manual_seed(3)
    return {"0": scale * torch.randn(3, 6, generator=generator), "2": scale * torch.randn(2, 6, generator=generator)}


def expected(model, values, neumann=0):
    """The weights that PEFT merges: every neuron w becomes R w."""
    found = {}
    for name, blocks in values.items():
        weight = model[int(name)].weight.detach().double().numpy()
        rows = [rotation(block.double().numpy(), neumann) for block in blocks]
        parts = np.split(weight, len(rows), axis=1)
        found[name] = torch.from_numpy(np.concatenate([p @ r.T for p, r in zip(parts, rows, strict=True)], axis=1))
    return found


def test_the_weights_are_those_that_peft_merges(tmp_path):
    model, values = network(), numbers()
    wanted = expected(model, values)
    hs.orthogonal.load_adapter(model, write(tmp_path / "oft", values), name="theirs")
    assert hs.orthogonal.adapters(model) == ["theirs"]
    for name, weight in wanted.items():
        torch.testing.assert_close(model[int(name)].weight.double(), weight, rtol=0, atol=1e-6)
    assert {n for n, p in model.named_parameters() if p.requires_grad} == {
        f"{n}.parametrizations.weight.0.by_name.theirs.raw.0" for n in ("0", "2")
    }
    merged = hs.orthogonal.merge(model)
    torch.testing.assert_close(merged[0].weight.double(), wanted["0"], rtol=0, atol=1e-6)
    hs.orthogonal.unmerge(model)
    hs.orthogonal.save_adapter(model, tmp_path / "ours")  # with two numbers of blocks
    again = hs.orthogonal.load_adapter(network(), tmp_path / "ours")
    torch.testing.assert_close(again[2].weight, model[2].weight)


def test_the_series_becomes_the_nearest_rotation(tmp_path, caplog):
    model, values = network(), numbers(0.05)
    wanted = expected(model, values, neumann=5)
    folder = write(tmp_path / "oft", values, use_cayley_neumann=True, num_cayley_neumann_terms=5)
    hs.orthogonal.load_adapter(model, folder)
    for name, weight in wanted.items():
        torch.testing.assert_close(model[int(name)].weight.double(), weight, rtol=0, atol=5e-4)
        r = model[int(name)].parametrizations.weight[0].blocks("default").dense().double()
        torch.testing.assert_close(r @ r.T, torch.eye(len(r), dtype=torch.float64), rtol=0, atol=1e-6)
    assert not caplog.records
    folder = write(tmp_path / "far", numbers(0.8), use_cayley_neumann=True)
    with caplog.at_level(logging.WARNING, "hypersphere"):
        hs.orthogonal.load_adapter(network(), folder)
    assert "the nearest orthogonal ones are used" in caplog.text


def test_shared_and_constrained_blocks(tmp_path):
    model, values = network(), {"0": numbers()["0"][:1]}
    wanted = expected(model, {"0": values["0"].repeat(3, 1)})
    hs.orthogonal.load_adapter(model, write(tmp_path / "shared", values, block_share=True))
    torch.testing.assert_close(model[0].weight.double(), wanted["0"], rtol=0, atol=1e-6)
    model, values = network(), {"0": numbers()["0"]}
    hs.orthogonal.load_adapter(model, write(tmp_path / "coft", values, coft=True, eps=1e-3))
    r = model[0].parametrizations.weight[0].blocks("default").dense().detach()
    assert 1e-5 < float((r - torch.eye(12)).norm()) < 2.1e-3  # R − I is about −2Q, and ‖Q‖ of a block at most eps/√3


@pytest.mark.parametrize(
    ("config", "tensors", "message"),
    [
        ({"peft_type": "LORA"}, {"0": torch.zeros(3, 6)}, "peft_type 'LORA'"),
        ({}, {"0": torch.zeros(3, 5)}, "is not k\\(k−1\\)/2"),
        ({}, {"0": torch.zeros(3, 4, 4)}, "not \\(blocks, entries\\)"),
        ({}, {"0": torch.zeros(2, 6)}, "2 blocks of 4 for 0.weight, whose dimension is 12"),
        ({}, {"7": torch.zeros(3, 6)}, "adapts '7.weight'"),
    ],
)
def test_mistakes_are_named(tmp_path, config, tensors, message):
    with pytest.raises(ValueError, match=message):
        hs.orthogonal.load_adapter(network(), write(tmp_path / "oft", tensors, **config))


def test_further_weights_are_refused(tmp_path):
    folder = write(tmp_path / "oft", {})
    save_file({"base_model.model.4.bias": torch.zeros(3)}, folder / "adapter_model.safetensors")
    with pytest.raises(ValueError, match="without biases, embeddings and modules_to_save"):
        hs.orthogonal.load_adapter(network(), folder)


@pytest.mark.parametrize("neumann", [False, True])
def test_a_file_of_peft_itself(tmp_path, neumann):
    peft = pytest.importorskip("peft")
    config = peft.OFTConfig(oft_block_size=4, target_modules=["0", "2"], use_cayley_neumann=neumann)
    theirs = peft.get_peft_model(network(), config)
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            if "oft_R" in name:
                parameter.normal_(0, 0.05)
    theirs.save_pretrained(tmp_path)
    ours = hs.orthogonal.load_adapter(network(), tmp_path)
    x = torch.randn(5, 12)
    with torch.no_grad():
        torch.testing.assert_close(ours(x), theirs.eval()(x), rtol=1e-3, atol=1e-4 if neumann else 1e-5)
