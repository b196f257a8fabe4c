"""A callback that shows every training in MLflow: ``python examples/callback_mlflow.py [FOLDER]``.

Without a server MLflow writes to a folder of this machine. A training that continues after an interruption
continues in the same MLflow run, whose identity is kept beside the log.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlflow
from mlflow.entities import Metric, Param

from hypersphere import recipes
from hypersphere.train import Callback, Started, run, to_dict, with_values

os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # new versions want to be asked for a plain folder


class MLflow(Callback):
    """Settings as parameters, numbers of the log as metrics."""

    def __init__(self, uri: str, experiment: str = "hypersphere") -> None:
        self.client = mlflow.MlflowClient(tracking_uri=uri)
        known = self.client.get_experiment_by_name(experiment)
        self.experiment = known.experiment_id if known else self.client.create_experiment(experiment)
        self.run_id = ""

    def on_start(self, training: Started) -> None:
        file = training.folder / "mlflow_run"
        if file.exists():
            self.run_id = file.read_text()
            self.client.update_run(self.run_id, status="RUNNING")
            return
        name = f"{training.config.recipe} seed {training.seed}"
        self.run_id = self.client.create_run(self.experiment, run_name=name).info.run_id
        file.write_text(self.run_id)
        groups = {name: part for name, part in to_dict(training.config).items() if isinstance(part, dict)}
        settings = [Param(f"{name}.{key}", str(value)) for name, part in groups.items() for key, value in part.items()]
        self.client.log_batch(self.run_id, params=settings[:100])  # MLflow takes at most so many at once
        self.client.log_batch(self.run_id, params=settings[100:])

    def on_step(self, training: Started, step: int, values: Mapping[str, float]) -> None:
        now = int(time.time() * 1000)
        known = {name.replace("/", "."): value for name, value in values.items() if math.isfinite(value)}
        self.client.log_batch(self.run_id, metrics=[Metric(name, value, now, step) for name, value in known.items()])

    on_evaluation = on_step

    def on_end(self, training: Started, result: Mapping[str, Any] | None) -> None:
        self.client.set_terminated(self.run_id, "KILLED" if result is None else "FINISHED")


if __name__ == "__main__":
    folder = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()
    config = with_values(recipes.get("digits.spherenet"), {"schedule.steps": 200, "run.folder": f"{folder}/runs"})
    run(config, callbacks=[MLflow(Path(folder, "mlruns").absolute().as_uri())])
    print(f"in {folder}/mlruns")
