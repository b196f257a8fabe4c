"""What goes wrong goes wrong early, loudly, and without losing work."""

import os
import resource
import signal

import pytest
import torch
from safetensors.torch import load_file
from tiny import everything, tiny

import hypersphere as hs
from hypersphere.cli import main
from hypersphere.runs import SeedFolder, files
from hypersphere.runs.files import join, split
from hypersphere.train import ModelConfig, OrthogonalConfig, Stopped, explain, load, run, training, with_values
from hypersphere.train.step import Step
from hypersphere.train.training import Training


def test_a_full_disk_is_found_before_training(tmp_path, monkeypatch):
    monkeypatch.setattr(files.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 100_000})())
    with pytest.raises(OSError, match=r"0\.1 MiB left.*free some space"):
        run(tiny(tmp_path))
    assert not (tmp_path / "tiny" / "seed-0" / "log.jsonl").exists()


def test_a_quota_is_found_before_training(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    try:
        with pytest.raises(OSError, match="cannot take the"):
            files.check_room(tmp_path, 10_000_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_folder_is_found_before_training(tmp_path, capsys):
    (tmp_path / "file").write_text("in the way")
    assert main(["train", "digits.cnn", "--run.folder", str(tmp_path / "file"), "--run.device", "cpu"]) == 2
    assert "choose another --run.folder" in capsys.readouterr().err


def test_a_failed_checkpoint_names_the_last_good_one(tmp_path, monkeypatch):
    genuine, count = files.write_bytes, 0

    def write_bytes(path, content):
        nonlocal count
        count += path.name == "state.safetensors"
        if count == 2:
            raise OSError(28, "No space left on device")
        genuine(path, content)

    monkeypatch.setattr(files, "write_bytes", write_bytes)
    with pytest.raises(OSError, match=r"step 8 could not be written.*step-00000004.*repeat the command"):
        run(tiny(tmp_path))


def test_a_loss_that_is_not_finite_stops_with_step_layer_and_checkpoint(tmp_path):
    config = with_values(tiny(tmp_path, steps=12), {"schedule.kind": "constant", "run.checkpoint_every": 2})
    genuine, count = Training._log, 0

    def log(self, now, line):
        nonlocal count
        genuine(self, now, line)
        if now == 6 and not count:
            count = 1
            with torch.no_grad():
                self.parts.objective.model.body.conv2[0].op.weight[0] = float("inf")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Training, "_log", log)
        with pytest.raises(
            Stopped,
            match=r"^model\.body\.conv2\.0\.op\.weight is not finite, though the loss is, after step 6, first in param",
        ) as stop:
            run(config)
    assert "step-00000004" in str(stop.value)
    assert stop.value.result is None  # training again did not diverge: it was no fault of the settings
    assert all(torch.isfinite(value).all() for value in load(tmp_path / "tiny").state_dict().values())


def test_the_layer_is_found_when_only_its_output_overflows(tmp_path):
    genuine = Training._log

    def log(self, now, line):
        genuine(self, now, line)
        if now == 6:
            with torch.no_grad():
                self.parts.objective.model.body.conv2[0].op.weight.fill_(3e38)
                self.parts.objective.model.body.conv1[0].norm.bias.fill_(3e38)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Training, "_log", log)
        with pytest.raises(Stopped, match=r"step 6, first in layer model\.body\.conv2\.0\.op \(Conv2d\)") as stop:
            run(with_values(tiny(tmp_path, steps=12), {"run.eval_every": 4}))
    assert stop.value.result["diverged"] == 6
    assert stop.value.result["best_step"] == 4
    assert "final_accuracy" not in stop.value.result


def test_a_step_too_long_for_an_orthogonal_matrix_is_a_divergence(tmp_path):
    config = tiny(tmp_path, steps=12, orthogonal=OrthogonalConfig("gradient"))
    with pytest.raises(Stopped, match=r"^the step of an orthogonal matrix is not finite, though the loss is") as stop:
        run(with_values(config, {"optim.name": "orthogonal_sgd", "optim.lr": 1e20}))
    assert stop.value.result["diverged"] == 0


def test_the_record_of_a_divergence_has_all_evaluations_before_it(tmp_path):
    """Also those after the last checkpoint, from which training goes again to find the layer."""
    genuine, seen = Step.__call__, []

    def call(self):
        genuine(self)
        if self.step == 11:
            with torch.no_grad():
                next(self.parts.objective.parameters()).fill_(torch.inf)

    def scores(candidate):
        seen.append(len(seen))
        return {"accuracy": 10.0 * len(seen)}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Step, "__call__", call)
        patch.setattr("hypersphere.train.training.evaluate_protocol", scores)
        with pytest.raises(Stopped, match=r"step 11") as stop:
            run(with_values(tiny(tmp_path, steps=20), {"run.eval_every": 2, "run.checkpoint_every": 5}))
    found = stop.value.result
    assert (found["diverged"], found["best_step"], found["best_accuracy"]) == (11, 10, 50.0)


def test_angles_that_cannot_be_resolved_are_a_divergence(tmp_path):
    config = tiny(tmp_path, steps=12, orthogonal=OrthogonalConfig("exponential"))
    with pytest.raises(Stopped, match=r"^an angle of an orthogonal matrix is not finite.*in a matrix whose") as stop:
        run(with_values(config, {"optim.name": "sgd", "optim.lr": 1e8}))
    assert 1 <= stop.value.result["diverged"] <= 12
    early = {"run.name": "early", "run.checkpoint_every": 1, "run.eval_every": 12}
    with pytest.raises(Stopped, match=r"no checkpoint was written yet") as stop:  # there is none to go on from
        run(with_values(config, {"optim.name": "sgd", "optim.lr": 1e12, **early}))
    assert stop.value.result["diverged"] == 1
    last = with_values(config, {"optim.name": "sgd", "optim.lr": 1e8, "schedule.steps": 1, "run.name": "last"})
    with pytest.raises(Stopped, match=r"^an angle of an orthogonal matrix is not finite") as stop:  # at the evaluation
        run(with_values(last, {"run.eval_every": 1, "schedule.milestones": ()}))
    assert stop.value.result["diverged"] == 1


