"""One number, one function: what training logs, `evaluate` prints, the report draws and the card quotes agree."""

import json
import re
from dataclasses import replace

import pytest
import torch
from small import settings

import hypersphere as hs
from hypersphere import data, recipes, report
from hypersphere.cli import main
from hypersphere.evaluation import evaluate, layer_energies
from hypersphere.export import export_run
from hypersphere.recipes import results
from hypersphere.runs import Run, SeedFolder
from hypersphere.train import EvaluationConfig, LossConfig, run


@pytest.fixture
def unseen(monkeypatch):
    """Eight classes to learn, eight others of six samples each, in the place of every data set."""
    generator = torch.Generator().manual_seed(0)

    def split(first):
        labels = torch.arange(8).repeat_interleave(6)
        images = torch.randint(0, 256, (48, 1, 8, 8), generator=generator).to(torch.uint8)
        return data.Split(images, labels, tuple(f"class {first + label}" for label in range(8)))

    dataset = data.Dataset("omniglot", split(0), split(8))
    monkeypatch.setattr("hypersphere.data.load", lambda *_, **__: dataset)


# Published against ours ---------------------------------------------------------------------------------


def test_an_energy_in_a_table_of_errors_stays_an_energy(tmp_path, capsys):
    """Table 7.2 prints the energy at the start, 3.51, beside the errors: no 100 − 3.51 = 96.49."""
    name = next(name for name in recipes.list_recipes("thesis.table7.2.*") if "energy" in name)
    table, index = recipes.find(name)
    cell = table.cells[index]
    config = settings(tmp_path, f"{table.name}.{cell.training}")
    run(config)
    path = tmp_path / config.recipe / "seed-0" / "result.json"
    result = json.loads(path.read_text())
    result["metrics"]["initial_energy"] = 3.5
    SeedFolder(path.parents[1], 0, config).write_result(result)

    known = next(one for one in recipes.published(config, [result]).cells if one.cell == cell.name)
    assert (known.published, known.ours, known.unit) == (pytest.approx(3.51, abs=0.01), 3.5, "")
    page = report.build([tmp_path / config.recipe], data=False)
    assert re.search(rf"ours 3\.50 \(−{cell.published - 3.5:.2f}\)", page)
    export_run(tmp_path / config.recipe, formats="safetensors")
    card = (path.parent / "export" / "README.md").read_text()
    assert f"{table.name} {cell.name} |" in card
    assert re.search(rf"\| {cell.published:.2f} \| 3\.50 \|", card)
    results.record(table, cell.training, config, result, tmp_path / "results")
    row = results.render(table, tmp_path / "results", [cell.name], steps=4).splitlines()[2]
    assert row.split()[2] == "3.5000"  # as many digits as are printed
    assert "96.50" not in card + row + page


def test_an_error_is_still_100_minus_an_accuracy():
    name = next(one for one in recipes.list_recipes() if recipes.find(one)[0].metric == "error")
    table, index = recipes.find(name)
    assert table.cells[index].measure == "accuracy"
    config = table.cells[index].config(table.name)
    done = [{"final_accuracy": 90.0}, {"final_accuracy": 94.0, "metrics": {"accuracy": 92.0}}]
    found = recipes.published(config, done)
    assert found.cells[0].ours == pytest.approx(9.0)
    assert found.cells[0].unit == "%"
    assert recipes.published(replace(config, recipe="mine"), []) is None
    assert recipes.published(config, [{"final_accuracy": float("nan")}]).cells[0].ours is None


# Verification, identification, energy -------------------------------------------------------------------


def test_verification_takes_the_pairs_of_the_run(unseen, tmp_path):
    """With 300 pairs a fold, the default, these data have too few: training asked for 5."""
    rule = EvaluationConfig(protocol="verification", folds=4, pairs=5)
    trained = run(settings(tmp_path, "pairs", loss=LossConfig(name="softmax"), evaluation=rule))["seeds"][0]
    found = evaluate(Run(tmp_path / "pairs"))["verification"]
    assert (found["pairs"], found["folds"]) == (40, 4)
    for name in ("accuracy", "accuracy_std", "auc", "eer", "tar@0.1"):
        assert found[name] == pytest.approx(trained["metrics"][name], abs=1e-6)
    page = report.build([tmp_path / "pairs"])
    assert f"{trained['metrics']['auc']:.2f}" in page


def test_a_run_that_was_not_verified_is_in_as_many_folds_as_its_classes_allow(unseen, tmp_path):
    rule = EvaluationConfig(protocol="few_shot", ways=2, shots=(1,), queries=2, episodes=3, pairs=5)
    run(settings(tmp_path, "few", loss=LossConfig(name="softmax"), evaluation=rule))
    found = evaluate(Run(tmp_path / "few"))
    assert next(iter(part for part in found if isinstance(found[part], dict) and part != "environment")) == "few_shot"
    assert (found["verification"]["pairs"], found["verification"]["folds"]) == (40, 4)


def test_identification_is_one_protocol_and_the_gallery_another(unseen, tmp_path):
    rule = EvaluationConfig(protocol="identification", also=("gallery", "retrieval"), pairs=5)
    trained = run(settings(tmp_path, "who", loss=LossConfig(name="softmax"), evaluation=rule))["seeds"][0]["metrics"]
    found = evaluate(Run(tmp_path / "who"), parts=["identification", "gallery", "retrieval"])
    for part in ("identification", "gallery", "retrieval"):
        numbers = {name: value for name, value in found[part].items() if isinstance(value, float)}
        assert numbers == pytest.approx({name: trained[name] for name in numbers}, abs=1e-4)
    assert (found["gallery"]["gallery"], found["gallery"]["probes"]) == (8, 40)
    assert found["identification"]["rank1"] == found["identification"]["accuracy"]


@pytest.mark.parametrize("head", ["cross_entropy", "am_softmax"])
def test_the_mean_energy_is_that_of_the_log(head, tmp_path, capsys):
    run(settings(tmp_path, "energy", loss=LossConfig(name=head)))
    folder = Run(tmp_path / "energy")
    last = folder.log()[-1]
    found = evaluate(folder, parts=["energy"])["energy"]
    assert found["mean"] == found["energy"] == pytest.approx(last["energy"], rel=1e-6)
    layers = {f"energy/{name}": value for name, value in found["layers"].items()}
    assert layers == pytest.approx({key: value for key, value in last.items() if key.startswith("energy/")}, rel=1e-6)
    assert set(found["output_layer"]) == {"classifier.weight" if head == "cross_entropy" else "head.weight"}
    by_hand = [
        hs.functional.energy(weight.flatten(1)).item()
        for name, weight in hs.load(tmp_path / "energy").named_parameters()
        if f"energy/{name.removeprefix('network.')}" in last
    ]
    assert found["mean"] == pytest.approx(sum(by_hand) / len(by_hand), rel=1e-5)
    assert main(["evaluate", str(tmp_path / "energy"), "--parts", "energy"]) == 0
    assert f"mean of hidden layers            {last['energy']:.4f}" in capsys.readouterr().out


def test_networks_without_neurons_have_no_energy():
    assert layer_energies(torch.nn.Flatten()).mean is None
