import json
import math

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import hypersphere as hs
import programs
from hypersphere.cli import main
from hypersphere.functional import energy


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.ModuleDict(
        {
            "conv": nn.Conv2d(3, 8, 3),
            "norm": nn.BatchNorm2d(8),
            "lstm": nn.LSTM(4, 5, proj_size=3),
            "gru": nn.GRU(4, 5),
            "attention": nn.MultiheadAttention(4, 2),
            "fc": nn.Linear(4, 30),
        }
    )


def rows(capsys):
    return {row["layer"]: row for row in json.loads(capsys.readouterr().out)}


def test_table(model, tmp_path, capsys):
    torch.save(model.state_dict(), tmp_path / "model.pt")
    assert main(["energy", str(tmp_path / "model.pt")]) == 0
    out = capsys.readouterr().out
    assert "s = 2, euclidean, full space" in out
    header = next(line for line in out.splitlines() if line.startswith("layer"))
    assert header.split() == ["layer", "neurons", "dim", "energy", "random", "refined"]
    line = next(line for line in out.splitlines() if line.startswith("conv.weight"))
    assert line.split()[1:3] == ["8", "27"]
    assert float(line.split()[3]) == pytest.approx(energy(model["conv"].weight.flatten(1)).item(), rel=1e-4)
    assert "norm" not in out


@pytest.mark.parametrize("kind", ["torch", "nested", "safetensors", "folder"])
def test_every_kind_of_file(model, kind, tmp_path, capsys):
    state = model.state_dict()
    path = tmp_path / ("m.safetensors" if kind == "safetensors" else "m.pt")
    if kind == "safetensors":
        save_file(state, path)
    elif kind == "nested":
        torch.save({"epoch": 3, "model": state, "optimizer": {"state": {0: {"m_weight": torch.ones(3, 3)}}}}, path)
    else:
        torch.save(state, path)
    assert main(["energy", str(tmp_path if kind == "folder" else path), "--json"]) == 0
    found = rows(capsys)
    assert kind != "safetensors" or list(found) == sorted(found)
    assert set(found) == {
        "conv.weight", "lstm.weight_ih_l0", "lstm.weight_hh_l0", "lstm.weight_hr_l0", "gru.weight_ih_l0",
        "gru.weight_hh_l0", "attention.in_proj_weight", "attention.out_proj.weight", "fc.weight",
    }  # fmt: skip
    assert found["attention.in_proj_weight"]["sets"] == 3
    assert found["lstm.weight_ih_l0"]["sets"] == found["lstm.weight_hh_l0"]["sets"] == 4
    assert found["gru.weight_hh_l0"]["sets"] == 3


def test_refined_is_below_random_and_options_reach_the_energy(model, tmp_path, capsys):
    torch.save(model.state_dict(), tmp_path / "m.pt")
    command = ["energy", str(tmp_path / "m.pt"), "--json", "--s", "1", "--half-space", "--include", "fc*"]
    assert main(command) == 0
    (row,) = rows(capsys).values()
    assert row["refined"] < row["random"] < row["energy"] + 1
    assert row["energy"] == pytest.approx(energy(model["fc"].weight, 1.0, half_space=True).item())
    assert main([*command, "--limit", "10"]) == 0
    (row,) = rows(capsys).values()
    assert (row["neurons"], row["sampled"]) == (30, 10)
    assert main(["energy", str(tmp_path / "m.pt"), "--limit", "10", "--skip", "conv*"]) == 0
    assert "10 of 30" in capsys.readouterr().out


def test_of_angles_the_simplex_is_not_always_the_least(tmp_path, capsys):
    """At s = 0 two pairs of opposite directions have (−2 log π − 4 log(π/2))/6, the simplex −log arccos(−1/3)."""
    torch.save({"w": torch.tensor([[1.0, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0]])}, tmp_path / "w.pt")
    for s, least in (("0", -(2 * math.log(math.pi) + 4 * math.log(math.pi / 2)) / 6), ("1", 1 / math.acos(-1 / 3))):
        assert main(["energy", str(tmp_path / "w.pt"), "--s", s, "--distance", "angular", "--json"]) == 0
        (row,) = json.loads(capsys.readouterr().out)
        assert row["refined"] == pytest.approx(least, abs=1e-4)
        assert row["refined"] <= row["energy"] + 1e-6