def test_ctrl_c_saves_and_the_same_command_ends_as_if_never_stopped(tmp_path):
    run(everything(tmp_path, "straight", 14))
    genuine = Training._log

    def log(self, now, line):
        genuine(self, now, line)
        if now == 6:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Training, "_log", log)
        with pytest.raises(Stopped, match=r"stopped at step [67]; everything is saved.*same command again") as stop:
            run(everything(tmp_path, "stopped", 14))
    assert stop.value.code == 130
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    run(everything(tmp_path, "stopped", 14))
    one, two = (load_file(tmp_path / name / "seed-0" / "model.safetensors") for name in ("straight", "stopped"))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_nothing_in_a_run_folder_is_a_pickle(tmp_path):
    run(tiny(tmp_path, steps=4))
    suffixes = {path.suffix for path in tmp_path.rglob("*") if path.is_file()}
    assert suffixes <= {".json", ".jsonl", ".safetensors", ""}


def test_states_survive_as_tensors_and_json():
    state = {"a": [1, 2.5, None, "x"], 3: {"t": torch.arange(3), "flag": True}, "inf": float("-inf")}
    again = join(*split(state))
    assert again["a"] == state["a"]
    assert again["inf"] == state["inf"]
    assert torch.equal(again[3]["t"], state[3]["t"])
    with pytest.raises(TypeError, match=r"state\.b is a set"):
        split({"b": {1}})


def test_torn_files_are_named(tmp_path):
    (tmp_path / "x.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0{")
    with pytest.raises(ValueError, match="not a complete safetensors file"):
        files.read_tensors(tmp_path / "x.safetensors")
    folder = SeedFolder(tmp_path, 0)
    folder.prepare()
    folder.log_path.write_text('{"step": 1}\n{"step": 2}\n{"st')
    folder.rewind_log(1)
    assert folder.log_path.read_text() == '{"step": 1}\n'


def test_a_missing_run_and_a_missing_gpu_are_named(tmp_path):
    with pytest.raises(ValueError, match="is not a run folder"):
        load(tmp_path)
    with pytest.raises(ValueError, match=r"run\.graph='on' is not possible: there is no GPU"):
        run(with_values(tiny(tmp_path), {"run.graph": "on"}))


class Poison(torch.autograd.Function):
    """The identity, whose gradient is not finite."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * float("nan")


def sphere(folder, **values):
    config = tiny(folder, steps=8, model=ModelConfig(name="cnn3", widths="4,4,4", feature_dim=8, conv="sphere"))
    return with_values(config, {"schedule.milestones": (), **values})


def test_a_value_born_in_a_layer_with_parts_is_blamed_on_that_layer(tmp_path, monkeypatch):
    """A SphereConv holds its g: it is no leaf of the tree of modules."""
    genuine, count = hs.nn.SphereConv2d.forward, 0

    def forward(self, x):
        nonlocal count
        out = genuine(self, x)
        count += self.training
        return out * float("nan") if self.training and self.in_channels == 4 and count > 12 else out

    monkeypatch.setattr(hs.nn.SphereConv2d, "forward", forward)
    with pytest.raises(
        Stopped, match=r"the loss is not finite at step \d, first in layer [\w.]+\.op \(SphereConv2d\);"
    ):
        run(with_values(sphere(tmp_path), {"run.compile": "off"}))


@pytest.mark.parametrize(
    ("layer", "method"),
    [("conv2.0.op", None), ("conv3.0.norm", None), ("fc.0.op", None), ("conv3.0.norm", "gradient")],
)
def test_a_gradient_is_blamed_on_the_layer_that_makes_it(layer, method, tmp_path, monkeypatch):
    """The weights are damaged by it, and the loss of the next step: neither is where it began.

    OrthogonalSGD does not take the step (``method`` gradient).
    """
    genuine = training.make_parts

    def make_parts(config, seed, team):
        parts = genuine(config, seed, team)
        seek, at = parts.source.seek, [0]

        def hook(module, inputs, output):
            return Poison.apply(output) if at[0] == 5 and module.training else output

        parts.source.seek = lambda step: seek(at.__setitem__(0, step) or step)
        parts.objective.model.body.get_submodule(layer).register_forward_hook(hook)
        return parts

    for module in (training, explain):  # which trains again from the last checkpoint
        monkeypatch.setattr(module, "make_parts", make_parts)
    where = rf"first in the gradient of layer model\.body\.{layer} \(\w+\)"
    where = (
        f"{where} of step 5;" if method is None else rf"^the gradient of .* is not finite, though .* step 5, {where};"
    )
    with pytest.raises(Stopped, match=where):
        run(sphere(tmp_path, **{"orthogonal.method": method}))


def test_a_buffer_that_is_not_finite_is_named_as_such(tmp_path, monkeypatch):
    genuine = Training._log

    def log(self, now, line):
        genuine(self, now, line)
        if now == 4:
            self.parts.objective.model.body.conv2[0].norm.running_var.fill_(float("inf"))

    monkeypatch.setattr(Training, "_log", log)
    message = (
        r"running_var is not finite, though the loss is, after step 4, first in running_var of layer .*\(BatchNorm2d\);"
    )
    with pytest.raises(Stopped, match=message):
        run(sphere(tmp_path))
