"""Callbacks: what they are told, that they cannot harm a training, and one that speaks to MLflow."""

import importlib.util
import warnings
from pathlib import Path

import pytest
import torch
from tiny import everything, tiny

from hypersphere.train import Callback, run
from hypersphere.train.training import Training


class Book(Callback):
    def __init__(self):
        self.told = []

    def on_start(self, training):
        self.told.append(("start", training.seed, training.step, training.folder.name))

    def on_step(self, training, step, values):
        self.told.append(("step", step, "loss" in values and "lr" in values))

    def on_evaluation(self, training, step, values):
        self.told.append(("evaluation", step, values["accuracy"]))

    def on_end(self, training, result):
        self.told.append(("end", None if result is None else result["final_accuracy"]))


class Nuisance(Callback):
    """Draws random numbers, changes modes, and fails in the end."""

    def on_start(self, training):
        torch.manual_seed(99)
        training.model.eval()

    def on_step(self, training, step, values):
        torch.rand(100)
        training.model.eval()

    def on_evaluation(self, training, step, values):
        raise OSError("the server is gone")


def stop_at(step, monkeypatch):
    genuine = Training._log

    def log(self, now, line):
        genuine(self, now, line)
        if now == step:
            raise RuntimeError("stopped")

    monkeypatch.setattr(Training, "_log", log)
    return lambda: monkeypatch.setattr(Training, "_log", genuine)


def weights(folder):
    return (folder / "seed-0" / "model.safetensors").read_bytes()


def test_told_of_start_steps_evaluations_and_end(tmp_path):
    book = Book()
    summary = run(tiny(tmp_path, steps=8), callbacks=[book])
    final = summary["seeds"][0]["final_accuracy"]
    assert book.told == [
        ("start", 0, 0, "seed-0"),
        *[("step", step, True) for step in (2, 4, 6, 8)],
        ("evaluation", 8, final),
        ("end", final),
    ]
    run(tiny(tmp_path, steps=8), callbacks=[book])  # done is done: nothing more is told
    assert len(book.told) == 7
    with pytest.raises(TypeError, match="derive from"):
        run(tiny(tmp_path, "other", steps=2), callbacks=[print])


def test_a_nuisance_changes_no_bit_and_an_interrupted_training_goes_on(tmp_path, monkeypatch):
    run(everything(tmp_path, "plain", 12))
    again = stop_at(6, monkeypatch)
    book = Book()
    with pytest.raises(RuntimeError, match="stopped"):
        run(everything(tmp_path, "told", 12), callbacks=[Nuisance(), book])
    assert book.told[-1] == ("end", None)
    again()
    with pytest.warns(RuntimeWarning, match="Nuisance.on_evaluation failed.*server is gone.*continues without"):
        run(everything(tmp_path, "told", 12), callbacks=[Nuisance(), book])
    assert ("start", 0, 4, "seed-0") in book.told
    assert book.told[-1][0] == "end"
    assert weights(tmp_path / "plain") == weights(tmp_path / "told")


@pytest.mark.slow
def test_mlflow_without_a_server(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    path = Path(__file__).parents[2] / "examples" / "callback_mlflow.py"
    spec = importlib.util.spec_from_file_location("callback_mlflow", path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    uri = (tmp_path / "mlruns").as_uri()
    again = stop_at(6, monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        with pytest.raises(RuntimeError, match="stopped"):
            run(tiny(tmp_path, steps=8), callbacks=[example.MLflow(uri)])
        again()
        run(tiny(tmp_path, steps=8), callbacks=[example.MLflow(uri)])
    client = mlflow.MlflowClient(tracking_uri=uri)
    (found,) = client.search_runs([client.get_experiment_by_name("hypersphere").experiment_id])
    assert found.info.status == "FINISHED"
    assert found.data.params["schedule.steps"] == "8"
    assert {one.step for one in client.get_metric_history(found.info.run_id, "loss")} == {2, 4, 6, 8}
    assert found.data.metrics["accuracy"] > 0