def test_folders_of_our_runs(tmp_path, capsys):
    run = tmp_path / "run"
    for index, part in enumerate(("seed-0/checkpoints/step-00000100", "seed-0/checkpoints/step-00000200", "seed-1")):
        (run / part).mkdir(parents=True)
        save_file({f"weight{index}": torch.randn(4, 3)}, run / part / "model.safetensors")
    assert main(["energy", str(run / "seed-0"), "--json"]) == 0
    assert list(rows(capsys)) == ["weight1"]  # the last step
    assert main(["energy", str(run), "--json"]) == 0
    assert list(rows(capsys)) == ["weight2"]  # a finished seed before an unfinished one
    save_file({"weight3": torch.randn(4, 3)}, run / "seed-0" / "model.safetensors")
    assert main(["energy", str(run)]) == 0
    out = capsys.readouterr().out
    assert "weight3" in out
    assert "seed-0" in out.splitlines()[0]
    for seed in (10, 2):
        (tmp_path / f"other/seed-{seed}").mkdir(parents=True)
        save_file({f"weight{seed}": torch.randn(4, 3)}, tmp_path / f"other/seed-{seed}/model.safetensors")
    assert main(["energy", str(tmp_path / "other"), "--json"]) == 0
    assert list(rows(capsys)) == ["weight2"]


class Foreign:
    pass


@pytest.mark.parametrize(
    "name", ["missing.pt", "truncated.pt", "truncated.safetensors", "text.pt", "object.pt", "bias.pt", "empty"]
)
def test_files_that_cannot_be_measured(name, tmp_path, capsys):
    weight = {"weight": torch.randn(100, 100)}
    torch.save(weight, tmp_path / "good.pt")
    save_file(weight, tmp_path / "good.safetensors")
    (tmp_path / "truncated.pt").write_bytes((tmp_path / "good.pt").read_bytes()[:9000])
    (tmp_path / "truncated.safetensors").write_bytes((tmp_path / "good.safetensors").read_bytes()[:9000])
    (tmp_path / "text.pt").write_text("not a checkpoint")
    torch.save({"weight": Foreign()}, tmp_path / "object.pt")
    torch.save({"bias": torch.ones(3)}, tmp_path / "bias.pt")
    (tmp_path / "empty").mkdir()
    assert main(["energy", str(tmp_path / name)]) == 2
    captured = capsys.readouterr()
    assert name in captured.err
    assert captured.out == ""
    assert "Traceback" not in captured.err


def test_bad_arguments(model, tmp_path, capsys):
    torch.save(model.state_dict(), tmp_path / "m.pt")
    path = str(tmp_path / "m.pt")
    assert main(["energy", path, "--s", "-1"]) == 2
    assert "s=-1.0" in capsys.readouterr().err
    assert main(["energy", path, "--include", "nothing*"]) == 2
    assert "matches none" in capsys.readouterr().err
    assert main(["energy", path, "--limit", "1"]) == 2
    assert main(["energy", path, "--steps", "-1"]) == 2
    assert "--steps=-1 must be at least 0" in capsys.readouterr().err
    assert main(["energy"]) == 2
    assert main([]) == 2
    assert main(["nonsense"]) == 2


def test_normalised_weights_have_the_energy_of_their_layer(tmp_path, capsys):
    kinds = nn.utils.parametrizations
    model = nn.ModuleDict({"s": kinds.spectral_norm(nn.Linear(4, 6)), "w": kinds.weight_norm(nn.Conv2d(2, 5, 3))})
    torch.save(model.state_dict(), tmp_path / "m.pt")
    assert main(["energy", str(tmp_path), "--json"]) == 0
    found = rows(capsys)
    assert set(found) == {"s.weight", "w.weight"}
    for name, layer in model.items():
        expected = energy(layer.weight.detach().flatten(1)).item()
        assert found[f"{name}.weight"]["energy"] == pytest.approx(expected, rel=1e-5)


def test_weights_that_are_computed_from_others_are_named(tmp_path, capsys):
    model = hs.orthogonal.attach(nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 3)), output_layer="1")
    torch.save(model.state_dict(), tmp_path / "m.pt")
    assert main(["energy", str(tmp_path), "--json"]) == 0
    out, err = capsys.readouterr()
    assert [row["layer"] for row in json.loads(out)] == ["1.weight"]
    assert "0.weight left out: they are computed from other tensors" in err


def test_sparse_weights_are_measured_and_scaled_ones_named(tmp_path, capsys):
    weight = torch.randn(4, 3)
    torch.save({"a.weight": weight.to_sparse(), "b.weight": weight.to(torch.float8_e4m3fn)}, tmp_path / "m.pt")
    assert main(["energy", str(tmp_path), "--json"]) == 0
    out, err = capsys.readouterr()
    assert [row["layer"] for row in json.loads(out)] == ["a.weight"]
    assert json.loads(out)[0]["energy"] == pytest.approx(energy(weight).item(), rel=1e-5)
    assert "b.weight left out: these 8-bit numbers" in err


def test_json_has_no_nan(tmp_path, capsys):
    torch.save({"w": torch.full((2, 3), torch.nan)}, tmp_path / "m.pt")
    assert main(["energy", str(tmp_path), "--json"]) == 0
    assert '"energy": null' in capsys.readouterr().out


def test_help_and_version(capsys):
    assert main(["--help"]) == 0
    assert "energy" in capsys.readouterr().out
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("hypersphere ")
    done = programs.run(["-m", "hypersphere", "energy", "nowhere.pt"])
    assert done.returncode == 2
    assert "does not exist" in done.stderr


class Kinds(nn.Sequential):
    """Convolutions whose neurons are not the rows of their weights."""

    def __init__(self):
        super().__init__(
            nn.Conv2d(1, 4, 3),
            nn.Conv2d(4, 8, 3, groups=4),
            nn.ConvTranspose2d(8, 6, 2),
            nn.Conv2d(6, 6, 1, groups=6),
            nn.Flatten(),
            nn.Linear(150, 3),
        )


def test_layers_of_a_run_are_those_of_its_network(tmp_path, capsys):
    net, head = Kinds().eval(), hs.losses.ArcFace(3, 10)
    settings = {"data.name": "digits"}
    with hs.runs.Logger(tmp_path / "mine", model=net, head=head, settings=settings, steps=1) as log:
        log(1, loss=1.0)
    assert main(["energy", str(tmp_path / "mine"), "--json"]) == 0
    out, err = capsys.readouterr()
    found = {row["layer"]: row for row in json.loads(out)}
    assert set(found) == {"network.0.weight", "network.1.weight", "network.2.weight", "network.5.weight", "head.weight"}
    for row in hs.energy(net):
        assert found[f"network.{row.layer}"]["energy"] == pytest.approx(row.energy, rel=1e-5)
    assert found["network.1.weight"]["sets"] == 4
    assert "network.3.weight left out: one dimension" in err


def test_a_file_by_itself_names_what_it_cannot_tell(tmp_path, capsys):
    torch.save(Kinds().state_dict(), tmp_path / "m.pt")
    assert main(["energy", str(tmp_path / "m.pt"), "--json"]) == 0
    out, err = capsys.readouterr()
    assert "1.weight and 2 more may be grouped or transposed" in err
    assert "3.weight left out: one dimension" in err
    assert "3.weight" not in {row["layer"] for row in json.loads(out)}
    torch.save(nn.Sequential(nn.Conv2d(1, 4, 3), nn.Conv2d(4, 8, 3)).state_dict(), tmp_path / "m.pt")
    assert main(["energy", str(tmp_path / "m.pt"), "--json"]) == 0
    assert capsys.readouterr().err == ""
